/* Refill and flush: what a magazine does when it is empty or full. */
#include <string.h>

#include "base/probe.h"
#include "control/options.h"
#include "heap/capacity.h"
#include "heap/hollow.h"
#include "heap/paged.h"
#include "heap/shared.h"
#include "heap/shuffle.h"
#include "heap/surplus.h"
#include "os/os.h"
#include "pages/pages.h"
#include "profile/rate.h"
#include "purge/purge.h"

enum {
    BATCH_FIRST = 4,       /* blocks of a magazine's first refill, doubled at each */
    GROWN_MIN = 512 << 10, /* growth by so much is followed by a sweep, or ... */
    GROWN_SHARE = 32,      /* ... by this share of what is in use */
    SPARSE_SHARE = 8,      /* a class is sparse below one eighth of its blocks in use ... */
    SPARSE_MIN = 8,        /* ... of so many units and more */
    SHRUNK_SHARE = 3,      /* a heap has shrunk at a third of the bytes it had in use ... */
    SHRUNK_MIN = 2 << 20,  /* ... if that was worth it */
    GATHERED_FROM = 2 * PARCEL_BLOCKS /* blocks in use: fewer would each keep a slab, waiting */
};

void open_magazine(struct magazine *m, void **top)
{
    magazine_open(m, top);
    if (m->size > UNIT_SIZE)
        paged_opened(m);
}

void close_magazine(struct magazine *m)
{
    magazine_close(m);
}

/* One block in the magazine of a class that nobody asks for keeps its whole slab, pages included, from
 * others. So a heap that has grown first looks which classes it took nothing of meanwhile. One that does
 * not grow is never swept. Blocks of pages go back where others want theirs (paged.h). */
static HAK_NOINLINE void sweep(struct heap *h)
{
    for (uint32_t class = 0; class < FIRST_PAGED; class ++) {
        if (!h->classes[class].taken) {
            empty_magazine(h, class);
            class_release_kept(h, class);
        }
        h->classes[class].taken = false;
    }
    h->grown_bytes = 0;
    count(h, COUNTER_sweep, 1);
}

static void sweep_if_due(struct heap *h)
{
    size_t share = h->used_bytes / GROWN_SHARE;
    if (HAK_UNLIKELY(h->grown_bytes > (share > GROWN_MIN ? share : GROWN_MIN)))
        sweep(h);
}

static HAK_NOINLINE void unlock_and_look(struct heap *h)
{
    hollow_look_if_due(h);
    heap_unlock(h);
}

/* ---- refill ---- */

static bool next_is_zeroed(struct heap *h, uint32_t class)
{
    const struct slab *s = heap_find_slab(h, class);
    return s != NULL && slab_next_is_zeroed(s);
}

/* A block that may hold whole pages is worth a refill of its own if that spares clearing it: what the
 * program does not touch of it then stays without a page. */
static bool worth_a_refill(uint32_t class)
{
    return hak_classes[class].size > hak_region.page_size;
}

static uint32_t next_batch(struct magazine *m)
{
    uint32_t most = refill_most(m->cap);
    uint32_t batch = m->batch != 0 ? 2U * m->batch : BATCH_FIRST;
    m->batch = (uint8_t)(batch < most ? batch : most);
    return m->batch;
}

/* A thread of many that needs few blocks of pages has no magazine for them. They are counted with slots as well. */
static bool gets_slots(struct heap *h, uint32_t class)
{
    uint32_t cap = magazine_of(h, class)->cap;
    return cap < hak_classes[class].slots &&
           (HAK_LIKELY(!heaps_are_many()) || !needs_little(h, class) || cap != 0);
}

/* A block alone: each is a slab of its own, and nothing is saved by taking more. */
static void *fill_paged(struct heap *h, uint32_t class, bool *zeroed)
{
    struct magazine *m = magazine_of(h, class);
    bool is_zeroed = false;
    if (gets_slots(h, class))
        adjust_slots(h, class);
    void *p = paged_refill(h, class, &is_zeroed);
    if (m->cap != 0)
        open_magazine(m, magazine_slots(m) + m->cap);
    if (zeroed != NULL)
        *zeroed = is_zeroed;
    return p;
}

/* From the slabs of that heap, h or a shared one; `most` blocks at most. */
static void *fill_from(struct heap *h, struct heap *from, uint32_t class, uint32_t most,
                       bool *zeroed)
{
    struct magazine *m = magazine_of(h, class);
    if (m->cap == 0)
        return heap_take_one(from, class);
    uint32_t wanted = next_batch(m);
    wanted = wanted < most ? wanted : most;
    if (zeroed != NULL && (wanted == 1 || worth_a_refill(class)) && next_is_zeroed(from, class)) {
        *zeroed = true;
        wanted = 1;
    }
    void **end = magazine_slots(m) + m->cap, **top = end - wanted;
    uint32_t taken = heap_take(from, class, top, wanted);
    probe_refill(class, taken);
    if (taken < wanted)
        memmove(end - taken, top, taken * sizeof *top);
    blocks_shuffle(end - taken, taken);
    note_refill(h, class, taken);
    /* Before it is open: a signal handler may then free a block, and that is no zeroed one. */
    void **first = end - taken, *p = taken != 0 ? *first++ : NULL;
    open_magazine(m, first);
    return p;
}

static void *fill(struct heap *h, uint32_t class, bool *zeroed)
{
    h->classes[class].active = HANDS;
    if (class >= FIRST_PAGED)
        return fill_paged(h, class, zeroed);
    uint32_t most = SLOTS_MOST;
    struct heap *from = HAK_LIKELY(!heaps_are_many()) ? h : shared_or_own(h, class, &most);
    adjust_slots(h, class);
    void *p = fill_from(h, from, class, most, zeroed);
    if (HAK_UNLIKELY(from != h))
        heap_unlock_visited(from);
    return p;
}

/* Closes it. A block may have come since the fast path looked, out of the inbox or from a signal handler:
 * then it is open again. */
static bool reopen_unless_empty(struct magazine *m)
{
    close_magazine(m);
    if (m->top == magazine_slots(m) + m->cap)
        return false;
    open_magazine(m, m->top);
    return true;
}

void *heap_refill(struct heap *h, uint32_t class, bool *zeroed)
{
    struct magazine *m = magazine_of(h, class);
    if (HAK_UNLIKELY(!lock_take(&h->lock)))
        return NULL;
    count(h, COUNTER_refill, 1);
    inbox_open_for(h, class);
    outbox_empty_own(h);
    heap_changed(h, class);
    void *p = NULL;
    while (p == NULL && reopen_unless_empty(m))
        p = magazine_pop(m);
    if (p == NULL) {
        p = fill(h, class, zeroed);
        surplus_note(h, class);
        sweep_if_due(h);
    }
    unlock_and_look(h);
    return p;
}

/* ---- flush ---- */

/* A class that has lost most of its blocks: what its magazine holds would keep slabs from becoming
 * empty, so it holds nothing until the class is asked for again; unless that came from the slab that is filled. What it holds
 * counts as in use, so that a magazine that is long for so few slabs stays. */
static bool is_sparse(const struct heap *h, uint32_t class)
{
    const struct class_slabs *c = &h->classes[class];
    size_t blocks = (size_t)c->slabs * hak_classes[class].capacity;
    return c->slabs * hak_classes[class].units >= SPARSE_MIN && c->used * SPARSE_SHARE < blocks &&
           !h->magazines.of[class].gives;
}

/* The same for the heap: blocks freed last lie anywhere, and each keeps its slab. */
static bool has_shrunk(struct heap *h)
{
    return h->peak_bytes >= SHRUNK_MIN && h->used_bytes <= h->peak_bytes / SHRUNK_SHARE &&
           !heap_swings(h);
}

static HAK_COLD void flush_all(struct heap *h)
{
    count(h, COUNTER_flush_all, 1);
    heap_empty_magazines(h, HAND_ALL);
    magazines_lose_slots(h);
    heap_release_kept(h);
    h->peak_bytes = h->emptied_bytes = h->used_bytes;
    h->emptied_ms = os_now_ms();
    h->taken_bytes = 0;
    /* What is left to do about it the next glance finds (front.c), which is not to wait for a long countdown. */
    h->magazines.sampler.at_once = LEFT_LEAST;
    rate_draw(&h->magazines.sampler);
}

/* The oldest blocks of a full magazine make room for this one. */
static void spill(struct heap *h, uint32_t class, void *p)
{
    struct magazine *m = magazine_of(h, class);
    close_magazine(m);
    void **slots = magazine_slots(m);
    if (m->top != slots) { /* it only looked full, or a signal handler has taken one since */
        m->top[-1] = p;    /* while it is closed: a handler's block would be in its way */
        open_magazine(m, m->top - 1);
        heap_changed(h, class);
        return;
    }
    uint32_t batch = flush_most(m->cap, class), keep = m->cap - batch;
    heap_put_all(h, class, slots + keep, batch);
    memmove(slots + batch, slots, keep * sizeof *slots);
    slots[batch - 1] = p;
    note_spill(h, class);
    open_magazine(m, slots + batch - 1);
}

static void flush_own(struct heap *h, uint32_t class, void *p)
{
    if (HAK_UNLIKELY(!lock_take(&h->lock)))
        return;
    count(h, COUNTER_flush, 1);
    outbox_empty_own(h);
    if (has_shrunk(h)) {
        flush_all(h);
    } else if (is_sparse(h, class)) {
        count(h, COUNTER_flush_sparse, 1);
        magazine_falls(h, class);
    }
    h->classes[class].active = HANDS;
    if (magazine_takes(magazine_of(h, class)))
        spill(h, class, p);
    else if (hak_classes[class].size <= GATHERED_MAX && h->classes[class].used > GATHERED_FROM)
        remote_send(h, (uintptr_t)magazine_of(h, class), p, true);
    else
        heap_put_all(h, class, &p, 1); /* whose slab may have another heap by now (surplus.h) */
    if (class >= FIRST_PAGED)
        paged_limit(h, class, p);
    else
        surplus_note(h, class);
    unlock_and_look(h);
}

static void flush_foreign(struct heap *h, uintptr_t word, void *p)
{
    uint32_t class = class_of_word(word);
    remote_send(h, word, p, false);
    if (class < FIRST_PAGED || !lock_take(&h->lock))
        return;
    paged_limit(h, class, NULL);
    heap_unlock(h);
}

void heap_flush(struct heap *h, uintptr_t word, void *p)
{
    struct magazine *m = magazine_for_word(h, word);
    /* The fast path sends a block here as well because it is the magazine's newest. */
    if (magazine_newest_is(m, p))
        die_double_free(p);
    if (magazine_push(m, p))
        return;
    if (heap_of_word(word) == h)
        flush_own(h, class_of_word(word), p);
    else
        flush_foreign(h, word, p);
}

void heap_empty_magazines(struct heap *h, enum hand hand)
{
    for (uint32_t class = 0; class < CLASS_COUNT; class ++) {
        struct class_slabs *c = &h->classes[class];
        uint8_t kept = (uint8_t)magazine_kept(magazine_of(h, class));
        /* One of which only the fast paths take and give is in use as well. */
        if ((c->active & hand) == 0 && (hand != HAND_IDLE || c->seen == kept))
            empty_magazine(h, class);
        c->active = (uint8_t)(c->active & ~hand);
        c->seen = kept;
    }
    paged_limit(h, FIRST_PAGED, NULL);
}
