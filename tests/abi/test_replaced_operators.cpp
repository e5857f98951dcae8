// A program that has some operators new and delete of its own (REPLACES_PLAIN, _ALIGNED, _ARRAY): the others call those, as the
// standard says, and no block of one kind comes to the other. Which these are its header tells: a word before the block.
#include "abi_check.h"

#include <algorithm>
#include <new>
#include <string>
#include <vector>

#ifndef REPLACES_PLAIN
#define REPLACES_PLAIN 0
#endif
#ifndef REPLACES_ALIGNED
#define REPLACES_ALIGNED 0
#endif
#ifndef REPLACES_ARRAY
#define REPLACES_ARRAY 0
#endif

namespace
{

constexpr size_t header = 64; // the largest alignment that is asked for here
constexpr std::align_val_t alignment{header};
constexpr uint64_t mark = 0x5265706c61636564;
constexpr size_t too_large = SIZE_MAX / 4;

struct calls {
    int made, freed;
};
calls plain, aligned, array;

[[maybe_unused]] void *with_header(size_t size, calls &of)
{
    if (size >= too_large) {
        throw std::bad_alloc();
    }
    char *block =
        static_cast<char *>(aligned_alloc(header, (size + 2 * header - 1) / header * header));
    CHECK(block != nullptr);
    *reinterpret_cast<uint64_t *>(block) = mark;
    of.made++;
    return block + header;
}

[[maybe_unused]] void without_header(void *p, calls &of)
{
    if (p == nullptr) {
        return;
    }
    char *block = static_cast<char *>(p) - header;
    CHECK(*reinterpret_cast<uint64_t *>(block) == mark);
    of.freed++;
    free(block);
}

} // namespace

// That the sized one is missing is what is tested.
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wsized-deallocation"
#endif

#if REPLACES_PLAIN
void *operator new(size_t size)
{
    return with_header(size, plain);
}
void operator delete(void *p) noexcept
{
    without_header(p, plain);
}
#endif
#if REPLACES_ALIGNED
void *operator new(size_t size, std::align_val_t)
{
    return with_header(size, aligned);
}
void operator delete(void *p, std::align_val_t) noexcept
{
    without_header(p, aligned);
}
#endif
#if REPLACES_ARRAY
void *operator new[](size_t size)
{
    return with_header(size, array);
}
void operator delete[](void *p) noexcept
{
    without_header(p, array);
}
#endif

namespace
{

// One more block of `of` for each call, if that is replaced, else one of nobody's.
template <class New, class Delete>
void expect(bool replaced, calls &of, New allocate, Delete release)
{
    const calls before[] = {plain, aligned, array};
    const calls was = of;
    for (size_t size : {size_t{1}, size_t{40}, size_t{5000}, 300 * KIB}) {
        char *p = static_cast<char *>(opaque(allocate(size)));
        CHECK_AT(p != nullptr, size);
        memset(p, 1, size);
        release(opaque(p), size);
    }
    if (replaced) {
        CHECK(of.made == was.made + 4 && of.freed == was.freed + 4);
        return;
    }
    const calls after[] = {plain, aligned, array};
    CHECK(memcmp(before, after, sizeof before) == 0);
}

const auto new_plain = [](size_t n) { return ::operator new(n); };
const auto new_quiet = [](size_t n) { return ::operator new(n, std::nothrow); };
const auto new_array = [](size_t n) { return ::operator new[](n); };
const auto new_array_quiet = [](size_t n) { return ::operator new[](n, std::nothrow); };
const auto new_aligned = [](size_t n) { return ::operator new(n, alignment); };
const auto new_aligned_quiet = [](size_t n) { return ::operator new(n, alignment, std::nothrow); };
const auto new_aligned_array = [](size_t n) { return ::operator new[](n, alignment); };
const auto new_aligned_array_quiet = [](size_t n) {
    return ::operator new[](n, alignment, std::nothrow);
};

const auto delete_plain = [](void *p, size_t) { ::operator delete(p); };
const auto delete_sized = [](void *p, size_t n) { ::operator delete(p, n); };
const auto delete_quiet = [](void *p, size_t) { ::operator delete(p, std::nothrow); };
const auto delete_array = [](void *p, size_t) { ::operator delete[](p); };
const auto delete_array_sized = [](void *p, size_t n) { ::operator delete[](p, n); };
const auto delete_array_quiet = [](void *p, size_t) { ::operator delete[](p, std::nothrow); };
const auto delete_aligned = [](void *p, size_t) { ::operator delete(p, alignment); };
const auto delete_aligned_sized = [](void *p, size_t n) { ::operator delete(p, n, alignment); };
const auto delete_aligned_quiet = [](void *p, size_t) {
    ::operator delete(p, alignment, std::nothrow);
};
const auto delete_aligned_array = [](void *p, size_t) { ::operator delete[](p, alignment); };
const auto delete_aligned_array_sized = [](void *p, size_t n) {
    ::operator delete[](p, n, alignment);
};
const auto delete_aligned_array_quiet = [](void *p, size_t) {
    ::operator delete[](p, alignment, std::nothrow);
};

void test_plain()
{
    expect(REPLACES_PLAIN, plain, new_plain, delete_plain);
    expect(REPLACES_PLAIN, plain, new_plain, delete_sized);
    expect(REPLACES_PLAIN, plain, new_plain, delete_quiet);
    expect(REPLACES_PLAIN, plain, new_quiet, delete_plain);
    expect(REPLACES_PLAIN, plain, new_quiet, delete_sized);
}

void test_array()
{
    bool replaced = REPLACES_ARRAY || REPLACES_PLAIN;
    calls &of = REPLACES_ARRAY ? array : plain;
    expect(replaced, of, new_array, delete_array);
    expect(replaced, of, new_array, delete_array_sized);
    expect(replaced, of, new_array, delete_array_quiet);
    expect(replaced, of, new_array_quiet, delete_array);
    expect(replaced, of, new_array_quiet, delete_array_sized);
}

void test_aligned()
{
    expect(REPLACES_ALIGNED, aligned, new_aligned, delete_aligned);
    expect(REPLACES_ALIGNED, aligned, new_aligned, delete_aligned_sized);
    expect(REPLACES_ALIGNED, aligned, new_aligned, delete_aligned_quiet);
    expect(REPLACES_ALIGNED, aligned, new_aligned_quiet, delete_aligned);
    expect(REPLACES_ALIGNED, aligned, new_aligned_array, delete_aligned_array);
    expect(REPLACES_ALIGNED, aligned, new_aligned_array, delete_aligned_array_sized);
    expect(REPLACES_ALIGNED, aligned, new_aligned_array, delete_aligned_array_quiet);
    expect(REPLACES_ALIGNED, aligned, new_aligned_array_quiet, delete_aligned_array);
}

// What the program's own operator throws does not leave a nothrow one.
void test_no_memory()
{
    CHECK(opaque(new_quiet(opaque_size(SIZE_MAX / 2))) == nullptr);
    CHECK(opaque(new_array_quiet(opaque_size(SIZE_MAX / 2))) == nullptr);
    CHECK(opaque(new_aligned_quiet(opaque_size(SIZE_MAX / 2))) == nullptr);
    CHECK(opaque(new_aligned_array_quiet(opaque_size(SIZE_MAX / 2))) == nullptr);
}

// The C++ library's own use: stable_sort's buffer is of nothrow new and plain delete.
void test_library()
{
    std::vector<std::string> words;
    for (int i = 0; i < 1000; i++) {
        words.push_back(std::string(50, static_cast<char>('a' + i % 26)));
    }
    std::stable_sort(words.begin(), words.end());
    CHECK(words.front()[0] == 'a' && words.back()[0] == 'z');
}

// What the dynamic linker is doing, or has to say, is not in the way.
void test_loader(const char *plugin)
{
    CHECK(dlopen("/no/such/library", RTLD_NOW) == nullptr);
    delete_plain(new_quiet(10), 10);
    CHECK(dlerror() != nullptr);
    if (plugin != nullptr) {
        CHECK(dlopen(plugin, RTLD_NOW) != nullptr);
    }
}

} // namespace

int main(int argc, char **argv)
{
    require_malloc_of_hakmem();
    test_loader(argc > 1 ? argv[1] : nullptr);
    for (int round = 0; round < 300; round++) { // past what a magazine has room for
        test_plain();
        test_array();
        test_aligned();
    }
    test_no_memory();
    test_library();
    CHECK(plain.made == plain.freed && aligned.made == aligned.freed && array.made == array.freed);
    CHECK((plain.made != 0) == REPLACES_PLAIN && (aligned.made != 0) == REPLACES_ALIGNED);
    return 0;
}
