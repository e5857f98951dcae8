/* Size 0, NULL, realloc to 0, errno kept by free: what programs that grew up on glibc rely on. */
#include "abi_check.h"

#include <errno.h>
enum { zero_blocks = 1000 };

static void *zero_from_malloc(void)
{
    return malloc(opaque_size(0));
}

static void *zero_from_calloc(void)
{
    return calloc(opaque_size(0), 8);
}

static void *zero_from_calloc_huge_count(void)
{
    return calloc(opaque_size(SIZE_MAX), opaque_size(0));
}

static void *zero_from_realloc(void)
{
    return realloc(NULL, opaque_size(0));
}

static void *zero_from_reallocarray(void)
{
    return reallocarray(NULL, opaque_size(0), opaque_size(SIZE_MAX));
}

static void *zero_from_memalign(void)
{
    return memalign(64, opaque_size(0));
}

static void *zero_from_aligned_alloc(void)
{
    return aligned_alloc(32, opaque_size(0));
}

static void *zero_from_posix_memalign(void)
{
    void *out = NULL;
    CHECK(posix_memalign(&out, 128, opaque_size(0)) == 0);
    return out;
}

static void *zero_from_valloc(void)
{
    return valloc(opaque_size(0));
}

static void *zero_from_pvalloc(void)
{
    return pvalloc(opaque_size(0));
}

static int compare_pointers(const void *left, const void *right)
{
    const uintptr_t a = (uintptr_t) * (void *const *)left;
    const uintptr_t b = (uintptr_t) * (void *const *)right;
    return (a > b) - (a < b);
}

static void test_zero_size_is_unique(void *(*allocate)(void))
{
    static void *blocks[zero_blocks];
    static void *sorted[zero_blocks];
    for (size_t i = 0; i < zero_blocks; i++) {
        blocks[i] = opaque(allocate());
        CHECK_AT(blocks[i] != NULL, i);
    }
    memcpy(sorted, blocks, sizeof(sorted));
    qsort(sorted, zero_blocks, sizeof(sorted[0]), compare_pointers);
    for (size_t i = 1; i < zero_blocks; i++) {
        CHECK_AT(sorted[i] != sorted[i - 1], i);
    }
    for (size_t i = 0; i < zero_blocks; i++) {
        free(blocks[i]);
    }
}

static void test_zero_sizes(void)
{
    void *(*const allocators[])(void) = {
        zero_from_malloc,   zero_from_calloc,        zero_from_calloc_huge_count, zero_from_realloc,
        zero_from_memalign, zero_from_aligned_alloc, zero_from_posix_memalign,    zero_from_valloc,
        zero_from_pvalloc,  zero_from_reallocarray,
    };
    for (size_t i = 0; i < ARRAY_LENGTH(allocators); i++) {
        test_zero_size_is_unique(allocators[i]);
    }
}

/* A block of size 0 can grow like any other. */
static void test_zero_size_grows(void)
{
    void *block = malloc(opaque_size(0));
    block = resized(block, 1000);
    fill_pattern(block, 1000, 1);
    CHECK(has_pattern(block, 1000, 1000, 1));
    free(block);
}

/* Were the blocks not freed, 128 MiB of touched memory would stay. */
static void test_realloc_to_zero_frees(size_t size)
{
    const size_t rounds = 128 * MIB / (size < 16 ? 16 : size);
    const size_t before = resident_bytes();
    for (size_t i = 0; i < rounds; i++) {
        void *block = malloc(size);
        CHECK_AT(block != NULL, size);
        memset(block, 0x77, size);
        if (i % 2 == 0) {
            CHECK_AT(opaque(realloc(block, opaque_size(0))) == NULL, size);
        } else {
            CHECK_AT(opaque(reallocarray(block, opaque_size(0), 16)) == NULL, size);
        }
    }
    CHECK_AT(resident_bytes() < before + 64 * MIB, size);
}

static void test_realloc_of_null(void)
{
    for (size_t size = 1; size <= 2 * MIB; size = size * 2 + 1) {
        void *block = realloc(NULL, size);
        CHECK_AT(block != NULL, size);
        memset(block, 0x11, size);
        CHECK_AT(malloc_usable_size(block) >= size, size);
        free(block);
        block = reallocarray(NULL, size, 1);
        CHECK_AT(block != NULL, size);
        memset(block, 0x22, size);
        free(block);
    }
}

static void test_null(void)
{
    errno = 1234;
    free(opaque(NULL));
    CHECK(errno == 1234);
    CHECK(malloc_usable_size(opaque(NULL)) == 0);
}

static void test_free_keeps_errno(void)
{
    for (size_t size = 1; size <= 128 * MIB; size = size * 2 + 3) {
        void *block = malloc(size);
        CHECK_AT(block != NULL, size);
        memset(block, 1, size < 64 * KIB ? size : 64 * KIB);
        errno = 1234;
        free(block);
        CHECK_AT(errno == 1234, size);
    }
}

static void test_free_keeps_errno_in_bulk(void)
{
    enum { count = 20000 };
    static void *blocks[count];
    for (size_t i = 0; i < count; i++) {
        blocks[i] = malloc(1 + i % 3000);
        CHECK_AT(blocks[i] != NULL, i);
    }
    errno = 1234;
    for (size_t i = 0; i < count; i++) {
        free(blocks[i]);
        CHECK_AT(errno == 1234, i);
    }
}

static void test_pvalloc_rounds_to_pages(void)
{
    const size_t page = page_size();
    for (size_t size = 1; size <= 3 * page; size += 511) {
        void *block = pvalloc(size);
        CHECK_AT(block != NULL, size);
        CHECK_AT(is_aligned(block, page), size);
        CHECK_AT(malloc_usable_size(block) >= round_up(size, page), size);
        memset(block, 0x33, round_up(size, page));
        free(block);
    }
}

int main(void)
{
    require_hakmem();
    test_zero_sizes();
    test_zero_size_grows();
    static const size_t sizes[] = {1, 24, 500, 4096, 20 * KIB, 100 * KIB, MIB};
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        test_realloc_to_zero_frees(sizes[i]);
    }
    test_realloc_of_null();
    test_null();
    test_free_keeps_errno();
    test_free_keeps_errno_in_bulk();
    test_pvalloc_rounds_to_pages();
    puts("edges: ok");
    return 0;
}
