/* calloc gives zeroes, above all where the memory was used and dirtied before. */
#include "abi_check.h"

#include <sys/mman.h>

enum { most_blocks = 256 };

static bool is_zero(const void *block, size_t size)
{
    const unsigned char *bytes = (const unsigned char *)block;
    return size == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0);
}

/* Many blocks while they are small, so that caches overflow and memory goes through all layers. */
static size_t blocks_for(size_t size)
{
    const size_t count = 4 * MIB / size;
    return count > most_blocks ? most_blocks : count < 2 ? 2 : count;
}

static void dirty_and_free(size_t size, size_t count)
{
    static void *blocks[most_blocks];
    for (size_t i = 0; i < count; i++) {
        blocks[i] = malloc(size);
        CHECK_AT(blocks[i] != NULL, size);
        memset(blocks[i], 0xff, malloc_usable_size(blocks[i]));
    }
    for (size_t i = 0; i < count; i++) {
        free(blocks[i]);
    }
}

static void check_zeroed(size_t size, size_t count)
{
    static void *blocks[most_blocks];
    for (size_t i = 0; i < count; i++) {
        blocks[i] = i % 2 == 0 ? calloc(size, 1) : calloc(1, size);
        CHECK_AT(blocks[i] != NULL, size);
        CHECK_AT(is_zero(blocks[i], size), size);
        memset(blocks[i], 0xee, malloc_usable_size(blocks[i]));
    }
    for (size_t i = 0; i < count; i++) {
        free(blocks[i]);
    }
}

static void test_size(size_t size)
{
    const size_t count = blocks_for(size);
    dirty_and_free(size, count);
    check_zeroed(size, count);
    check_zeroed(size, count);
}

/* A smaller or larger neighbour's dirty memory, split or joined, must not show either. */
static void test_after_other_sizes(void)
{
    static const size_t dirty_sizes[] = {40, 700, 5000, 60000, 200000, MIB, 5 * MIB};
    for (size_t dirty = 0; dirty < ARRAY_LENGTH(dirty_sizes); dirty++) {
        for (size_t size = 8; size <= 8 * MIB; size *= 4) {
            dirty_and_free(dirty_sizes[dirty], blocks_for(dirty_sizes[dirty]));
            check_zeroed(size, 2);
        }
    }
}

/* A shrunk block's cut-off tail is free memory again, and dirty. */
static void test_after_shrinking(void)
{
    for (size_t size = 64 * KIB; size <= 8 * MIB; size *= 2) {
        void *block = malloc(size);
        CHECK_AT(block != NULL, size);
        memset(block, 0xdd, size);
        block = resized(block, size / 4);
        check_zeroed(size / 2, 4);
        free(block);
    }
}

static void test_products(void)
{
    for (size_t count = 1; count <= 4096; count = count * 3 + 1) {
        for (size_t size = 1; size <= 1024; size = size * 2 + 1) {
            void *block = calloc(count, size);
            CHECK_AT(block != NULL, count * size);
            CHECK_AT(malloc_usable_size(block) >= count * size, count * size);
            CHECK_AT(is_zero(block, count * size), count * size);
            memset(block, 0xcc, count * size);
            free(block);
        }
    }
}

/* An emulator's memory is not the program's. */
#ifndef HAK_TEST_EMULATED
#define SPARSE_SIZE (16 * MIB)

/* How many of the pages that the block lies on have memory. Asking touches none of them. */
static size_t pages_with_memory(const void *block, size_t size)
{
    static unsigned char present[SPARSE_SIZE / 4096 + 1];
    const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t first = (uintptr_t)block & ~(page - 1);
    const size_t pages = ((uintptr_t)block + size - first + page - 1) / page;
    CHECK_AT(pages <= ARRAY_LENGTH(present), pages);
    CHECK_AT(mincore((void *)first, pages * page, present) == 0, first);
    size_t count = 0;
    for (size_t i = 0; i < pages; i++) {
        count += present[i] & 1;
    }
    return count;
}

/* Fresh memory is zero and must not be cleared: what the program does not touch has no pages. Blocks of more
 * than a page that lie in slabs of several units, which nobody touches in advance. In the build `secure` the end of each
 * is written to. */
static void test_untouched(void)
{
    static void *blocks[500];
    const size_t size = 4 * (size_t)sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < ARRAY_LENGTH(blocks); i++) {
        blocks[i] = calloc(1, size);
        CHECK(blocks[i] != NULL);
    }
    size_t touched = 0;
    for (size_t i = 0; i < ARRAY_LENGTH(blocks); i++) {
        touched += pages_with_memory(blocks[i], size);
    }
    CHECK_AT(touched <= (HAK_SECURE ? ARRAY_LENGTH(blocks) : 0), touched);
    for (size_t i = 0; i < ARRAY_LENGTH(blocks); i++) {
        CHECK_AT(is_zero(blocks[i], size), i);
        free(blocks[i]);
    }
}

/* Of a large block that has been used what was never touched has no pages the next time either. */
static void test_sparse(void)
{
    for (size_t round = 0; round < 4; round++) {
        char *block = (char *)calloc(1, SPARSE_SIZE);
        CHECK(block != NULL);
        const size_t touched = pages_with_memory(block, SPARSE_SIZE);
        CHECK_AT(touched <= SPARSE_SIZE / 4096 / 2, touched);
        if (round == 3) {
            CHECK(is_zero(block, SPARSE_SIZE));
        }
        block[round] = block[SPARSE_SIZE - 1] = 1;
        free(block);
    }
}
#endif

int main(void)
{
    require_hakmem();
#ifndef HAK_TEST_EMULATED
    test_untouched();
    test_sparse();
#endif
    for (size_t size = 8; size <= 8 * MIB; size = next_size(size, 256)) {
        test_size(size);
    }
    test_after_other_sizes();
    test_after_shrinking();
    test_products();
    puts("calloc: ok");
    return 0;
}
