/* Refill and flush: what a magazine does when it is empty or full, and how large it is.
 *
 * A magazine has as many slots as its class has shown to need. Refills alone make it `plain` slots long (what
 * a program that only grows can use); longer ones, up to LONG_BYTES, are for classes whose blocks come
 * back in such numbers that what is spilled is wanted again (the setting `magazines`; decision 0049). All magazines of
 * a heap together stay within a budget; the hand that goes round takes the slots of idle ones. */
#include <string.h>

#include "base/probe.h"
#include "control/options.h"
#include "heap/heap.h"
#include "heap/hollow.h"
#include "heap/paged.h"
#include "heap/registry.h"
#include "heap/shuffle.h"
#include "pages/pages.h"
#include "pressure/pressure.h"
#include "purge/purge.h"

enum {
    BATCH_FIRST = 4,   /* blocks of a magazine's first refill, doubled at each ... */
    BATCH_MAX = 32,    /* ... up to this or half a magazine, which a flush moves as well ... */
    BATCH_SHARE = 8,   /* ... unless this share of a magazine is more: it is moved up by a flush */
    CAP_FIRST = 8,     /* slots a magazine starts with */
    SWINGS_ENOUGH = 4, /* swings after which a magazine is made longer */
    SWING_SHARE = 4,   /* a swing ends with this share of a magazine taken in one go ... */
    SWING_MIN = 16,    /* ... or so much if it has that: a mix does so once in 65,536 times */
    LONG_BYTES = 128 << 10, /* what fits into the longest magazine of a class */
    BUDGET_MIN = 2 << 20,   /* all capacities together stay within this many bytes ... */
    BUDGET_SHARE = 32,      /* ... and this share of what the heap has in use */
    GROWN_MIN = 512 << 10,  /* growth by so much is followed by a sweep, or ... */
    GROWN_SHARE = 32,       /* ... by this share of what is in use */
    SPARSE_SHARE = 8,       /* a class is sparse below one eighth of its blocks in use ... */
    SPARSE_MIN = 8,         /* ... of so many units and more */
    SHRUNK_SHARE = 4,       /* a heap has shrunk at a quarter of the bytes it had in use ... */
    SHRUNK_MIN = 2 << 20,   /* ... if that was worth it */
    GATHERED_FROM = 2 * PARCEL_BLOCKS, /* blocks in use: fewer would each keep a slab, waiting */
};

/* ---- slots ---- */

/* Values of the setting `magazines`, in the order of its words. */
enum { MAGAZINES_FIXED, MAGAZINES_LONGEST, MAGAZINES_LEARNT, MAGAZINES_SHUFFLED };

void open_magazine(struct magazine *m, void **top)
{
    magazine_open(m, top);
}

void close_magazine(struct magazine *m)
{
    magazine_close(m);
}

static uint32_t power_of_two_within(size_t n)
{
    return (uint32_t)1 << (63 - (uint32_t)__builtin_clzll(n));
}

static uint32_t most_slots(uint32_t class)
{
    if (hak_classes[class].size > SMALL_MAX)
        return hak_classes[class].slots;
    uint32_t slots = power_of_two_within(LONG_BYTES / hak_classes[class].size);
    return slots < SLOTS_MOST ? slots : SLOTS_MOST;
}

/* Whether it becomes longer than its class is wont to be. */
static bool may_grow(const struct magazine *m, uint32_t class)
{
    if (m->cap >= most_slots(class))
        return false;
    if (hak_options.magazines <= MAGAZINES_LONGEST)
        return hak_options.magazines == MAGAZINES_LONGEST;
    return hak_options.learn && m->swings == SWINGS_ENOUGH;
}

static uint32_t wanted_slots(const struct magazine *m, uint32_t class)
{
    uint32_t plain = hak_classes[class].slots, wanted = m->cap;
    if (wanted == 0)
        wanted = plain < CAP_FIRST ? plain : CAP_FIRST;
    else if (wanted < plain || may_grow(m, class))
        wanted *= 2;
    uint32_t most = power_of_two_within(hak_options.magazine_max);
    return wanted < most ? wanted : most;
}

static bool within_budget(const struct heap *h, size_t more)
{
    return h->magazine_bytes + more <= BUDGET_MIN + h->used_bytes / BUDGET_SHARE &&
           !pressure_is(PRESSURE_NEAR);
}

static void exchange_slots(struct heap *h, uint32_t class, void **slots, uint32_t cap)
{
    struct magazine *m = magazine_of(h, class);
    void **old = magazine_slots(m);
    uint32_t before = m->cap;
    magazine_exchange(m, slots, cap);
    heap_has_class(h, class);
    h->classes[class].spilled = 0; /* that was in the old slots; a fork's child may still say so */
    if (before != 0)
        slots_give(h, old, before);
    if (class >= FIRST_PAGED) /* whose blocks have a limit of their own (paged.h) */
        return;
    h->magazine_bytes += cap * (size_t)hak_classes[class].size;
    h->magazine_bytes -= before * (size_t)hak_classes[class].size;
}

/* Closed afterwards. */
static void empty_magazine(struct heap *h, uint32_t class)
{
    struct magazine *m = magazine_of(h, class);
    if (!magazine_is_open(m))
        return;
    close_magazine(m);
    void **top = m->top, **end = magazine_slots(m) + m->cap;
    heap_put_all(h, class, top, (size_t)(end - top));
    magazine_set_top(m, end);
    m->batch = 0;
    h->classes[class].spilled = 0;
}

/* One class on in turn: a magazine that was neither refilled nor flushed for a whole round loses its
 * slots. */
static void move_budget_hand(struct heap *h)
{
    uint32_t class = h->budget_hand;
    h->budget_hand = class + 1 < CLASS_COUNT ? class + 1 : 0;
    if ((h->classes[class].active & HAND_BUDGET) == 0 && magazine_of(h, class)->cap != 0) {
        empty_magazine(h, class);
        exchange_slots(h, class, NULL, 0);
    }
    h->classes[class].active &= HAND_IDLE;
}

static uint32_t spill_batch(uint32_t cap, uint32_t class)
{
    if (class >= FIRST_PAGED)
        return 1;
    uint32_t half = (cap + 1) / 2, share = cap / BATCH_SHARE;
    uint32_t batch = share < BATCH_MAX ? BATCH_MAX : share;
    return batch < half ? batch : half;
}

static uintptr_t sum_of(void *const *slots, size_t n)
{
    uintptr_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (uintptr_t)slots[i];
    return sum;
}

/* One that is in use; for the placebo. */
static HAK_COLD struct magazine *any_magazine(struct heap *h)
{
    static _Atomic uint32_t turn;
    uint32_t first = add_relaxed(&turn, 1), i = 0;
    while (i < CLASS_COUNT && magazine_of(h, (first + i) % CLASS_COUNT)->cap == 0)
        i++;
    return magazine_of(h, (first + i) % CLASS_COUNT);
}

/* How many of the oldest blocks that a spill leaves have to be taken in one go for a swing. */
static uint32_t depth_of_swing(const struct magazine *m, uint32_t class)
{
    uint32_t kept = m->cap - spill_batch(m->cap, class) + 1, depth = m->cap / SWING_SHARE;
    return kept < SWING_MIN ? kept : depth < SWING_MIN ? SWING_MIN : depth;
}

static uintptr_t sum_of_oldest(const struct magazine *m, uint32_t class)
{
    uint32_t depth = depth_of_swing(m, class);
    return sum_of(magazine_slots(m) + (m->cap - depth), depth);
}

/* Has the magazine run full, and then dry, the last of it without a block freed in between? Popping leaves a slot as it is and
 * pushing overwrites it, so the slots tell, without a count on the fast path. If so, more blocks
 * came back than the magazine could take and more were wanted than it had: they swing wider than it is
 * long. Where frees and requests are mixed a magazine runs full and dry as well, but rarely, and a longer
 * one would gain little. */
static void note_swing(struct heap *h, uint32_t class)
{
    struct magazine *m = magazine_of(h, class);
    struct class_slabs *c = &h->classes[class];
    if (c->spilled == 0)
        return;
    bool swung = sum_of_oldest(m, class) == c->spilled;
    c->spilled = 0;
    if (swung && HAK_UNLIKELY(hak_options.magazines == MAGAZINES_SHUFFLED))
        m = any_magazine(h);
    if (swung && m->swings < SWINGS_ENOUGH)
        m->swings++;
}

static HAK_COLD void log_growth(const struct magazine *m, uint32_t class, uint32_t to)
{
    purge_log(&(struct decision){
        .policy = POLICY_MAGAZINE, .key = class, .from = m->cap, .to = to, .episodes = m->swings});
}

/* Whether it may still show that it is too short; for the placebo, that another is. */
static bool counts_swings(const struct magazine *m, uint32_t class)
{
    if (!hak_options.learn || hak_options.magazines < MAGAZINES_LEARNT)
        return false;
    return hak_options.magazines == MAGAZINES_SHUFFLED ||
           (m->swings < SWINGS_ENOUGH && m->cap < most_slots(class));
}

/* Of a closed, empty magazine that has been missed. */
static void adjust_slots(struct heap *h, uint32_t class)
{
    struct magazine *m = magazine_of(h, class);
    note_swing(h, class);
    uint32_t wanted = wanted_slots(m, class);
    if (wanted <= m->cap)
        return;
    if (m->cap != 0 && class < FIRST_PAGED &&
        !within_budget(h, (wanted - m->cap) * (size_t)hak_classes[class].size)) {
        move_budget_hand(h);
        return;
    }
    void **slots = slots_take(h, wanted);
    if (slots == NULL)
        return;
    if (wanted > hak_classes[class].slots)
        log_growth(m, class, wanted);
    exchange_slots(h, class, slots, wanted);
}

/* One block in the magazine of a class that nobody asks for keeps its whole slab, pages included, from
 * others. So a heap that has grown first looks which classes it took nothing of meanwhile. One that does
 * not grow is never swept. */
static HAK_NOINLINE void sweep(struct heap *h)
{
    for (uint32_t class = 0; class < CLASS_COUNT; class ++) {
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
    uint32_t half = (m->cap + 1U) / 2, most = half < BATCH_MAX ? half : BATCH_MAX;
    uint32_t batch = m->batch != 0 ? 2U * m->batch : BATCH_FIRST;
    m->batch = (uint8_t)(batch < most ? batch : most);
    return m->batch;
}

/* A block alone: each is a slab of its own, and nothing is saved by taking more. */
static void *fill_paged(struct heap *h, uint32_t class, bool *zeroed)
{
    struct magazine *m = magazine_of(h, class);
    bool is_zeroed = false;
    if (m->cap < hak_classes[class].slots)
        adjust_slots(h, class);
    void *p = paged_refill(h, class, &is_zeroed);
    if (m->cap != 0)
        open_magazine(m, magazine_slots(m) + m->cap);
    if (zeroed != NULL)
        *zeroed = is_zeroed;
    return p;
}

static void *fill(struct heap *h, uint32_t class, bool *zeroed)
{
    struct magazine *m = magazine_of(h, class);
    h->classes[class].active = HANDS;
    if (class >= FIRST_PAGED)
        return fill_paged(h, class, zeroed);
    adjust_slots(h, class);
    if (m->cap == 0)
        return heap_take_one(h, class);
    uint32_t wanted = next_batch(m);
    if (zeroed != NULL && (wanted == 1 || worth_a_refill(class)) && next_is_zeroed(h, class)) {
        *zeroed = true;
        wanted = 1;
    }
    void **end = magazine_slots(m) + m->cap, **top = end - wanted;
    uint32_t taken = heap_take(h, class, top, wanted);
    probe_refill(class, taken);
    if (taken < wanted)
        memmove(end - taken, top, taken * sizeof *top);
    blocks_shuffle(end - taken, taken);
    /* Before it is open: a signal handler may then free a block, and that is no zeroed one. */
    void **first = end - taken, *p = taken != 0 ? *first++ : NULL;
    open_magazine(m, first);
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
        sweep_if_due(h);
    }
    unlock_and_look(h);
    return p;
}

/* ---- flush ---- */

/* A class that has lost most of its blocks: what its magazine holds would keep slabs from becoming
 * empty, so it holds nothing until the class is asked for again; unless that came from the slab that is filled. */
static bool is_sparse(const struct heap *h, uint32_t class)
{
    const struct class_slabs *c = &h->classes[class];
    size_t blocks = (size_t)c->slabs * hak_classes[class].capacity;
    return c->slabs * hak_classes[class].units >= SPARSE_MIN && c->used * SPARSE_SHARE < blocks &&
           !h->magazines.of[class].gives;
}

/* The same for the heap: blocks freed last lie anywhere, and each keeps its slab. */
static bool has_shrunk(const struct heap *h)
{
    return h->peak_bytes >= SHRUNK_MIN && h->used_bytes <= h->peak_bytes / SHRUNK_SHARE;
}

static HAK_COLD void flush_all(struct heap *h)
{
    count(h, COUNTER_flush_all, 1);
    heap_empty_magazines(h, HAND_ALL);
    heap_release_kept(h);
    h->peak_bytes = h->used_bytes;
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
    uint32_t batch = spill_batch(m->cap, class), keep = m->cap - batch;
    heap_put_all(h, class, slots + keep, batch);
    memmove(slots + batch, slots, keep * sizeof *slots);
    slots[batch - 1] = p;
    h->classes[class].spilled = counts_swings(m, class) ? sum_of_oldest(m, class) : 0;
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
        empty_magazine(h, class);
    }
    h->classes[class].active = HANDS;
    if (magazine_takes(magazine_of(h, class)))
        spill(h, class, p);
    else if (hak_classes[class].size <= GATHERED_MAX && h->classes[class].used > GATHERED_FROM)
        remote_send(h, (uintptr_t)magazine_of(h, class), p, true);
    else
        heap_put(h, slab_of_unit(unit_of(p)), p);
    if (class >= FIRST_PAGED)
        paged_limit(h, class);
    unlock_and_look(h);
}

static void flush_foreign(struct heap *h, uintptr_t word, void *p)
{
    uint32_t class = class_of_word(word);
    remote_send(h, word, p, false);
    if (class < FIRST_PAGED || !lock_take(&h->lock))
        return;
    paged_limit(h, class);
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
}
