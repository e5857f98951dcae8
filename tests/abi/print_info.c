/* Writes malloc_info to standard output, and calls malloc_stats, for check_info.py to judge. */
#include "abi_check.h"

enum { count = 1000 };

int main(void)
{
    require_hakmem();
    static void *blocks[count];
    for (size_t i = 0; i < count; i++) {
        blocks[i] = malloc(1 + i * 37);
        CHECK_AT(blocks[i] != NULL, i);
        memset(blocks[i], 1, 1 + i * 37);
    }
    CHECK(malloc_info(0, stdout) == 0);
    fflush(stdout);
    /* Only option 0 exists: glibc returns EINVAL, its manual page says -1. */
    CHECK(malloc_info(1, stdout) != 0);
    fflush(stdout);
    malloc_stats();
    for (size_t i = 0; i < count; i++) {
        free(blocks[i]);
    }
    return 0;
}
