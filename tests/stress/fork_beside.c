/* A thread forks while signals interrupt others in the middle of malloc and free, with a handler that allocates and
 * frees. POSIX does not ask that of malloc. But the fork may not hang, nor its child, nor may memory grow: what the
 * handler wants the fork may have taken already.
 *
 * What the handler may still break (docs/limits.md) is left out: the threads have blocks of none of its classes, so it never
 * works on a magazine in which they stand, and of so few that no heap grows by what makes a refill empty the magazines of
 * others; hollow_time:0 stands for the same where one idles.
 *
 *     fork_beside [--forks 200] [--threads 3] [--period-us 100] [--seed 1] [--growth-mib 16]
 */
#define _GNU_SOURCE
#include "fork_common.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "support.h"

#include "alloc_names.h"

enum { OWN_COUNT = 64, THREADS_MOST = 16 };

struct worker {
    pthread_t thread;
    struct rng rng;
};

static atomic_bool stop;

/* Blocks of slabs, of pages, and more than a run has. It may be refused them. */
static void on_alarm(int number)
{
    (void)number;
    static const size_t sizes[] = {24, 1000, 20000, 70000, 3 << 20};
    int saved = errno;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char *block = malloc(sizes[i]);
        if (block != NULL) {
            block[0] = block[sizes[i] - 1] = 'x';
        }
        free(block);
    }
    errno = saved;
}

static const size_t own_sizes[] = {64, 300, 4000};

static size_t own_size(struct rng *rng)
{
    return own_sizes[rng_below(rng, sizeof own_sizes / sizeof *own_sizes)];
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    struct parcel *own[OWN_COUNT] = {NULL};
    for (uint64_t id = 0; !atomic_load_explicit(&stop, memory_order_relaxed); id++) {
        size_t at = rng_below(&worker->rng, OWN_COUNT);
        parcel_end(own[at]);
        own[at] = parcel_new(own_size(&worker->rng), id);
    }
    for (size_t i = 0; i < OWN_COUNT; i++) {
        parcel_end(own[i]);
    }
    return NULL;
}

static void alarm_allow(bool allow)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    pthread_sigmask(allow ? SIG_UNBLOCK : SIG_BLOCK, &set, NULL);
}

static void alarms_start(unsigned period_us)
{
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    struct itimerval every = {{0, period_us}, {0, period_us}};
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGALRM, &action, NULL) != 0 || setitimer(ITIMER_REAL, &every, NULL) != 0) {
        fail("setitimer: %s", strerror(errno));
    }
}

/* Its own alarm, by which forker_fork ends one that hangs, is not to run the handler. */
static _Noreturn void child_run(void)
{
    signal(SIGALRM, SIG_DFL);
    alarm_allow(true);
    for (size_t size = 16; size <= 64 * KIB; size *= 4) {
        parcel_end(parcel_new(size, size));
    }
    _exit(EXIT_SUCCESS);
}

static void *keep_forking(void *argument)
{
    struct forker *forker = argument;
    while (!atomic_load(&stop)) {
        pid_t child = forker_fork(forker);
        if (child == 0) {
            child_run();
        }
        if (child > 0) {
            (void)forker_await(forker, EXIT_SUCCESS);
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    static struct worker workers[THREADS_MOST];
    static struct forker forker;
    struct forker *forkers[] = {&forker};
    unsigned long forks = option(argc, argv, "--forks", 200);
    size_t threads = option(argc, argv, "--threads", 3);
    size_t growth_mib = option(argc, argv, "--growth-mib", 16);
    uint64_t seed = option(argc, argv, "--seed", 1), started = now_ms();
    if (threads == 0 || threads > THREADS_MOST) {
        fail("--threads must be 1 to %d", THREADS_MOST);
    }
    for (size_t i = 0; i < threads; i++) {
        workers[i].rng = rng_seeded(seed, i);
        workers[i].thread = thread_start(work, &workers[i]);
    }
    alarm_allow(false); /* only the workers have it */
    sleep_ms(100);
    size_t before = rss_bytes();
    alarms_start((unsigned)option(argc, argv, "--period-us", 100));
    forker.thread = thread_start(keep_forking, &forker);
    forks_watch(forkers, 1, forks);
    size_t after = rss_bytes();
    atomic_store(&stop, true);
    forkers_join(forkers, 1);
    for (size_t i = 0; i < threads; i++) {
        thread_join(workers[i].thread);
    }
    note("%lu forks in %.1f s, none hung; %.1f MiB before, %.1f after", forks_done(forkers, 1),
         (double)(now_ms() - started) / 1000, in_mib(before), in_mib(after));
    if (after > before + growth_mib * MIB) {
        fail("memory has grown by more than %zu MiB", growth_mib);
    }
    return 0;
}
