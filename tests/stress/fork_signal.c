/* Signals interrupt threads in the middle of malloc and free, and the handler forks. Neither the
 * fork nor the child, which allocates a little, may hang. POSIX does not ask that of malloc; a
 * program that forks from a crash handler does. A child that inherits a half-done operation may be
 * refused memory, as long as that is rare.
 *
 *     fork_signal [--forks 1000] [--threads 3] [--seed 1]
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support.h"

#include "alloc_names.h"

enum {
    OWN_COUNT = 256,
    THREADS_MOST = 16,
    TIMER_US = 2000,
    HANG_SECONDS = 120,
    REFUSED_PERCENT_MOST = 10,
    EXIT_REFUSED = 3, /* of a child that got NULL */
};

struct worker {
    pthread_t thread;
    struct rng rng;
    uint64_t next_id;
    _Atomic pid_t child; /* 0: none; for killing it should it hang */
};

static atomic_bool stop;
static atomic_ulong forks_done;
static atomic_ulong forks_failed;   /* fork said no: the machine's business, not malloc's */
static atomic_ulong refused_memory; /* children that got NULL */
static atomic_int last_status;      /* of a child that did not end with status 0 */
static _Thread_local struct worker *self;

static _Noreturn void child_run(void)
{
    for (size_t size = 16; size <= 64 * KIB; size *= 4) {
        struct parcel *parcel = parcel_try_new(size, size);
        if (parcel == NULL) {
            _exit(EXIT_REFUSED);
        }
        parcel_end(parcel);
    }
    _exit(EXIT_SUCCESS);
}

static void on_signal(int number)
{
    (void)number;
    int saved_errno = errno;
    pid_t child = fork();
    if (child == 0) {
        child_run();
    }
    int status = 0;
    if (child < 0) {
        atomic_fetch_add(&forks_failed, 1);
    } else {
        atomic_store(&self->child, child);
        while (waitpid(child, &status, 0) != child) {
        }
        atomic_store(&self->child, 0);
        atomic_fetch_add(&forks_done, 1);
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_REFUSED) {
        atomic_fetch_add(&refused_memory, 1);
    } else if (status != 0) {
        atomic_store(&last_status, status);
    }
    errno = saved_errno;
}

static void signals_allow(bool allow)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(allow ? SIG_UNBLOCK : SIG_BLOCK, &set, NULL);
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    struct parcel *own[OWN_COUNT] = {NULL};
    self = worker;
    signals_allow(true);
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        size_t at = rng_below(&worker->rng, OWN_COUNT);
        /* Larger blocks now and then, so that signals also meet the slow paths. */
        size_t size = rng_log_size(&worker->rng, rng_below(&worker->rng, 20) == 0 ? MIB : KIB);
        parcel_end(own[at]);
        own[at] = parcel_new(size, worker->next_id++);
    }
    for (size_t i = 0; i < OWN_COUNT; i++) {
        parcel_end(own[i]);
    }
    return NULL;
}

static void handlers_install(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGALRM);
    sigaddset(&action.sa_mask, SIGUSR1);
    if (sigaction(SIGALRM, &action, NULL) != 0 || sigaction(SIGUSR1, &action, NULL) != 0) {
        fail("sigaction: %s", strerror(errno));
    }
}

static void timer_set(suseconds_t microseconds)
{
    struct timeval interval = {.tv_usec = microseconds};
    struct itimerval timer = {.it_interval = interval, .it_value = interval};
    if (setitimer(ITIMER_REAL, &timer, NULL) != 0) {
        fail("setitimer: %s", strerror(errno));
    }
}

static void check_outcome(void)
{
    int status = atomic_load(&last_status);
    if (status != 0) {
        fail("a child ended with %s %d", WIFSIGNALED(status) ? "signal" : "status",
             WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    }
}

static void kill_children(const struct worker *workers, size_t threads)
{
    for (size_t i = 0; i < threads; i++) {
        pid_t child = atomic_load(&workers[i].child);
        if (child > 0) {
            kill(child, SIGKILL);
        }
    }
}

/* One thread may hang while the others go on; then it does not end. */
static void join_or_fail(const struct worker *workers, size_t threads)
{
    for (size_t i = 0; i < threads; i++) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += HANG_SECONDS;
        if (pthread_clockjoin_np(workers[i].thread, NULL, CLOCK_MONOTONIC, &until) != 0) {
            kill_children(workers, threads);
            fail("thread %zu hangs in a fork, or waits for a child that does", i);
        }
    }
}

static void storm(const struct worker *workers, size_t threads, unsigned long forks)
{
    unsigned long before = 0;
    uint64_t progress_at = now_ms();
    for (size_t turn = 0; before < forks; turn++) {
        pthread_kill(workers[turn % threads].thread, SIGUSR1);
        sleep_ms(1);
        check_outcome();
        unsigned long now = atomic_load(&forks_done);
        if (now != before) {
            before = now;
            progress_at = now_ms();
        } else if (now_ms() - progress_at > HANG_SECONDS * 1000) {
            kill_children(workers, threads);
            fail("a fork in a signal handler, or its child, hangs after %lu forks", now);
        }
    }
}

int main(int argc, char **argv)
{
    struct worker workers[THREADS_MOST];
    unsigned long forks = option(argc, argv, "--forks", 1000);
    size_t threads = option(argc, argv, "--threads", 3);
    uint64_t seed = option(argc, argv, "--seed", 1);
    if (threads == 0 || threads > THREADS_MOST) {
        fail("--threads must be 1 to %d", THREADS_MOST);
    }
    /* The main thread takes no signal: it has to notice when the others hang. */
    signals_allow(false);
    handlers_install();
    for (size_t i = 0; i < threads; i++) {
        workers[i] = (struct worker){.rng = rng_seeded(seed, i)};
        workers[i].thread = thread_start(work, &workers[i]);
    }
    timer_set(TIMER_US);
    storm(workers, threads, forks);
    timer_set(0);
    atomic_store(&stop, true);
    join_or_fail(workers, threads);
    check_outcome();
    unsigned long refused = atomic_load(&refused_memory);
    note("%lu forks from signal handlers (%lu refused by the system), none hung; %lu children were "
         "refused memory",
         atomic_load(&forks_done), atomic_load(&forks_failed), refused);
    if (refused * 100 > atomic_load(&forks_done) * REFUSED_PERCENT_MOST) {
        fail("more than %d %% of the children were refused memory", REFUSED_PERCENT_MOST);
    }
    return 0;
}
