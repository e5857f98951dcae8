/* Many threads alive at once, each holding a few blocks; then each frees its own or those of
 * the thread beside it, and all end. Exits 77 where the machine does not allow so many threads.
 *
 *     live_threads [--threads 10000]
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/resource.h>

#include "support.h"

#include "alloc_names.h"

enum { BLOCKS_PER_THREAD = 4 };

struct holder {
    pthread_t thread;
    size_t number;
    struct parcel *blocks[BLOCKS_PER_THREAD];
    struct holder *to_clear; /* whose blocks this thread frees */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static size_t holding;  /* threads that have all their blocks; under lock */
static bool may_finish; /* under lock */

static void wait_for_all(void)
{
    pthread_mutex_lock(&lock);
    holding++;
    pthread_cond_broadcast(&changed);
    while (!may_finish) {
        pthread_cond_wait(&changed, &lock);
    }
    pthread_mutex_unlock(&lock);
}

static void *hold(void *argument)
{
    struct holder *self = argument;
    struct rng rng = rng_seeded(1, self->number);
    for (size_t i = 0; i < BLOCKS_PER_THREAD; i++) {
        size_t size = rng_log_size(&rng, 4 * KIB);
        self->blocks[i] = parcel_new(size, self->number * BLOCKS_PER_THREAD + i);
    }
    wait_for_all();
    for (size_t i = 0; i < BLOCKS_PER_THREAD; i++) {
        parcel_end(self->to_clear->blocks[i]);
    }
    return NULL;
}

static uint64_t lower(uint64_t one, uint64_t other)
{
    return one < other ? one : other;
}

static uint64_t threads_allowed(void)
{
    uint64_t allowed = number_in_file("/proc/sys/kernel/threads-max", UINT64_MAX);
    allowed = lower(allowed, number_in_file("/proc/sys/kernel/pid_max", UINT64_MAX));
    allowed = lower(allowed, number_in_file("/sys/fs/cgroup/pids.max", UINT64_MAX));
    allowed = lower(allowed, number_in_file("/sys/fs/cgroup/pids/pids.max", UINT64_MAX));
    struct rlimit processes;
    if (getrlimit(RLIMIT_NPROC, &processes) == 0) {
        allowed = lower(allowed, processes.rlim_cur);
    }
    return allowed;
}

/* A limit that no file tells may stop us, but the allocator must not be the one who used it up. */
static _Noreturn void explain_refusal(size_t started, int error)
{
    uint64_t limit = number_in_file("/proc/sys/vm/max_map_count", 65530);
    size_t lines = map_count();
    if (error != EAGAIN || lines > 3 * started + limit / 4) {
        fail("thread %zu: %s, with %zu mappings", started, strerror(error), lines);
    }
    skip("the machine allows only %zu threads", started);
}

static void wait_until_holding(size_t threads)
{
    pthread_mutex_lock(&lock);
    while (holding < threads) {
        pthread_cond_wait(&changed, &lock);
    }
    may_finish = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

int main(int argc, char **argv)
{
    size_t threads = option(argc, argv, "--threads", 10000);
    if (threads_allowed() < threads + 500) {
        skip("this machine's limits allow fewer than %zu threads", threads);
    }
    struct holder *holders = pages_new(threads * sizeof *holders);
    for (size_t i = 0; i < threads; i++) {
        /* Odd and even threads swap; every fourth pair keeps its own. */
        size_t partner = (i ^ 1) < threads && i % 8 < 6 ? i ^ 1 : i;
        holders[i].number = i;
        holders[i].to_clear = &holders[partner];
        int error = thread_start_small(&holders[i].thread, hold, &holders[i]);
        if (error != 0) {
            explain_refusal(i, error);
        }
    }
    wait_until_holding(threads);
    for (size_t i = 0; i < threads; i++) {
        thread_join(holders[i].thread);
    }
    note("%zu threads were alive at once; resident %.1f MiB after them", threads,
         in_mib(rss_bytes()));
    return 0;
}
