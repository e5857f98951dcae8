/* In the build `secure` with zero_freed: what a block held is gone as soon as it is freed, and when it is used again, whoever has freed it. */
#include "heaps.h"

enum { BLOCKS = 1000 };

static const char secret[] =
    "secret!"; /* a word: a link may be in the first ones, and has any bytes */

static const size_t sizes[] = {16, 200, 1000, 8000, 33000, 100000};
enum { READABLE_MOST = 64 << 10 }; /* of a larger one access may be closed while it waits */

static unsigned char *blocks[BLOCKS];

static void fill(unsigned char *(*alloc)(void *from, size_t size), void *from, size_t size)
{
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = alloc(from, size);
        CHECK_AT(blocks[i] != NULL, size);
        for (size_t at = 0; at + sizeof secret <= size; at += sizeof secret)
            memcpy(blocks[i] + at, secret, sizeof secret);
    }
}

static void check_gone(unsigned char *(*alloc)(void *from, size_t size), void *from, size_t size)
{
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = alloc(from, size);
        CHECK_AT(blocks[i] != NULL && memmem(blocks[i], size, secret, sizeof secret) == NULL, size);
    }
}

static void free_all(void)
{
    for (size_t i = 0; i < BLOCKS; i++)
        free(blocks[i]);
}

static unsigned char *plain(void *nothing, size_t size)
{
    (void)nothing;
    return malloc(size);
}

static unsigned char *of_heap(void *heap, size_t size)
{
    return hak_heap_malloc(heap, size);
}

/* In the freed blocks themselves. */
static void check_overwritten(size_t size)
{
    for (size_t i = 0; i < BLOCKS && size <= READABLE_MOST; i++) {
        const unsigned char *volatile freed = blocks[i];
        CHECK_AT(memmem(freed, size, secret, sizeof secret) == NULL, size);
    }
}

static void test_plain(size_t size)
{
    fill(plain, NULL, size);
    free_all();
    check_overwritten(size);
    check_gone(plain, NULL, size);
    free_all();
}

static void test_heap(size_t size)
{
    hak_heap *heap = new_heap();
    fill(of_heap, heap, size);
    free_all();
    check_gone(of_heap, heap, size);
    hak_heap_destroy(heap);
}

/* What realloc leaves, in front and behind. */
static void test_resized(size_t from, size_t to)
{
    fill(plain, NULL, from);
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = realloc(blocks[i], to);
        CHECK_AT(blocks[i] != NULL, to);
        memset(blocks[i], 0, to);
    }
    static unsigned char *others[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        others[i] = malloc(from);
        CHECK_AT(others[i] != NULL && memmem(others[i], from, secret, sizeof secret) == NULL, from);
    }
    for (size_t i = 0; i < BLOCKS; i++)
        free(others[i]);
    free_all();
}

int main(void)
{
    test_resized(100000, 160000);
    test_resized(180000, 100000);
    test_resized(400, 700);
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        test_plain(sizes[i]);
        test_heap(sizes[i]);
    }
    return 0;
}
