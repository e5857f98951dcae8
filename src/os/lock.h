/* A futex lock, for slow paths. */
#ifndef HAK_LOCK_H
#define HAK_LOCK_H

#include "base/atomic.h"
#include "base/base.h"
#include "os/thread.h"

/* Whose a lock is, for numbers. */
enum lock_kind { LOCK_SHARED, LOCK_HEAP, LOCK_KINDS };

struct lock {
    _Atomic uint32_t state; /* 0 free, 1 held, 2 held and somebody may sleep on it */
    /* Written by the holder; a thread asks it only whether the holder is itself. */
    _Atomic(struct thread *) holder;
    _Atomic bool stalled; /* by the holder: it will not release before it has forked */
    /* In the child of a fork, before it has other threads: the holder is not there. Nobody has it again. */
    _Atomic bool lost;
    uint8_t kind; /* enum lock_kind; set before others know of it */
};

/* Times that one was not free and was waited for, since the start. */
extern _Atomic uint64_t hak_lock_waits[LOCK_KINDS] __attribute__((visibility("hidden")));

/* Whether the calling thread holds it, in what its signal handler has interrupted. May say no for a
 * moment after it was taken. */
HAK_INLINE bool lock_is_mine(const struct lock *l)
{
    return load_relaxed(&l->holder) == &hak_thread;
}

/* False: lost. */
bool lock_wait(struct lock *l);
void lock_wake(struct lock *l);

HAK_INLINE bool lock_try(struct lock *l)
{
    if (HAK_UNLIKELY(hak_thread.holds_all))
        return true;
    uint32_t expected = 0;
    /* acquire: sees everything the last holder did before its release. */
    if (!cas_acquire(&l->state, &expected, 1))
        return false;
    store_relaxed(&l->holder, &hak_thread);
    return true;
}

/* False: lost, as also a thread's own heap may be when a handler has forked: another was at it. Whoever does not ask goes on,
 * because nobody else can be there. */
HAK_INLINE bool lock_take(struct lock *l)
{
    return HAK_LIKELY(lock_try(l)) || lock_wait(l);
}

/* Also in a frame that waits for it already, when the handler that has forked there returns. */
void lock_lose(struct lock *l);

/* Spins for a bounded time and gives up, at once if it has interrupted the holder: for signal handlers, where waiting
 * could be for ever. */
bool lock_take_bounded(struct lock *l);

/* Yields and tries again for some 100 ms: long enough for any holder that runs. At once false if the
 * holder has stalled or is not there. */
bool lock_take_patiently(struct lock *l);

/* In the build `debug`, once the library has started: every lock is taken within a slow path. Outside of one the depth
 * is that of what a handler has interrupted, and a wait for the thread's own lock would not end. */
#if HAK_CHECKED
void lock_start_checking(void);
void lock_check(void);
#else
HAK_INLINE void lock_start_checking(void) {}
HAK_INLINE void lock_check(void) {}
#endif

/* Takes it the way the calling thread may: see thread_may_wait. False: not taken. */
HAK_INLINE bool lock_take_if_safe(struct lock *l)
{
    lock_check();
    if (HAK_UNLIKELY(!thread_may_wait()))
        return lock_take_bounded(l);
    return lock_take(l);
}

HAK_INLINE void lock_release(struct lock *l)
{
    if (HAK_UNLIKELY(hak_thread.holds_all))
        return;
    store_relaxed(&l->holder, NULL);
    /* release: hands everything done under the lock to the next holder. */
    if (HAK_UNLIKELY(exchange_release(&l->state, 0) == 2))
        lock_wake(l);
}

#endif
