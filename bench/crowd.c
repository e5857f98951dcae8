/* crowd: a thread for each of many connections. Each holds a few blocks, replaces them now and then, and waits in between. How
 * much memory do a hundred such threads need, and a thousand? */
#include <pthread.h>

#include "common.h"
#include "lanes.h"

enum { LEAST_SIZE = 16, MOST_SIZE = 416 };

enum { THREADS, BLOCKS, REPLACED, SEED, PARAMETERS };

static struct parameter parameters[PARAMETERS] = {
    [THREADS] = {"THREADS", "at a time", 1, 20000, NULL, 0, 0},
    [BLOCKS] = {"BLOCKS", "that each holds", 1, 100000, NULL, 0, 0},
    [REPLACED] = {"REPLACED", "blocks that each replaces", 0, 1000000000, NULL, 0, 0},
    [SEED] = {"SEED", "of sizes and places", 0, UINT32_MAX, NULL, 1, 1},
};

static pthread_barrier_t all_hold; /* their blocks: the peak */

struct connection {
    pthread_t thread;
    void **table;
    uint64_t random;
};

static void *connection(void *argument)
{
    struct connection *c = argument;
    uint32_t blocks = (uint32_t)parameters[BLOCKS].value;
    for (uint32_t i = 0; i < blocks; i++) {
        c->table[i] = take(size_between(next_random(&c->random), LEAST_SIZE, MOST_SIZE), i);
    }
    pthread_barrier_wait(&all_hold);
    for (uint64_t n = parameters[REPLACED].value; n > 0; n--) {
        uint64_t bits = next_random(&c->random);
        uint32_t i = below((uint32_t)(bits >> 32), blocks);
        give_back(c->table[i], i);
        c->table[i] = take(size_between(bits, LEAST_SIZE, MOST_SIZE), i);
    }
    pthread_barrier_wait(&all_hold);
    for (uint32_t i = 0; i < blocks; i++) {
        give_back(c->table[i], i);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    parse_arguments("Many threads hold a few blocks each.", parameters, PARAMETERS, argc, argv);
    uint64_t threads = parameters[THREADS].value, blocks = parameters[BLOCKS].value;
    struct connection *connections = harness_table(threads * sizeof *connections);
    void **tables = harness_table(threads * blocks * sizeof *tables);
    if (pthread_barrier_init(&all_hold, NULL, (unsigned)threads) != 0) {
        die("cannot make a barrier");
    }
    uint64_t begun = now_ns();
    for (uint64_t i = 0; i < threads; i++) {
        connections[i].table = tables + i * blocks;
        connections[i].random = seeded(parameters[SEED].value, i);
        start_small_thread(&connections[i].thread, connection, &connections[i]);
    }
    for (uint64_t i = 0; i < threads; i++) {
        pthread_join(connections[i].thread, NULL);
    }
    report(threads * (blocks + parameters[REPLACED].value), now_ns() - begun);
    return 0;
}
