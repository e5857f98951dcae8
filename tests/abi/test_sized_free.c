/* free_sized, free_aligned_sized (C23) and cfree: found at run time, since no C library here has
 * all. */
#include "abi_check.h"

#include <errno.h>
typedef void free_function(void *);
typedef void free_sized_function(void *, size_t);
typedef void free_aligned_sized_function(void *, size_t, size_t);

enum { blocks_per_size = 100 };

/* Not every other allocator has these three; hakmem has to. */
static void *find(const char *name)
{
    void *address = dlsym(RTLD_DEFAULT, name);
    if (address == NULL && any_malloc_allowed()) {
        printf("%s: not in this allocator\n", name);
        return NULL;
    }
    CHECK(address != NULL);
    return address;
}

static void *filled_block(size_t size)
{
    void *block = malloc(size);
    CHECK_AT(block != NULL, size);
    fill_pattern(block, size, (unsigned)size);
    return block;
}

/* What is freed in a wrong way would be handed out twice: blocks overlap in the next round. */
static void check_no_overlap(size_t size)
{
    void *blocks[blocks_per_size];
    for (size_t i = 0; i < blocks_per_size; i++) {
        blocks[i] = malloc(size);
        CHECK_AT(blocks[i] != NULL, size);
        fill_pattern(blocks[i], size, (unsigned)i);
    }
    for (size_t i = 0; i < blocks_per_size; i++) {
        CHECK_AT(has_pattern(blocks[i], size, size, (unsigned)i), size);
        free(blocks[i]);
    }
}

static void test_free_sized(free_sized_function *free_sized)
{
    errno = 1234;
    free_sized(NULL, 0);
    free_sized(NULL, 100);
    for (size_t size = 1; size <= 8 * MIB; size = size * 2 + 1) {
        free_sized(filled_block(size), size);
        void *zeroed = calloc(1, size);
        CHECK_AT(zeroed != NULL, size);
        free_sized(zeroed, size);
        void *moved = realloc(filled_block(size), size + size / 2);
        CHECK_AT(moved != NULL, size);
        free_sized(moved, size + size / 2);
    }
    free_sized(malloc(opaque_size(0)), 0);
    CHECK(errno == 1234);
    for (size_t size = 8; size <= 64 * KIB; size *= 2) {
        for (size_t i = 0; i < blocks_per_size; i++) {
            free_sized(filled_block(size), size);
        }
        check_no_overlap(size);
    }
}

static void test_free_aligned_sized(free_aligned_sized_function *free_aligned_sized)
{
    errno = 1234;
    free_aligned_sized(NULL, 64, 0);
    for (size_t alignment = 8; alignment <= 4 * MIB; alignment *= 2) {
        for (size_t size = 1; size <= MIB; size = size * 5 + 3) {
            void *block = aligned_alloc(alignment, size);
            CHECK_AT(block != NULL, alignment);
            fill_pattern(block, size, 1);
            free_aligned_sized(block, alignment, size);
        }
    }
    CHECK(errno == 1234);
    for (size_t size = 16; size <= 16 * KIB; size *= 2) {
        check_no_overlap(size);
    }
}

static void test_cfree(free_function *old_free)
{
    old_free(NULL);
    for (size_t size = 1; size <= 4 * MIB; size = size * 2 + 1) {
        old_free(filled_block(size));
    }
    check_no_overlap(100);
}

int main(void)
{
    require_hakmem();
    /* Object pointers become function pointers only this way without a warning. */
    union {
        void *object;
        free_function *plain;
        free_sized_function *sized;
        free_aligned_sized_function *aligned_sized;
    } symbol;
    symbol.object = find("free_sized");
    if (symbol.object != NULL) {
        test_free_sized(symbol.sized);
    }
    symbol.object = find("free_aligned_sized");
    if (symbol.object != NULL) {
        test_free_aligned_sized(symbol.aligned_sized);
    }
    symbol.object = find("cfree");
    if (symbol.object != NULL) {
        test_cfree(symbol.plain);
    }
    puts("sized free: ok");
    return 0;
}
