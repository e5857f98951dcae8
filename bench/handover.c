/* handover: producers allocate, consumers check and free and never allocate. */
#include <pthread.h>
#include <stdbool.h>

#include "common.h"
#include "lanes.h"

#define BATCH 256u
#define BATCHES 32u /* full and empty ones together: how far producers can run ahead */
#define LEAST_SIZE 16u
#define MOST_SIZE 1040u

struct batch {
    struct batch *next;
    uint64_t owner;
    void *block[BATCH];
};

/* Batches that wait for somebody, last in first out. */
struct pile {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct batch *first;
};

static struct pile empty_ones = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL};
static struct pile full_ones = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL};

static void put(struct pile *pile, struct batch *batch)
{
    pthread_mutex_lock(&pile->lock);
    batch->next = pile->first;
    pile->first = batch;
    pthread_mutex_unlock(&pile->lock);
    pthread_cond_signal(&pile->changed);
}

static struct batch *get(struct pile *pile)
{
    pthread_mutex_lock(&pile->lock);
    while (pile->first == NULL) {
        pthread_cond_wait(&pile->changed, &pile->lock);
    }
    struct batch *batch = pile->first;
    pile->first = batch->next;
    pthread_mutex_unlock(&pile->lock);
    return batch;
}

struct worker {
    bool produces;
    uint64_t batches;
    uint64_t random;
    size_t least, most; /* size of a block */
};

static void produce(struct worker *w)
{
    for (uint64_t n = 0; n < w->batches; n++) {
        struct batch *batch = get(&empty_ones);
        batch->owner = n;
        for (unsigned i = 0; i < BATCH; i++) {
            size_t size = size_between(next_random(&w->random), w->least, w->most);
            batch->block[i] = take(size, n + i);
        }
        put(&full_ones, batch);
    }
}

static void consume(struct worker *w)
{
    for (uint64_t n = 0; n < w->batches; n++) {
        struct batch *batch = get(&full_ones);
        for (unsigned i = 0; i < BATCH; i++) {
            give_back(batch->block[i], batch->owner + i);
        }
        put(&empty_ones, batch);
    }
}

static void work(void *lane)
{
    struct worker *w = lane;
    if (w->produces) {
        produce(w);
    } else {
        consume(w);
    }
}

enum { PRODUCERS, CONSUMERS, BLOCKS, SEED, SIZE, PARAMETERS };

static struct parameter parameters[PARAMETERS] = {
    [PRODUCERS] = {"PRODUCERS", "threads that only allocate", 1, MOST_LANES / 2, NULL, 0, 0},
    [CONSUMERS] = {"CONSUMERS", "threads that only free", 1, MOST_LANES / 2, NULL, 0, 0},
    [BLOCKS] = {"BLOCKS", "handed over in all", 1, UINT64_C(10000000000), NULL, 0, 0},
    [SEED] = {"SEED", "of sizes", 0, UINT32_MAX, NULL, 1, 1},
    [SIZE] = {"SIZE", "of every block; 0: 16 to 1040 at random", 0, MOST_SIZE, NULL, 0, 1},
};

int main(int argc, char **argv)
{
    static struct worker workers[MOST_LANES];
    parse_arguments("Producers allocate; consumers check and free, and never allocate.", parameters,
                    PARAMETERS, argc, argv);
    unsigned producers = (unsigned)parameters[PRODUCERS].value;
    unsigned consumers = (unsigned)parameters[CONSUMERS].value;
    size_t size = parameters[SIZE].value;
    /* Everybody's share is a whole number of batches. */
    uint64_t unit = (uint64_t)producers * consumers;
    uint64_t units = parameters[BLOCKS].value / (unit * BATCH);
    uint64_t batches = unit * (units > 0 ? units : 1);
    struct batch *all = harness_table(BATCHES * sizeof *all);
    for (unsigned i = 0; i < BATCHES; i++) {
        put(&empty_ones, &all[i]);
    }
    for (unsigned i = 0; i < producers + consumers; i++) {
        bool produces = i < producers;
        workers[i] = (struct worker){
            .produces = produces,
            .batches = batches / (produces ? producers : consumers),
            .random = seeded(parameters[SEED].value, i),
            .least = size != 0 ? size : LEAST_SIZE,
            .most = size != 0 ? size : MOST_SIZE,
        };
    }
    uint64_t elapsed = run_lanes(&(struct lanes){
        .count = producers + consumers, .state = workers, .size = sizeof *workers, .body = work});
    report(batches * BATCH, elapsed);
    return 0;
}
