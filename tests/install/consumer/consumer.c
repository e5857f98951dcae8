/* Is malloc hakmem's? Then hakmem counts the blocks. */
#include <hakmem/hakmem.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLOCKS = 1000, SIZE = 100 };

static size_t live_blocks(void)
{
    struct hak_stats stats;
    hak_stats_get(&stats, sizeof stats);
    return stats.live_blocks;
}

int main(void)
{
    static void *blocks[BLOCKS];
    size_t before = live_blocks();
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = malloc(SIZE);
    size_t during = live_blocks();
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    size_t after = live_blocks();
    printf("live blocks: %zu, %zu, %zu\n", before, during, after);
    return during >= before + BLOCKS && after + BLOCKS <= during ? 0 : 1;
}
