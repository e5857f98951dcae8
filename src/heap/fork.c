#include "heap/fork.h"

#include <sched.h>

#include "big/big.h"
#include "heap/lease.h"
#include "heap/paged.h"
#include "heap/registry.h"
#include "os/os.h"
#include "pages/pages.h"
#include "pressure/pressure.h"
#include "purge/purge.h"

/* A fork copies the process page by page while other threads run, so before it all locks are taken
 * and all inboxes closed: nothing that the child will read changes meanwhile. In the child only the
 * forking thread exists. The others' heaps become orphans; what their magazines and outboxes held
 * is given up, because the picture of those may be torn. */

enum { FORK_REGISTRY, FORK_SAMPLER, FORK_PURGE, FORK_BIG, FORK_PAGES, FORK_REGION, FORK_LOCKS };

static struct lock fork_lock;       /* one fork at a time takes all the locks */
static bool fork_taken[FORK_LOCKS]; /* under it */

/* Threads that wait to fork in a handler which interrupted a slow path: they may hold locks that they
 * cannot give up before. */
static _Atomic size_t stalled_threads;

static struct lock *fork_lock_at(int i)
{
    struct lock *const locks[FORK_LOCKS] = {registry_lock(), sampler_lock(), purge_lock(),
                                            big_lock(),      pages_lock(),   region_lock()};
    return locks[i];
}

/* How long a fork outside a handler waits for a lock before it makes way. A handler that has interrupted the holder
 * may want what the fork has taken already, and be refused it only after so long that the next signal comes first.
 * Twice as long each time: holders that are merely slow come to an end. Under the fork lock. */
enum { PATIENCE_FIRST_MS = 4, PATIENCE_LAST_MS = 128 };
static uint64_t patience_ms = PATIENCE_FIRST_MS;

static bool in_handler(void)
{
    return hak_thread.depth > 1;
}

/* A handler goes on without a lock that cannot be had: at once without one that has stalled, after a
 * while without one whose holder may wait for such a lock. Any other thread makes way for handlers. */
static bool fork_take(struct lock *l)
{
    if (in_handler())
        return !lock_is_mine(l) && lock_take_patiently(l);
    for (uint64_t from = os_now_ms(); !lock_try(l); sched_yield()) {
        if (load_relaxed(&stalled_threads) != 0 || load_relaxed(&l->lost) ||
            os_now_ms() - from > patience_ms)
            return false;
    }
    return true;
}

static void fork_take_heap(struct heap *h, void *made_way)
{
    if (*(bool *)made_way || h->fork_held || load_relaxed(&h->state) == HEAP_LOST)
        return;
    h->fork_held = fork_take(&h->lock);
    *(bool *)made_way = !h->fork_held && !in_handler();
}

/* After all locks: a thread that spins on a closed inbox holds none that is still wanted. */
static void fork_close_inbox(struct heap *h, void *context)
{
    (void)context;
    /* acquire: the nodes' content comes with them. Who finds it closed takes nothing from that. */
    if (h->fork_held)
        h->fork_inbox = exchange_acquire(&h->inbox, INBOX_CLOSED);
}

static void fork_give_heap(struct heap *h, void *in_child)
{
    if (!h->fork_held)
        return;
    h->fork_held = false;
    /* release: whoever pushes next sees that the heap is an orphan, if this thread does. */
    if (hak_thread.closed_inboxes)
        store_release(&h->inbox, h->fork_inbox);
    /* Who sent meanwhile found the lock taken and went. The child has no other threads. */
    if (*(bool *)in_child)
        lock_release(&h->lock);
    else
        heap_unlock_visited(h);
}

static bool fork_take_global(int i)
{
    struct lock *l = fork_lock_at(i);
    bool is_lost = load_relaxed(&l->lost); /* in this process' parents, and not in its time */
    fork_taken[i] = fork_take(l);
    return fork_taken[i] || is_lost || in_handler();
}

static void fork_give_global(int i)
{
    if (fork_taken[i])
        lock_release(fork_lock_at(i));
    fork_taken[i] = false;
}

/* Heaps may join the list until the registry is locked. */
static bool fork_take_heaps(void)
{
    for (;;) {
        bool made_way = false;
        struct heap *newest = registry_first();
        registry_each(fork_take_heap, &made_way);
        if (made_way || !fork_take_global(FORK_REGISTRY))
            return false;
        if (!fork_taken[FORK_REGISTRY] || registry_first() == newest)
            return true;
        fork_give_global(FORK_REGISTRY);
    }
}

static bool fork_take_all(void)
{
    return fork_take_heaps() && fork_take_global(FORK_SAMPLER) && fork_take_global(FORK_PURGE) &&
           fork_take_global(FORK_BIG) && fork_take_global(FORK_PAGES) &&
           fork_take_global(FORK_REGION);
}

static void fork_give_all(bool in_child)
{
    fork_give_global(FORK_REGION);
    fork_give_global(FORK_PAGES);
    fork_give_global(FORK_BIG);
    fork_give_global(FORK_PURGE);
    fork_give_global(FORK_SAMPLER);
    fork_give_global(FORK_REGISTRY);
    /* Last: as their inboxes are drained they may wait for the others. */
    registry_each(fork_give_heap, &in_child);
    hak_thread.closed_inboxes = false;
    lock_release(&fork_lock);
}

static void mark_if_mine(struct lock *l, bool is_stalled)
{
    if (lock_is_mine(l))
        store_relaxed(&l->stalled, is_stalled);
}

static void mark_heap_if_mine(struct heap *h, void *is_stalled)
{
    mark_if_mine(&h->lock, *(bool *)is_stalled);
}

/* The own heap's lock, or an explicit one's. */
static void mark_interrupted(bool is_stalled)
{
    registry_each(mark_heap_if_mine, &is_stalled);
    for (int i = 0; i < FORK_LOCKS; i++)
        mark_if_mine(fork_lock_at(i), is_stalled);
}

HAK_COLD void fork_await(void)
{
    if (hak_thread.depth > 0) {
        mark_interrupted(true);
        add_relaxed(&stalled_threads, 1);
    }
    while (hak_thread.depth == 0 && load_relaxed(&stalled_threads) != 0)
        sched_yield();
}

HAK_COLD bool fork_before(void)
{
    thread_enter();
    /* Without bound: a holder makes way or goes on, it never waits for a handler. */
    lock_take(&fork_lock);
    bool taken = fork_take_all();
    patience_ms = taken ? PATIENCE_FIRST_MS : least_of(2 * patience_ms, PATIENCE_LAST_MS);
    if (taken) {
        hak_thread.closed_inboxes = true;
        registry_each(fork_close_inbox, NULL);
        hak_thread.holds_all = true;
        if (in_handler())
            sub_relaxed(&stalled_threads, 1);
    } else {
        fork_give_all(false);
    }
    thread_leave();
    return taken;
}

static void forget_thread_of(struct heap *h)
{
    for (uint32_t class = 0; class < CLASS_COUNT; class ++) {
        struct magazine *m = magazine_of(h, class);
        magazine_close(m);
        magazine_set_top(m, m->end + m->cap);
        m->batch = 0;
        h->classes[class].spilled = 0;
    }
    __builtin_memset(h->outbox, 0, sizeof h->outbox);
    if (h->aside != NULL)
        __builtin_memset(h->aside, 0, ASIDE_PLACES * sizeof *h->aside);
    h->aside_bytes = 0;
    h->long_parcels = 0;
}

static bool cut_short; /* written by the child's only thread */

/* False: it stays this thread's, or all threads', or the program's, or nobody can use it any more. */
static bool settle_without_thread(struct heap *h)
{
    heap_forget_row(h);
    bool is_own = heap_is_own(h);
    if (!is_own)
        leases_forget(h);
    if ((HAK_CHECKED || HAK_SECURE) && !is_own && load_relaxed(&h->state) == HEAP_LIVE)
        cut_short = true;
    /* What the handler has interrupted leaves one that it has the lock of as it should be. */
    if (load_relaxed(&h->state) == HEAP_LOST || (h->fork_held ? is_own : lock_is_mine(&h->lock)))
        return false;
    if (!h->fork_held) {
        /* Another thread that looked after this one's heap has the lock: what the handler has interrupted does without
         * the heap, and this thread gets one that is whole. */
        if (is_own)
            hak_thread.heap = &hak_empty_heap;
        store_relaxed(&h->state, (uint32_t)HEAP_LOST);
        lock_lose(&h->lock);
        return false;
    }
    if (load_relaxed(&h->state) == HEAP_SHARED || load_relaxed(&h->state) == HEAP_EXPLICIT)
        return false;
    if (load_relaxed(&h->state) == HEAP_LIVE) {
        forget_thread_of(h);
        paged_limit(h, FIRST_PAGED, NULL); /* which notes that it keeps none */
    }
    store_relaxed(&h->passing, NULL);
    return true;
}

HAK_COLD void fork_after(bool in_child)
{
    thread_enter();
    hak_thread.holds_all = false;
    if (in_child) {
        cut_short = cut_short || ((HAK_CHECKED || HAK_SECURE) && in_handler());
        registry_restart(settle_without_thread);
        live_forget();
        if (!fork_taken[FORK_SAMPLER] && !lock_is_mine(sampler_lock()))
            sampler_give_up();
        store_relaxed(&stalled_threads, (size_t)0); /* those were other threads */
        pressure_forget_looker();
        fork_taken[FORK_PURGE] = true; /* guards guesses only: free in any case */
        for (int i = 0; i < FORK_LOCKS; i++) {
            if (!fork_taken[i] && !lock_is_mine(fork_lock_at(i)))
                lock_lose(fork_lock_at(i));
        }
    }
    fork_give_all(in_child);
    if (in_handler())
        mark_interrupted(false);
    thread_leave();
}

#if HAK_CHECKED || HAK_SECURE

HAK_COLD bool fork_has_cut_short(void)
{
    return cut_short;
}

#endif
