#define _GNU_SOURCE
#include "os/lock.h"

#include <errno.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/os.h"

#ifndef SPINS_BEFORE_SLEEP /* where every turn is explored (tests/model) it is one */
#define SPINS_BEFORE_SLEEP 100
#endif

/* A holder is nameless for a few instructions; for longer if it is what this thread has interrupted there. */
enum {
    SPINS_BEFORE_GIVING_UP = 200000,
    NAMELESS_SPINS = 200,
    PATIENCE_MS = 100,
    TICK_MS = 64,
    GIVEN_UP_TICKS = 2 /* for so long after it has given up a thread does not spin much again */
};

_Atomic uint64_t hak_lock_waits[LOCK_KINDS];

static void futex(struct lock *l, int operation, uint32_t value)
{
    int saved = errno;
    syscall(SYS_futex, &l->state, operation | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
    errno = saved;
}

static bool is_lost(struct lock *l)
{
    return load_relaxed(&l->lost);
}

static bool try_if_free(struct lock *l)
{
    return load_relaxed(&l->state) == 0 && lock_try(l);
}

static bool spin(struct lock *l)
{
    for (int i = 0; i < SPINS_BEFORE_SLEEP && !is_lost(l); i++) {
        if (try_if_free(l))
            return true;
        cpu_relax();
    }
    return false;
}

bool lock_wait(struct lock *l)
{
    add_relaxed(&hak_lock_waits[l->kind], 1);
    if (spin(l))
        return true;
    /* From here on the lock is taken as "somebody may sleep" (2): this thread cannot know whether
     * it is the last sleeper, and one wake too many is harmless. */
    while (exchange_acquire(&l->state, 2) != 0) {
        if (is_lost(l))
            return false;
        futex(l, FUTEX_WAIT, 2);
    }
    store_relaxed(&l->holder, &hak_thread);
    return true;
}

/* After a handler the kernel goes on with the wait that it has interrupted if the state is still what was waited for: so it is changed. */
void lock_lose(struct lock *l)
{
    store_relaxed(&l->lost, true);
    store_relaxed(&l->state, 1u);
}

/* Now, never 0. That it comes round after 16 s makes a thread that has given up before give up early by chance. */
static uint8_t tick(void)
{
    uint8_t now = (uint8_t)(os_now_ms() / TICK_MS);
    return now != 0 ? now : 1;
}

static bool spin_bounded(struct lock *l, int most)
{
    for (int i = 0, nameless = 0; i < most && !is_lost(l); i++) {
        if (try_if_free(l))
            return true;
        nameless = load_relaxed(&l->holder) == NULL ? nameless + 1 : 0;
        if (lock_is_mine(l) || nameless > NAMELESS_SPINS)
            return false;
        cpu_relax();
    }
    return false;
}

/* The holder may wait for a lock that this thread was interrupted with. Where signals come as fast as this gives up that would get
 * nowhere: so one that has given up lets what it interrupts go on. */
bool lock_take_bounded(struct lock *l)
{
    if (try_if_free(l))
        return true;
    uint8_t last = hak_thread.gave_up;
    bool is_new = last == 0 || (uint8_t)(tick() - last) >= GIVEN_UP_TICKS;
    bool done = spin_bounded(l, is_new ? SPINS_BEFORE_GIVING_UP : NAMELESS_SPINS);
    if (!done && is_new && !lock_is_mine(l))
        hak_thread.gave_up = tick();
    return done;
}

bool lock_take_patiently(struct lock *l)
{
    for (uint64_t from = os_now_ms(); os_now_ms() - from < PATIENCE_MS;) {
        if (lock_try(l))
            return true;
        if (load_relaxed(&l->stalled) || is_lost(l))
            return false;
        sched_yield();
    }
    return lock_try(l);
}

#if HAK_CHECKED
static bool is_checked;

void lock_start_checking(void)
{
    is_checked = true;
}

void lock_check(void)
{
    if (is_checked && hak_thread.depth == 0)
        os_fatal("internal error: a lock was taken outside of any slow path");
}
#endif

void lock_wake(struct lock *l)
{
    futex(l, FUTEX_WAKE, 1);
}
