#define _GNU_SOURCE
#include "front/attach.h"

#include <pthread.h>
#include <unistd.h>

#include "control/options.h"
#include "front/front.h"
#include "hakmem/inline.h"
#include "heap/fork.h"
#include "heap/lease.h"
#include "heap/registry.h"
#include "heap/worker.h"
#include "live/live.h"
#include "os/os.h"
#include "purge/purge.h"

/* Without Insight nothing stops the countdown of inline.h, whose sizes are all small. */
_Thread_local struct thread hak_thread = {.heap = &hak_empty_heap,
                                          .left = HAK_INSIGHT ? 0 : INT64_MAX};

/* What include/hakmem/inline.h compiles into programs: the heap as a place of magazines, and the countdown. Where every
 * call is checked, one that is over for good. */
#if HAK_SERVES_INLINE
extern _Thread_local struct hak_thread_v1 hak_thread_v1
    __attribute__((alias("hak_thread"), visibility("default")));
#else
HAK_EXPORT _Thread_local struct hak_thread_v1 hak_thread_v1 = {(char *)&hak_empty_heap, 0};
#endif

#define SAME_PLACE(field)                                                                          \
    _Static_assert(offsetof(struct magazine, field) == offsetof(struct hak_magazine_v1, field),    \
                   "programs know where this is")
SAME_PLACE(top);
SAME_PLACE(end);
SAME_PLACE(start);
_Static_assert(offsetof(struct thread, heap) == offsetof(struct hak_thread_v1, magazines),
               "programs know where this is");
_Static_assert(offsetof(struct thread, left) == offsetof(struct hak_thread_v1, left),
               "programs know where this is");
_Static_assert(offsetof(struct heap, magazines) == 0, "offsets of magazines count from the heap");

static struct {
    struct lock lock;
    _Atomic bool done;
    bool has_settings; /* written under the lock, or by the constructor */
    bool has_key;
    pthread_key_t key; /* its destructor is the thread-exit hook */
} start;

/* Keys that the program made later have their destructors after this in a round, and those free what the thread has: its heap
 * stays for the whole first round (POSIX pthread_key_create: a key that a destructor sets is called for in the next). */
static bool stays_for_a_round(struct heap *h)
{
    if (hak_thread.stage != THREAD_RUNS || pthread_setspecific(start.key, h) != 0)
        return false;
    hak_thread.stage = THREAD_EXITS;
    return true;
}

static void thread_exits(void *heap)
{
    struct heap *h = heap;
    if (stays_for_a_round(h))
        return;
    leases_end(h);
    thread_enter();
    store_relaxed(&h->passing, &hak_thread);
    atomic_signal_fence(memory_order_seq_cst); /* a handler that forks finds it in one or both */
    hak_thread.heap = &hak_empty_heap;
    hak_thread.stage = THREAD_EXITED;
    registry_abandon(h);
    thread_leave();
    purge_if_due();
}

/* glibc's fork takes its list of open streams after these handlers ran and before its own malloc's
 * locks, because threads allocate while they hold a stream. Locks of another malloc must come after
 * that list as well, so it is taken here already: it is recursive, and glibc resets it in the child
 * (as it takes it: only if there are threads). */
extern void _IO_list_lock(void) __attribute__((weak));
extern void _IO_list_unlock(void) __attribute__((weak));
extern char __libc_single_threaded __attribute__((weak));

/* Between the handlers of one fork, under the registry's fork lock. Signals are blocked meanwhile, as
 * glibc does further inside: a handler that forks or allocates would meet a half-taken world. */
static struct {
    sigset_t signals;
    bool streams_locked;
} around_fork;

static bool lock_streams(void)
{
    if (_IO_list_lock == NULL || &__libc_single_threaded == NULL || __libc_single_threaded)
        return false;
    _IO_list_lock();
    return true;
}

static void unlock_streams(bool locked)
{
    if (locked)
        _IO_list_unlock();
}

enum { MAKE_WAY_MS = 1 }; /* long for what waits for the locks, short for a fork */

static HAK_COLD void before_fork(void)
{
    sigset_t signals;
    os_block_signals(&signals);
    for (;;) {
        fork_await();
        bool locked = lock_streams();
        if (fork_before()) {
            around_fork.signals = signals;
            around_fork.streams_locked = locked;
            return;
        }
        unlock_streams(locked);
        os_sleep_ms(MAKE_WAY_MS);
    }
}

static HAK_COLD void after_fork_in_parent(void)
{
    bool locked = around_fork.streams_locked;
    sigset_t signals = around_fork.signals;
    fork_after(false);
    unlock_streams(locked);
    os_restore_signals(&signals);
}

static HAK_COLD void after_fork_in_child(void)
{
    fork_after(true);
    worker_start_if_wanted();
    os_restore_signals(&around_fork.signals);
}

/* glibc forgets the handlers of a library whose destructors have run, while other libraries' destructors and threads
 * still fork. These belong to no library, and may: this one is never unloaded. */
extern int __register_atfork(void (*before)(void), void (*in_parent)(void), void (*in_child)(void),
                             void *library) __attribute__((weak));

static void register_fork_handlers(void)
{
    if (&__register_atfork != NULL)
        (void)__register_atfork(before_fork, after_fork_in_parent, after_fork_in_child, NULL);
    else
        (void)pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

void front_read_settings(void)
{
    if (start.has_settings)
        return;
    start.has_settings = true;
    options_read_environment();
    store_relaxed(&hak_live.due, live_is_wanted());
}

void front_init(void)
{
    if (HAK_LIKELY(load_acquire(&start.done)) || !lock_take_if_safe(&start.lock))
        return;
    if (!load_relaxed(&start.done)) {
        if (environ != NULL) /* the C library has started */
            front_read_settings();
        store_release(&start.done, true);
        start.has_key = pthread_key_create(&start.key, thread_exits) == 0;
        register_fork_handlers();
    }
    lock_release(&start.lock);
}

static struct heap *attach(void)
{
    front_init();
    struct heap *h = registry_attach();
    if (h == NULL)
        return NULL;
    hak_thread.heap = h;
    atomic_signal_fence(memory_order_seq_cst); /* as in thread_exits */
    store_relaxed(&h->passing, NULL);
    atomic_signal_fence(memory_order_seq_cst);
    /* Until then a handler may have forked and lost it, whatever it found here: settle_without_thread. */
    if (load_relaxed(&h->state) == HEAP_LOST) {
        hak_thread.heap = &hak_empty_heap;
        return NULL;
    }
    if (start.has_key)
        (void)pthread_setspecific(start.key, h);
    return h;
}

HAK_NOINLINE struct heap *thread_find_heap(uint32_t depth)
{
    if (depth > 1 || hak_thread.stage == THREAD_EXITED)
        return NULL;
    struct heap *h = hak_thread.heap != &hak_empty_heap ? hak_thread.heap : attach();
    if (h != NULL && live_is_due())
        heaps_make_area();
    return h;
}

HAK_COLD void thread_attach(void)
{
    (void)own_heap(thread_enter());
    thread_leave();
}
