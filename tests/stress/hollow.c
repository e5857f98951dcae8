/* Threads build, leave a few blocks all over what they took, replace those, hand some to each other and sleep, so that heaps gather
 * and pages between blocks go back, by their own threads' hands and by others', while blocks come home from elsewhere.
 *
 *     hollow [--threads 4] [--blocks 40000] [--rounds 4] [--seed 1]        with HAKMEM_HOLLOW_TIME=1
 */
#define _GNU_SOURCE
#include <stdatomic.h>

#include "counter.h"
#include "support.h"

#include "alloc_names.h"

enum {
    STAYS = 12, /* one in so many */
    SMALLEST = 48,
    LARGEST = 1500,
    WHOLE_LEAST = 70000, /* a slab by itself, or a run */
    WHOLE_MOST = 200000,
    WHOLES = 512,        /* one in so many */
    PASSES = 12,         /* in which as many blocks are replaced as have stayed */
    HANDED_ON = 8,       /* one in so many of these by way of another thread */
    PAUSE_MS = 10,       /* after each */
    SLEEP_MS_MOST = 300, /* after a round */
    PLACES = 256
};

static size_t blocks_each, rounds;
static _Atomic(struct parcel *) places[PLACES]; /* where threads leave blocks for each other */

struct worker {
    pthread_t thread;
    struct rng rng;
    struct parcel **blocks;
};

static struct parcel *make(struct worker *w, size_t id)
{
    bool whole = rng_below(&w->rng, WHOLES) == 0;
    size_t size =
        whole ? rng_size(&w->rng, WHOLE_LEAST, WHOLE_MOST) : rng_size(&w->rng, SMALLEST, LARGEST);
    return parcel_new(size, id);
}

static void end_or_hand_on(struct worker *w, struct parcel *p)
{
    if (rng_below(&w->rng, HANDED_ON) == 0) {
        /* acquire and release: the block's bytes come with it. */
        p = atomic_exchange_explicit(&places[rng_below(&w->rng, PLACES)], p, memory_order_acq_rel);
    }
    parcel_end(p);
}

static void build_and_scatter(struct worker *w)
{
    for (size_t i = 0; i < blocks_each; i++) {
        if (w->blocks[i] == NULL) {
            w->blocks[i] = make(w, i);
        }
    }
    for (size_t i = 0; i < blocks_each; i++) {
        if (i % STAYS != 0) {
            parcel_end(w->blocks[i]);
            w->blocks[i] = NULL;
        }
    }
}

static void replace(struct worker *w)
{
    size_t stay = blocks_each / STAYS;
    for (size_t i = 0; i < stay; i++) {
        size_t at = rng_below(&w->rng, stay) * STAYS;
        end_or_hand_on(w, w->blocks[at]);
        w->blocks[at] = make(w, at);
    }
}

static void *work(void *argument)
{
    struct worker *w = argument;
    for (size_t round = 0; round < rounds; round++) {
        build_and_scatter(w);
        for (int pass = 0; pass < PASSES; pass++) {
            replace(w);
            sleep_ms(PAUSE_MS);
        }
        sleep_ms((unsigned)rng_below(&w->rng, SLEEP_MS_MOST));
    }
    for (size_t i = 0; i < blocks_each; i++) {
        parcel_end(w->blocks[i]);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    size_t threads = option(argc, argv, "--threads", 4);
    blocks_each = option(argc, argv, "--blocks", 40000);
    rounds = option(argc, argv, "--rounds", 4);
    uint64_t seed = option(argc, argv, "--seed", 1);
    struct worker *workers = pages_new(threads * sizeof *workers);
    for (size_t i = 0; i < threads; i++) {
        workers[i].rng = rng_seeded(seed, i);
        workers[i].blocks = pages_new(blocks_each * sizeof *workers[i].blocks);
        workers[i].thread = thread_start(work, &workers[i]);
    }
    for (size_t i = 0; i < threads; i++) {
        thread_join(workers[i].thread);
    }
    for (size_t i = 0; i < PLACES; i++) {
        parcel_end(places[i]);
    }
    uint64_t times = counter_now("hollow");
    note("%llu times a heap was hollow", (unsigned long long)times);
    if (times == 0) {
        fail("none ever was: this says nothing of those that are");
    }
    return 0;
}
