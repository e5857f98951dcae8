/* A server's days: 24 hours each, an hour as long as the arguments say. A pool of threads serves sessions, more by day
 * than by night, with a lunch dip and an evening peak; a session ends within two hours of service, whichever thread sees
 * to it, and what was read at the start stays. After midnight threads of their own run a batch with large buffers. In idle hours
 * nobody calls malloc or free. What lives at the end of an hour is the same every day. Every byte is checked.
 *
 *     diurnal [--days 2] [--hour-ms 2000] [--seed 1]
 *
 * Days begin at noon. Says "point SECONDS DAY HOUR RSS LIVE" at the end of each hour. */
#define _GNU_SOURCE
#include <stdatomic.h>

#include "stock.h"

enum { SERVERS = 6, BATCH_THREADS = 2, HOURS = 24, BATCH_HOUR = 3 };
enum { REST_MS = 5, STEPS_PER_TURN = 64, FIRST_HOUR = 12 };

#define K ((size_t)1 << 10)
#define M ((size_t)1 << 20)

/* How much of the day's most there is to do, in percent; 0: idle. */
static const unsigned load[HOURS] = {8,  0,  0,  5,  0,  0,  10, 25,  45, 60, 70, 65,
                                     40, 50, 65, 70, 70, 75, 85, 100, 95, 70, 40, 20};
static const struct habit batch_habit = {32 * K, 2 * M, 4096, 72 * M};
static const struct habit start_habit = {64, 8 * K, 1 << 15, 4 * M};

static struct habit serving(unsigned hour)
{
    return (struct habit){24, 48 * K, STOCK_SLOTS, 64 * M * load[hour] / 100};
}

/* Sessions of this hour of service and of the one before. */
static struct stock sessions[2], kept, batch;
static pthread_barrier_t begins, ended, looked;
static atomic_uint hour_now, generation;
static atomic_bool stop;
static _Atomic uint64_t hour_ends_ms;

struct worker {
    pthread_t thread;
    size_t number;
    struct rng rng;
};

/* A slow machine comes to the same point late. */
static bool goes_on(const struct stock *stock, const struct habit *habit)
{
    return now_ms() < atomic_load(&hour_ends_ms) || stock_is_short(stock, habit);
}

static void serve(struct worker *me, unsigned hour)
{
    struct habit habit = serving(hour);
    struct stock *mine = &sessions[atomic_load(&generation) % 2];
    size_t share = STOCK_SLOTS / SERVERS + 1, from = me->number * share;
    stock_empty(mine, from, from + share < STOCK_SLOTS ? from + share : STOCK_SLOTS);
    while (goes_on(mine, &habit)) {
        for (int i = 0; i < STEPS_PER_TURN; i++) {
            stock_step(mine, &habit, &me->rng);
        }
        sleep_ms(REST_MS);
    }
}

static void *server(void *argument)
{
    struct worker *me = argument;
    for (;;) {
        pthread_barrier_wait(&begins);
        if (atomic_load(&stop)) {
            return NULL;
        }
        unsigned hour = atomic_load(&hour_now);
        if (load[hour] != 0) {
            serve(me, hour);
        }
        pthread_barrier_wait(&ended);
        pthread_barrier_wait(&looked);
    }
}

static void *batch_work(void *argument)
{
    struct worker *me = argument;
    while (goes_on(&batch, &batch_habit)) {
        stock_step(&batch, &batch_habit, &me->rng);
    }
    return NULL;
}

static void run_batch(struct rng *rng)
{
    struct worker workers[BATCH_THREADS];
    batch = stock_new();
    for (size_t i = 0; i < BATCH_THREADS; i++) {
        workers[i].rng = rng_seeded(rng_next(rng), i);
        workers[i].thread = thread_start(batch_work, &workers[i]);
    }
    for (size_t i = 0; i < BATCH_THREADS; i++) {
        thread_join(workers[i].thread);
    }
    stock_end(&batch);
}

static void say(uint64_t started_ms, uint64_t day, unsigned hour)
{
    size_t live = atomic_load(&sessions[0].live) + atomic_load(&sessions[1].live);
    note("point %.1f %llu %u %zu %zu", (double)(now_ms() - started_ms) / 1000,
         (unsigned long long)day, hour, rss_bytes(), live + atomic_load(&kept.live));
}

static void sleep_until(uint64_t ms)
{
    uint64_t now = now_ms();
    sleep_ms(now < ms ? (unsigned)(ms - now) : 0);
}

static void run_hour(uint64_t length_ms, unsigned hour, struct rng *rng)
{
    uint64_t ends_ms = now_ms() + length_ms;
    atomic_store(&hour_now, hour);
    atomic_store(&hour_ends_ms, ends_ms);
    atomic_fetch_add(&generation, load[hour] != 0);
    pthread_barrier_wait(&begins);
    if (hour == BATCH_HOUR) {
        run_batch(rng);
    }
    sleep_until(ends_ms);
    pthread_barrier_wait(&ended);
    if (load[hour] != 0) {
        struct habit habit = serving(hour);
        stock_settle(&sessions[atomic_load(&generation) % 2], &habit, rng);
    }
}

int main(int argc, char **argv)
{
    struct worker workers[SERVERS];
    uint64_t days = option(argc, argv, "--days", 2);
    uint64_t hour_ms = option(argc, argv, "--hour-ms", 2000);
    struct rng rng = rng_seeded(option(argc, argv, "--seed", 1), 0);
    uint64_t started_ms = now_ms();
    sessions[0] = stock_new();
    sessions[1] = stock_new();
    kept = stock_new();
    stock_settle(&kept, &start_habit, &rng);
    pthread_barrier_init(&begins, NULL, SERVERS + 1);
    pthread_barrier_init(&ended, NULL, SERVERS + 1);
    pthread_barrier_init(&looked, NULL, SERVERS + 1);
    for (size_t i = 0; i < SERVERS; i++) {
        workers[i].number = i;
        workers[i].rng = rng_seeded(rng_next(&rng), i);
        workers[i].thread = thread_start(server, &workers[i]);
    }
    for (uint64_t i = 0; i < days * HOURS; i++) {
        unsigned hour = (unsigned)(FIRST_HOUR + i) % HOURS;
        run_hour(hour_ms, hour, &rng);
        say(started_ms, 1 + i / HOURS, hour);
        pthread_barrier_wait(&looked);
    }
    atomic_store(&stop, true);
    pthread_barrier_wait(&begins);
    for (size_t i = 0; i < SERVERS; i++) {
        thread_join(workers[i].thread);
    }
    stock_end(&sessions[0]);
    stock_end(&sessions[1]);
    stock_end(&kept);
    note("%llu days, every byte as it should be", (unsigned long long)days);
    return 0;
}
