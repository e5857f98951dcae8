/* Alignment of every size without asking, and of every power of two up to 1 GiB on request. */
#include "abi_check.h"

enum { blocks_per_size = 5 };

static void test_natural_alignment(size_t size)
{
    void *blocks[blocks_per_size];
    const size_t alignment = natural_alignment(size);
    for (size_t i = 0; i < blocks_per_size; i++) {
        blocks[i] = i % 2 == 0 ? malloc(size) : calloc(1, size);
        CHECK_AT(blocks[i] != NULL, size);
        CHECK_AT(is_aligned(blocks[i], alignment), size);
    }
    for (size_t i = 0; i < blocks_per_size; i++) {
        free(blocks[i]);
    }
}

static void test_natural_alignment_of_realloc(void)
{
    void *block = NULL;
    for (size_t size = 1; size < 300 * KIB; size += 1 + size / 7) {
        block = resized(block, size);
        CHECK_AT(is_aligned(block, natural_alignment(size)), size);
    }
    free(block);
}

static void *allocate_aligned(size_t how, size_t alignment, size_t size)
{
    void *out = NULL;
    switch (how) {
    case 0:
        return memalign(alignment, size);
    case 1:
        return aligned_alloc(alignment, size);
    default:
        CHECK_AT(posix_memalign(&out, alignment, size) == 0, alignment);
        return out;
    }
}

/* Three blocks live at once, each filled to its usable end, so that an overlap shows. */
static void test_requested_alignment(size_t alignment, size_t size)
{
    void *blocks[3];
    size_t usable[3];
    for (size_t i = 0; i < 3; i++) {
        blocks[i] = allocate_aligned(i, alignment, size);
        CHECK_AT(blocks[i] != NULL, alignment);
        CHECK_AT(is_aligned(blocks[i], alignment), alignment);
        usable[i] = malloc_usable_size(blocks[i]);
        CHECK_AT(usable[i] >= size, size);
        if (usable[i] > 8 * MIB) {
            usable[i] = size;
        }
        fill_pattern(blocks[i], usable[i], (unsigned)i);
    }
    for (size_t i = 0; i < 3; i++) {
        CHECK_AT(has_pattern(blocks[i], usable[i], usable[i], (unsigned)i), alignment);
        free(blocks[i]);
    }
}

static void test_requested_alignments(void)
{
    static const size_t sizes[] = {0,    1,    7,     16,       24,        100,     1000,
                                   4096, 5000, 30000, 64 * KIB, 100 * KIB, MIB + 1, 3 * MIB};
    for (size_t alignment = 8; alignment <= GIB; alignment *= 2) {
        for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
            test_requested_alignment(alignment, sizes[i]);
        }
    }
}

/* Aligned blocks of one size among ordinary ones: a later plain malloc must not be confused. */
static void test_aligned_among_plain(size_t alignment)
{
    enum { count = 200 };
    void *aligned[count];
    void *plain[count];
    for (size_t i = 0; i < count; i++) {
        aligned[i] = memalign(alignment, 40 + i);
        plain[i] = malloc(40 + i);
        CHECK_AT(aligned[i] != NULL && plain[i] != NULL, alignment);
        CHECK_AT(is_aligned(aligned[i], alignment), alignment);
        fill_pattern(aligned[i], 40 + i, 1);
        fill_pattern(plain[i], 40 + i, 2);
    }
    for (size_t i = 0; i < count; i++) {
        CHECK_AT(has_pattern(aligned[i], 40 + i, 40 + i, 1), alignment);
        CHECK_AT(has_pattern(plain[i], 40 + i, 40 + i, 2), alignment);
        free(aligned[i]);
        free(plain[i]);
    }
}

static void test_realloc_of_aligned(size_t alignment)
{
    static const size_t sizes[] = {1, 100, 3000, 50000, 300000, 3 * MIB};
    for (size_t from = 0; from < ARRAY_LENGTH(sizes); from++) {
        for (size_t to = 0; to < ARRAY_LENGTH(sizes); to++) {
            void *block = memalign(alignment, sizes[from]);
            CHECK_AT(block != NULL, alignment);
            fill_pattern(block, sizes[from], 7);
            block = resized(block, sizes[to]);
            const size_t kept = sizes[from] < sizes[to] ? sizes[from] : sizes[to];
            CHECK_AT(has_pattern(block, sizes[from], kept, 7), alignment);
            memset(block, 0x44, sizes[to]);
            free(block);
        }
    }
}

static void test_page_alignment(void)
{
    for (size_t size = 1; size <= MIB; size = size * 3 + 1) {
        void *block = valloc(size);
        CHECK_AT(block != NULL, size);
        CHECK_AT(is_aligned(block, page_size()), size);
        memset(block, 0x55, size);
        free(block);
    }
}

int main(void)
{
    require_hakmem();
    for (size_t size = 1; size <= 16 * MIB; size = next_size(size, 32 * KIB)) {
        test_natural_alignment(size);
    }
    test_natural_alignment_of_realloc();
    /* Held, so that what follows does not start at addresses that are round by chance. */
    void *odd = malloc(300000);
    CHECK(odd != NULL);
    test_requested_alignments();
    free(odd);
    for (size_t alignment = 8; alignment <= 4 * MIB; alignment *= 4) {
        test_aligned_among_plain(alignment);
        test_realloc_of_aligned(alignment);
    }
    test_page_alignment();
    puts("alignment: ok");
    return 0;
}
