/* Threads work on heaps of the program's own, free each other's blocks, and end heaps that others have used; signals
 * interrupt them, whose handlers take blocks of the same heaps and free them again, newest first. Every byte is checked,
 * and at the end no heap has a block too many.
 *
 *     heaps [--threads 4] [--seconds 4] [--seed 1] [--no-signals]
 */
#define _GNU_SOURCE
#include <hakmem/hakmem.h>

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "support.h"

enum {
    THREADS_MOST = 16,
    HEAPS = 9, /* more than a thread has leases */
    SLOTS = 64,
    ROUND = 20000, /* operations of a thread, then heaps end */
    IN_HANDLER = 4,
    SIGNAL_EVERY_NS = 200000,
};

static const size_t handler_sizes[IN_HANDLER] = {24, 200, 1500, 100};

/* A slot's block may be any thread's to free: whoever has exchanged it out of there. */
static _Atomic(struct parcel *) slots[HEAPS][SLOTS];
static hak_heap *heaps[HEAPS]; /* changed between rounds, by one thread */
static pthread_barrier_t round_ends, round_begins;
static size_t thread_count;
static uint64_t end_ms;
static atomic_bool stop;
static atomic_ulong handled;

struct worker {
    pthread_t thread;
    struct rng rng;
    size_t number;
    uint64_t next_id;
};

static _Thread_local volatile sig_atomic_t may_handle;

/* What it is refused, because it has interrupted the same heap, it does without. */
static void on_signal(int number)
{
    (void)number;
    if (!may_handle) {
        return;
    }
    int saved_errno = errno;
    void *blocks[IN_HANDLER];
    hak_heap *heap = heaps[atomic_fetch_add(&handled, 1) % HEAPS];
    for (size_t i = 0; i < IN_HANDLER; i++) {
        blocks[i] = hak_heap_malloc(heap, handler_sizes[i]);
        if (blocks[i] != NULL) {
            pattern_fill(blocks[i], handler_sizes[i], i);
        }
    }
    for (size_t i = IN_HANDLER; i-- > 0;) {
        if (blocks[i] != NULL) {
            pattern_check(blocks[i], handler_sizes[i], handler_sizes[i], i);
            hak_free(blocks[i]);
        }
    }
    errno = saved_errno;
}

static struct parcel *new_in(hak_heap *heap, struct worker *w)
{
    size_t size = sizeof(struct parcel) + rng_log_size(&w->rng, 200 * KIB);
    void *block = hak_heap_malloc(heap, size);
    if (block == NULL) {
        fail("no memory for %zu bytes", size);
    }
    if (hak_heap_of(block) != heap) {
        fail("a block of another heap");
    }
    return parcel_in(block, size, w->next_id += thread_count);
}

static void end_parcel(struct parcel *parcel)
{
    if (parcel != NULL) {
        parcel_check(parcel);
        hak_free(parcel);
    }
}

static void work(struct worker *w)
{
    for (int i = 0; i < ROUND; i++) {
        size_t heap = rng_below(&w->rng, HEAPS), slot = rng_below(&w->rng, SLOTS);
        struct parcel *mine = rng_below(&w->rng, 3) != 0 ? new_in(heaps[heap], w) : NULL;
        end_parcel(atomic_exchange(&slots[heap][slot], mine));
    }
}

/* One after the other: freed to the last block, which its numbers say; destroyed as it is; deleted. */
static void end_heap(size_t heap, uint64_t way)
{
    struct parcel *left[SLOTS];
    struct hak_heap_stats stats;
    for (size_t i = 0; i < SLOTS; i++) {
        left[i] = atomic_exchange(&slots[heap][i], NULL);
        if (way == 0) {
            end_parcel(left[i]);
        }
    }
    (void)hak_heap_stats_get(heaps[heap], &stats, sizeof stats);
    if (way == 0 && (stats.live_blocks != 0 || stats.live_bytes != 0)) {
        fail("%zu blocks, %zu bytes of a heap of which all are freed", stats.live_blocks,
             stats.live_bytes);
    }
    if (way == 2) {
        hak_heap_delete(heaps[heap]);
    } else {
        hak_heap_destroy(heaps[heap]);
    }
    for (size_t i = 0; i < SLOTS && way == 2; i++) {
        end_parcel(left[i]);
    }
}

/* By one thread, in turn, while the others wait without a handler at work. */
static void change_heaps(struct worker *w)
{
    bool over = now_ms() >= end_ms;
    for (size_t i = 0; i < HEAPS; i++) {
        if (!over && rng_below(&w->rng, 2) == 0) {
            continue;
        }
        end_heap(i, rng_below(&w->rng, 3));
        heaps[i] = hak_heap_new();
        if (heaps[i] == NULL) {
            fail("no memory for a heap");
        }
    }
    atomic_store(&stop, over);
}

static void *run(void *argument)
{
    struct worker *w = argument;
    for (size_t round = 0; !atomic_load(&stop); round++) {
        may_handle = 1;
        work(w);
        may_handle = 0;
        pthread_barrier_wait(&round_ends);
        if (round % thread_count == w->number) {
            change_heaps(w);
        }
        pthread_barrier_wait(&round_begins);
    }
    return NULL;
}

static void begin_signals(void)
{
    const struct itimerspec interval = {{0, SIGNAL_EVERY_NS}, {0, SIGNAL_EVERY_NS}};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
    timer_t timer;
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGALRM, &action, NULL) != 0 ||
        timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 ||
        timer_settime(timer, 0, &interval, NULL) != 0) {
        fail("no timer: %s", strerror(errno));
    }
}

int main(int argc, char **argv)
{
    static struct worker workers[THREADS_MOST];
    thread_count = option(argc, argv, "--threads", 4);
    if (thread_count == 0 || thread_count > THREADS_MOST) {
        fail("--threads: 1 to %d", THREADS_MOST);
    }
    end_ms = now_ms() + 1000 * option(argc, argv, "--seconds", 4);
    pthread_barrier_init(&round_ends, NULL, (unsigned)thread_count);
    pthread_barrier_init(&round_begins, NULL, (unsigned)thread_count);
    for (size_t i = 0; i < HEAPS; i++) {
        heaps[i] = hak_heap_new();
    }
    if (!flag(argc, argv, "--no-signals")) {
        begin_signals();
    }
    for (size_t i = 0; i < thread_count; i++) {
        workers[i].rng = rng_seeded(option(argc, argv, "--seed", 1), i);
        workers[i].number = workers[i].next_id = i;
        workers[i].thread = thread_start(run, &workers[i]);
    }
    for (size_t i = 0; i < thread_count; i++) {
        thread_join(workers[i].thread);
    }
    note("%lu signals were handled", atomic_load(&handled));
    return EXIT_SUCCESS;
}
