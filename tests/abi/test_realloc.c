/* realloc keeps the contents from every size range to every other, up and down. */
#include "abi_check.h"

static const size_t sizes[] = {
    1,         7,        8,        16,          24,       64,        65,
    127,       512,      1000,     1024,        1025,     2048,      4096,
    8192,      16 * KIB, 32 * KIB, 64 * KIB,    65 * KIB, 100 * KIB, 256 * KIB,
    512 * KIB, MIB,      MIB + 1,  3 * MIB + 5, 4 * MIB,  16 * MIB,  64 * MIB,
};

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static void test_pair(size_t from, size_t to)
{
    void *block = malloc(from);
    CHECK_AT(block != NULL, from);
    fill_pattern(block, from, (unsigned)(from ^ to));
    block = resized(block, to);
    CHECK_AT(has_pattern(block, from, smaller(from, to), (unsigned)(from ^ to)), from);
    CHECK_AT(malloc_usable_size(block) >= to, to);
    fill_pattern(block, to, 99);
    CHECK_AT(has_pattern(block, to, to, 99), to);
    free(block);
}

static void test_every_pair(void)
{
    for (size_t from = 0; from < ARRAY_LENGTH(sizes); from++) {
        for (size_t to = 0; to < ARRAY_LENGTH(sizes); to++) {
            test_pair(sizes[from], sizes[to]);
        }
    }
}

/* A string that grows byte by byte, then shrinks: every class boundary is crossed. */
static void test_one_byte_steps(size_t limit)
{
    unsigned char *block = (unsigned char *)malloc(1);
    CHECK(block != NULL);
    block[0] = pattern_byte(0, 4);
    for (size_t size = 2; size <= limit; size++) {
        block = (unsigned char *)resized(block, size);
        block[size - 1] = pattern_byte(size - 1, 4);
        CHECK_AT(block[size / 2] == pattern_byte(size / 2, 4), size);
    }
    CHECK(has_pattern(block, limit, limit, 4));
    for (size_t size = limit; size > 0; size--) {
        block = (unsigned char *)resized(block, size);
        CHECK_AT(block[size - 1] == pattern_byte(size - 1, 4), size);
    }
    CHECK(block[0] == pattern_byte(0, 4));
    free(block);
}

/* Several vectors that grow in turn, so that none can stay in place for free. */
static void test_interleaved_growth(void)
{
    enum { vectors = 4 };
    size_t *vector[vectors] = {NULL};
    size_t filled = 0;
    for (size_t capacity = 4; capacity * sizeof(size_t) <= 64 * MIB; capacity += capacity / 2) {
        for (size_t v = 0; v < vectors; v++) {
            vector[v] = (size_t *)reallocarray(vector[v], capacity, sizeof(size_t));
            CHECK_AT(vector[v] != NULL, capacity);
            for (size_t i = filled; i < capacity; i++) {
                vector[v][i] = i * vectors + v;
            }
        }
        filled = capacity;
    }
    for (size_t v = 0; v < vectors; v++) {
        for (size_t i = 0; i < filled; i++) {
            CHECK_AT(vector[v][i] == i * vectors + v, i);
        }
        free(vector[v]);
    }
}

/* A large block with a neighbour right behind it cannot grow in place. */
static void test_large_block_between_neighbours(void)
{
    for (size_t size = 128 * KIB; size <= 16 * MIB; size *= 2) {
        void *before = malloc(size);
        void *block = malloc(size);
        void *after = malloc(size);
        CHECK_AT(before != NULL && block != NULL && after != NULL, size);
        fill_pattern(before, size, 1);
        fill_pattern(block, size, 2);
        fill_pattern(after, size, 3);
        block = resized(block, size * 3);
        CHECK_AT(has_pattern(block, size, size, 2), size);
        fill_pattern(block, size * 3, 4);
        CHECK_AT(has_pattern(before, size, size, 1), size);
        CHECK_AT(has_pattern(after, size, size, 3), size);
        free(before);
        free(block);
        free(after);
    }
}

int main(void)
{
    require_hakmem();
    test_every_pair();
    test_one_byte_steps(20000);
    test_interleaved_growth();
    test_large_block_between_neighbours();
    puts("realloc: ok");
    return 0;
}
