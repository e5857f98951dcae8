/* chase: a heap that stays full, and a walk through its blocks at random, each of which says where the next one is. What a step
 * costs when the heap is new, and after rounds of it: pages that become huge meanwhile make steps shorter. */
#include "pieces.h"

enum { LEAST_SIZE = 16 };

enum { MIB, SIZE, STEPS, ROUNDS, PARAMETERS };

static struct parameter parameters[PARAMETERS] = {
    [MIB] = {"MIB", "of blocks", 1, 65536, NULL, 0, 0},
    [SIZE] = {"SIZE", "of a block", LEAST_SIZE, 65536, NULL, 0, 0},
    [STEPS] = {"STEPS", "of a round", 1, UINT32_MAX, NULL, 0, 0},
    [ROUNDS] = {"ROUNDS", "of them", 2, 10000, NULL, 10, 1},
};

/* One cycle through all blocks (Sattolo's algorithm). */
static void chain(struct pieces *all, uint64_t *random)
{
    for (uint32_t i = all->count - 1; i > 0; i--) {
        uint32_t other = below((uint32_t)(next_random(random) >> 32), i);
        struct piece piece = all->piece[i];
        all->piece[i] = all->piece[other];
        all->piece[other] = piece;
    }
    for (uint32_t i = 0; i < all->count; i++) {
        *(void **)all->piece[i].block = all->piece[(i + 1) % all->count].block;
    }
}

static double walk(void *volatile *at, uint64_t steps)
{
    uint64_t begun = now_ns();
    void *block = *at;
    for (uint64_t i = 0; i < steps; i++) {
        block = *(void **)block;
    }
    *at = block;
    return (double)(now_ns() - begun) / (double)steps;
}

int main(int argc, char **argv)
{
    parse_arguments("Walks through a full heap at random.", parameters, PARAMETERS, argc, argv);
    uint64_t size = parameters[SIZE].value, blocks = (parameters[MIB].value << 20) / size;
    uint64_t steps = parameters[STEPS].value, rounds = parameters[ROUNDS].value,
             random = seeded(1, 0);
    struct pieces all;
    pieces_init(&all, blocks);
    for (uint64_t i = 0; i < blocks; i++) {
        pieces_add(&all, (uint32_t)size);
        memset(all.piece[i].block, 1, size);
    }
    chain(&all, &random);
    void *volatile at = all.piece[0].block;
    uint64_t begun = now_ns();
    double first = walk(&at, steps), last = 0;
    for (uint64_t i = 1; i < rounds; i++) {
        last = walk(&at, steps);
    }
    uint64_t elapsed = now_ns() - begun;
    report_value("first_ns", first);
    report_value("last_ns", last);
    report(steps * rounds, elapsed);
    return 0;
}
