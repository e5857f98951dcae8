/* bench_tiny_hot: a few blocks of one tiny size, over and over. */
#include "common.h"

#define MOST_BURST 64u
#define WARM_PAIRS 65536u

static void run_pairs(uint64_t pairs, size_t size)
{
    for (uint64_t i = 0; i < pairs; i++) {
        give_back(take(size, i), i);
    }
}

/* Freed in the order in which they were taken. */
static void run_bursts(uint64_t bursts, size_t size, unsigned burst)
{
    void *block[MOST_BURST];
    for (uint64_t i = 0; i < bursts; i++) {
        for (unsigned k = 0; k < burst; k++) {
            block[k] = take(size, k);
        }
        for (unsigned k = 0; k < burst; k++) {
            give_back(block[k], k);
        }
    }
}

static uint64_t run(uint64_t pairs, size_t size, unsigned burst)
{
    if (burst == 1) {
        run_pairs(pairs, size);
        return pairs;
    }
    run_bursts(pairs / burst, size, burst);
    return pairs / burst * burst;
}

enum { ITERATIONS, SIZE, BURST, PARAMETERS };

static struct parameter parameters[PARAMETERS] = {
    [ITERATIONS] = {"ITERATIONS", "pairs of malloc and free", MOST_BURST, UINT64_C(100000000000),
                    NULL, 0, 0},
    [SIZE] = {"SIZE", "bytes", 8, 1024, NULL, 32, 1},
    [BURST] = {"BURST", "blocks live at a time", 1, MOST_BURST, NULL, 1, 1},
};

int main(int argc, char **argv)
{
    parse_arguments("A few blocks of one tiny size, over and over.", parameters, PARAMETERS, argc,
                    argv);
    size_t size = parameters[SIZE].value;
    unsigned burst = (unsigned)parameters[BURST].value;
    run(WARM_PAIRS, size, burst);
    uint64_t start = now_ns();
    uint64_t pairs = run(parameters[ITERATIONS].value, size, burst);
    report(pairs, now_ns() - start);
    return 0;
}
