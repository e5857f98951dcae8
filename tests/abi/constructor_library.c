/* A library whose constructor allocates before main, and may run before the allocator's own. */
#include "constructor_library.h"

#include "abi_check.h"

static void *blocks[constructor_blocks];

static size_t size_of_block(size_t index)
{
    return 1 + index * index * 3;
}

__attribute__((constructor(101))) static void allocate_early(void)
{
    for (size_t i = 0; i < constructor_blocks; i++) {
        blocks[i] = i % 3 == 0 ? memalign(64, size_of_block(i)) : calloc(1, size_of_block(i));
        CHECK_AT(blocks[i] != NULL, i);
        fill_pattern(blocks[i], size_of_block(i), (unsigned)i);
        if (i % 2 == 0) {
            blocks[i] = resized(blocks[i], 2 * size_of_block(i));
        }
    }
}

bool constructor_blocks_intact(void)
{
    for (size_t i = 0; i < constructor_blocks; i++) {
        if (!has_pattern(blocks[i], size_of_block(i), size_of_block(i), (unsigned)i)) {
            return false;
        }
    }
    return true;
}

/* Runs after main's atexit handlers, and perhaps after the allocator's own destructors. */
__attribute__((destructor)) static void free_late(void)
{
    CHECK(constructor_blocks_intact());
    for (size_t i = 0; i < constructor_blocks; i++) {
        free(blocks[i]);
    }
    void *block = malloc(5000);
    CHECK(block != NULL);
    memset(block, 1, 5000);
    free(block);
    static const char message[] = "destructor: ok\n";
    CHECK(write(STDOUT_FILENO, message, sizeof(message) - 1) > 0);
}
