#define _GNU_SOURCE
#include "fork_common.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support.h"

/* ---- one fork ---- */

pid_t forker_fork(struct forker *forker)
{
    pid_t child = fork();
    if (child < 0) {
        atomic_fetch_add(&forker->refused, 1);
    } else if (child == 0) {
        alarm(HANG_SECONDS / 2); /* so that the parent learns which child it was */
    } else {
        atomic_store(&forker->child, child);
    }
    return child;
}

int forker_await(struct forker *forker, int also_good)
{
    pid_t child = atomic_load(&forker->child);
    int status = 0;
    while (waitpid(child, &status, 0) != child) {
    }
    atomic_store(&forker->child, 0);
    if (WIFEXITED(status) &&
        (WEXITSTATUS(status) == EXIT_SUCCESS || WEXITSTATUS(status) == also_good)) {
        atomic_fetch_add(&forker->done, 1);
    } else {
        atomic_store(&forker->status, status);
    }
    return status;
}

/* ---- watching ---- */

static void kill_children(struct forker *forkers[], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        pid_t child = atomic_load(&forkers[i]->child);
        if (child > 0) {
            kill(child, SIGKILL);
        }
    }
}

static void check_children(struct forker *forkers[], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int status = atomic_load(&forkers[i]->status);
        if (status == 0) {
            continue;
        }
        unsigned long done = forks_done(forkers, count);
        kill_children(forkers, count);
        if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) {
            fail("after %lu forks: a child hangs", done);
        }
        if (WIFSIGNALED(status)) {
            fail("after %lu forks: a child died of signal %d (%s)", done, WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
        }
        fail("after %lu forks: a child ended with status %d", done, WEXITSTATUS(status));
    }
}

unsigned long forks_done(struct forker *forkers[], size_t count)
{
    unsigned long done = 0;
    for (size_t i = 0; i < count; i++) {
        done += atomic_load(&forkers[i]->done);
    }
    return done;
}

void forks_watch(struct forker *forkers[], size_t count, unsigned long wanted)
{
    enum { LOOK_EVERY_MS = 10 };
    unsigned long before = 0;
    uint64_t progress_at = now_ms();
    while (before < wanted) {
        sleep_ms(LOOK_EVERY_MS);
        check_children(forkers, count);
        unsigned long done = forks_done(forkers, count);
        if (done != before) {
            before = done;
            progress_at = now_ms();
        } else if (now_ms() - progress_at > HANG_SECONDS * 1000) {
            kill_children(forkers, count);
            fail("after %lu forks: a fork hangs in process %d", done, (int)getpid());
        }
    }
}

/* One may hang while the others went on: then it does not end. */
void forkers_join(struct forker *forkers[], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += HANG_SECONDS;
        if (pthread_timedjoin_np(forkers[i]->thread, NULL, &until) != 0) {
            kill_children(forkers, count);
            fail("thread %zu hangs in a fork, or waits for a child that does", i);
        }
    }
    check_children(forkers, count);
}

/* ---- the gate ---- */

static void futex(atomic_int *word, int operation, int value)
{
    syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

static uint64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

void gate_fork_begins(struct gate *gate)
{
    atomic_fetch_add(&gate->under_way, 1);
    atomic_fetch_add(&gate->begun, 1);
    futex(&gate->begun, FUTEX_WAKE, INT_MAX);
}

void gate_fork_ends(struct gate *gate)
{
    atomic_fetch_sub(&gate->under_way, 1);
}

void gate_remove(struct gate *gate)
{
    atomic_store(&gate->gone, true);
    gate_fork_begins(gate);
}

void gate_wait(struct gate *gate, struct gate_pass *pass)
{
    while (!atomic_load(&gate->gone)) {
        int begun = atomic_load(&gate->begun);
        if (begun != pass->begun) {
            *pass = (struct gate_pass){.begun = begun, .until_us = now_us() + WORK_US_PER_FORK};
        }
        if (atomic_load(&gate->under_way) > 0 && now_us() < pass->until_us) {
            return;
        }
        futex(&gate->begun, FUTEX_WAIT, begun);
    }
}
