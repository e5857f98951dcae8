/* survivors: a peak is built and most of it freed; the few blocks that stay lie all over what it took. Then work goes
 * on: some of them are replaced by others of other sizes, all the time. How much memory stays with the process? */
#include <time.h>

#include "common.h"

enum {
    LEAST_SIZE = 16,
    MOST_SIZE = 1024,
    PAUSE_EVERY = 1000, /* replacements */
    PAUSE_MS = 5,
    MS = 1000000
};

#define SECOND ((uint64_t)1000 * MS)

enum { MIB, STAYS, REPLACED, SECONDS, SEED, PARAMETERS };

static struct parameter parameters[PARAMETERS] = {
    [MIB] = {"MIB", "of blocks at the peak", 1, 100000, NULL, 0, 0},
    [STAYS] = {"STAYS", "percent of the blocks that stay", 1, 100, NULL, 0, 0},
    [REPLACED] = {"REPLACED", "percent of these that are replaced, the others never", 0, 100, NULL,
                  0, 0},
    [SECONDS] = {"SECONDS", "of work after it; 0: none", 0, 100000, NULL, 0, 0},
    [SEED] = {"SEED", "of sizes and places", 0, UINT32_MAX, NULL, 1, 1},
};

static uint32_t *sizes;
static void **table;
static uint64_t live_bytes;

static void take_at(uint64_t i, uint64_t *random)
{
    sizes[i] = (uint32_t)size_between(next_random(random), LEAST_SIZE, MOST_SIZE);
    table[i] = take(sizes[i], i);
    live_bytes += sizes[i];
}

static void give_at(uint64_t i)
{
    give_back_sized(table[i], sizes[i], i);
    live_bytes -= sizes[i];
}

static uint64_t below_wide(uint64_t *random, uint64_t bound)
{
    return next_random(random) % bound;
}

static void pause_a_little(void)
{
    nanosleep(&(struct timespec){.tv_nsec = (long)PAUSE_MS * MS}, NULL);
}

/* Places that stay come first in `order`. */
static uint64_t work(const uint64_t *order, uint64_t replaced, uint64_t seconds, uint64_t *random)
{
    uint64_t start = now_ns(), operations = 0;
    for (uint64_t second = 1; second <= seconds; second++) {
        while (now_ns() - start < second * SECOND) {
            for (int i = 0; i < PAUSE_EVERY && replaced > 0; i++, operations++) {
                uint64_t at = order[below_wide(random, replaced)];
                give_at(at);
                take_at(at, random);
            }
            pause_a_little();
        }
        report_value("rss_kib", (double)rss_now_kib());
    }
    return operations;
}

static void shuffle(uint64_t *order, uint64_t blocks, uint64_t *random)
{
    for (uint64_t i = 0; i < blocks; i++) {
        order[i] = i;
    }
    for (uint64_t i = blocks - 1; i > 0; i--) {
        uint64_t at = below_wide(random, i + 1), other = order[i];
        order[i] = order[at];
        order[at] = other;
    }
}

int main(int argc, char **argv)
{
    parse_arguments("A peak is built, most of it is freed, and work goes on with what stays.",
                    parameters, PARAMETERS, argc, argv);
    uint64_t blocks = (parameters[MIB].value << 20) / ((LEAST_SIZE + MOST_SIZE) / 2);
    uint64_t stays = blocks * parameters[STAYS].value / 100;
    uint64_t random = seeded(parameters[SEED].value, 0);
    table = harness_table(blocks * sizeof *table);
    sizes = harness_table(blocks * sizeof *sizes);
    uint64_t *order = harness_table(blocks * sizeof *order);
    shuffle(order, blocks, &random);
    for (uint64_t i = 0; i < blocks; i++) {
        take_at(i, &random);
    }
    report_value("peak_live_kib", (double)(live_bytes >> 10));
    for (uint64_t i = stays; i < blocks; i++) {
        give_at(order[i]);
    }
    report_value("rss_freed_kib", (double)rss_now_kib());
    uint64_t start = now_ns();
    uint64_t operations =
        work(order, stays * parameters[REPLACED].value / 100, parameters[SECONDS].value, &random);
    report_value("live_kib", (double)(live_bytes >> 10));
    report(operations, now_ns() - start);
    for (uint64_t i = 0; i < stays; i++) {
        give_at(order[i]);
    }
    report_value("rss_end_kib", (double)rss_now_kib());
    return 0;
}
