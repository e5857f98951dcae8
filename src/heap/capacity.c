#include "heap/capacity.h"

#include "control/options.h"
#include "heap/registry.h"
#include "heap/shared.h"
#include "os/os.h"
#include "pressure/pressure.h"
#include "purge/purge.h"

enum {
    CAP_FIRST = 8,          /* slots a magazine starts with, ... */
    CAP_FIRST_LARGE = 4,    /* ... or of blocks ... */
    LARGE_FROM = 4097,      /* ... that are so large */
    SWINGS_ENOUGH = 4,      /* swings after which a magazine is made longer */
    SWING_SHARE = 4,        /* a swing ends with this share of a magazine taken in one go ... */
    SWING_MIN = 16,         /* ... or so much if it has that: a mix does so once in 65,536 times */
    LONG_BYTES = 128 << 10, /* what fits into the longest magazine of a class, ... */
    LONG_BYTES_LARGE = 512 << 10, /* ... or of blocks above SMALL_MAX, ... */
    LONG_SHARE = 16,              /* ... or this share of the heap's budget if that is more, ... */
    LONG_FROM = 32 << 10,         /* ... of which one is a long one above so much */
    BUDGET_FIRST = 2 << 20, /* all capacities of a heap together stay within so many bytes, ... */
    BUDGET_MOST = 32 << 20, /* ... or so many if its blocks have come anew ... */
    TURNOVERS = 8,          /* ... so often since it was emptied, ... */
    BUDGET_ALL = 32 << 20,  /* ... its share of so many for all, where heaps are many, ... */
    BUDGET_ALL_BUSY =
        MANY_HEAPS * BUDGET_ALL,        /* ... where they are few, or for a busy class, ... */
    BUDGET_PAGED = 2 * BUDGET_ALL_BUSY, /* ... there of so many for blocks of pages, ... */
    BUDGET_SHARE = 32,                  /* ... and this share of what the heap has in use, ... */
    BUDGET_SHARE_PAGED = 4, /* ... or this one: what they hold is bounded by itself (paged.h) */
    GROWN_ANEW = 2,         /* a heap swings: it has grown to so many times what it had ... */
    SWING_MS = 1000         /* ... when it was emptied, no longer ago than that */
};

/* Values of the setting `magazines`, in the order of its words. */
enum { MAGAZINES_FIXED, MAGAZINES_LONGEST, MAGAZINES_LEARNT, MAGAZINES_SHUFFLED, MAGAZINES_SHADOW };

static uint32_t power_of_two_within(size_t n)
{
    return (uint32_t)1 << (63 - (uint32_t)__builtin_clzll(n));
}

/* What goes up and comes down once has no use for longer magazines, and would leave them full. */
static bool has_turned_over(const struct heap *h)
{
    return h->taken_bytes / TURNOVERS > h->peak_bytes;
}

/* The heap's part of what the magazines of all may have. */
static HAK_NOINLINE size_t share_of_all(const struct heap *h, uint32_t class)
{
    uint32_t heaps = registry_live_heaps(), all = BUDGET_ALL;
    if (is_busy(h, class) || heaps <= MANY_HEAPS)
        all = class < FIRST_PAGED ? BUDGET_ALL_BUSY : BUDGET_PAGED;
    return all / heaps;
}

/* What it has for slots, whatever is in use. */
static size_t plain_budget(const struct heap *h, uint32_t class)
{
    size_t most = has_turned_over(h) || is_busy(h, class) ? BUDGET_MOST : BUDGET_FIRST;
    return least_of(most, share_of_all(h, class));
}

static uint32_t most_slots(const struct heap *h, uint32_t class)
{
    const struct class_info *c = &hak_classes[class];
    if (c->size > UNIT_SIZE)
        return c->slots;
    size_t bytes = LONG_BYTES;
    if (c->size > SMALL_MAX)
        bytes = largest_of(LONG_BYTES_LARGE, plain_budget(h, class) / LONG_SHARE);
    uint32_t slots = power_of_two_within(bytes / c->size);
    return slots < SLOTS_MOST ? slots : SLOTS_MOST;
}

/* What it has learnt outlives its slots. */
static bool was_longer(const struct heap *h, uint32_t class)
{
    return h->magazines.of[class].cap >> h->classes[class].lost == 0;
}

static HAK_COLD void log_growth(const struct magazine *m, uint32_t class, uint32_t to)
{
    purge_log(&(struct decision){.policy = POLICY_MAGAZINE,
                                 .key = class,
                                 .from = m->cap,
                                 .to = to,
                                 .episodes = m->swings,
                                 .is_shadow = option(magazines) == MAGAZINES_SHADOW});
}

/* Whether it becomes longer than its class is wont to be. */
static bool may_grow(const struct heap *h, uint32_t class)
{
    const struct magazine *m = &h->magazines.of[class];
    uint64_t how = option(magazines);
    bool wants = how == MAGAZINES_LONGEST;
    if (how == MAGAZINES_LEARNT || how == MAGAZINES_SHUFFLED)
        wants = option(learn) && (m->swings == SWINGS_ENOUGH || was_longer(h, class));
    return wants && m->cap < most_slots(h, class);
}

static uint32_t wanted_slots(const struct heap *h, uint32_t class)
{
    uint32_t plain = hak_classes[class].slots, wanted = h->magazines.of[class].cap;
    if (wanted == 0)
        wanted = hak_classes[class].size < LARGE_FROM ? CAP_FIRST : CAP_FIRST_LARGE;
    else if (wanted < plain || may_grow(h, class))
        wanted *= 2;
    uint32_t most = power_of_two_within(option(magazine_max));
    return wanted < most ? wanted : most;
}

/* Few of the larger blocks are a lot of memory, with the slabs that they keep from becoming empty. Long magazines of them stay
 * within half of the budget, so that an idle process has little of it; but without any a class gives its slab up with each
 * last block, and takes another that touches other pages. */
static bool is_long_for(uint32_t class, uint32_t slots)
{
    size_t size = hak_classes[class].size;
    return size > SMALL_MAX && slots * size > LONG_FROM;
}

static size_t budget_for(const struct heap *h, uint32_t class, uint32_t slots)
{
    size_t budget = plain_budget(h, class) + h->used_bytes / BUDGET_SHARE;
    if (h->magazines.of[class].cap == 0)
        return 2 * budget;
    return is_long_for(class, slots) ? budget / 2 : budget;
}

/* What small blocks get at first is little. How many of pages stay is looked at as well (paged.h), but only by a thread that
 * goes on. */
static bool may_have(const struct heap *h, uint32_t class, uint32_t before, uint32_t slots)
{
    size_t size = hak_classes[class].size, more = (slots - before) * size;
    if (before == 0 && size <= SMALL_MAX)
        return true;
    bool fits =
        class < FIRST_PAGED
            ? h->magazine_bytes + more <= budget_for(h, class, slots)
            : h->paged_bytes + more <= share_of_all(h, class) + h->used_bytes / BUDGET_SHARE_PAGED;
    return fits && !pressure_is(PRESSURE_NEAR);
}

static size_t *capacities(struct heap *h, uint32_t class)
{
    return class < FIRST_PAGED ? &h->magazine_bytes : &h->paged_bytes;
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
    *capacities(h, class) += cap * (size_t)hak_classes[class].size;
    *capacities(h, class) -= before * (size_t)hak_classes[class].size;
}

void empty_magazine(struct heap *h, uint32_t class)
{
    struct magazine *m = magazine_of(h, class);
    h->classes[class].spilled = 0;
    if (!magazine_is_open(m))
        return;
    close_magazine(m);
    void **top = m->top, **end = magazine_slots(m) + m->cap;
    heap_put_all(h, class, top, (size_t)(end - top));
    magazine_set_top(m, end);
    m->batch = 0;
}

static void lose_slots(struct heap *h, uint32_t class)
{
    empty_magazine(h, class);
    uint32_t cap = magazine_of(h, class)->cap;
    if (cap == 0)
        return;
    h->classes[class].lost = lowest_bit(cap) & 15; /* a power of two */
    h->classes[class].busy = false;
    exchange_slots(h, class, NULL, 0);
}

HAK_COLD void magazines_lose_slots(struct heap *h)
{
    for (uint32_t class = 0; class < CLASS_COUNT; class ++)
        lose_slots(h, class);
}

/* One class on in turn: a magazine that was neither refilled nor flushed for a whole round loses its
 * slots. Not that of a busy class, which may seem idle because it serves all there is to do. */
static void move_budget_hand(struct heap *h)
{
    uint32_t class = h->budget_hand;
    h->budget_hand = class + 1 < CLASS_COUNT ? class + 1 : 0;
    bool is_idle = (h->classes[class].active & HAND_BUDGET) == 0;
    if (is_idle && !(is_busy(h, class) && heaps_are_many()))
        lose_slots(h, class);
    h->classes[class].active &= HAND_IDLE;
}

static uintptr_t sum_of(void *const *slots, size_t n)
{
    uintptr_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (uintptr_t)slots[i];
    return sum;
}

/* One that is in use; for the placebo. */
static struct magazine *any_magazine(struct heap *h)
{
    static _Atomic uint32_t turn;
    uint32_t first = add_relaxed(&turn, 1), i = 0;
    while (i < CLASS_COUNT && magazine_of(h, (first + i) % CLASS_COUNT)->cap == 0)
        i++;
    return magazine_of(h, (first + i) % CLASS_COUNT);
}

/* Instead of a sum: all went back, since the class had fallen to few blocks (magazine_falls), and refills have not come to their
 * full size since. No sum of blocks is odd. */
#define FALLEN ((uintptr_t)1)

/* Where nothing is learnt from a swing: whose counts instead. In the shadow its own, and before the last it is said how long it would
 * become. */
static HAK_COLD struct magazine *swung_instead(struct heap *h, struct magazine *m, uint32_t class)
{
    if (option(magazines) == MAGAZINES_SHUFFLED)
        return any_magazine(h);
    if (m->swings == SWINGS_ENOUGH - 1 && m->cap < most_slots(h, class)) {
        m->swings++;
        log_growth(m, class, 2 * m->cap);
    }
    return m;
}

/* How many of the oldest blocks that a spill leaves have to be taken in one go for a swing. */
static uint32_t depth_of_swing(const struct magazine *m, uint32_t class)
{
    uint32_t kept = m->cap - flush_most(m->cap, class) + 1, depth = m->cap / SWING_SHARE;
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
 * one would gain little. After a fall it is dry at once: then what the first full refill brings counts for what a spill left. */
static void note_swing(struct heap *h, uint32_t class)
{
    struct magazine *m = magazine_of(h, class);
    struct class_slabs *c = &h->classes[class];
    if (c->spilled <= FALLEN)
        return;
    bool swung = sum_of_oldest(m, class) == c->spilled;
    c->spilled = 0;
    if (swung && HAK_UNLIKELY(option(magazines) != MAGAZINES_LEARNT))
        m = swung_instead(h, m, class);
    if (swung && m->swings < SWINGS_ENOUGH)
        m->swings++;
}

/* Whether it may still show that it is too short; for the placebo, that another is. */
static bool counts_swings(const struct magazine *m)
{
    uint64_t how = option(magazines);
    return option(learn) && how >= MAGAZINES_LEARNT &&
           (m->swings < SWINGS_ENOUGH || how == MAGAZINES_SHUFFLED);
}

void adjust_slots(struct heap *h, uint32_t class)
{
    struct magazine *m = magazine_of(h, class);
    note_swing(h, class);
    uint32_t wanted = wanted_slots(h, class);
    if (wanted <= m->cap)
        return;
    if (!may_have(h, class, m->cap, wanted)) {
        if (m->cap == 0 || hak_classes[class].size <= SMALL_MAX)
            move_budget_hand(h); /* larger ones would take it from each other all the time */
        return;
    }
    void **slots = slots_take(h, wanted);
    if (slots == NULL)
        return;
    if (wanted > hak_classes[class].slots && m->swings == SWINGS_ENOUGH)
        log_growth(m, class, wanted);
    exchange_slots(h, class, slots, wanted);
}

void magazine_falls(struct heap *h, uint32_t class)
{
    struct magazine *m = magazine_of(h, class);
    if (!magazine_is_open(m))
        return;
    empty_magazine(h, class);
    if (counts_swings(m))
        h->classes[class].spilled = FALLEN;
}

void note_refill(struct heap *h, uint32_t class, uint32_t n)
{
    const struct magazine *m = magazine_of(h, class);
    if (h->classes[class].spilled == FALLEN && n >= refill_most(m->cap))
        h->classes[class].spilled = sum_of_oldest(m, class);
}

void note_spill(struct heap *h, uint32_t class)
{
    const struct magazine *m = magazine_of(h, class);
    h->classes[class].spilled = counts_swings(m) ? sum_of_oldest(m, class) : 0;
}

bool heap_swings(struct heap *h)
{
    if (h->emptied_ms == 0 || h->peak_bytes <= GROWN_ANEW * h->emptied_bytes)
        return false;
    if (os_now_ms() - h->emptied_ms >= SWING_MS)
        h->emptied_ms = 0; /* so that the clock is not asked again */
    return h->emptied_ms != 0;
}
