/* bench_comprehensive: blocks of a few small sizes, freed in one of four orders. */
#include "common.h"

#define BLOCKS 128u
#define PLANS 64u /* rounds differ in sizes and order, and repeat after this many */
#define WARM_ROUNDS 256u

enum pattern { LIFO, FIFO, RANDOM_FREE, INTERLEAVED };

static const uint16_t all_sizes[] = {16, 32, 64, 128};
#define SIZES (sizeof all_sizes / sizeof all_sizes[0])

/* Drawn before anything is timed. */
struct plan {
    uint16_t size[BLOCKS];
    uint8_t order[BLOCKS];
};

static void draw_order(struct plan *plan, uint64_t *random)
{
    for (unsigned i = 0; i < BLOCKS; i++) {
        plan->order[i] = (uint8_t)i;
    }
    for (unsigned i = BLOCKS - 1; i > 0; i--) {
        unsigned other = below((uint32_t)(next_random(random) >> 32), i + 1);
        uint8_t kept = plan->order[i];
        plan->order[i] = plan->order[other];
        plan->order[other] = kept;
    }
}

/* size 0: any of them. */
static void draw_plans(struct plan *plans, uint16_t size, uint64_t *random)
{
    for (unsigned p = 0; p < PLANS; p++) {
        for (unsigned i = 0; i < BLOCKS; i++) {
            uint32_t place = below((uint32_t)(next_random(random) >> 32), SIZES);
            plans[p].size[i] = size != 0 ? size : all_sizes[place];
        }
        draw_order(&plans[p], random);
    }
}

static void take_all(const struct plan *plan, void **block)
{
    for (unsigned i = 0; i < BLOCKS; i++) {
        block[i] = take(plan->size[i], i);
    }
}

/* One round; the number of malloc and free pairs in it. */
static unsigned run_round(enum pattern pattern, const struct plan *plan)
{
    void *block[BLOCKS];
    take_all(plan, block);
    switch (pattern) {
    case LIFO:
        for (unsigned i = BLOCKS; i-- > 0;) {
            give_back_sized(block[i], plan->size[i], i);
        }
        return BLOCKS;
    case FIFO:
        for (unsigned i = 0; i < BLOCKS; i++) {
            give_back_sized(block[i], plan->size[i], i);
        }
        return BLOCKS;
    case RANDOM_FREE:
        for (unsigned i = 0; i < BLOCKS; i++) {
            unsigned next = plan->order[i];
            give_back_sized(block[next], plan->size[next], next);
        }
        return BLOCKS;
    case INTERLEAVED:
        break;
    }
    /* Holes between live blocks, filled again, then everything freed. */
    for (unsigned i = 0; i < BLOCKS; i += 2) {
        give_back_sized(block[i], plan->size[i], i);
    }
    for (unsigned i = 0; i < BLOCKS; i += 2) {
        block[i] = take(plan->size[i], i);
    }
    for (unsigned i = 0; i < BLOCKS; i++) {
        give_back_sized(block[i], plan->size[i], i);
    }
    return BLOCKS + BLOCKS / 2;
}

static uint64_t run_rounds(enum pattern pattern, const struct plan *plans, uint64_t rounds)
{
    uint64_t pairs = 0;
    for (uint64_t i = 0; i < rounds; i++) {
        pairs += run_round(pattern, &plans[i % PLANS]);
    }
    return pairs;
}

enum { PATTERN, SIZE, ROUNDS, SEED, PARAMETERS };

static struct parameter parameters[PARAMETERS] = {
    [PATTERN] = {"PATTERN", "order of frees", 0, 0, "lifo fifo random interleaved", 0, 0},
    [SIZE] = {"SIZE", "bytes; each: one size after another; mixed: all at once", 0, 0,
              "16 32 64 128 each mixed", 0, 0},
    [ROUNDS] = {"ROUNDS", "of 128 blocks; of each size if several", 1, 100000000, NULL, 0, 0},
    [SEED] = {"SEED", "of sizes and order", 0, UINT32_MAX, NULL, 1, 1},
};

int main(int argc, char **argv)
{
    parse_arguments("Blocks of a few small sizes, freed in one of four orders.", parameters,
                    PARAMETERS, argc, argv);
    enum pattern pattern = (enum pattern)parameters[PATTERN].value;
    uint64_t chosen = parameters[SIZE].value;
    uint64_t random = seeded(parameters[SEED].value, 0);
    struct plan *plans = harness_table(PLANS * sizeof *plans);
    size_t first = chosen == SIZES ? 0 : chosen;
    size_t last = chosen == SIZES ? SIZES - 1 : chosen;

    uint64_t pairs = 0;
    uint64_t elapsed = 0;
    for (size_t place = first; place <= last; place++) {
        draw_plans(plans, place < SIZES ? all_sizes[place] : 0, &random);
        run_rounds(pattern, plans, WARM_ROUNDS);
        uint64_t start = now_ns();
        pairs += run_rounds(pattern, plans, parameters[ROUNDS].value);
        elapsed += now_ns() - start;
    }
    report(pairs, elapsed);
    return 0;
}
