/* Mixed stress that goes on for long: phases with other sizes, lifetimes and numbers of threads follow each other in a
 * cycle; each ends with the same bytes alive, so that resident sizes may be compared from cycle to cycle. Threads free
 * and resize what others made, in one phase they live for a moment, in one the process forks all the time. Every byte
 * of every block is checked.
 *
 *     endurance [--seconds 60] [--cycles 1] [--phase-ms 1500] [--every-ms 1000] [--seed 1]
 *
 * It goes on until both the seconds and the cycles are over, so that a busy machine comes to as many cycles.
 * Says "point SECONDS CYCLE PHASE RSS LIVE" at the end of each phase, "sample ..." with the same in between. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fork_common.h"
#include "stock.h"

enum { THREADS_MOST = 8, STEPS_AT_A_TIME = 16, FORK_EVERY_MS = 40, CHILD_STEPS = 400 };

#define K ((size_t)1 << 10)
#define M ((size_t)1 << 20)

struct phase {
    const char *name;
    struct habit habit;
    size_t threads;
    size_t
        life; /* steps after which a thread ends and another takes its place; 0: the phase long */
    bool forks;
};

static const struct phase phases[] = {
    {"small", {16, K, STOCK_SLOTS, 10 * M}, 4, 0, false},
    {"mixed", {16, 256 * K, 1 << 15, 56 * M}, 3, 0, false},
    {"churn", {16, 32 * K, 1 << 17, 40 * M}, 4, 200, false},
    {"large", {64 * K, 6 * M, 1024, 96 * M}, 2, 0, false},
    {"forks", {16, 64 * K, 1 << 16, 48 * M}, 3, 0, true},
    {"few", {16, 4 * K, STOCK_SLOTS, 8 * M}, 1, 0, false},
    {"threads", {16, 2 * K, STOCK_SLOTS, 14 * M}, 8, 5000, false},
};
enum { PHASE_COUNT = sizeof phases / sizeof phases[0] };

static struct stock stock;
static pthread_barrier_t phase_ended, looked;
static struct forker forker;
static uint64_t started_ms;

struct worker {
    pthread_t thread;
    const struct phase *phase;
    struct rng rng;
    uint64_t until_ms;
};

/* A slow machine takes longer, but comes to the same point. */
static bool goes_on(const struct worker *me)
{
    return now_ms() < me->until_ms || stock_is_short(&stock, &me->phase->habit);
}

static void work_for(struct worker *me, uint64_t steps_most)
{
    for (uint64_t steps = 0; steps < steps_most && goes_on(me); steps += STEPS_AT_A_TIME) {
        for (int i = 0; i < STEPS_AT_A_TIME; i++) {
            stock_step(&stock, &me->phase->habit, &me->rng);
        }
    }
}

static void *live_shortly(void *argument)
{
    struct worker *me = argument;
    work_for(me, me->phase->life);
    return NULL;
}

static void work_by_others(struct worker *me)
{
    while (goes_on(me)) {
        pthread_t thread;
        int error = thread_start_small(&thread, live_shortly, me);
        if (error != 0) {
            fail("pthread_create: %s", strerror(error));
        }
        thread_join(thread);
    }
}

/* Its thread is still there, with what it keeps, when the resident size is looked at. */
static void *work(void *argument)
{
    struct worker *me = argument;
    if (me->phase->life != 0) {
        work_by_others(me);
    } else {
        work_for(me, UINT64_MAX);
    }
    pthread_barrier_wait(&phase_ended);
    pthread_barrier_wait(&looked);
    return NULL;
}

static void say(const char *what, uint64_t cycle, const struct phase *phase)
{
    note("%s %.1f %llu %s %zu %zu", what, (double)(now_ms() - started_ms) / 1000,
         (unsigned long long)cycle, phase->name, rss_bytes(), atomic_load(&stock.live));
}

/* ---- forks: what a child finds is whole, and it can go on with it ---- */

static void *work_in_child(void *argument)
{
    struct worker *me = argument;
    for (int i = 0; i < CHILD_STEPS; i++) {
        stock_step(&stock, &me->phase->habit, &me->rng);
    }
    return NULL;
}

static void fork_once(const struct phase *phase, struct rng *rng)
{
    struct worker child = {.phase = phase, .rng = rng_seeded(rng_next(rng), 0)};
    pid_t process = forker_fork(&forker);
    if (process == 0) {
        work_in_child(&child);
        thread_join(thread_start(work_in_child, &child));
        _exit(EXIT_SUCCESS);
    }
    if (process > 0) {
        int status = forker_await(&forker, EXIT_SUCCESS);
        if (status != 0) {
            fail("a child ended with wait status %#x", (unsigned)status);
        }
    }
}

/* ---- phases ---- */

static void watch(uint64_t cycle, const struct phase *phase, uint64_t until_ms, uint64_t every_ms,
                  struct rng *rng)
{
    static uint64_t next_sample_ms;
    for (uint64_t now = now_ms(); now < until_ms; now = now_ms()) {
        if (now >= next_sample_ms) {
            say("sample", cycle, phase);
            next_sample_ms = now + every_ms;
        }
        if (phase->forks) {
            fork_once(phase, rng);
        }
        sleep_ms(FORK_EVERY_MS);
    }
}

static void run_phase(uint64_t cycle, const struct phase *phase, uint64_t length_ms,
                      uint64_t every_ms, struct rng *rng)
{
    struct worker workers[THREADS_MOST];
    uint64_t until_ms = now_ms() + length_ms;
    pthread_barrier_init(&phase_ended, NULL, (unsigned)phase->threads + 1);
    pthread_barrier_init(&looked, NULL, (unsigned)phase->threads + 1);
    for (size_t i = 0; i < phase->threads; i++) {
        workers[i] = (struct worker){
            .phase = phase, .rng = rng_seeded(rng_next(rng), i), .until_ms = until_ms};
        workers[i].thread = thread_start(work, &workers[i]);
    }
    watch(cycle, phase, until_ms, every_ms, rng);
    pthread_barrier_wait(&phase_ended);
    stock_settle(&stock, &phase->habit, rng);
    say("point", cycle, phase);
    pthread_barrier_wait(&looked);
    for (size_t i = 0; i < phase->threads; i++) {
        thread_join(workers[i].thread);
    }
    pthread_barrier_destroy(&phase_ended);
    pthread_barrier_destroy(&looked);
}

int main(int argc, char **argv)
{
    uint64_t seconds = option(argc, argv, "--seconds", 60);
    uint64_t cycles_least = option(argc, argv, "--cycles", 1);
    uint64_t phase_ms = option(argc, argv, "--phase-ms", 1500);
    uint64_t every_ms = option(argc, argv, "--every-ms", 1000);
    struct rng rng = rng_seeded(option(argc, argv, "--seed", 1), 0);
    started_ms = now_ms();
    stock = stock_new();
    uint64_t cycle = 0;
    for (; cycle < cycles_least || now_ms() - started_ms < seconds * 1000; cycle++) {
        for (size_t i = 0; i < PHASE_COUNT; i++) {
            run_phase(cycle, &phases[i], phase_ms, every_ms, &rng);
        }
    }
    stock_end(&stock);
    note("%llu cycles, %lu forks, every byte as it should be", (unsigned long long)cycle,
         atomic_load(&forker.done));
    return 0;
}
