/* short_threads: many threads, each of which lives for a few hundred blocks. */
#include "common.h"
#include "lanes.h"

#define LEAST_SIZE 16u
#define MOST_SIZE 1040u
#define LEFT_SHARE 8u /* a block in so many is left to the next thread */

struct worker {
    void **block;
    uint32_t blocks;
    uint32_t left; /* at the start of `block`, by the thread before */
    uint64_t random;
};

/* What is left counts as pairs of the thread that frees it. */
static void live(void *lane)
{
    struct worker *w = lane;
    for (uint32_t i = 0; i < w->left; i++) {
        give_back(w->block[i], i);
    }
    for (uint32_t i = 0; i < w->blocks; i++) {
        w->block[i] = take(size_between(next_random(&w->random), LEAST_SIZE, MOST_SIZE), i);
    }
    w->left = w->blocks / LEFT_SHARE;
    for (uint32_t i = w->left; i < w->blocks; i++) {
        give_back(w->block[i], i);
    }
}

enum { THREADS, CONCURRENT, BLOCKS, SEED, PARAMETERS };

static struct parameter parameters[PARAMETERS] = {
    [THREADS] = {"THREADS", "in all", 1, 10000000, NULL, 0, 0},
    [CONCURRENT] = {"CONCURRENT", "of them at a time", 1, MOST_LANES, NULL, 0, 0},
    [BLOCKS] = {"BLOCKS", "that each allocates", 1, 1000000, NULL, 0, 0},
    [SEED] = {"SEED", "of sizes", 0, UINT32_MAX, NULL, 1, 1},
};

int main(int argc, char **argv)
{
    static struct worker workers[MOST_LANES];
    parse_arguments("Many threads, each of which lives for a few hundred blocks.", parameters,
                    PARAMETERS, argc, argv);
    unsigned lanes = (unsigned)parameters[CONCURRENT].value;
    uint32_t blocks = (uint32_t)parameters[BLOCKS].value;
    unsigned generations = (unsigned)((parameters[THREADS].value + lanes - 1) / lanes);
    for (unsigned i = 0; i < lanes; i++) {
        workers[i] = (struct worker){
            .block = harness_table(blocks * sizeof(void *)),
            .blocks = blocks,
            .random = seeded(parameters[SEED].value, i),
        };
    }
    uint64_t elapsed = run_lanes(&(struct lanes){.count = lanes,
                                                 .generations = generations,
                                                 .state = workers,
                                                 .size = sizeof *workers,
                                                 .body = live});
    report((uint64_t)lanes * generations * blocks, elapsed);
    for (unsigned i = 0; i < lanes; i++) {
        for (uint32_t k = 0; k < workers[i].left; k++) {
            give_back(workers[i].block[k], k);
        }
    }
    return 0;
}
