/* free_only: threads build tables and sleep while another, which never allocates, frees it all. */
#include <pthread.h>
#include <stdbool.h>

#include "common.h"
#include "lanes.h"

#define LEAST_SIZE 16u
#define MOST_SIZE 1040u

static pthread_barrier_t built;
static pthread_barrier_t freed;

struct worker {
    bool frees;
    void **table; /* a builder's part of the whole; the whole for who frees */
    uint64_t blocks;
    uint64_t stride; /* visits all places in a scattered order */
    uint64_t rounds;
    uint64_t random;
    uint64_t free_ns;
    uint64_t start_ns; /* of the second round: the first one makes everything ready */
    uint64_t end_ns;
};

static void build(struct worker *w)
{
    for (uint64_t i = 0; i < w->blocks; i++) {
        size_t size = size_between(next_random(&w->random), LEAST_SIZE, MOST_SIZE);
        w->table[i] = take(size, (uintptr_t)&w->table[i]);
    }
}

static void free_all(struct worker *w)
{
    uint64_t start = now_ns();
    uint64_t place = 0;
    for (uint64_t i = 0; i < w->blocks; i++) {
        give_back(w->table[place], (uintptr_t)&w->table[place]);
        place += w->stride;
        place -= place >= w->blocks ? w->blocks : 0;
    }
    w->free_ns += now_ns() - start;
}

static void work(void *lane)
{
    struct worker *w = lane;
    for (uint64_t i = 0; i <= w->rounds; i++) {
        if (i == 1) {
            w->start_ns = now_ns();
            w->free_ns = 0;
        }
        if (!w->frees) {
            build(w);
        }
        pthread_barrier_wait(&built);
        if (w->frees) {
            free_all(w);
        }
        pthread_barrier_wait(&freed);
    }
    w->end_ns = now_ns();
}

static uint64_t common_divisor(uint64_t a, uint64_t b)
{
    while (b != 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* About 0.38 of all, and without a divisor in common with it. */
static uint64_t stride_over(uint64_t blocks)
{
    uint64_t stride = blocks * 382 / 1000 + 1;
    while (common_divisor(stride, blocks) != 1) {
        stride++;
    }
    return stride % blocks;
}

enum { BUILDERS, BLOCKS, ROUNDS, SEED, PARAMETERS };

static struct parameter parameters[PARAMETERS] = {
    [BUILDERS] = {"BUILDERS", "threads that only allocate", 1, MOST_LANES - 1, NULL, 0, 0},
    [BLOCKS] = {"BLOCKS", "built in all, each round", MOST_LANES, 100000000, NULL, 0, 0},
    [ROUNDS] = {"ROUNDS", "of building and freeing, after a first", 1, 1000000, NULL, 0, 0},
    [SEED] = {"SEED", "of sizes", 0, UINT32_MAX, NULL, 1, 1},
};

int main(int argc, char **argv)
{
    static struct worker workers[MOST_LANES];
    parse_arguments("Threads build and sleep while another, which never allocates, frees it all.",
                    parameters, PARAMETERS, argc, argv);
    unsigned builders = (unsigned)parameters[BUILDERS].value;
    uint64_t share = parameters[BLOCKS].value / builders;
    uint64_t blocks = share * builders;
    void **table = harness_table(blocks * sizeof *table);
    for (unsigned i = 0; i < builders; i++) {
        workers[i] = (struct worker){.table = table + i * share,
                                     .blocks = share,
                                     .rounds = parameters[ROUNDS].value,
                                     .random = seeded(parameters[SEED].value, i)};
    }
    struct worker *last = &workers[builders];
    *last = (struct worker){.frees = true,
                            .table = table,
                            .blocks = blocks,
                            .stride = stride_over(blocks),
                            .rounds = parameters[ROUNDS].value};
    if (pthread_barrier_init(&built, NULL, builders + 1) != 0 ||
        pthread_barrier_init(&freed, NULL, builders + 1) != 0) {
        die("cannot prepare the threads");
    }
    run_lanes(&(struct lanes){
        .count = builders + 1, .state = workers, .size = sizeof *workers, .body = work});
    uint64_t pairs = blocks * parameters[ROUNDS].value;
    report(pairs, last->end_ns - last->start_ns);
    report_value("free_ns", (double)last->free_ns / (double)pairs);
    report_value("rss_end_kib", (double)rss_now_kib());
    return 0;
}
