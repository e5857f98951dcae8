/* larson: threads that replace random blocks of a table and leave it to a successor. */
#include "common.h"
#include "lanes.h"

struct worker {
    void **table;
    uint32_t blocks;
    size_t least;
    size_t most;
    uint64_t replacements; /* by each thread */
    uint64_t random;
};

static size_t draw_size(const struct worker *w, uint64_t bits)
{
    return size_between(bits, w->least, w->most);
}

static void fill(struct worker *w)
{
    for (uint32_t slot = 0; slot < w->blocks; slot++) {
        w->table[slot] = take(draw_size(w, next_random(&w->random)), slot);
    }
}

static void replace(void *lane)
{
    struct worker *w = lane;
    void **table = w->table;
    uint64_t random = w->random;
    for (uint64_t i = 0; i < w->replacements; i++) {
        uint64_t bits = next_random(&random);
        uint32_t slot = below((uint32_t)(bits >> 32), w->blocks);
        give_back(table[slot], slot);
        table[slot] = take(draw_size(w, bits), slot);
    }
    w->random = random;
}

static void empty(struct worker *w)
{
    for (uint32_t slot = 0; slot < w->blocks; slot++) {
        give_back(w->table[slot], slot);
    }
}

enum { THREADS, LEAST, MOST, BLOCKS, REPLACEMENTS, GENERATIONS, SEED, PARAMETERS };

static struct parameter parameters[PARAMETERS] = {
    [THREADS] = {"THREADS", "side by side", 1, MOST_LANES, NULL, 0, 0},
    [LEAST] = {"LEAST", "bytes of the smallest block", 8, 1048576, NULL, 0, 0},
    [MOST] = {"MOST", "bytes of the largest block", 8, 1048576, NULL, 0, 0},
    [BLOCKS] = {"BLOCKS", "live, for each thread", 1, 10000000, NULL, 0, 0},
    [REPLACEMENTS] = {"REPLACEMENTS", "in all", 1, UINT64_C(10000000000), NULL, 0, 0},
    [GENERATIONS] = {"GENERATIONS", "of threads, one inheriting from the other", 1, 100000, NULL, 0,
                     0},
    [SEED] = {"SEED", "of sizes and slots", 0, UINT32_MAX, NULL, 1, 1},
};

int main(int argc, char **argv)
{
    static struct worker workers[MOST_LANES];
    parse_arguments("Threads replace random blocks of a table and leave it to a successor.",
                    parameters, PARAMETERS, argc, argv);
    unsigned threads = (unsigned)parameters[THREADS].value;
    unsigned generations = (unsigned)parameters[GENERATIONS].value;
    if (parameters[LEAST].value > parameters[MOST].value) {
        refuse_arguments("LEAST is more than MOST");
    }
    uint64_t share = parameters[REPLACEMENTS].value / threads / generations;
    for (unsigned i = 0; i < threads; i++) {
        uint32_t blocks = (uint32_t)parameters[BLOCKS].value;
        workers[i] = (struct worker){
            .table = harness_table(blocks * sizeof(void *)),
            .blocks = blocks,
            .least = parameters[LEAST].value,
            .most = parameters[MOST].value,
            .replacements = share,
            .random = seeded(parameters[SEED].value, i),
        };
        fill(&workers[i]);
    }
    uint64_t elapsed = run_lanes(&(struct lanes){
        .count = threads,
        .generations = generations,
        .state = workers,
        .size = sizeof *workers,
        .body = replace,
    });
    report(share * threads * generations, elapsed);
    for (unsigned i = 0; i < threads; i++) {
        empty(&workers[i]);
    }
    return 0;
}
