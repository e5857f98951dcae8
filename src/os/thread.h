/* All thread-local state of the library: it has to fit into what the loader keeps for libraries
 * that are opened late (64 bytes). */
#ifndef HAK_THREAD_H
#define HAK_THREAD_H

#include "base/atomic.h"
#include "base/base.h"

struct heap;

enum thread_stage {
    THREAD_RUNS,
    THREAD_EXITS, /* its exit hook has been called, and will be once more (front/attach.c) */
    THREAD_EXITED /* it has run: no heap is attached any more */
};

struct thread {
    /* Never NULL. Starts as the static empty heap, whose magazines are all empty: the first call of
     * a thread takes the slow path by itself, with no test for "not initialised". */
    struct heap *heap;
    /* Words of 8 bytes that may be asked for until the slow path looks whether there is to be a sample
     * (profile/sampler.h), LEFT_MOST at most, on which words_are_served leans; below zero: it is to look. */
    int64_t left;
    /* Depth of slow paths this thread is in. Above 1 a signal handler has interrupted one: locks
     * may be its own, structures half changed. */
    uint32_t depth;
    /* As in /proc/PID/task; 0 before the thread has a heap, and if nothing is to be shown of it. */
    uint32_t id;
    uint8_t stage; /* enum thread_stage */
    /* Inboxes are closed, by this thread: it must not wait for them to open. */
    bool closed_inboxes;
    /* Key of what was freed last in a slow path (mind/keep.h). */
    uint16_t freed_key;
    /* Frees in slow paths until the purge policy is looked at whatever it allows. */
    uint8_t until_look;
    /* The thread is about to fork and holds every lock: taking and releasing are no-ops for it. */
    bool holds_all;
    /* It is at its leases of explicit heaps (heap/lease.h). */
    bool leasing;
    /* When a handler last waited in vain for a lock (lock.c); 0: never yet. */
    uint8_t gave_up;
};

extern _Thread_local struct thread hak_thread __attribute__((visibility("hidden")));

/* Signal fences: only a handler on the same thread looks at the depth. */
HAK_INLINE uint32_t thread_enter(void)
{
    uint32_t depth = ++hak_thread.depth;
    atomic_signal_fence(memory_order_seq_cst);
    return depth;
}

HAK_INLINE void thread_leave(void)
{
    atomic_signal_fence(memory_order_seq_cst);
    hak_thread.depth--;
}

/* Whether this thread may wait for a lock. */
HAK_INLINE bool thread_may_wait(void)
{
    return hak_thread.depth <= 1;
}

#endif
