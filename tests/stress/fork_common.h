/* Forks that are watched: one that hangs, or whose child does, must fail the test, not stop it.
 *
 * Threads fork and await their children as `struct forker`s; the main thread takes no part and
 * watches that they get on. A child that hangs is ended by its own alarm. */
#ifndef HAK_TEST_FORK_COMMON_H
#define HAK_TEST_FORK_COMMON_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Generous: only a real deadlock takes as long. */
enum { HANG_SECONDS = 90 };

struct forker {
    pthread_t thread;
    atomic_ulong done;    /* children that ended as they should */
    atomic_ulong refused; /* forks that the system refused */
    _Atomic pid_t child;  /* that it waits for; 0: none */
    atomic_int status;    /* of the first child that did not end well */
};

/* fork(), with the child's alarm set. -1: the system refused, which is counted. Safe in handlers
 * of signals, if SIGALRM is not among what they block. */
pid_t forker_fork(struct forker *forker);

/* Waits for the child. An end other than by status 0 or `also_good` is kept for forks_watch.
 * Returns the child's wait status. */
int forker_await(struct forker *forker, int also_good);

/* In the main thread: until the forkers have `wanted` children behind them in all. Fails the test
 * when a child ended badly, or when there was no progress for HANG_SECONDS. */
void forks_watch(struct forker *forkers[], size_t count, unsigned long wanted);

/* Joins their threads; fails the test if one hangs. */
void forkers_join(struct forker *forkers[], size_t count);

unsigned long forks_done(struct forker *forkers[], size_t count);

/* Paces threads beside forks: a thread works while a fork is under way, but only for so long after
 * it has begun, and rests otherwise. The limit is for machines with fewer cores than threads: there
 * the thread that is to fork may have to wait for a core. */
enum { WORK_US_PER_FORK = 300 };

struct gate {
    atomic_int begun; /* forks, ever; wraps */
    atomic_int under_way;
    atomic_bool gone; /* nobody rests any more */
};

/* What a thread knows of the gate. */
struct gate_pass {
    int begun;
    uint64_t until_us;
};

void gate_fork_begins(struct gate *gate);
void gate_fork_ends(struct gate *gate);
void gate_remove(struct gate *gate);
/* Before each round of work: returns when the thread may do it. */
void gate_wait(struct gate *gate, struct gate_pass *pass);

#endif
