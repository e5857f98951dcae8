/* A thread allocates many small blocks and goes to sleep; another frees them all. The memory has
 * to go back to the system while the owner still sleeps: it may never wake to do it.
 *
 *     owner_asleep [--mib 256] [--percent 25] [--seconds 5]
 */
#define _GNU_SOURCE
#include <semaphore.h>
#include <stdatomic.h>

#include "support.h"

#include "alloc_names.h"

enum { SMALLEST = 16, LARGEST = 512, ROUND_MS = 50 };

struct store {
    struct parcel **blocks;
    size_t room;
    size_t count;
    size_t bytes; /* to allocate */
    sem_t filled;
    sem_t wake;
};

static void *fill_and_sleep(void *argument)
{
    struct store *store = argument;
    struct rng rng = rng_seeded(1, 0);
    for (size_t made = 0; made < store->bytes;) {
        size_t size = rng_size(&rng, SMALLEST, LARGEST);
        store->blocks[store->count] = parcel_new(size, store->count);
        made += store->blocks[store->count++]->size;
    }
    sem_post(&store->filled);
    while (sem_wait(&store->wake) != 0) {
    }
    return NULL;
}

/* The life that goes on in the other thread; without any, it could not notice time passing. */
static void allocate_a_little(struct rng *rng)
{
    for (uint64_t i = 0; i < 200; i++) {
        parcel_end(parcel_new(rng_size(rng, SMALLEST, LARGEST), i));
    }
}

/* Rounds rather than a clock, so that a busy machine gives the allocator its turns too. */
static size_t rss_after_rounds(size_t wanted, uint64_t rounds)
{
    struct rng rng = rng_seeded(1, 1);
    size_t rss = rss_bytes();
    for (uint64_t i = 0; i < rounds && rss >= wanted; i++) {
        allocate_a_little(&rng);
        sleep_ms(ROUND_MS);
        rss = rss_bytes();
    }
    return rss;
}

int main(int argc, char **argv)
{
    struct store store = {.bytes = option(argc, argv, "--mib", 256) * MIB};
    size_t percent = option(argc, argv, "--percent", 25);
    uint64_t seconds = option(argc, argv, "--seconds", 5);
    store.room = store.bytes / sizeof(struct parcel) + 1;
    store.blocks = pages_new(store.room * sizeof *store.blocks);
    sem_init(&store.filled, 0, 0);
    sem_init(&store.wake, 0, 0);

    pthread_t owner = thread_start(fill_and_sleep, &store);
    while (sem_wait(&store.filled) != 0) {
    }
    size_t peak = rss_bytes();
    for (size_t i = 0; i < store.count; i++) {
        parcel_end(store.blocks[i]);
    }
    size_t rss = rss_after_rounds(peak * percent / 100, seconds * 1000 / ROUND_MS);
    sem_post(&store.wake);
    thread_join(owner);

    note("resident %.1f MiB with all blocks, %.1f MiB with none while their owner slept",
         in_mib(peak), in_mib(rss));
    if (HAK_TEST_RSS_COUNTS && rss >= peak * percent / 100) {
        fail("not below %zu %% of the peak after %llu s", percent, (unsigned long long)seconds);
    }
    return 0;
}
