// hakmem.hpp: containers on hakmem::allocator and on the std::pmr resource.
#include "abi_check.h"

#include <hakmem/hakmem.hpp>

#include <deque>
#include <list>
#include <map>
#include <memory>
#include <memory_resource>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

namespace
{

template <class T> using vector_of = std::vector<T, hakmem::allocator<T>>;

using own_string = std::basic_string<char, std::char_traits<char>, hakmem::allocator<char>>;

static_assert(std::allocator_traits<hakmem::allocator<int>>::is_always_equal::value);
static_assert(std::is_nothrow_move_constructible_v<vector_of<int>>);
static_assert(sizeof(vector_of<int>) == sizeof(std::vector<int>), "the allocator takes no room");

struct alignas(1024) page_like {
    unsigned char bytes[1024];
};

struct alignas(16) sixteen {
    unsigned char bytes[16];
};

void test_containers()
{
    vector_of<int> numbers;
    std::list<int, hakmem::allocator<int>> list;
    std::deque<int, hakmem::allocator<int>> deque;
    std::map<int, own_string, std::less<>, hakmem::allocator<std::pair<const int, own_string>>>
        names;
    for (int i = 0; i < 20000; i++) {
        numbers.push_back(i);
        list.push_front(i);
        deque.push_back(i);
        names[i % 100] += "text";
    }
    CHECK(numbers[12345] == 12345);
    CHECK(list.front() == 19999 && deque.back() == 19999);
    CHECK(names.size() == 100 && names[7].size() == 800);
    vector_of<int> moved = std::move(numbers);
    CHECK(moved.size() == 20000);
    vector_of<int> copy = moved;
    copy.shrink_to_fit();
    CHECK(copy == moved);
}

template <class T> void test_alignment_of()
{
    hakmem::allocator<T> allocator;
    for (size_t count = 0; count < 200; count += 7) {
        T *objects = allocator.allocate(count);
        CHECK_AT(opaque(objects) != nullptr, count);
        CHECK_AT(is_aligned(objects, alignof(T)), count);
        fill_pattern(objects, count * sizeof(T), 2);
        CHECK(has_pattern(objects, count * sizeof(T), count * sizeof(T), 2));
        allocator.deallocate(objects, count);
    }
}

template <class T> bool refuses(size_t count)
{
    hakmem::allocator<T> allocator;
    try {
        allocator.deallocate(allocator.allocate(opaque_size(count)), count);
    } catch (const std::bad_alloc &) {
        return true;
    }
    return false;
}

int handler_calls = 0;

void count_and_give_up()
{
    handler_calls++;
    if (handler_calls == 2) {
        std::set_new_handler(nullptr);
    }
}

void test_failures()
{
    CHECK(refuses<int>(SIZE_MAX));
    CHECK(refuses<int>(SIZE_MAX / sizeof(int)));
    CHECK(refuses<page_like>(SIZE_MAX / sizeof(page_like)));
    std::set_new_handler(count_and_give_up);
    CHECK(refuses<char>(PTRDIFF_MAX));
    CHECK(handler_calls == 2);
    bool caught = false;
    try {
        const size_t size = opaque_size(PTRDIFF_MAX);
        hakmem::default_resource()->deallocate(hakmem::default_resource()->allocate(size), size);
    } catch (const std::bad_alloc &) {
        caught = true;
    }
    CHECK(caught);
}

void test_resource_blocks()
{
    hakmem::resource *resource = hakmem::default_resource();
    for (size_t alignment = 1; alignment <= 64 * KIB; alignment *= 2) {
        for (size_t size = 0; size <= 300 * KIB; size = size * 3 + 1) {
            void *block = resource->allocate(size, alignment);
            CHECK_AT(opaque(block) != nullptr, size);
            CHECK_AT(is_aligned(block, alignment), alignment);
            fill_pattern(block, size, 3);
            CHECK_AT(has_pattern(block, size, size, 3), size);
            resource->deallocate(block, size, alignment);
        }
    }
}

void test_resource_containers()
{
    std::pmr::vector<std::pmr::string> words{hakmem::default_resource()};
    std::pmr::unordered_map<int, std::pmr::string> table{hakmem::default_resource()};
    for (int i = 0; i < 5000; i++) {
        words.emplace_back("a string that is too long for the small buffer");
        table[i] = words.back();
    }
    CHECK(words[4999].get_allocator().resource() == hakmem::default_resource());
    CHECK(table.at(4999) == words.front());
    std::pmr::monotonic_buffer_resource buffer{hakmem::default_resource()};
    std::pmr::vector<int> numbers{&buffer};
    numbers.resize(100000, 7);
    CHECK(numbers.back() == 7);
}

void test_resource_equality()
{
    hakmem::resource other;
    CHECK(hakmem::default_resource() == hakmem::default_resource());
    CHECK(hakmem::default_resource()->is_equal(other));
    CHECK(!hakmem::default_resource()->is_equal(*std::pmr::null_memory_resource()));
    CHECK(hakmem::allocator<int>() == hakmem::allocator<char>());
    CHECK(!(hakmem::allocator<int>() != hakmem::allocator<char>()));
}

hak_heap_stats stats_of(hak_heap *heap)
{
    hak_heap_stats stats{};
    CHECK(hak_heap_stats_get(heap, &stats, sizeof stats) == sizeof stats);
    return stats;
}

// What a heap's end takes along no container has to give back.
void test_heaps()
{
    hakmem::heap first;
    CHECK(hak_heap_malloc(first.get(), 100) != nullptr);
    hak_heap *const at = first.get();
    hakmem::heap second = std::move(first);
    CHECK(first.get() == nullptr && second.get() == at);
    CHECK(stats_of(at).live_blocks == 1);
    first = hakmem::heap();
    CHECK(first.get() != nullptr && first.get() != at);
    first = std::move(second);
    CHECK(first.get() == at);
    hak_heap_destroy(first.release());
    CHECK(first.get() == nullptr);
}

void test_heap_resource()
{
    hakmem::heap_resource resource;
    hakmem::heap_resource other;
    CHECK(resource.is_equal(resource) && !resource.is_equal(other));
    for (std::size_t alignment = 1; alignment <= 8192; alignment *= 2) {
        for (const std::size_t bytes : {0, 1, 16, 100, 5000, 100000, 3000000}) {
            void *const block = resource.allocate(bytes, alignment);
            CHECK_AT(is_aligned(block, alignment), bytes);
            CHECK_AT(hak_heap_of(block) == resource.get(), bytes);
            resource.deallocate(block, bytes, alignment);
        }
    }
    CHECK(stats_of(resource.get()).live_blocks == 0);
    {
        std::pmr::unordered_map<int, std::pmr::string> table{&resource};
        for (int i = 0; i < 5000; i++) {
            table.emplace(i, "a text that is long enough to be a block of its own");
        }
        CHECK(stats_of(resource.get()).live_blocks > 10000);
    }
    CHECK(stats_of(resource.get()).live_blocks == 0);
    auto *const never_ended =
        ::new (resource.allocate(sizeof(std::pmr::vector<int>))) std::pmr::vector<int>(&resource);
    never_ended->resize(100000);
    CHECK(stats_of(resource.get()).live_blocks == 2);
    resource.clear();
    CHECK(stats_of(resource.get()).live_blocks == 0);
}

void test_heap_failures()
{
    hakmem::heap_resource resource;
    std::set_new_handler(count_and_give_up);
    handler_calls = 0;
    bool thrown = false;
    try {
        opaque(resource.allocate(opaque_size(static_cast<std::size_t>(PTRDIFF_MAX)), 8));
    } catch (const std::bad_alloc &) {
        thrown = true;
    }
    CHECK(thrown && handler_calls == 2);
    std::set_new_handler(nullptr);
}

// Programs that are compiled with this warning use the headers, too.
#pragma GCC diagnostic push
#pragma GCC diagnostic error "-Wold-style-cast"
void test_call_site()
{
    void *const block = hak_alloc_at(24, HAK_CALLSITE());
    CHECK(block != nullptr);
    hak_free_sized_inline(block, 24);
}
#pragma GCC diagnostic pop

void test_blocks_cross_threads()
{
    vector_of<vector_of<int>> rows;
    std::thread producer([&rows] {
        for (int i = 0; i < 1000; i++) {
            rows.emplace_back(static_cast<size_t>(i), i);
        }
    });
    producer.join();
    CHECK(rows[999].size() == 999 && rows[999].back() == 999);
    rows.clear();
}

// Destroyed after main: the resource has to outlive it.
std::pmr::vector<int> &static_container()
{
    static std::pmr::vector<int> numbers{hakmem::default_resource()};
    return numbers;
}

} // namespace

int main()
{
    require_hakmem();
    static_container().resize(1000, 1);
    test_containers();
    test_alignment_of<char>();
    test_alignment_of<double>();
    test_alignment_of<sixteen>();
    test_alignment_of<page_like>();
    test_failures();
    test_resource_blocks();
    test_resource_containers();
    test_resource_equality();
    test_heaps();
    test_heap_resource();
    test_heap_failures();
    test_call_site();
    test_blocks_cross_threads();
    puts("hakmem.hpp: ok");
    return 0;
}
