/* Signals interrupt threads in the middle of malloc and free, and the handler forks. Neither the
 * fork nor the child may hang, which allocates a little and asks for figures: every other one in the
 * handler, the rest when it has returned from it. POSIX does not ask that of malloc; a program that
 * forks from a crash handler does. A child that inherits a half-done operation may be refused memory,
 * as long as that is rare.
 *
 *     fork_signal [--forks 2000] [--threads 3] [--seed 1]
 */
#define _GNU_SOURCE
#include "fork_common.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

#include "alloc_names.h"

enum {
    SHARED_COUNT = 64,
    OWN_COUNT = 64,
    LARGE_EVERY = 8,
    TRIM_EVERY = 16, /* processes: it costs */
    THREADS_MOST = 16,
    REFUSED_PERCENT_MOST = 10,
    EXIT_REFUSED = 3, /* of a child that got NULL */
};

struct worker {
    struct forker forker;
    struct rng rng;
    uint64_t next_id;
    atomic_bool asked; /* to fork, and has not yet done so */
};

static _Atomic(struct parcel *) shared[SHARED_COUNT]; /* in any thread's hands */
static atomic_bool stop;
static atomic_ulong refused_memory; /* children that got NULL */
static _Thread_local struct worker *self;
static atomic_bool is_child; /* that has returned from the handler */

static _Noreturn void child_run(void)
{
    for (size_t size = 16; size <= 64 * KIB; size *= 4) {
        struct parcel *parcel = parcel_try_new(size, size);
        if (parcel == NULL) {
            _exit(EXIT_REFUSED);
        }
        parcel_end(parcel);
    }
#ifdef __GLIBC__
    (void)mallinfo2();
    if (getpid() % TRIM_EVERY == 0) {
        malloc_trim(0);
    }
#endif
    _exit(EXIT_SUCCESS);
}

static void on_signal(int number)
{
    (void)number;
    int saved_errno = errno;
    pid_t child = forker_fork(&self->forker);
    if (child == 0) {
        if (getpid() % 2 == 0) {
            child_run();
        }
        atomic_store(&is_child, true);
    }
    if (child > 0) {
        int status = forker_await(&self->forker, EXIT_REFUSED);
        if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_REFUSED) {
            atomic_fetch_add(&refused_memory, 1);
        }
    }
    atomic_store(&self->asked, false);
    errno = saved_errno;
}

static void signal_allow(bool allow)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    pthread_sigmask(allow ? SIG_UNBLOCK : SIG_BLOCK, &set, NULL);
}

/* What the handler has interrupted is done. */
static void go_on(const void *block, size_t size)
{
    if (atomic_load_explicit(&is_child, memory_order_relaxed)) {
        if (block == NULL) {
            _exit(EXIT_REFUSED);
        }
        child_run();
    }
    if (block == NULL) {
        fail("malloc(%zu) gave NULL: %s", size, strerror(errno));
    }
}

/* Runs and big blocks, barely touched: it is their locks that the signals are to meet. */
static void use_large(struct worker *worker)
{
    size_t size = rng_size(&worker->rng, 32 * KIB, 3 * MIB);
    char *block = malloc(size);
    go_on(block, size);
    block[0] = block[size - 1] = 'x';
    free(block);
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    struct parcel *own[OWN_COUNT] = {NULL};
    self = worker;
    signal_allow(true);
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        size_t at = rng_below(&worker->rng, OWN_COUNT);
        size_t size = rng_log_size(&worker->rng, KIB);
        parcel_end(own[at]);
        own[at] = parcel_try_new(size, worker->next_id++);
        go_on(own[at], size);
        at = rng_below(&worker->rng, SHARED_COUNT);
        own[0] = atomic_exchange_explicit(&shared[at], own[0], memory_order_acq_rel);
        if (worker->next_id % LARGE_EVERY == 0) {
            use_large(worker);
        }
    }
    signal_allow(false);
    for (size_t i = 0; i < OWN_COUNT; i++) {
        parcel_end(own[i]);
    }
    return NULL;
}

static void handler_install(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGUSR1);
    if (sigaction(SIGUSR1, &action, NULL) != 0) {
        fail("sigaction: %s", strerror(errno));
    }
}

/* Asks every thread to fork again as soon as it has. */
static void *keep_asking(void *argument)
{
    struct worker *workers = argument;
    while (!atomic_load(&stop)) {
        for (struct worker *w = workers; w < workers + THREADS_MOST; w++) {
            if (w->forker.thread != 0 && !atomic_exchange(&w->asked, true)) {
                pthread_kill(w->forker.thread, SIGUSR1);
            }
        }
        usleep(50);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    static struct worker workers[THREADS_MOST];
    struct forker *forkers[THREADS_MOST];
    unsigned long forks = option(argc, argv, "--forks", 2000);
    size_t threads = option(argc, argv, "--threads", 3);
    uint64_t seed = option(argc, argv, "--seed", 1);
    if (threads == 0 || threads > THREADS_MOST) {
        fail("--threads must be 1 to %d", THREADS_MOST);
    }
    uint64_t started = now_ms();
    signal_allow(false);
    handler_install();
    for (size_t i = 0; i < threads; i++) {
        workers[i].rng = rng_seeded(seed, i);
        forkers[i] = &workers[i].forker;
        forkers[i]->thread = thread_start(work, &workers[i]);
    }
    pthread_t asking = thread_start(keep_asking, workers);
    forks_watch(forkers, threads, forks);
    atomic_store(&stop, true);
    thread_join(asking);
    forkers_join(forkers, threads);
    unsigned long done = forks_done(forkers, threads), refused = atomic_load(&refused_memory);
    note("%lu forks from signal handlers in %.1f s, none hung; %lu children were refused memory",
         done, (double)(now_ms() - started) / 1000, refused);
    if (refused * 100 > done * REFUSED_PERCENT_MOST) {
        fail("more than %d %% of the children were refused memory", REFUSED_PERCENT_MOST);
    }
    return 0;
}
