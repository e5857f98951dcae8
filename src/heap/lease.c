#include "heap/lease.h"

#include "heap/put.h"
#include "heap/registry.h"

enum { BATCH_BYTES = 4 << 10 }; /* of blocks that are taken at once */

static HAK_NOINLINE void lease_clear(struct lease *l)
{
    for (uint32_t class = 0; class < LEASED_CLASSES; class ++)
        store_relaxed(&l->of_class[class].kept, (size_t)0);
    store_relaxed(&l->of, NULL);
}

/* ---- with the lock of their heap held ---- */

/* The number first, and last in take_back: in the child of a handler that forks in between it may be too high, and never too
 * low. */
static void lease_begin(struct lease *l, struct heap *of)
{
    /* Who frees beside the end of a heap, which no thread may, could have left some that are another's by now. */
    lease_clear(l);
    of->parts.leases++;
    atomic_signal_fence(memory_order_seq_cst);
    store_relaxed(&l->of, of);
}

/* The newest blocks, but for so many. */
static void put_some(struct leased *l, struct heap *of, uint32_t class, size_t keep)
{
    size_t kept = load_relaxed(&l->kept);
    if (kept <= keep)
        return;
    explicit_put(of, class, l->blocks + keep, kept - keep);
    store_relaxed(&l->kept, keep);
}

static void take_back(struct lease *l, struct heap *of)
{
    for (uint32_t class = 0; class < LEASED_CLASSES; class ++)
        put_some(&l->of_class[class], of, class, 0);
    /* release: its thread, which finds it empty without the lock, sees it so.
     * model: no scenario notices relaxed; `kept` must not become 0 after the thread has filled it anew. */
    store_release(&l->of, NULL);
    atomic_signal_fence(memory_order_seq_cst);
    of->parts.leases--;
}

static void take_back_from(struct heap *by, void *heap)
{
    struct lease *l = lease_by(by, heap);
    if (l != NULL)
        take_back(l, heap);
}

/* Mostly the calling thread has the only one. */
void leases_take_back(struct heap *of)
{
    take_back_from(hak_thread.heap, of);
    if (of->parts.leases != 0)
        registry_each(take_back_from, of);
    of->parts.leases = 0;
}

struct sum {
    const struct heap *of;
    size_t blocks, bytes;
};

static void add_from(struct heap *by, void *sum)
{
    struct sum *s = sum;
    const struct lease *l = lease_by(by, s->of);
    for (uint32_t class = 0; l != NULL && class < LEASED_CLASSES; class ++) {
        size_t kept = load_relaxed(&l->of_class[class].kept);
        s->blocks += kept;
        s->bytes += kept * hak_classes[class].size;
    }
}

void leases_read(const struct heap *of, size_t *blocks, size_t *bytes)
{
    struct sum sum = {.of = of};
    registry_each(add_from, &sum);
    *blocks = sum.blocks;
    *bytes = sum.bytes;
}

/* ---- the thread's ---- */

HAK_COLD size_t leases_kept(const struct heap *own, uint32_t class)
{
    size_t kept = 0;
    for (int i = 0; i < LEASES && class < LEASED_CLASSES; i++) {
        /* acquire: pairs with lease_make.
         * model: no scenario reads these numbers; as in lease_by, where one notices. */
        const struct lease *l = load_acquire(&own->leases[i]);
        kept += l != NULL ? load_relaxed(&l->of_class[class].kept) : 0;
    }
    return kept;
}

/* It may have been taken back meanwhile, by who has ended that heap. */
static void lease_end(struct lease *l)
{
    struct heap *of = load_relaxed(&l->of);
    if (of == NULL || !explicit_enter(of))
        return;
    if (load_relaxed(&l->of) == of)
        take_back(l, of);
    explicit_leave(of);
}

HAK_COLD void leases_end(struct heap *own)
{
    bool may = lease_enter();
    for (int i = 0; i < LEASES && may; i++) {
        struct lease *l = load_relaxed(&own->leases[i]);
        if (l != NULL)
            lease_end(l);
    }
    if (may)
        lease_leave();
}

/* NULL: no memory. */
static struct lease *lease_new(struct heap *own)
{
    thread_enter();
    struct lease *l = NULL;
    if (lock_take(&own->lock)) {
        l = (struct lease *)(void *)slots_take(own, LEASE_SLOTS);
        if (l != NULL)
            lease_clear(l);
        heap_unlock(own);
    }
    thread_leave();
    return l;
}

/* Another heap's in the same place ends. NULL: no memory, or that of a thread without a heap. */
static HAK_NOINLINE struct lease *lease_make(struct heap *of)
{
    struct heap *own = hak_thread.heap;
    if (own == &hak_empty_heap)
        return NULL;
    struct lease *l = load_relaxed(&own->leases[lease_place(of)]);
    if (l != NULL)
        lease_end(l);
    else if ((l = lease_new(own)) != NULL)
        store_release(&own->leases[lease_place(of)], l); /* and whoever finds it sees it empty */
    /* acquire: pairs with take_back.
     * model: see there. */
    return l != NULL && load_acquire(&l->of) == NULL ? l : NULL;
}

/* ---- a block ---- */

static uint32_t batch_for(uint32_t class)
{
    size_t batch = BATCH_BYTES / hak_classes[class].size;
    return (uint32_t)least_of(LEASED_MOST, batch);
}

/* The lowest is the first to be taken from the lease. */
static void *fill(struct lease *lease, uint32_t class, void **blocks, uint32_t taken)
{
    struct leased *l = &lease->of_class[class];
    for (size_t i = 0; i + 1 < taken; i++)
        l->blocks[i] = blocks[taken - 1 - i];
    store_relaxed(&l->kept, (size_t)taken - 1);
    return blocks[0];
}

/* `l`: the lease to be filled, which may be none's yet; NULL: the block alone. */
static void *alloc_locked(struct heap *of, struct lease *l, uint32_t class, bool *zeroed)
{
    void *blocks[LEASED_MOST], *p = NULL;
    if (!explicit_enter(of))
        return NULL;
    if (load_relaxed(&of->state) == HEAP_EXPLICIT) {
        if (l != NULL && load_relaxed(&l->of) == NULL)
            lease_begin(l, of);
        uint32_t taken = explicit_take(of, class, blocks, l != NULL ? batch_for(class) : 1, zeroed);
        if (taken != 0)
            p = l != NULL ? fill(l, class, blocks, taken) : blocks[0];
    }
    explicit_leave(of);
    if (p != NULL && !*zeroed)
        *(uintptr_t *)p = 0; /* no mark any more */
    return p;
}

static void *alloc_leased(struct heap *of, uint32_t class, bool *zeroed)
{
    struct lease *l = lease_of(of);
    void *p = l != NULL ? leased_pop(&l->of_class[class]) : NULL;
    if (p != NULL)
        return p;
    return alloc_locked(of, l != NULL ? l : lease_make(of), class, zeroed);
}

void *lease_alloc(struct heap *of, uint32_t class, bool *zeroed)
{
    *zeroed = false;
    if (class >= LEASED_CLASSES || !lease_enter())
        return alloc_locked(of, NULL, class, zeroed);
    void *p = alloc_leased(of, class, zeroed);
    lease_leave();
    return p;
}

/* Of one whose first word says that it is free, which it may do by chance. */
static HAK_COLD void refuse_held(const struct leased *l, void *p)
{
    for (size_t i = 0, kept = load_relaxed(&l->kept); i < kept; i++) {
        if (l->blocks[i] == p)
            die_double_free(p);
    }
}

static bool put_locked(struct heap *of, struct leased *l, uint32_t class, void *p)
{
    struct slab *s = slab_of_unit(unit_of(p));
    bool is_sample = explicit_forget_sample(s, p);
    if (!explicit_enter(of)) {
        explicit_defer(of, p);
        return true;
    }
    bool is_here = unit_word(unit_of(p)) == WORD_EXPLICIT && load_relaxed(&s->heap) == of;
    if (is_here && l != NULL)
        put_some(l, of, class, LEASED_MOST / 2);
    if (is_here && is_sample)
        explicit_count_down(s);
    if (is_here) {
        *(uintptr_t *)p = leased_mark(p);
        explicit_put(of, class, &p, 1);
    }
    explicit_leave(of);
    return is_here;
}

/* False: with the lock, because it is free, or there is no room, or no lease. */
static bool push(struct heap *of, uint32_t class, void *p, struct leased **full)
{
    struct lease *l = lease_of(of);
    if (l == NULL)
        return false;
    struct leased *to = &l->of_class[class];
    size_t kept = load_relaxed(&to->kept);
    uintptr_t *first = p;
    if (HAK_UNLIKELY(leased_says_free(p))) {
        refuse_held(to, p);
        return false; /* its slab knows it, if it is there */
    }
    if (HAK_UNLIKELY(kept == LEASED_MOST)) {
        *full = to;
        return false;
    }
    *first = leased_mark(p);
    to->blocks[kept] = p;
    store_relaxed(&to->kept, kept + 1);
    return true;
}

bool lease_free(struct heap *of, void *p)
{
    const struct slab *s = slab_of_unit(unit_of(p));
    uint32_t class = s->class;
    struct leased *full = NULL;
    if (class >= LEASED_CLASSES || load_relaxed(&s->sampled) != 0 || !lease_enter())
        return put_locked(of, NULL, class, p);
    bool is_free = push(of, class, p, &full) || put_locked(of, full, class, p);
    lease_leave();
    return is_free;
}

/* ---- the child of a fork ---- */

HAK_COLD void leases_forget(struct heap *h)
{
    for (int i = 0; i < LEASES; i++) {
        struct lease *l = load_relaxed(&h->leases[i]);
        if (l != NULL)
            lease_clear(l);
    }
}
