// Out of memory in operator new: the new-handler is called until it gives up, throws or helps.
#include "abi_check.h"

#include <sys/resource.h>

#include <new>
#include <stdexcept>
#include <vector>

namespace
{

constexpr size_t impossible = SIZE_MAX / 2 + 2;
constexpr std::align_val_t alignment{64};

int calls = 0;

void give_up_at_third_call()
{
    calls++;
    if (calls == 3) {
        std::set_new_handler(nullptr);
    }
}

void throw_bad_alloc()
{
    calls++;
    throw std::bad_alloc();
}

struct own_exception : std::bad_alloc {
};

void throw_own_exception()
{
    calls++;
    if (calls == 5) {
        throw own_exception();
    }
}

void *plain(size_t size)
{
    return ::operator new(size);
}
void *array(size_t size)
{
    return ::operator new[](size);
}
void *aligned(size_t size)
{
    return ::operator new(size, alignment);
}
void *aligned_array(size_t size)
{
    return ::operator new[](size, alignment);
}
void *quiet(size_t size)
{
    return ::operator new(size, std::nothrow);
}
void *quiet_array(size_t size)
{
    return ::operator new[](size, std::nothrow);
}
void *quiet_aligned(size_t size)
{
    return ::operator new(size, alignment, std::nothrow);
}
void *quiet_aligned_array(size_t size)
{
    return ::operator new[](size, alignment, std::nothrow);
}

using new_function = void *(size_t);
new_function *const throwing[] = {plain, array, aligned, aligned_array};
new_function *const nothrow[] = {quiet, quiet_array, quiet_aligned, quiet_aligned_array};

template <class Exception> bool throws(new_function *allocate)
{
    try {
        ::operator delete(opaque(allocate(opaque_size(impossible))));
    } catch (const Exception &) {
        return true;
    }
    return false;
}

void test_without_handler()
{
    std::set_new_handler(nullptr);
    for (new_function *allocate : throwing) {
        CHECK(throws<std::bad_alloc>(allocate));
    }
    for (new_function *allocate : nothrow) {
        CHECK(opaque(allocate(opaque_size(impossible))) == nullptr);
    }
}

void test_handler_is_called_until_removed()
{
    for (new_function *allocate : throwing) {
        calls = 0;
        std::set_new_handler(give_up_at_third_call);
        CHECK(throws<std::bad_alloc>(allocate));
        CHECK(calls == 3);
    }
    for (new_function *allocate : nothrow) {
        calls = 0;
        std::set_new_handler(give_up_at_third_call);
        CHECK(opaque(allocate(opaque_size(impossible))) == nullptr);
        CHECK(calls == 3);
    }
}

void test_handler_that_throws()
{
    for (new_function *allocate : throwing) {
        calls = 0;
        std::set_new_handler(throw_own_exception);
        CHECK(throws<own_exception>(allocate));
        CHECK(calls == 5);
    }
    std::set_new_handler(nullptr);
}

// The nothrow forms answer with a null pointer even then.
void test_handler_that_throws_through_nothrow()
{
    for (new_function *allocate : nothrow) {
        calls = 0;
        std::set_new_handler(throw_bad_alloc);
        CHECK(opaque(allocate(opaque_size(impossible))) == nullptr);
        CHECK(calls == 1);
    }
    std::set_new_handler(nullptr);
}

// The array size is the compiler's to check; what reaches the operator is SIZE_MAX.
void test_array_expression_overflow()
{
    bool caught = false;
    try {
        delete[] new double[opaque_size(SIZE_MAX / 4)];
    } catch (const std::bad_alloc &) {
        caught = true;
    }
    CHECK(caught);
}

constexpr size_t reserve_size = 256 * MIB;
void *reserve[8192];
size_t reserve_count = 0;

void release_reserve()
{
    calls++;
    if (reserve_count == 0) {
        std::set_new_handler(nullptr);
    }
    while (reserve_count > 0) {
        ::operator delete(reserve[--reserve_count]);
    }
}

size_t address_space_used()
{
    const int file = open("/proc/self/statm", O_RDONLY);
    char text[128] = {};
    CHECK(file >= 0 && read(file, text, sizeof(text) - 1) > 0);
    close(file);
    return strtoul(text, nullptr, 10) * page_size();
}

// The classic use: the handler gives up a reserve, and the request that failed then succeeds.
void test_handler_that_helps()
{
    rlimit old_limit{};
    CHECK(getrlimit(RLIMIT_AS, &old_limit) == 0);
    const rlimit limit{address_space_used() + 4 * GIB, old_limit.rlim_max};
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    calls = 0;
    std::set_new_handler(release_reserve);
    while (calls == 0) {
        void *block = opaque(::operator new(reserve_size));
        CHECK(block != nullptr);
        CHECK(reserve_count < ARRAY_LENGTH(reserve));
        reserve[reserve_count++] = block;
    }
    CHECK(calls == 1);
    CHECK(reserve_count == 1);
    memset(reserve[0], 1, MIB);
    release_reserve();
    std::set_new_handler(nullptr);
    CHECK(setrlimit(RLIMIT_AS, &old_limit) == 0);
}

void test_heap_still_works()
{
    std::vector<std::vector<int>> rows;
    for (int i = 0; i < 1000; i++) {
        rows.emplace_back(static_cast<size_t>(i), i);
    }
    for (int i = 1; i < 1000; i++) {
        CHECK(rows[static_cast<size_t>(i)].back() == i);
    }
}

} // namespace

int main()
{
    require_hakmem();
    test_without_handler();
    test_handler_is_called_until_removed();
    test_handler_that_throws();
    test_array_expression_overflow();
    test_handler_that_helps();
    test_heap_still_works();
    test_handler_that_throws_through_nothrow();
    puts("new handler: ok");
    return 0;
}
