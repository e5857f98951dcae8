/* Near its soft limit the process keeps no free memory, whatever the settings allow; away from it, it does again.
 * Run with soft_limit:96M and so large a `retain` that nothing would be given back otherwise.
 *
 *     soft_limit
 */
#include <string.h>

#include "support.h"

#include "alloc_names.h"

enum { BLOCKS = 176, FEW = 20, BLOCK_KIB = 512, SLACK_KIB = 2048, LOOK_MS = 150 };

static char *blocks[BLOCKS];

static void fill(size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        blocks[i] = malloc(BLOCK_KIB * KIB);
        if (blocks[i] == NULL) {
            fail("malloc gave NULL");
        }
        memset(blocks[i], 1, BLOCK_KIB * KIB);
    }
}

/* How much less is resident afterwards. */
static size_t clear(size_t from, size_t to)
{
    size_t before = rss_bytes();
    for (size_t i = from; i < to; i++) {
        free(blocks[i]);
    }
    size_t after = rss_bytes();
    return before > after ? before - after : 0;
}

int main(void)
{
    const size_t few = FEW * BLOCK_KIB * KIB, slack = SLACK_KIB * KIB;
    fill(0, BLOCKS); /* 88 of 96 MiB */
    size_t gone = clear(BLOCKS - FEW, BLOCKS);
    note("near the limit %.1f MiB are freed and %.1f MiB given back", in_mib(few), in_mib(gone));
    if (HAK_TEST_RSS_COUNTS && gone + slack < few) {
        fail("the rest is kept");
    }
    clear(FEW + 1, BLOCKS - FEW);
    sleep_ms(LOOK_MS);
    clear(FEW, FEW + 1); /* sees that the limit is far away */
    gone = clear(0, FEW);
    note("away from it %.1f MiB are freed and %.1f MiB given back", in_mib(few), in_mib(gone));
    if (HAK_TEST_RSS_COUNTS && gone > slack) {
        fail("the setting `retain` says that it is kept");
    }
    return 0;
}
