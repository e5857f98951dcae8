/* bench_random_mixed: a full table of blocks of 16 to 1040 B in which random ones are replaced. */
#include "common.h"
#include "lanes.h"

#define LEAST_SIZE 16u
#define MOST_SIZE 1040u

struct worker {
    void **table;
    uint32_t live;
    uint64_t iterations;
    uint64_t random;
};

static void fill(struct worker *w)
{
    for (uint32_t slot = 0; slot < w->live; slot++) {
        w->table[slot] = take(size_between(next_random(&w->random), LEAST_SIZE, MOST_SIZE), slot);
    }
}

static void replace(struct worker *w, uint64_t times)
{
    void **table = w->table;
    uint64_t random = w->random;
    for (uint64_t i = 0; i < times; i++) {
        uint64_t bits = next_random(&random);
        uint32_t slot = below((uint32_t)(bits >> 32), w->live);
        give_back(table[slot], slot);
        table[slot] = take(size_between(bits, LEAST_SIZE, MOST_SIZE), slot);
    }
    w->random = random;
}

/* The thread that works on a table fills it, and brings it to its steady state. */
static void prepare(void *lane)
{
    struct worker *w = lane;
    fill(w);
    replace(w, w->live < 65536 ? 65536 : w->live);
}

static void work(void *lane)
{
    struct worker *w = lane;
    replace(w, w->iterations);
}

static void empty(struct worker *w)
{
    for (uint32_t slot = 0; slot < w->live; slot++) {
        give_back(w->table[slot], slot);
    }
}

enum { ITERATIONS, WORKING_SET, SEED, THREADS, PARAMETERS };

static struct parameter parameters[PARAMETERS] = {
    [ITERATIONS] = {"ITERATIONS", "replacements in all", 1, UINT64_C(10000000000), NULL, 0, 0},
    [WORKING_SET] = {"WORKING_SET", "live blocks per thread", 1, 100000000, NULL, 0, 0},
    [SEED] = {"SEED", "of sizes and slots", 0, UINT32_MAX, NULL, 0, 0},
    [THREADS] = {"THREADS", "each with a table of its own", 1, MOST_LANES, NULL, 1, 1},
};

int main(int argc, char **argv)
{
    static struct worker workers[MOST_LANES];
    parse_arguments("Random replacement in full tables of blocks of 16 to 1040 B.", parameters,
                    PARAMETERS, argc, argv);
    unsigned threads = (unsigned)parameters[THREADS].value;
    uint32_t live = (uint32_t)parameters[WORKING_SET].value;
    for (unsigned i = 0; i < threads; i++) {
        workers[i] = (struct worker){
            .table = harness_table(live * sizeof(void *)),
            .live = live,
            .iterations = parameters[ITERATIONS].value / threads,
            .random = seeded(parameters[SEED].value, i),
        };
    }
    uint64_t elapsed = run_lanes(&(struct lanes){
        .count = threads,
        .state = workers,
        .size = sizeof *workers,
        .prepare = prepare,
        .body = work,
    });
    report(threads * workers[0].iterations, elapsed);
    for (unsigned i = 0; i < threads; i++) {
        empty(&workers[i]);
    }
    return 0;
}
