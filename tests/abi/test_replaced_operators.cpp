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

using new_function = void *(size_t);
using delete_function = void(void *, size_t);

// Each of `news` with each of `deletes`: one more block of `of` for each call if that is replaced, else none of anybody's.
template <size_t News, size_t Deletes>
void expect(bool replaced, calls &of, new_function *const (&news)[News],
            delete_function *const (&deletes)[Deletes])
{
    const calls before[] = {plain, aligned, array};
    const calls was = of;
    for (new_function *allocate : news) {
        for (delete_function *release : deletes) {
            for (size_t size : {size_t{1}, size_t{40}, size_t{5000}, 300 * KIB}) {
                char *p = static_cast<char *>(opaque(allocate(size)));
                CHECK_AT(p != nullptr, size);
                memset(p, 1, size);
                release(opaque(p), size);
            }
        }
    }
    const int blocks = replaced ? static_cast<int>(4 * News * Deletes) : 0;
    CHECK(of.made == was.made + blocks && of.freed == was.freed + blocks);
    const calls after[] = {plain, aligned, array};
    CHECK(replaced || memcmp(before, after, sizeof before) == 0);
}

void *new_quiet(size_t n)
{
    return ::operator new(n, std::nothrow);
}
void *new_array_quiet(size_t n)
{
    return ::operator new[](n, std::nothrow);
}
void *new_aligned_quiet(size_t n)
{
    return ::operator new(n, alignment, std::nothrow);
}
void *new_aligned_array_quiet(size_t n)
{
    return ::operator new[](n, alignment, std::nothrow);
}

new_function *const news[] = {[](size_t n) { return ::operator new(n); }, new_quiet};
delete_function *const deletes[] = {
    [](void *p, size_t) { ::operator delete(p); },
    [](void *p, size_t n) { ::operator delete(p, n); },
    [](void *p, size_t) { ::operator delete(p, std::nothrow); },
};
new_function *const array_news[] = {[](size_t n) { return ::operator new[](n); }, new_array_quiet};
delete_function *const array_deletes[] = {
    [](void *p, size_t) { ::operator delete[](p); },
    [](void *p, size_t n) { ::operator delete[](p, n); },
    [](void *p, size_t) { ::operator delete[](p, std::nothrow); },
};
new_function *const aligned_news[] = {
    [](size_t n) { return ::operator new(n, alignment); },
    new_aligned_quiet,
};
delete_function *const aligned_deletes[] = {
    [](void *p, size_t) { ::operator delete(p, alignment); },
    [](void *p, size_t n) { ::operator delete(p, n, alignment); },
    [](void *p, size_t) { ::operator delete(p, alignment, std::nothrow); },
};
new_function *const aligned_array_news[] = {
    [](size_t n) { return ::operator new[](n, alignment); },
    new_aligned_array_quiet,
};
delete_function *const aligned_array_deletes[] = {
    [](void *p, size_t) { ::operator delete[](p, alignment); },
    [](void *p, size_t n) { ::operator delete[](p, n, alignment); },
    [](void *p, size_t) { ::operator delete[](p, alignment, std::nothrow); },
};

void test_all_forms()
{
    expect(REPLACES_PLAIN, plain, news, deletes);
    expect(REPLACES_ARRAY || REPLACES_PLAIN, REPLACES_ARRAY ? array : plain, array_news,
           array_deletes);
    expect(REPLACES_ALIGNED, aligned, aligned_news, aligned_deletes);
    expect(REPLACES_ALIGNED, aligned, aligned_array_news, aligned_array_deletes);
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
    ::operator delete(opaque(new_quiet(10)));
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
        test_all_forms();
    }
    test_no_memory();
    test_library();
    CHECK(plain.made == plain.freed && aligned.made == aligned.freed && array.made == array.freed);
    CHECK((plain.made != 0) == REPLACES_PLAIN && (aligned.made != 0) == REPLACES_ALIGNED &&
          (array.made != 0) == REPLACES_ARRAY);
    return 0;
}
