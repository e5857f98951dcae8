/* What clang's -fsanitize=alloc-token calls in place of the allocation functions: the same with a number behind. */
#include "abi_check.h"

#include <errno.h>

enum { TOKEN = 12345 };

void *__alloc_token_malloc(size_t size, size_t token);
void *__alloc_token_calloc(size_t count, size_t size, size_t token);
void *__alloc_token_realloc(void *block, size_t size, size_t token);
void *__alloc_token_reallocarray(void *block, size_t count, size_t size, size_t token);
void *__alloc_token_aligned_alloc(size_t alignment, size_t size, size_t token);
void *__alloc_token_memalign(size_t alignment, size_t size, size_t token);
int __alloc_token_posix_memalign(void **out, size_t alignment, size_t size, size_t token);
void *__alloc_token_valloc(size_t size, size_t token);
void *__alloc_token_pvalloc(size_t size, size_t token);

static const size_t sizes[] = {1, 16, 100, 1000, 5000, 100000, 3 * MIB};

static void check_and_free(void *block, size_t size, size_t alignment)
{
    CHECK_AT(block != NULL, size);
    CHECK_AT(is_aligned(block, alignment), size);
    CHECK_AT(malloc_usable_size(block) >= size, size);
    fill_pattern(block, size, 2);
    CHECK_AT(has_pattern(block, size, size, 2), size);
    free(block);
}

static void test_plain(size_t size)
{
    check_and_free(__alloc_token_malloc(size, TOKEN), size, natural_alignment(size));
    unsigned char *zeroed = __alloc_token_calloc(size, 2, TOKEN);
    for (size_t i = 0; i < 2 * size; i++) {
        CHECK_AT(zeroed[i] == 0, size);
    }
    check_and_free(zeroed, 2 * size, 8);
    void *block = __alloc_token_realloc(NULL, size, TOKEN);
    fill_pattern(block, size, 4);
    block = __alloc_token_realloc(block, 2 * size, TOKEN);
    CHECK_AT(has_pattern(block, size, size, 4), size);
    block = __alloc_token_reallocarray(block, size, 3, TOKEN);
    CHECK_AT(has_pattern(block, size, size, 4), size);
    check_and_free(block, 3 * size, natural_alignment(size));
}

static void test_aligned(size_t size)
{
    void *block = NULL;
    check_and_free(__alloc_token_aligned_alloc(256, size, TOKEN), size, 256);
    check_and_free(__alloc_token_memalign(4096, size, TOKEN), size, 4096);
    CHECK_AT(__alloc_token_posix_memalign(&block, 64, size, TOKEN) == 0, size);
    check_and_free(block, size, 64);
    check_and_free(__alloc_token_valloc(size, TOKEN), size, page_size());
    check_and_free(__alloc_token_pvalloc(size, TOKEN), round_up(size, page_size()), page_size());
}

static void test_errors(void)
{
    const size_t huge = opaque_size(SIZE_MAX / 2 + 2);
    void *block = NULL;
    errno = 0;
    CHECK(__alloc_token_malloc(huge, TOKEN) == NULL && errno == ENOMEM);
    errno = 0;
    CHECK(__alloc_token_calloc(huge, 4, TOKEN) == NULL && errno == ENOMEM);
    errno = 0;
    CHECK(__alloc_token_aligned_alloc(48, 100, TOKEN) == NULL && errno == EINVAL);
    CHECK(__alloc_token_posix_memalign(&block, 48, 100, TOKEN) == EINVAL);
}

#ifndef HAK_TEST_LINKED

/* operator new, of arrays, nothrow, aligned. */
void *__alloc_token__Znwm(size_t size, size_t token);
void *__alloc_token__Znam(size_t size, size_t token);
void *__alloc_token__ZnwmRKSt9nothrow_t(size_t size, const void *tag, size_t token);
void *__alloc_token__ZnamRKSt9nothrow_t(size_t size, const void *tag, size_t token);
void *__alloc_token__ZnwmSt11align_val_t(size_t size, size_t alignment, size_t token);
void *__alloc_token__ZnamSt11align_val_t(size_t size, size_t alignment, size_t token);
void *__alloc_token__ZnwmSt11align_val_tRKSt9nothrow_t(size_t size, size_t alignment,
                                                       const void *tag, size_t token);
void *__alloc_token__ZnamSt11align_val_tRKSt9nothrow_t(size_t size, size_t alignment,
                                                       const void *tag, size_t token);

static void test_new(size_t size)
{
    const char tag = 0;
    check_and_free(__alloc_token__Znwm(size, TOKEN), size, natural_alignment(size));
    check_and_free(__alloc_token__Znam(size, TOKEN), size, natural_alignment(size));
    check_and_free(__alloc_token__ZnwmRKSt9nothrow_t(size, &tag, TOKEN), size, 8);
    check_and_free(__alloc_token__ZnamRKSt9nothrow_t(size, &tag, TOKEN), size, 8);
    check_and_free(__alloc_token__ZnwmSt11align_val_t(size, 512, TOKEN), size, 512);
    check_and_free(__alloc_token__ZnamSt11align_val_t(size, 512, TOKEN), size, 512);
    check_and_free(__alloc_token__ZnwmSt11align_val_tRKSt9nothrow_t(size, 512, &tag, TOKEN), size,
                   512);
    check_and_free(__alloc_token__ZnamSt11align_val_tRKSt9nothrow_t(size, 512, &tag, TOKEN), size,
                   512);
}

#else

static void test_new(size_t size)
{
    (void)size; /* a sanitizer's */
}

#endif

int main(void)
{
    require_hakmem();
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        test_plain(sizes[i]);
        test_aligned(sizes[i]);
        test_new(sizes[i]);
    }
    test_errors();
    return 0;
}
