/* Requests that cannot be met: NULL with ENOMEM or EINVAL, and nothing changed. */
#include "abi_check.h"

#include <errno.h>
static const size_t impossible_sizes[] = {
    (size_t)PTRDIFF_MAX + 1,
    (size_t)PTRDIFF_MAX + 4096,
    SIZE_MAX / 2 + SIZE_MAX / 4,
    SIZE_MAX - 65536,
    SIZE_MAX - 4096,
    SIZE_MAX - 4095,
    SIZE_MAX - 64,
    SIZE_MAX - 16,
    SIZE_MAX - 15,
    SIZE_MAX - 8,
    SIZE_MAX - 1,
    SIZE_MAX,
};

static void expect_enomem(void *result)
{
    CHECK(opaque(result) == NULL);
    CHECK(errno == ENOMEM);
    errno = 0;
}

static void test_impossible_size(size_t size)
{
    errno = 0;
    expect_enomem(malloc(size));
    expect_enomem(calloc(1, size));
    expect_enomem(calloc(size, 1));
    expect_enomem(realloc(NULL, size));
    expect_enomem(reallocarray(NULL, 1, size));
    expect_enomem(memalign(64, size));
    expect_enomem(memalign(2 * MIB, size));
    expect_enomem(aligned_alloc(64, size));
    expect_enomem(valloc(size));
    expect_enomem(pvalloc(size));
}

static void test_posix_memalign_impossible_size(size_t size)
{
    int untouched = 0;
    void *out = &untouched;
    errno = 1234;
    CHECK_AT(posix_memalign(&out, 64, size) == ENOMEM, size);
    CHECK_AT(posix_memalign(&out, MIB, size) == ENOMEM, size);
    CHECK(opaque(out) == &untouched);
    /* As the manual page says, though glibc sets it. */
    CHECK(errno == 1234 || any_malloc_allowed());
}

static void test_realloc_keeps_block_on_failure(size_t old_size)
{
    void *block = malloc(old_size);
    CHECK(block != NULL);
    fill_pattern(block, old_size, 5);
    for (size_t i = 0; i < ARRAY_LENGTH(impossible_sizes); i++) {
        errno = 0;
        expect_enomem(realloc(opaque(block), opaque_size(impossible_sizes[i])));
        expect_enomem(reallocarray(opaque(block), 2, opaque_size(impossible_sizes[i])));
    }
    CHECK_AT(has_pattern(block, old_size, old_size, 5), old_size);
    free(block);
}

static void test_product_overflow(size_t count, size_t size)
{
    errno = 0;
    expect_enomem(calloc(count, size));
    expect_enomem(calloc(size, count));
    expect_enomem(reallocarray(NULL, count, size));
    void *block = malloc(100);
    CHECK(block != NULL);
    fill_pattern(block, 100, 9);
    expect_enomem(reallocarray(opaque(block), count, size));
    expect_enomem(reallocarray(opaque(block), size, count));
    CHECK(has_pattern(block, 100, 100, 9));
    free(block);
}

static void test_product_overflows(void)
{
    const size_t half = (size_t)1 << (sizeof(size_t) * 4);
    test_product_overflow(opaque_size(half), half);
    test_product_overflow(opaque_size(half + 1), half);
    test_product_overflow(opaque_size(SIZE_MAX / 2 + 1), 2);
    test_product_overflow(opaque_size(SIZE_MAX / 16 + 2), 16);
    test_product_overflow(opaque_size(SIZE_MAX), SIZE_MAX);
    test_product_overflow(opaque_size((size_t)PTRDIFF_MAX / 8 + 1), 8);
}

static void test_posix_memalign_alignments(void)
{
    static const size_t bad[] = {0, 1, 2, 3, 4, 6, 7, 9, 12, 24, 40, 48, 100, 4095, 4097, SIZE_MAX};
    int untouched = 0;
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++) {
        void *out = &untouched;
        errno = 1234;
        CHECK_AT(posix_memalign(&out, opaque_size(bad[i]), 32) == EINVAL, bad[i]);
        CHECK_AT(opaque(out) == &untouched, bad[i]);
        CHECK_AT(errno == 1234, bad[i]);
    }
}

static void test_posix_memalign_success_keeps_errno(void)
{
    void *out = NULL;
    errno = 1234;
    CHECK(posix_memalign(&out, 128, 1000) == 0);
    CHECK(errno == 1234);
    CHECK(is_aligned(out, 128));
    free(out);
}

static void test_aligned_alloc_alignments(void)
{
    static const size_t bad[] = {0, 3, 5, 6, 12, 24, 48, 1000, 4095, SIZE_MAX};
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++) {
        errno = 0;
        CHECK_AT(opaque(aligned_alloc(opaque_size(bad[i]), 96)) == NULL, bad[i]);
        CHECK_AT(errno == EINVAL, bad[i]);
    }
}

/* memalign has no standard to follow: glibc rounds the alignment up, refusing it is fine too. */
static void test_memalign_odd_alignment(size_t alignment, size_t rounded)
{
    errno = 0;
    void *block = memalign(opaque_size(alignment), 100);
    if (block == NULL) {
        CHECK_AT(errno == EINVAL, alignment);
    } else {
        CHECK_AT(is_aligned(block, rounded), alignment);
        memset(block, 1, 100);
    }
    free(block);
}

static void test_memalign_beyond_the_address_space(void)
{
    errno = 0;
    CHECK(opaque(memalign(opaque_size(SIZE_MAX / 2 + 1), 8)) == NULL);
    CHECK(errno == ENOMEM || errno == EINVAL);
    CHECK(opaque(memalign(opaque_size(SIZE_MAX), 8)) == NULL);
    CHECK(errno == ENOMEM || errno == EINVAL);
    void *out = NULL;
    CHECK(posix_memalign(&out, opaque_size(SIZE_MAX / 2 + 1), 8) == ENOMEM);
    CHECK(opaque(out) == NULL);
}

/* After all those refusals the heap has to serve as before. */
static void test_heap_still_works(void)
{
    for (size_t size = 1; size <= 4 * MIB; size *= 3) {
        void *block = malloc(size);
        CHECK_AT(block != NULL, size);
        memset(block, 0x5a, size);
        free(block);
    }
}

int main(void)
{
    require_hakmem();
    for (size_t i = 0; i < ARRAY_LENGTH(impossible_sizes); i++) {
        test_impossible_size(opaque_size(impossible_sizes[i]));
        test_posix_memalign_impossible_size(opaque_size(impossible_sizes[i]));
    }
    static const size_t old_sizes[] = {1, 40, 1000, 8 * KIB, 100 * KIB, 4 * MIB};
    for (size_t i = 0; i < ARRAY_LENGTH(old_sizes); i++) {
        test_realloc_keeps_block_on_failure(old_sizes[i]);
    }
    test_product_overflows();
    test_posix_memalign_alignments();
    test_posix_memalign_success_keeps_errno();
    test_aligned_alloc_alignments();
    test_memalign_odd_alignment(3, 4);
    test_memalign_odd_alignment(24, 32);
    test_memalign_odd_alignment(100, 128);
    test_memalign_odd_alignment(0, 1);
    test_memalign_odd_alignment(1, 1);
    test_memalign_beyond_the_address_space();
    test_heap_still_works();
    puts("errors: ok");
    return 0;
}
