/* A server's days: 24 hours each, an hour as long as the arguments say. A pool of threads serves sessions, more by day
 * than by night, with a lunch dip and an evening peak; after midnight threads of their own run a batch with large
 * buffers. In idle hours nobody calls malloc or free. What lives at the end of an hour is the same every day.
 *
 *     diurnal [--days 2] [--hour-ms 2000] [--seed 1]
 *
 * Says "point SECONDS DAY HOUR RSS LIVE" at the end of each hour. */
#define _GNU_SOURCE
#include <stdatomic.h>

#include "stock.h"

enum { SERVERS = 6, BATCH_THREADS = 2, HOURS = 24, REST_MS = 5, STEPS_PER_TURN = 64 };

#define K ((size_t)1 << 10)
#define M ((size_t)1 << 20)

/* How much of the day's most there is to do, in percent; 0: idle. */
static const unsigned load[HOURS] = {8,  0,  0,  5,  0,  0,  10, 25,  45, 60, 70, 65,
                                     40, 50, 65, 70, 70, 75, 85, 100, 95, 70, 40, 20};
static const struct habit batch_habit = {32 * K, 2 * M, 4096, 72 * M};
enum { BATCH_HOUR = 3 };

/* Sessions and what answers them: mostly small. At night only caches stay. */
static struct habit serving(unsigned hour)
{
    static const size_t night = 6 * M, most = 90 * M;
    return (struct habit){24, 48 * K, STOCK_SLOTS, night + most * load[hour] / 100};
}

static struct stock sessions, batch;
static pthread_barrier_t begins, ended, looked;
static atomic_uint hour_now;
static atomic_bool stop;
static _Atomic uint64_t hour_ends_ms;

struct worker {
    pthread_t thread;
    struct rng rng;
};

/* A busy server rests little between requests, and a slow one comes to the same point late. */
static void serve(struct worker *me, unsigned hour)
{
    struct habit habit = serving(hour);
    while (now_ms() < atomic_load(&hour_ends_ms) || stock_is_short(&sessions, &habit)) {
        for (int i = 0; i < STEPS_PER_TURN; i++) {
            stock_step(&sessions, &habit, &me->rng);
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
    while (now_ms() < atomic_load(&hour_ends_ms) || stock_is_short(&batch, &batch_habit)) {
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
    note("point %.1f %llu %u %zu %zu", (double)(now_ms() - started_ms) / 1000,
         (unsigned long long)day, hour, rss_bytes(), atomic_load(&sessions.live));
}

static void run_hour(uint64_t length_ms, unsigned hour, struct rng *rng)
{
    uint64_t ends_ms = now_ms() + length_ms;
    atomic_store(&hour_now, hour);
    atomic_store(&hour_ends_ms, ends_ms);
    pthread_barrier_wait(&begins);
    if (hour == BATCH_HOUR) {
        run_batch(rng);
    }
    uint64_t now = now_ms();
    sleep_ms(now < ends_ms ? (unsigned)(ends_ms - now) : 0);
    pthread_barrier_wait(&ended);
    if (load[hour] != 0) {
        struct habit habit = serving(hour);
        stock_settle(&sessions, &habit, rng);
    }
}

int main(int argc, char **argv)
{
    struct worker workers[SERVERS];
    uint64_t days = option(argc, argv, "--days", 2);
    uint64_t hour_ms = option(argc, argv, "--hour-ms", 2000);
    struct rng rng = rng_seeded(option(argc, argv, "--seed", 1), 0);
    uint64_t started_ms = now_ms();
    sessions = stock_new();
    pthread_barrier_init(&begins, NULL, SERVERS + 1);
    pthread_barrier_init(&ended, NULL, SERVERS + 1);
    pthread_barrier_init(&looked, NULL, SERVERS + 1);
    for (size_t i = 0; i < SERVERS; i++) {
        workers[i].rng = rng_seeded(rng_next(&rng), i);
        workers[i].thread = thread_start(server, &workers[i]);
    }
    for (uint64_t day = 1; day <= days; day++) {
        for (unsigned hour = 0; hour < HOURS; hour++) {
            run_hour(hour_ms, hour, &rng);
            say(started_ms, day, hour);
            pthread_barrier_wait(&looked);
        }
    }
    atomic_store(&stop, true);
    pthread_barrier_wait(&begins);
    for (size_t i = 0; i < SERVERS; i++) {
        thread_join(workers[i].thread);
    }
    stock_end(&sessions);
    note("%llu days, every byte as it should be", (unsigned long long)days);
    return 0;
}
