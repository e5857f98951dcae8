/* Memory runs out: under an address-space limit of 256 MiB, allocate until malloc gives NULL with
 * ENOMEM, find every byte as it was, free all, and get as much the second time.
 *
 *     exhaustion [--limit-mib 256] [--largest 1000] [--mixed]
 *
 * --mixed: sizes up to 1 MiB; after each refusal only smaller ones, down to 16 B.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "support.h"

#include "alloc_names.h"

/* The list runs through the blocks themselves: a table would need memory. */
struct link {
    struct link *next;
    uint64_t id;
    uint32_t size;
    uint32_t size_inverted; /* to notice a header that was overwritten */
};

struct stock {
    struct link *first;
    size_t bytes;
    size_t blocks;
};

static bool stock_add(struct stock *stock, size_t size)
{
    errno = 0;
    struct link *link = malloc(size);
    if (link == NULL) {
        if (errno != ENOMEM) {
            fail("malloc(%zu) gave NULL with errno %d, not ENOMEM", size, errno);
        }
        return false;
    }
    *link = (struct link){.next = stock->first,
                          .id = stock->blocks,
                          .size = (uint32_t)size,
                          .size_inverted = ~(uint32_t)size};
    alignment_check(link, size);
    pattern_fill(link + 1, size - sizeof *link, link->id);
    stock->first = link;
    stock->bytes += size;
    stock->blocks++;
    return true;
}

static struct stock stock_fill(size_t largest, bool mixed)
{
    struct stock stock = {0};
    struct rng rng = rng_seeded(1, 0);
    if (!mixed) {
        while (stock_add(&stock, rng_size(&rng, sizeof(struct link), largest))) {
        }
        return stock;
    }
    for (size_t most = MIB; most >= sizeof(struct link); most /= 2) {
        while (stock_add(&stock, sizeof(struct link) + rng_log_size(&rng, most))) {
        }
    }
    return stock;
}

static void stock_check(const struct stock *stock)
{
    size_t blocks = 0;
    for (const struct link *link = stock->first; link != NULL; link = link->next) {
        blocks++;
        if (link->size_inverted != ~link->size || link->id != stock->blocks - blocks) {
            fail("block %p: its header was overwritten", (const void *)link);
        }
        size_t length = link->size - sizeof *link;
        pattern_check(link + 1, length, length, link->id);
    }
    if (blocks != stock->blocks) {
        fail("%zu of %zu blocks found again", blocks, stock->blocks);
    }
}

static void stock_free(struct stock *stock)
{
    for (struct link *link = stock->first; link != NULL;) {
        struct link *next = link->next;
        free(link);
        link = next;
    }
    stock->first = NULL;
}

/* The limit has to hold from the program's start, as `ulimit -v` does, not from here on. */
static void restart_limited(char **argv, size_t limit)
{
    struct rlimit space;
    if (getrlimit(RLIMIT_AS, &space) == 0 && space.rlim_cur == limit) {
        return;
    }
    space = (struct rlimit){.rlim_cur = limit, .rlim_max = limit};
    if (setrlimit(RLIMIT_AS, &space) != 0) {
        skip("cannot limit the address space: %s", strerror(errno));
    }
    execv("/proc/self/exe", argv);
    fail("exec: %s", strerror(errno));
}

int main(int argc, char **argv)
{
    size_t limit = option(argc, argv, "--limit-mib", 256) * MIB;
    size_t largest = option(argc, argv, "--largest", 1000);
    bool mixed = flag(argc, argv, "--mixed");
    restart_limited(argv, limit);
    size_t first = 0;
    for (int turn = 1; turn <= 3; turn++) {
        struct stock stock = stock_fill(largest, mixed);
        stock_check(&stock);
        stock_free(&stock);
        note("turn %d: %zu blocks, %.1f MiB", turn, stock.blocks, in_mib(stock.bytes));
        if (turn == 1) {
            first = stock.bytes;
        }
        if (first < limit / 2) {
            fail("less than half of the allowed %.0f MiB could be used", in_mib(limit));
        }
        if (stock.bytes < first - first / 10 || stock.bytes > first + first / 10) {
            fail("more than 10 %% off the first turn's %.1f MiB", in_mib(first));
        }
    }
    return 0;
}
