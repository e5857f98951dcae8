/* Threads that allocate and free without pause, and others that fork again and again beside them.
 * Each child finds every block it inherits as it was, frees those of threads that it does not
 * have, and allocates in every size range; some start threads and fork once more.
 *
 *     fork_storm [--forks 4000] [--threads 3] [--forkers 2] [--seed 1] [--stdio] [--nested]
 *
 * The threads rest while no fork is under way: a child then does not wait for a core, and still
 * every fork meets threads in the middle of malloc and free.
 *
 * --stdio: the threads hold stdio's locks while they allocate, and the children use stdio too.
 * --nested: every child starts threads and forks again, not one of 32.
 */
#define _GNU_SOURCE
#include "fork_common.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "support.h"

#include "alloc_names.h"

enum {
    SHARED_COUNT = 64,
    KEPT_COUNT = 32,
    OWN_COUNT = 32,
    LARGE_COUNT = 4,
    MANY_COUNT = 150,
    THREADS_MOST = 64,
    /* One of so many children, or rounds of a thread: */
    NESTED_EVERY = 32,
    FULL_RANGE_EVERY = 256,
    LARGE_EVERY = 8,
    THREAD_EVERY = 64,
    STDIO_EVERY = 4,
};

static _Atomic(struct parcel *) shared[SHARED_COUNT]; /* in any thread's hands */
static struct parcel *kept[KEPT_COUNT];               /* the main thread's, made before */
static struct gate gate;
static atomic_bool stop;
static atomic_ulong children; /* started so far */
static bool with_stdio, always_nested;
static FILE *common_file; /* threads lock it and allocate */

struct worker {
    pthread_t thread;
    struct rng rng;
    uint64_t next_id;
    char *large[LARGE_COUNT]; /* above a slab's size, barely touched */
    bool large_only;          /* nothing else holds it up while a fork holds its heap */
};

struct driver {
    struct forker forker;
    struct rng rng;
};

/* ---- what the threads do ---- */

static size_t small_size(struct rng *rng)
{
    return rng_log_size(rng, 8 * KIB);
}

static void exchange_shared(struct rng *rng, uint64_t id)
{
    struct parcel *mine = parcel_new(small_size(rng), id);
    size_t at = rng_below(rng, SHARED_COUNT);
    parcel_end(atomic_exchange_explicit(&shared[at], mine, memory_order_acq_rel));
}

/* Runs, big blocks and what is below them. */
static void exchange_large(struct worker *worker, bool touch)
{
    char **slot = &worker->large[rng_below(&worker->rng, LARGE_COUNT)];
    free(*slot);
    size_t size = 32 * KIB + rng_log_size(&worker->rng, 32 * MIB);
    *slot = malloc(size);
    if (*slot == NULL) {
        fail("malloc(%zu) gave NULL: %s", size, strerror(errno));
    }
    if (touch) {
        (*slot)[0] = (*slot)[size - 1] = 'x';
    }
}

static void *allocate_a_little(void *argument)
{
    struct worker *starter = argument;
    for (int i = 0; i < 8; i++) {
        exchange_shared(&starter->rng, starter->next_id++);
    }
    return NULL;
}

/* fopen, fflush(NULL) and fclose hold the lock of stdio's list of files, printing the file's, and
 * all allocate. */
static void use_stdio(struct rng *rng, uint64_t id)
{
    FILE *file = fopen("/dev/null", "w");
    if (file == NULL) {
        fail("fopen: %s", strerror(errno));
    }
    flockfile(common_file);
    exchange_shared(rng, id);
    fprintf(file, "%llu %*d\n", (unsigned long long)id, 100, 1);
    funlockfile(common_file);
    fflush(NULL);
    fclose(file);
}

static void one_round(struct worker *worker, struct parcel **own)
{
    uint64_t id = worker->next_id++;
    if (worker->large_only) {
        exchange_large(worker, false);
        return;
    }
    size_t at = rng_below(&worker->rng, OWN_COUNT);
    parcel_end(own[at]);
    own[at] = parcel_new(small_size(&worker->rng), id);
    exchange_shared(&worker->rng, id);
    if (id % LARGE_EVERY == 0) {
        exchange_large(worker, true);
    }
    if (id % THREAD_EVERY == 0) {
        thread_join(thread_start(allocate_a_little, worker));
    }
    if (with_stdio && id % STDIO_EVERY == 0) {
        use_stdio(&worker->rng, id);
    }
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    struct parcel *own[OWN_COUNT] = {NULL};
    struct gate_pass pass = {.begun = 0};
    do {
        gate_wait(&gate, &pass);
        one_round(worker, own);
    } while (!atomic_load_explicit(&stop, memory_order_relaxed));
    for (size_t i = 0; i < OWN_COUNT; i++) {
        parcel_end(own[i]);
    }
    for (size_t i = 0; i < LARGE_COUNT; i++) {
        free(worker->large[i]);
    }
    return NULL;
}

static void workers_start(struct worker *workers, size_t count, uint64_t seed)
{
    atomic_store(&stop, false);
    for (size_t i = 0; i < count; i++) {
        workers[i] = (struct worker){
            .rng = rng_seeded(seed, i), .next_id = (seed + i) << 40, .large_only = i % 3 == 2};
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

/* ---- what a child does ---- */

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

/* More of one size than the thread itself keeps: the rest comes from what others have left. */
static void allocate_many(struct rng *rng)
{
    struct parcel *blocks[MANY_COUNT];
    size_t size = small_size(rng);
    for (size_t i = 0; i < MANY_COUNT; i++) {
        blocks[i] = parcel_new(size, i);
    }
    for (size_t i = 0; i < MANY_COUNT; i++) {
        parcel_end(blocks[i]);
    }
}

static void allocate_large(void)
{
    for (size_t size = 128 * KIB; size <= 4 * MIB; size *= 2) {
        char *block = malloc(size);
        if (block == NULL) {
            fail("malloc(%zu) gave NULL in a child", size);
        }
        block[0] = block[size - 1] = 'x';
        free(block);
    }
}

static void clear_shared(void)
{
    for (size_t i = 0; i < SHARED_COUNT; i++) {
        parcel_end(atomic_exchange_explicit(&shared[i], NULL, memory_order_acq_rel));
    }
}

static void check_kept(void)
{
    for (size_t i = 0; i < KEPT_COUNT; i++) {
        parcel_check(kept[i]);
    }
}

static void end_kept(void)
{
    for (size_t i = 0; i < KEPT_COUNT; i++) {
        parcel_end(kept[i]);
    }
}

static void threads_and_a_grandchild(uint64_t number)
{
    struct worker workers[2];
    struct forker forker = {.child = 0};
    gate_remove(&gate);
    workers_start(workers, 2, number + 100);
    pid_t grandchild = forker_fork(&forker);
    if (grandchild == 0) {
        allocate_in_every_range(16 * KIB);
        clear_shared();
        _exit(EXIT_SUCCESS);
    }
    if (grandchild > 0 && forker_await(&forker, EXIT_SUCCESS) != 0) {
        fail("a grandchild ended with wait status %#x", (unsigned)atomic_load(&forker.status));
    }
    workers_join(workers, 2);
}

static _Noreturn void child_run(struct rng *rng, uint64_t number)
{
    check_kept();
    clear_shared();
    allocate_in_every_range(number % FULL_RANGE_EVERY == 0 ? 4 * MIB : 16 * KIB);
    allocate_many(rng);
    allocate_large();
    if (with_stdio) {
        use_stdio(rng, number);
    }
    if (always_nested || number % NESTED_EVERY == 0) {
        threads_and_a_grandchild(number);
    }
    end_kept();
    _exit(EXIT_SUCCESS);
}

static void *fork_again_and_again(void *argument)
{
    struct driver *driver = argument;
    while (!atomic_load(&stop)) {
        gate_fork_begins(&gate);
        uint64_t number = atomic_fetch_add(&children, 1);
        /* So that the fork meets the others at any point of what they do. */
        for (uint64_t i = rng_below(&driver->rng, 8); i > 0; i--) {
            exchange_shared(&driver->rng, number);
        }
        pid_t child = forker_fork(&driver->forker);
        if (child == 0) {
            child_run(&driver->rng, number);
        }
        gate_fork_ends(&gate);
        if (child > 0) {
            forker_await(&driver->forker, EXIT_SUCCESS);
        }
    }
    return NULL;
}

/* ---- the storm ---- */

static void prepare(uint64_t seed)
{
    struct rng rng = rng_seeded(seed, 1000);
    for (size_t i = 0; i < KEPT_COUNT; i++) {
        kept[i] = parcel_new(rng_log_size(&rng, 64 * KIB), i);
    }
    common_file = fopen("/dev/null", "w");
    if (common_file == NULL) {
        fail("fopen: %s", strerror(errno));
    }
}

static void drivers_start(struct driver *drivers, struct forker **forkers, size_t count,
                          uint64_t seed)
{
    for (size_t i = 0; i < count; i++) {
        drivers[i] = (struct driver){.rng = rng_seeded(seed, 2000 + i)};
        forkers[i] = &drivers[i].forker;
        forkers[i]->thread = thread_start(fork_again_and_again, &drivers[i]);
    }
}

int main(int argc, char **argv)
{
    struct worker workers[THREADS_MOST];
    struct driver drivers[THREADS_MOST];
    struct forker *forkers[THREADS_MOST];
    unsigned long forks = option(argc, argv, "--forks", 4000);
    size_t threads = option(argc, argv, "--threads", 3);
    size_t driver_count = option(argc, argv, "--forkers", 2);
    uint64_t seed = option(argc, argv, "--seed", 1);
    always_nested = flag(argc, argv, "--nested");
    with_stdio = flag(argc, argv, "--stdio");
    if (threads > THREADS_MOST || driver_count == 0 || driver_count > THREADS_MOST) {
        fail("at most %d --threads and --forkers, and one forker at least", THREADS_MOST);
    }
    uint64_t started = now_ms();
    prepare(seed);
    workers_start(workers, threads, seed);
    drivers_start(drivers, forkers, driver_count, seed);
    forks_watch(forkers, driver_count, forks);
    atomic_store(&stop, true);
    forkers_join(forkers, driver_count);
    gate_remove(&gate);
    workers_join(workers, threads);
    check_kept();
    clear_shared();
    end_kept();
    fclose(common_file);
    note("%lu forks beside %zu threads in %.1f s: no child hung or found a changed byte",
         forks_done(forkers, driver_count), threads, (double)(now_ms() - started) / 1000);
    return 0;
}
