/* Is malloc hakmem's? Then hakmem counts the blocks. The same of those that the program takes itself. */
#include <hakmem/inline.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLOCKS = 1000, SIZE = 100 };

static size_t live_blocks(void)
{
    struct hak_stats stats;
    hak_stats_get(&stats, sizeof stats);
    return stats.live_blocks;
}

static int is_counted(void *(*take)(size_t), void (*give)(void *, size_t))
{
    static void *blocks[BLOCKS];
    size_t before = live_blocks();
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = take(SIZE);
    size_t during = live_blocks();
    for (int i = 0; i < BLOCKS; i++)
        give(blocks[i], SIZE);
    size_t after = live_blocks();
    printf("live blocks: %zu, %zu, %zu\n", before, during, after);
    return during >= before + BLOCKS && after + BLOCKS <= during;
}

static void give_plainly(void *p, size_t size)
{
    (void)size;
    free(p);
}

int main(void)
{
    return is_counted(malloc, give_plainly) && is_counted(hak_malloc_inline, hak_free_sized_inline)
               ? 0
               : 1;
}
