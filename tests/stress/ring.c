/* Threads in a ring: each makes sets of blocks for the next one, frees those that it gets, and replaces blocks of its own with what it
 * has at hand then. So one lives on another's slabs, and slabs of which little is used go to other heaps while their blocks are on
 * their way (heap/surplus.h).
 *
 *     ring [--threads 4] [--rounds 3000] [--own 4000] [--seed 1]
 */
#define _GNU_SOURCE
#include <stdatomic.h>

#include "counter.h"
#include "support.h"

#include "alloc_names.h"

enum {
    SET = 256,
    SMALLEST = 16,
    LARGEST = 1000,
    STAYS = 8 /* one in so many */,
    THREADS_MOST = 64
};

struct set {
    struct parcel *of[SET];
};

struct worker {
    pthread_t thread;
    struct rng rng;
    struct parcel **own;
    size_t number;
};

static size_t threads, rounds, own_each;
static _Atomic(struct set *) sent[THREADS_MOST]; /* to the thread of that number */
static pthread_barrier_t together;               /* all workers and the main thread */

static struct parcel *make(struct worker *w, size_t id)
{
    return parcel_new(rng_size(&w->rng, SMALLEST, LARGEST), id);
}

static struct set *set_new(struct worker *w)
{
    struct set *set = malloc(sizeof *set);
    if (set == NULL) {
        fail("no memory for a set");
    }
    for (size_t i = 0; i < SET; i++) {
        set->of[i] = make(w, i);
    }
    return set;
}

static void set_end(struct set *set)
{
    for (size_t i = 0; set != NULL && i < SET; i++) {
        parcel_end(set->of[i]);
    }
    free(set);
}

static struct set *exchange(size_t number, struct set *set)
{
    /* acquire and release: the blocks' bytes come with it. */
    return atomic_exchange_explicit(&sent[number], set, memory_order_acq_rel);
}

static void replace(struct worker *w)
{
    for (size_t i = 0; i < SET; i++) {
        size_t at = rng_below(&w->rng, own_each);
        parcel_end(w->own[at]);
        w->own[at] = make(w, at);
    }
}

static void make_own(struct worker *w)
{
    for (size_t i = 0; i < own_each; i++) {
        w->own[i] = make(w, i);
    }
}

/* The first has slabs to spare when the second needs some, so that one goes over at least. */
static void begin(struct worker *w)
{
    if (w->number == 0) {
        make_own(w);
        for (size_t i = 0; i < own_each; i++) {
            if (i % STAYS != 0) {
                parcel_end(w->own[i]);
                w->own[i] = NULL;
            }
        }
    }
    pthread_barrier_wait(&together);
    if (w->number == 1) {
        make_own(w);
    }
    pthread_barrier_wait(&together);
}

static void *work(void *argument)
{
    struct worker *w = argument;
    begin(w);
    for (size_t round = 0; round < rounds; round++) {
        set_end(exchange((w->number + 1) % threads, set_new(w)));
        replace(w);
        set_end(exchange(w->number, NULL));
    }
    pthread_barrier_wait(&together); /* the counter is read while no thread has ended */
    pthread_barrier_wait(&together);
    for (size_t i = 0; i < own_each; i++) {
        parcel_end(w->own[i]);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    threads = option(argc, argv, "--threads", 4);
    rounds = option(argc, argv, "--rounds", 3000);
    own_each = option(argc, argv, "--own", 4000);
    uint64_t seed = option(argc, argv, "--seed", 1);
    if (threads < 2 || threads > THREADS_MOST || own_each == 0) {
        fail("2 to %d threads, and a block each at least", THREADS_MOST);
    }
    struct worker *workers = pages_new(threads * sizeof *workers);
    pthread_barrier_init(&together, NULL, (unsigned)threads + 1);
    for (size_t i = 0; i < threads; i++) {
        workers[i] = (struct worker){.rng = rng_seeded(seed, i),
                                     .own = pages_new(own_each * sizeof *workers[i].own),
                                     .number = i};
        workers[i].thread = thread_start(work, &workers[i]);
    }
    for (int i = 0; i < 3; i++) { /* twice when they begin, and when they are through */
        pthread_barrier_wait(&together);
    }
    uint64_t moved = counter_now("pool_stage1");
    pthread_barrier_wait(&together);
    for (size_t i = 0; i < threads; i++) {
        thread_join(workers[i].thread);
        set_end(sent[i]);
    }
    note("%llu slabs went from thread to thread", (unsigned long long)moved);
    if (moved == 0) {
        fail("none did: this says nothing of those that do");
    }
    return 0;
}
