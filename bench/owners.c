/* owners: many threads allocate and then wait; one thread frees all of it, a block of each in turn, or in any order. How much
 * memory is there before and after, and what does a free take? */
#include <pthread.h>

#include "common.h"
#include "lanes.h"

enum { OWNERS, SIZE, BLOCKS, ORDER, SEED, PARAMETERS };
enum { IN_TURN, AT_RANDOM };

static struct parameter parameters[PARAMETERS] = {
    [OWNERS] = {"OWNERS", "threads that allocate", 1, 20000, NULL, 0, 0},
    [SIZE] = {"SIZE", "bytes of a block", 8, 1048576, NULL, 0, 0},
    [BLOCKS] = {"BLOCKS", "of each owner", 1, 10000000, NULL, 0, 0},
    [ORDER] = {"ORDER", "in which they are freed", 0, 0, "in-turn at-random", IN_TURN, 1},
    [SEED] = {"SEED", "of a random order", 0, UINT32_MAX, NULL, 1, 1},
};

static pthread_barrier_t filled, freed;

struct owner {
    pthread_t thread;
    void **first; /* of its blocks; the next ones are OWNERS places apart */
};

static void *own(void *argument)
{
    struct owner *o = argument;
    for (uint64_t i = 0; i < parameters[BLOCKS].value; i++) {
        o->first[i * parameters[OWNERS].value] = take(parameters[SIZE].value, 0);
    }
    pthread_barrier_wait(&filled);
    pthread_barrier_wait(&freed);
    return NULL;
}

static void shuffle(void **blocks, uint64_t count, uint64_t seed)
{
    uint64_t random = seeded(seed, 0);
    for (uint64_t left = count; left > 1; left--) {
        uint32_t at = below((uint32_t)next_random(&random), (uint32_t)left);
        void *block = blocks[at];
        blocks[at] = blocks[left - 1];
        blocks[left - 1] = block;
    }
}

int main(int argc, char **argv)
{
    parse_arguments("One thread frees what many have allocated.", parameters, PARAMETERS, argc,
                    argv);
    uint64_t owners = parameters[OWNERS].value, count = owners * parameters[BLOCKS].value;
    if (count > UINT32_MAX) {
        refuse_arguments("OWNERS times BLOCKS is more than 4,294,967,295");
    }
    struct owner *all = harness_table(owners * sizeof *all);
    void **blocks = harness_table(count * sizeof *blocks);
    if (pthread_barrier_init(&filled, NULL, (unsigned)owners + 1) != 0 ||
        pthread_barrier_init(&freed, NULL, (unsigned)owners + 1) != 0) {
        die("cannot make a barrier");
    }
    for (uint64_t i = 0; i < owners; i++) {
        all[i].first = blocks + i;
        start_small_thread(&all[i].thread, own, &all[i]);
    }
    pthread_barrier_wait(&filled);
    if (parameters[ORDER].value == AT_RANDOM) {
        shuffle(blocks, count, parameters[SEED].value);
    }
    report_value("rss_before_kib", (double)rss_now_kib());
    uint64_t begun = now_ns();
    for (uint64_t i = 0; i < count; i++) {
        give_back(blocks[i], 0);
    }
    uint64_t elapsed = now_ns() - begun;
    report_value("rss_after_kib", (double)rss_now_kib());
    report_value("free_ns", (double)elapsed / (double)count);
    pthread_barrier_wait(&freed);
    for (uint64_t i = 0; i < owners; i++) {
        pthread_join(all[i].thread, NULL);
    }
    report(count, elapsed);
    return 0;
}
