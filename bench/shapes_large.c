/* Large blocks and large peaks, one thread: cycle, cycle_fill, cycle8, peak. */
#include "bench_core.h"

#include <errno.h>
#include <time.h>

#define PAGE 4096u
#define LINE 64u

/* One byte in every 4 KiB, each in another cache line of its page: at one offset they would all
 * fall into one cache set. */
static void touch_pages(char *block, size_t size)
{
    size_t line = LINE;
    for (size_t page = 0; page + PAGE <= size; page += PAGE) {
        *(volatile char *)(block + page + line) = 1;
        /* Never the first line: it holds the content that is checked. */
        line = line + LINE < PAGE ? line + LINE : LINE;
    }
}

#define MOST_LIVE 8

struct cycle {
    size_t size;
    unsigned live; /* power of two */
    int fill;
    uint64_t turn;
    void *block[MOST_LIVE];
};

static void *cycle_take(const struct cycle *cycle, uint64_t owner)
{
    char *block = take(cycle->size, owner);
    if (cycle->fill) {
        memset(block + 8, (int)owner & 0xff, cycle->size - 16);
    } else {
        touch_pages(block, cycle->size);
    }
    return block;
}

/* First in, first out: the oldest of `live` blocks makes room for a new one. */
static void cycle_step(void *state, uint64_t pairs)
{
    struct cycle *cycle = state;
    for (uint64_t end = cycle->turn + pairs; cycle->turn < end; cycle->turn++) {
        unsigned slot = (unsigned)cycle->turn & (cycle->live - 1);
        if (cycle->live > 1) {
            give_back(cycle->block[slot], slot);
            cycle->block[slot] = cycle_take(cycle, slot);
        } else {
            give_back(cycle_take(cycle, slot), slot);
        }
    }
}

static void cycle_run(const struct options *options, struct cycle *cycle, struct outcome *outcome)
{
    uint64_t bytes = cycle->fill ? UINT64_C(1) << 34 : UINT64_C(1) << 40;
    if (cycle->size < PAGE) {
        die("cycle: a block has to be at least 4096 bytes");
    }
    outcome->rss_start_kib = rss_now_kib();
    outcome->live_bytes = cycle->size * cycle->live;
    for (unsigned slot = 0; cycle->live > 1 && slot < cycle->live; slot++) {
        cycle->block[slot] = cycle_take(cycle, slot);
    }
    measure_steps(options, cycle_step, cycle, bytes / cycle->size, 1, outcome);
    for (unsigned slot = 0; cycle->live > 1 && slot < cycle->live; slot++) {
        give_back(cycle->block[slot], slot);
    }
}

void run_cycle(const struct options *options, size_t block_size, struct outcome *outcome)
{
    cycle_run(options, &(struct cycle){.size = block_size, .live = 1}, outcome);
}

void run_cycle_fill(const struct options *options, size_t block_size, struct outcome *outcome)
{
    cycle_run(options, &(struct cycle){.size = block_size, .live = 1, .fill = 1}, outcome);
}

void run_cycle8(const struct options *options, size_t block_size, struct outcome *outcome)
{
    cycle_run(options, &(struct cycle){.size = block_size, .live = MOST_LIVE}, outcome);
}

#define PEAK_BYTES UINT64_C(600000000)
#define PEAK_MOST_BLOCKS 1000000u /* about 600,000 are needed */

/* 15 of 16 blocks are 16-1040 B, the others 16 B - 64 KiB with every power of two alike: half of
 * the bytes each. */
static size_t peak_size(uint64_t *random)
{
    uint64_t bits = next_random(random);
    uint32_t low = (uint32_t)bits;
    if ((bits >> 60) != 0) {
        return 16 + below(low, 1025);
    }
    uint32_t floor = UINT32_C(16) << below((uint32_t)(bits >> 28), 12);
    return floor + below(low, floor);
}

static uint32_t peak_build(void **table, uint64_t *random, uint64_t *bytes)
{
    uint32_t blocks = 0;
    for (*bytes = 0; *bytes < PEAK_BYTES; blocks++) {
        if (blocks == PEAK_MOST_BLOCKS) {
            die("peak: table too small");
        }
        size_t size = peak_size(random);
        table[blocks] = take(size, blocks);
        touch_pages(table[blocks], size);
        *bytes += size;
    }
    return blocks;
}

static void shuffle(uint32_t *order, uint32_t count, uint64_t *random)
{
    for (uint32_t i = 0; i < count; i++) {
        order[i] = i;
    }
    for (uint32_t i = count; i > 1; i--) {
        uint32_t other = below((uint32_t)(next_random(random) >> 32), i);
        uint32_t moved = order[i - 1];
        order[i - 1] = order[other];
        order[other] = moved;
    }
}

static void idle(double seconds)
{
    struct timespec left = {.tv_sec = (time_t)seconds};
    left.tv_nsec = (long)((seconds - (double)left.tv_sec) * 1e9);
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

void run_peak(const struct options *options, size_t argument, struct outcome *outcome)
{
    (void)argument;
    uint64_t random = seeded(options->seed, 0);
    void **table = harness_table(PEAK_MOST_BLOCKS * sizeof *table);
    uint32_t *order = harness_table(PEAK_MOST_BLOCKS * sizeof *order);

    outcome->rss_start_kib = rss_now_kib();
    uint64_t start = now_ns();
    uint32_t blocks = peak_build(table, &random, &outcome->live_bytes);
    uint64_t elapsed = now_ns() - start;
    shuffle(order, blocks, &random);
    start = now_ns();
    for (uint32_t i = 0; i < blocks; i++) {
        give_back(table[order[i]], order[i]);
    }
    elapsed += now_ns() - start;
    idle(options->idle_s);

    outcome->ops = blocks;
    outcome->ns_per_pair = (double)elapsed / (double)blocks;
    outcome->faults_steady = NO_STEADY_STATE;
}
