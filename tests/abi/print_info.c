/* Writes what is held and malloc_info to standard output, and calls malloc_stats, for check_info.py to judge: with all blocks, and with
 * every other one freed. */
#include "abi_check.h"

enum { count = 1000 };

static void *blocks[count];

/* Of all that is held. */
static void print_usable(void)
{
    size_t usable = 0;
    for (size_t i = 0; i < count; i++) {
        usable += malloc_usable_size(blocks[i]);
    }
    printf("usable %zu\n", usable);
    fflush(stdout);
}

static void print_all(void)
{
    print_usable();
    CHECK(malloc_info(0, stdout) == 0);
    fflush(stdout);
    malloc_stats();
    dprintf(STDERR_FILENO, "end\n");
}

int main(void)
{
    require_hakmem();
    for (size_t i = 0; i < count; i++) {
        blocks[i] = malloc(1 + i * 37);
        CHECK_AT(blocks[i] != NULL, i);
        memset(blocks[i], 1, 1 + i * 37);
    }
    /* Only option 0 exists: glibc returns EINVAL, its manual page says -1. */
    CHECK(malloc_info(1, stdout) != 0);
    fflush(stdout);
    print_all();
    for (size_t i = 0; i < count; i += 2) {
        free(blocks[i]);
        blocks[i] = NULL;
    }
    print_all();
    for (size_t i = 0; i < count; i++) {
        free(blocks[i]);
    }
    return 0;
}
