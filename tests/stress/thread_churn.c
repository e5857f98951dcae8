/* Threads created and ended in turn. Each allocates a few blocks, leaves most of them to others in
 * a shared table and frees what others left, so that the memory of ended threads must be found
 * again: at the end no more than a fixed amount may be resident above the start.
 *
 *     thread_churn [--threads 20000] [--at-once 4] [--slack-mib 32] [--seed 1]
 */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <string.h>

#include "support.h"

#include "alloc_names.h"

enum { TABLE_SIZE = 256, BLOCKS_PER_THREAD = 24, AT_ONCE_MOST = 64 };

static _Atomic(struct parcel *) table[TABLE_SIZE];

struct visit {
    uint64_t seed;
    uint64_t number;
};

/* Ends with the table holding what this thread made: nobody frees it here. */
static void *visit_run(void *argument)
{
    const struct visit *visit = argument;
    struct rng rng = rng_seeded(visit->seed, visit->number);
    for (uint64_t i = 0; i < BLOCKS_PER_THREAD; i++) {
        size_t size = rng_log_size(&rng, 32 * KIB);
        struct parcel *mine = parcel_new(size, visit->number * BLOCKS_PER_THREAD + i);
        size_t at = rng_below(&rng, TABLE_SIZE);
        parcel_end(atomic_exchange_explicit(&table[at], mine, memory_order_acq_rel));
    }
    return NULL;
}

static void churn(uint64_t threads, size_t at_once, uint64_t seed)
{
    struct visit visits[AT_ONCE_MOST];
    pthread_t running[AT_ONCE_MOST];
    for (uint64_t started = 0; started < threads;) {
        size_t batch = threads - started < at_once ? (size_t)(threads - started) : at_once;
        for (size_t i = 0; i < batch; i++) {
            visits[i] = (struct visit){.seed = seed, .number = started + i};
            int error = thread_start_small(&running[i], visit_run, &visits[i]);
            if (error != 0) {
                fail("thread %llu: %s", (unsigned long long)(started + i), strerror(error));
            }
        }
        for (size_t i = 0; i < batch; i++) {
            thread_join(running[i]);
        }
        started += batch;
    }
}

int main(int argc, char **argv)
{
    uint64_t threads = option(argc, argv, "--threads", 20000);
    size_t at_once = option(argc, argv, "--at-once", 4);
    size_t slack = option(argc, argv, "--slack-mib", 32) * MIB;
    if (at_once == 0 || at_once > AT_ONCE_MOST) {
        fail("--at-once must be 1 to %d", AT_ONCE_MOST);
    }
    size_t before = rss_bytes();
    churn(threads, at_once, option(argc, argv, "--seed", 1));
    for (size_t i = 0; i < TABLE_SIZE; i++) {
        parcel_end(atomic_exchange(&table[i], NULL));
    }
    size_t after = rss_bytes();
    note("%llu threads: resident %.1f MiB before, %.1f MiB after", (unsigned long long)threads,
         in_mib(before), in_mib(after));
    if (HAK_TEST_RSS_COUNTS && after > before + slack) {
        fail("more than %.0f MiB above the start", in_mib(slack));
    }
    return 0;
}
