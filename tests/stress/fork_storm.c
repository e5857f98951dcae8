/* A process with busy threads forks again and again. The child finds every block it inherits as it
 * was, frees those of threads that it does not have, and allocates in every size range.
 *
 *     fork_storm [--forks 2000] [--threads 4] [--seed 1] [--stdio] [--nested]
 *
 * --stdio: the threads hold stdio's locks while they allocate, and the child uses stdio too.
 * --nested: each child starts threads, and forks again.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fork_common.h"
#include "support.h"

#include "alloc_names.h"

enum { SHARED_COUNT = 128, KEPT_COUNT = 64, OWN_COUNT = 32, FULL_RANGE_EVERY = 16 };

static _Atomic(struct parcel *) shared[SHARED_COUNT]; /* in any thread's hands */
static struct parcel *kept[KEPT_COUNT];               /* the main thread's, made before */
static atomic_bool stop;
static bool with_stdio;

struct worker {
    pthread_t thread;
    struct rng rng;
    uint64_t next_id;
};

static size_t any_size(struct rng *rng)
{
    return rng_log_size(rng, rng_below(rng, 50) == 0 ? 2 * MIB : 32 * KIB);
}

static void exchange_shared(struct worker *worker)
{
    struct parcel *mine = parcel_new(any_size(&worker->rng), worker->next_id++);
    size_t at = rng_below(&worker->rng, SHARED_COUNT);
    parcel_end(atomic_exchange_explicit(&shared[at], mine, memory_order_acq_rel));
}

/* fopen, fflush(NULL) and fclose hold the lock of stdio's list of files, and allocate. */
static void use_stdio(uint64_t number)
{
    FILE *file = fopen("/dev/null", "w");
    if (file == NULL) {
        fail("fopen: %s", strerror(errno));
    }
    for (int i = 0; i < 50; i++) {
        fprintf(file, "%llu %*d\n", (unsigned long long)number, 100, i);
    }
    fflush(NULL);
    fclose(file);
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    struct parcel *own[OWN_COUNT] = {NULL};
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        size_t at = rng_below(&worker->rng, OWN_COUNT);
        parcel_end(own[at]);
        own[at] = parcel_new(any_size(&worker->rng), worker->next_id++);
        exchange_shared(worker);
        if (with_stdio) {
            use_stdio(worker->next_id);
        }
    }
    for (size_t i = 0; i < OWN_COUNT; i++) {
        parcel_end(own[i]);
    }
    return NULL;
}

static void workers_start(struct worker *workers, size_t count, uint64_t seed)
{
    atomic_store(&stop, false);
    for (size_t i = 0; i < count; i++) {
        workers[i] = (struct worker){.rng = rng_seeded(seed, i), .next_id = (seed + i) << 40};
        workers[i].thread = thread_start(work, &workers[i]);
    }
}

static void workers_join(struct worker *workers, size_t count)
{
    atomic_store(&stop, true);
    for (size_t i = 0; i < count; i++) {
        thread_join(workers[i].thread);
    }
}

/* Every power of two and one above it, alive at once. */
static void allocate_in_every_range(size_t largest)
{
    struct parcel *blocks[64];
    size_t count = 0;
    for (size_t size = 16; size <= largest; size *= 2) {
        blocks[count] = parcel_new(size, count);
        count++;
        blocks[count] = parcel_new(size + 1, count);
        count++;
    }
    while (count > 0) {
        parcel_end(blocks[--count]);
    }
}

static void clear_shared(void)
{
    for (size_t i = 0; i < SHARED_COUNT; i++) {
        parcel_end(atomic_exchange_explicit(&shared[i], NULL, memory_order_acq_rel));
    }
}

static void threads_and_a_grandchild(uint64_t number)
{
    struct worker workers[2];
    workers_start(workers, 2, number + 100);
    pid_t grandchild = fork_checked();
    if (grandchild == 0) {
        allocate_in_every_range(64 * KIB);
        clear_shared();
        _exit(EXIT_SUCCESS);
    }
    child_await(grandchild);
    workers_join(workers, 2);
}

static _Noreturn void child_run(uint64_t number, bool nested)
{
    for (size_t i = 0; i < KEPT_COUNT; i++) {
        parcel_check(kept[i]);
    }
    clear_shared();
    allocate_in_every_range(number % FULL_RANGE_EVERY == 0 ? 4 * MIB : 64 * KIB);
    if (with_stdio) {
        use_stdio(number);
    }
    if (nested) {
        threads_and_a_grandchild(number);
    }
    for (size_t i = 0; i < KEPT_COUNT; i++) {
        parcel_end(kept[i]);
    }
    _exit(EXIT_SUCCESS);
}

int main(int argc, char **argv)
{
    enum { THREADS_MOST = 64 };
    struct worker workers[THREADS_MOST];
    uint64_t forks = option(argc, argv, "--forks", 2000);
    size_t threads = option(argc, argv, "--threads", 4);
    uint64_t seed = option(argc, argv, "--seed", 1);
    bool nested = flag(argc, argv, "--nested");
    with_stdio = flag(argc, argv, "--stdio");
    if (threads > THREADS_MOST) {
        fail("--threads must be at most %d", THREADS_MOST);
    }
    hang_alarm_install();
    struct rng rng = rng_seeded(seed, 1000);
    for (size_t i = 0; i < KEPT_COUNT; i++) {
        kept[i] = parcel_new(rng_log_size(&rng, 256 * KIB), i);
    }
    workers_start(workers, threads, seed);
    for (uint64_t i = 0; i < forks; i++) {
        pid_t child = fork_checked();
        if (child == 0) {
            child_run(i, nested);
        }
        child_await(child);
    }
    workers_join(workers, threads);
    clear_shared();
    for (size_t i = 0; i < KEPT_COUNT; i++) {
        parcel_end(kept[i]);
    }
    note("%llu forks beside %zu busy threads, no child hung or found a changed byte",
         (unsigned long long)forks, threads);
    return 0;
}
