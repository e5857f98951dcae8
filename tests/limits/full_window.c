/* All addresses that hakmem has for blocks are handed out, in pieces that do not divide them: more is refused, and when they are
 * free again there are as many. Nothing of it is touched. */
#include <errno.h>
#include <stdlib.h>

#include "../strict.h"
#include "support.h"

enum { BLOCKS_MOST = 1 << 20 };
static const size_t sizes[] = {100 << 20, 30 << 20};

static void *blocks[BLOCKS_MOST];

static size_t fill(size_t size)
{
    size_t n = 0;
    while (n < BLOCKS_MOST && (blocks[n] = malloc(size)) != NULL) {
        n++;
    }
    if (n == BLOCKS_MOST) {
        skip("there is no end to the addresses");
    }
    if (errno != ENOMEM) {
        fail("refused with errno %d", errno);
    }
    return n;
}

static void empty(size_t n)
{
    while (n > 0) {
        free(blocks[--n]);
    }
}

int main(void)
{
    if (overcommit_is_strict()) {
        skip("what is not touched counts here");
    }
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t first = fill(sizes[i]);
        empty(first);
        size_t again = fill(sizes[i]);
        empty(again);
        note("%zu blocks of %zu MiB, then %zu", first, sizes[i] >> 20, again);
        if (again < first - first / 16) {
            fail("fewer than before");
        }
    }
    return 0;
}
