/* Producer and consumer: one thread only allocates, the other only frees, and always the same
 * number of bytes is alive in between. What the allocator holds must stay near what is alive,
 * however much goes through.
 *
 *     free_only [--through-mib 1024] [--live-mib 64] [--slack-mib 16] [--most 1040] [--seed 1]
 *
 * Fails when the resident size goes above 1.3 times the live bytes plus the slack.
 */
#define _GNU_SOURCE
#include "ring.h"
#include "support.h"

#include "alloc_names.h"

enum { BAND = 64 }; /* of what is alive, that much may be missing */

struct flow {
    struct ring ring;
    size_t through; /* bytes in all */
    size_t live;    /* bytes kept alive */
    size_t most;    /* bytes of the largest block */
    uint64_t seed;
    atomic_size_t made;  /* bytes allocated so far */
    atomic_size_t freed; /* bytes freed so far */
    size_t peak_rss;     /* written by the consumer */
};

static size_t next_size(struct rng *rng, const struct flow *flow)
{
    return rng_size(rng, 16, flow->most);
}

/* Waits while as much as may be is alive; the consumer knows the sizes from the same seed. */
static void *produce(void *argument)
{
    struct flow *flow = argument;
    struct rng rng = rng_seeded(flow->seed, 0);
    for (size_t made = 0; made < flow->through;) {
        size_t size = next_size(&rng, flow);
        while (made + size > atomic_load(&flow->freed) + flow->live) {
            sched_yield();
        }
        ring_send(&flow->ring, parcel_new(size, made));
        made += size;
        atomic_store(&flow->made, made);
    }
    return NULL;
}

static void sample_rss(struct flow *flow)
{
    size_t now = rss_bytes();
    flow->peak_rss = now > flow->peak_rss ? now : flow->peak_rss;
}

static void *consume(void *argument)
{
    struct flow *flow = argument;
    struct rng rng = rng_seeded(flow->seed, 0);
    size_t next_sample = 0;
    for (size_t freed = 0; freed < flow->through;) {
        size_t size = next_size(&rng, flow);
        /* Keep the heap nearly full, but not block by block: each would be a turn of both threads,
         * for which they wait as long as other programs please. */
        while (atomic_load(&flow->made) + flow->most + flow->live / BAND < freed + flow->live &&
               atomic_load(&flow->made) < flow->through) {
            sched_yield();
        }
        parcel_end(ring_receive(&flow->ring));
        freed += size;
        atomic_store(&flow->freed, freed);
        if (freed >= next_sample) {
            sample_rss(flow);
            next_sample = freed + flow->through / 256;
        }
    }
    return NULL;
}

/* The ring must not count as the allocator's memory: make it resident before the start. */
static struct ring resident_ring(size_t cells)
{
    struct ring ring = ring_new(cells);
    for (size_t i = 0; i < cells; i++) {
        atomic_store_explicit(&ring.cells[i], NULL, memory_order_relaxed);
    }
    return ring;
}

int main(int argc, char **argv)
{
    struct flow flow = {
        .through = option(argc, argv, "--through-mib", 1024) * MIB,
        .live = option(argc, argv, "--live-mib", 64) * MIB,
        .most = option(argc, argv, "--most", 1040),
        .seed = option(argc, argv, "--seed", 1),
    };
    size_t slack = option(argc, argv, "--slack-mib", 16) * MIB;
    flow.ring = resident_ring(flow.live / sizeof(struct parcel) + 1);
    size_t before = rss_bytes();
    pthread_t producer = thread_start(produce, &flow);
    pthread_t consumer = thread_start(consume, &flow);
    thread_join(producer);
    thread_join(consumer);

    size_t held = flow.peak_rss - before;
    double ratio = (double)held / (double)flow.live;
    note("%.0f MiB went through with %.0f MiB alive: at most %.1f MiB resident, %.2f times",
         in_mib(flow.through), in_mib(flow.live), in_mib(held), ratio);
    if (HAK_TEST_RSS_COUNTS && held > flow.live + flow.live * 3 / 10 + slack) {
        fail("more than 1.3 times the live bytes plus %.0f MiB", in_mib(slack));
    }
    return 0;
}
