/* batch: threads build lists of blocks and free whole lists, their own or a neighbour's. */
#include <stdatomic.h>

#include "common.h"
#include "lanes.h"

#define LEAST_SIZE 16u
#define MOST_SIZE 512u

/* The list runs through the blocks. */
struct node {
    struct node *next;
    uint64_t content;
};

struct worker {
    struct node *_Atomic *own;       /* where a neighbour leaves a list for this thread */
    struct node *_Atomic *neighbour; /* where this thread leaves one */
    uint32_t blocks;
    uint64_t rounds;
    uint64_t random;
};

static struct node *build(struct worker *w)
{
    struct node *first = NULL;
    for (uint32_t i = 0; i < w->blocks; i++) {
        struct node *node = allocate(size_between(next_random(&w->random), LEAST_SIZE, MOST_SIZE));
        node->next = first;
        node->content = content_of(node, (uintptr_t)first);
        first = node;
    }
    return first;
}

static void free_list(struct node *node)
{
    while (node != NULL) {
        struct node *next = node->next;
        if (node->content != content_of(node, (uintptr_t)next)) {
            die_corrupt(node);
        }
        free(node);
        node = next;
    }
}

/* Nobody waits: whoever finds a list that was not fetched yet frees it himself. */
static void work(void *lane)
{
    struct worker *w = lane;
    for (uint64_t i = 0; i < w->rounds; i++) {
        struct node *built = build(w);
        free_list(atomic_exchange_explicit(w->neighbour, built, memory_order_acq_rel));
        free_list(atomic_exchange_explicit(w->own, NULL, memory_order_acq_rel));
    }
}

enum { THREADS, BLOCKS, ROUNDS, SEED, PARAMETERS };

static struct parameter parameters[PARAMETERS] = {
    [THREADS] = {"THREADS", "in a circle; 1 frees what it built", 1, MOST_LANES, NULL, 0, 0},
    [BLOCKS] = {"BLOCKS", "in a list", 1, 10000000, NULL, 0, 0},
    [ROUNDS] = {"ROUNDS", "lists in all", 1, 1000000000, NULL, 0, 0},
    [SEED] = {"SEED", "of sizes", 0, UINT32_MAX, NULL, 1, 1},
};

int main(int argc, char **argv)
{
    static struct worker workers[MOST_LANES];
    static struct node *_Atomic place[MOST_LANES];
    parse_arguments(
        "Threads build lists of blocks and free whole lists, a neighbour's or their own.",
        parameters, PARAMETERS, argc, argv);
    unsigned threads = (unsigned)parameters[THREADS].value;
    uint64_t share = (parameters[ROUNDS].value + threads - 1) / threads;
    for (unsigned i = 0; i < threads; i++) {
        workers[i] = (struct worker){
            .own = &place[i],
            .neighbour = &place[(i + 1) % threads],
            .blocks = (uint32_t)parameters[BLOCKS].value,
            .rounds = share,
            .random = seeded(parameters[SEED].value, i),
        };
    }
    uint64_t elapsed = run_lanes(
        &(struct lanes){.count = threads, .state = workers, .size = sizeof *workers, .body = work});
    report(share * threads * workers[0].blocks, elapsed);
    for (unsigned i = 0; i < threads; i++) {
        free_list(atomic_load(&place[i]));
    }
    return 0;
}
