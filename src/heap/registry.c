#include "heap/registry.h"

#include "heap/runs.h"
#include "os/os.h"
#include "purge/show.h"
#include "super/super.h"

enum { ADOPT_LOOKS = 16, BORROW_LOOKS = 64, BUSY_MOST = 16 };

#ifndef SPARES /* one where every turn is explored (tests/model) */
#define SPARES 8
#endif

/* On lines of its own: what refills read lies beside it. */
_Alignas(64) static struct {
    struct lock lock;
    _Atomic(struct heap *) all; /* grows only; pushed under the lock */
    struct heap *orphans;       /* newest first; under the lock */
    struct heap *vacant;        /* likewise */
    /* Classes of which orphans may have listed slabs: a hint for stage 1. Set by whoever lists one or leaves a heap, cleared by
     * whoever finds none. */
    _Atomic uint64_t orphaned[CLASS_WORDS];
    /* The orphan at which stage 1 goes on; NULL: at the newest, the last round is over. Written under the lock. A thread may have
     * the heap by now. */
    _Atomic(struct heap *) next_look[CLASS_COUNT];
    _Atomic(struct heap *) spares[SPARES]; /* new heaps that could not join the others */
    _Atomic bool has_spares;               /* has had some: most processes never look */
} registry;

_Atomic uint32_t hak_live_heaps;

struct lock *registry_lock(void)
{
    return &registry.lock;
}

/* What stands there already is not written again: it would be a line that all ending threads share. */
HAK_INLINE void note_orphaned(uint32_t word, uint64_t bits)
{
    if ((bits & ~load_relaxed(&registry.orphaned[word])) != 0)
        or_relaxed(&registry.orphaned[word], bits);
}

void registry_note_orphaned(uint32_t class)
{
    note_orphaned(class / 64, class_bit(class));
}

struct heap *registry_first(void)
{
    /* acquire: pairs with the push, which comes after the heap was set up. */
    return load_acquire(&registry.all);
}

uint32_t registry_live_heaps(void)
{
    uint32_t heaps = load_relaxed(&hak_live_heaps);
    return heaps != 0
               ? heaps
               : 1; /* the first may look before it has joined; a borrowed one has no thread */
}

void registry_each(void (*visit)(struct heap *h, void *context), void *context)
{
    for (struct heap *h = registry_first(); h != NULL; h = h->all_next)
        visit(h, context);
}

/* ---- heaps come and go ---- */

/* Whoever takes a spare out of its place alone has it, so exchanges are enough, and there is no ABA. */
static HAK_COLD struct heap *take_spare(void)
{
    struct heap *h = NULL;
    for (int i = 0; i < SPARES && h == NULL; i++) {
        /* acquire: what make_fresh has written comes with it.
         * model: relaxed would do, whoever uses it takes the registry's lock first, which its maker held there. */
        if (load_relaxed(&registry.spares[i]) != NULL)
            h = exchange_acquire(&registry.spares[i], NULL);
    }
    return h;
}

/* Where one is already, that one goes on to the next place; what finds none is lost. */
static HAK_COLD void keep_spare(struct heap *h)
{
    /* acquire and release: as in take_spare.
     * model: relaxed would do, see take_spare. */
    for (int i = 0; i < SPARES && h != NULL; i++)
        h = exchange_acq_rel(&registry.spares[i], h);
    store_relaxed(&registry.has_spares, true);
}

static struct heap *make_fresh(void)
{
    bool zeroed;
    ptrdiff_t unit = own_unit_take(&zeroed);
    if (unit < 0)
        return NULL;
    struct heap *h = unit_address((size_t)unit);
    /* All zeros is a heap with empty magazines and no slabs. */
    if (!zeroed && !os_purge(h, UNIT_SIZE))
        __builtin_memset(h, 0, sizeof *h);
    h->lock.kind = LOCK_HEAP;
    __builtin_memcpy(&h->offset_of_words[1], &hak_small_offset[1],
                     sizeof hak_small_offset - sizeof hak_small_offset[0]);
    for (uint32_t class = 0; class < CLASS_COUNT; class ++)
        magazine_init(magazine_of(h, class), hak_classes[class].size);
    purge_show_units();
    return h;
}

static struct heap *make_heap(enum heap_state state)
{
    if (load_relaxed(&registry.lock.lost)) /* it could not join the others */
        return NULL;
    struct heap *h = load_relaxed(&registry.has_spares) ? take_spare() : NULL;
    if (h == NULL)
        h = make_fresh();
    if (h != NULL)
        store_relaxed(&h->state, state);
    return h;
}

static void push_all(struct heap *h)
{
    h->all_next = load_relaxed(&registry.all);
    store_release(&registry.all, h);
    if (load_relaxed(&h->state) == HEAP_LIVE)
        add_relaxed(&hak_live_heaps, 1U);
}

/* In the child of a handler that forks within one of these two the list is made anew (registry_restart). Some of it may be
 * missing then, but no heap is there twice, or there and a thread's: one that passes, or has not joined yet, is not put there. */
static struct heap *pop(struct heap **list)
{
    struct heap *h = *list;
    if (h == NULL)
        return NULL;
    store_relaxed(&h->passing, &hak_thread);
    atomic_signal_fence(memory_order_seq_cst);
    *list = h->orphan_next;
    return h;
}

/* `had`: as in the heap, which somebody may have locked by now. */
static void push_orphan(struct heap *h, const uint64_t had[CLASS_WORDS])
{
    h->orphan_next = registry.orphans;
    atomic_signal_fence(memory_order_seq_cst);
    registry.orphans = h;
    for (uint32_t word = 0; word < CLASS_WORDS; word++)
        note_orphaned(word, had[word]);
}

/* With the lock held. */
static void set_state(struct heap *h, enum heap_state to)
{
    /* release, and acquire where remote.c reads it: see there.
     * model: relaxed would do, the inbox's exchange comes after it and is what the sender's push meets. */
    store_release(&h->state, (uint32_t)to);
}

/* ---- warm orphans ----
 *
 * A program that makes a thread per task ends one and begins the next: to put a few hundred blocks back into
 * their slabs, only to take them out again, would be most of such a thread's work here. So an ended thread's
 * magazines stay as they are, if what they hold is little and pins little, until the next thread takes the
 * heap. They have one bound in the process. */
enum { WARM_SLABS_MOST = 8 << 20 /* bytes of address space that slabs of a warm heap take */ };

static bool live_to_warm(struct heap *h)
{
    size_t slabs = 0, kept = 0;
    for (uint32_t class = heap_class_from(h, 0); class < CLASS_COUNT;
         class = heap_class_from(h, class + 1)) {
        slabs += h->classes[class].slabs * class_slab_bytes(class);
        kept += magazine_kept(magazine_of(h, class)) * hak_classes[class].size;
    }
    if (slabs > WARM_SLABS_MOST || load_relaxed(&hak_kept.warm) + kept > WARM_MOST)
        return false;
    add_relaxed(&hak_kept.warm, kept);
    live_set(warm_bytes, load_relaxed(&hak_kept.warm));
    h->warm_bytes = kept;
    return true;
}

static void forget_warm(struct heap *h)
{
    sub_relaxed(&hak_kept.warm, h->warm_bytes);
    live_set(warm_bytes, load_relaxed(&hak_kept.warm));
    h->warm_bytes = 0;
}

static HAK_COLD void trim_visited(struct heap *h, void *own)
{
    if (h == own || load_relaxed(&h->state) == HEAP_LOST || !lock_try(&h->lock))
        return;
    bool is_orphan = load_relaxed(&h->state) == HEAP_ORPHAN;
    if (is_orphan)
        forget_warm(h);
    heap_trim(h, is_orphan);
    heap_unlock_visited(h);
}

HAK_COLD void registry_trim(void)
{
    registry_each(trim_visited, hak_thread.heap);
}

static HAK_COLD void purge_visited(struct heap *h, void *sum)
{
    if (load_relaxed(&h->state) == HEAP_LOST || !lock_try(&h->lock))
        return;
    *(size_t *)sum += heap_purge_slabs(h);
    heap_unlock_visited(h);
}

HAK_COLD size_t registry_purge_slabs(void)
{
    size_t bytes = 0;
    registry_each(purge_visited, &bytes);
    return bytes;
}

static struct heap *attach_orphan(void)
{
    if (!lock_take_if_safe(&registry.lock))
        return NULL;
    struct heap *h = pop(&registry.orphans);
    lock_release(&registry.lock);
    if (h == NULL || !lock_take(&h->lock))
        return NULL;
    forget_warm(h);
    set_state(h, HEAP_LIVE);
    add_relaxed(&hak_live_heaps, 1U);
    h->tid = hak_thread.id;
    heap_show_thread(h);
    heap_unlock(h);
    return h;
}

static HAK_COLD void push_borrowed(struct heap *h)
{
    lock_take(&h->lock);
    push_orphan(h, h->had);
}

/* A new heap joins the others, an orphan with its lock held. False: it is a spare now. */
static bool publish(struct heap *h)
{
    if (!lock_take_if_safe(&registry.lock)) {
        keep_spare(h);
        return false;
    }
    if (load_relaxed(&h->state) == HEAP_ORPHAN)
        push_borrowed(h);
    else if (load_relaxed(&h->state) == HEAP_LIVE)
        store_relaxed(&h->passing, &hak_thread);
    push_all(h);
    lock_release(&registry.lock);
    return true;
}

static struct heap *attach_new(void)
{
    struct heap *h = make_heap(HEAP_LIVE);
    if (h == NULL)
        return NULL;
    h->tid = hak_thread.id;
    return publish(h) ? h : NULL;
}

struct heap *registry_attach(void)
{
    hak_thread.id = live_is_wanted() ? os_thread_id() : 0;
    struct heap *h = attach_orphan();
    if (h == NULL)
        h = attach_new();
    if (h != NULL) {
        sampler_start(&h->magazines.sampler);
        heap_show(h);
    }
    return h;
}

void registry_abandon(struct heap *h)
{
    uint64_t had[CLASS_WORDS];
    if (!lock_take(&h->lock))
        return;
    outbox_empty_own(h);
    if (!live_to_warm(h))
        heap_empty_magazines(h, HAND_ALL);
    outbox_flush_all(h);
    sub_relaxed(&hak_live_heaps, 1U);
    /* First the state, then the inbox: whoever pushes later sees the state. */
    set_state(h, HEAP_ORPHAN);
    heap_show_thread(h);
    inbox_drain(h, false);
    __builtin_memcpy(had, h->had, sizeof had);
    heap_unlock_visited(h);
    if (lock_take_if_safe(&registry.lock)) {
        push_orphan(h, had);
        atomic_signal_fence(memory_order_seq_cst);
        store_relaxed(&h->passing, NULL);
        lock_release(&registry.lock);
    }
}

/* Tries the newest heaps that no thread has, and counts those that somebody works on. */
static struct heap *borrow_existing(int *busy)
{
    int looks = 0;
    struct heap *h = load_acquire(&registry.all);
    for (; h != NULL && looks < BORROW_LOOKS; h = h->all_next, looks++) {
        if (load_relaxed(&h->state) != HEAP_ORPHAN)
            continue;
        ++*busy;
        if (!lock_try(&h->lock))
            continue;
        if (load_relaxed(&h->state) == HEAP_ORPHAN)
            return h;
        heap_unlock_visited(h);
    }
    return NULL;
}

struct heap *registry_borrow(void)
{
    int busy = 0;
    struct heap *h = borrow_existing(&busy);
    /* So many at once are a fork's, which may wait for what this thread's handler has interrupted: another heap would be
     * one more for it to take. */
    if (h != NULL || (busy >= BUSY_MOST && !thread_may_wait()))
        return h;
    h = make_heap(HEAP_ORPHAN);
    return h != NULL && publish(h) ? h : NULL;
}

/* ---- shared heaps ---- */

/* Where each is put; from the first on. It is never taken out again, so there is no ABA. */
_Atomic(struct heap *) hak_shared_heaps[SHARED_HEAPS];

/* Of two that are made for one place the later goes on to the next; what finds none stays empty. */
HAK_INLINE bool give_place(struct heap *h)
{
    for (int i = 0; i < SHARED_HEAPS; i++) {
        struct heap *none = NULL;
        /* release: whoever finds it there sees what it was set up with. */
        if (cas_release(&hak_shared_heaps[i], &none, h))
            return true;
    }
    return false;
}

HAK_INLINE struct heap *make_shared(void)
{
    struct heap *h = make_heap(HEAP_SHARED);
    if (h == NULL || !publish(h))
        return NULL;
    heap_show(h); /* its lock may be held by who visits all heaps, and by a fork, which makes way */
    return give_place(h) && lock_try(&h->lock) ? h : NULL;
}

/* Mostly the first, so that few slabs serve all. */
HAK_COLD struct heap *registry_take_shared(void)
{
    for (int i = 0; i < SHARED_HEAPS; i++) {
        struct heap *h = registry_shared(i);
        if (h == NULL)
            return make_shared();
        if (lock_try(&h->lock))
            return h;
    }
    return NULL;
}

/* ---- explicit heaps ---- */

/* Makes one that has nothing the program's. False: it is lost. */
HAK_INLINE bool vacant_to_explicit(struct heap *h)
{
    if (!lock_take(&h->lock))
        return false;
    set_state(h, HEAP_EXPLICIT);
    h->tid = hak_thread.id;
    heap_show_thread(h);
    heap_unlock(h);
    atomic_signal_fence(memory_order_seq_cst);
    store_relaxed(&h->passing, NULL);
    return true;
}

HAK_COLD struct heap *registry_take_explicit(void)
{
    if (!lock_take_if_safe(&registry.lock))
        return NULL;
    struct heap *h = pop(&registry.vacant);
    lock_release(&registry.lock);
    if (h != NULL)
        return vacant_to_explicit(h) ? h : NULL;
    h = make_heap(HEAP_EXPLICIT);
    if (h == NULL || !publish(h))
        return NULL;
    heap_show(h);
    return h;
}

static void push_vacant(struct heap *h)
{
    h->orphan_next = registry.vacant;
    atomic_signal_fence(memory_order_seq_cst);
    registry.vacant = h;
}

/* Likewise: see pop. */
HAK_COLD void registry_give_explicit(struct heap *h)
{
    store_relaxed(&h->passing, &hak_thread);
    atomic_signal_fence(memory_order_seq_cst);
    set_state(h, HEAP_VACANT);
    heap_show_thread(h);
    inbox_drain(h, false); /* what handlers have freed meanwhile */
    heap_unlock(h);
    if (!lock_take_if_safe(&registry.lock))
        return;
    push_vacant(h);
    atomic_signal_fence(memory_order_seq_cst);
    store_relaxed(&h->passing, NULL);
    lock_release(&registry.lock);
}

HAK_COLD void registry_restart(bool (*has_no_thread)(struct heap *h))
{
    registry.orphans = registry.vacant = NULL;
    store_relaxed(&hak_live_heaps, 1U); /* at most: this thread's, which may be on its way */
    for (struct heap *h = registry_first(); h != NULL; h = h->all_next) {
        if (!has_no_thread(h))
            continue;
        if (load_relaxed(&h->state) == HEAP_VACANT) {
            push_vacant(h);
            continue;
        }
        set_state(h, HEAP_ORPHAN);
        push_orphan(h, h->had);
    }
}

/* ---- stage 1 ---- */

/* Both locks are held. */
void slab_move(struct slab *s, struct heap *from, struct heap *to)
{
    uint32_t class = s->class, touched = slab_touched_pages(s, s->high);
    from->classes[class].slabs--;
    from->classes[class].used -= s->used;
    from->classes[class].touched -= touched;
    from->classes[class].purged -= s->purged;
    to->classes[class].slabs++;
    heap_has_class(to, class);
    to->classes[class].used += s->used;
    to->classes[class].touched += touched;
    to->classes[class].purged += s->purged;
    heap_changed(from, class);
    heap_changed(to, class);
    size_t bytes = (size_t)s->used * hak_classes[class].size;
    from->used_bytes -= bytes;
    from->peak_bytes -= least_of(bytes, from->peak_bytes); /* it has not shrunk */
    to->used_bytes += bytes;
    to->peak_bytes = largest_of(to->peak_bytes, to->used_bytes);
    store_relaxed(&s->heap, to);
    for (uint32_t i = 0; i < hak_classes[class].units; i++)
        unit_set_word(slab_unit(s) + i, (uintptr_t)magazine_of(to, class));
}

void slab_adopt(struct slab *s, struct heap *from, struct heap *to)
{
    slab_kept_to_used(from, s);
    slab_unlist(from, s);
    slab_move(s, from, to);
    count(to, COUNTER_pool_stage1, 1);
}

/* Likewise. */
static struct slab *slab_orphaned_to_owned(struct heap *from, struct heap *to, uint32_t class)
{
    uint32_t link = from->classes[class].list;
    if (link == 0 || load_relaxed(&from->state) != HEAP_ORPHAN)
        return NULL;
    struct slab *s = slab_at(link - 1);
    slab_adopt(s, from, to);
    return s;
}

/* A few looks at a time: where they find nothing the next call goes on there, so that the newest orphans hide no others. */
struct slab *registry_adopt_slab(struct heap *h, uint32_t class)
{
    _Atomic uint64_t *orphaned = &registry.orphaned[class / 64];
    _Atomic(struct heap *) *next_look = &registry.next_look[class];
    uint64_t bit = class_bit(class);
    if (HAK_LIKELY((load_relaxed(orphaned) & bit) == 0 && load_relaxed(next_look) == NULL) ||
        !lock_try(&registry.lock))
        return NULL;
    struct heap *o = load_relaxed(next_look);
    /* Before the round's first look: who lists one in a heap after that was looked at finds this done, as its lock says. */
    if (o == NULL) {
        and_relaxed(orphaned, ~bit);
        o = registry.orphans;
    }
    bool may_be_more = false;
    struct slab *s = NULL;
    for (int looks = 0; o != NULL && s == NULL && looks < ADOPT_LOOKS; looks++) {
        bool has_lock = o != h && lock_try(&o->lock);
        if (has_lock) {
            s = slab_orphaned_to_owned(o, h, class);
            heap_unlock_visited(o);
        }
        may_be_more |= s != NULL || (o != h && !has_lock);
        o = o->orphan_next;
    }
    if (may_be_more)
        or_relaxed(orphaned, bit);
    if (s == NULL)
        store_relaxed(next_look, o);
    lock_release(&registry.lock);
    return s;
}
