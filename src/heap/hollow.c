#include "heap/hollow.h"

#include "base/budget.h"
#include "control/options.h"
#include "heap/registry.h"
#include "os/os.h"
#include "purge/purge.h"

enum {
    UNITS_MIN = 8,      /* a class of fewer is not looked at */
    FREE_SHARE = 2,     /* hollow: one part in so many of the bytes that have pages is free, ... */
    GATHERED_SHARE = 4, /* ... and when gathering has begun, until it is less than this */
    TURNOVERS_ENOUGH = 8, /* times that as many blocks have come anew as there are */
    GAIN_SHARE = 8,       /* a step was worth it if one part in so many of what was free has gone */
    PURGED_AT_ONCE = 8,   /* slabs, some 0.1 ms of work */
    PURGE_MS = 1,         /* of the process' time are to pass for that, ... */
    PURGE_AHEAD_MS = 8,   /* ... or will have */
    TENDED_AT_ONCE = 8,   /* heaps */
    LOOKS_APART_MS = 64,
    PATIENCE_MOST_MS = 64000
};

/* Bytes of the class that have pages and belong to no block, if it is hollow. */
static size_t waste_of(const struct heap *h, uint32_t class)
{
    const struct class_slabs *c = &h->classes[class];
    const struct class_info *info = &hak_classes[class];
    size_t bytes = (size_t)(c->touched - c->purged) * hak_region.page_size;
    size_t least = bytes / (h->hollow.gathers ? GATHERED_SHARE : FREE_SHARE);
    size_t used = c->used * info->size;
    return c->slabs * info->units >= UNITS_MIN && used + least <= bytes ? bytes - used : 0;
}

static size_t waste_in(const struct heap *h)
{
    size_t waste = 0;
    for (uint32_t class = 0; class < FIRST_PAGED; class ++)
        waste += waste_of(h, class);
    size_t least = h->used_bytes / (h->hollow.gathers ? GATHERED_SHARE : FREE_SHARE);
    return waste >= HOLLOW_MIN && waste >= least ? waste : 0;
}

static bool has_changed_little(size_t before, size_t now)
{
    return now > before - before / GAIN_SHARE;
}

/* Blocks of the classes whose magazines give. */
static size_t gathered_blocks(const struct heap *h)
{
    size_t used = 0;
    for (uint32_t class = 0; class < FIRST_PAGED; class ++)
        used += h->magazines.of[class].gives ? h->classes[class].used : 0;
    return used;
}

/* Since the last step some have come anew, but not yet all so often that those left are there to stay: a slab becomes empty
 * with its last block. */
static bool is_under_way(const struct heap *h)
{
    const struct hollow *w = &h->hollow;
    size_t used = gathered_blocks(h);
    return w->moved != w->moved_before && w->moved - w->moved_before >= used / GAIN_SHARE &&
           w->moved < TURNOVERS_ENOUGH * used;
}

static uint32_t patience_ms(const struct hollow *w)
{
    return w->patience_ms != 0 ? w->patience_ms : (uint32_t)option(hollow_time);
}

static void wait_longer(struct hollow *w)
{
    w->patience_ms = (uint32_t)least_of((size_t)2 * patience_ms(w), PATIENCE_MOST_MS);
}

static void steady_to_gathering(struct heap *h, size_t waste)
{
    struct hollow *w = &h->hollow;
    for (uint32_t class = 0; class < FIRST_PAGED; class ++)
        magazine_of(h, class)->gives = waste_of(h, class) != 0;
    heap_empty_magazines(h, HAND_ALL);
    w->gathers = true;
    w->waste_before = waste;
    w->moved = 0;
    count(h, COUNTER_hollow, 1);
}

/* Magazines that give do so until they are empty. */
static void stop_gathering(struct heap *h)
{
    for (uint32_t class = 0; class < FIRST_PAGED; class ++)
        magazine_of(h, class)->gives = false;
    h->hollow.gathers = false;
}

static uint32_t hollow_slabs(const struct heap *h)
{
    uint32_t slabs = 0;
    for (uint32_t class = 0; class < FIRST_PAGED; class ++)
        slabs += waste_of(h, class) != 0 ? h->classes[class].listed : 0;
    return slabs;
}

static void gathering_to_purging(struct heap *h)
{
    stop_gathering(h);
    h->hollow.purges = hollow_slabs(h);
}

/* Its thread sleeps. */
static void steady_to_purging(struct heap *h, size_t waste)
{
    h->hollow.waste_before = waste;
    h->hollow.purges = hollow_slabs(h);
    count(h, COUNTER_hollow, 1);
}

static void purging_to_steady(struct hollow *w, size_t waste)
{
    w->purges = w->class = w->at = 0;
    if (has_changed_little(w->waste_before, waste))
        wait_longer(w);
}

/* In a large heap it takes seconds, of which the program is to have the most. `paced`: by a thread of the program. */
static bool may_purge(uint64_t now, bool paced)
{
    static _Atomic uint64_t until_ms;
    return !paced || budget_pay(&until_ms, now, PURGE_MS, PURGE_AHEAD_MS);
}

static void purge_some(struct heap *h)
{
    struct hollow *w = &h->hollow;
    uint32_t most = w->purges < PURGED_AT_ONCE ? w->purges : PURGED_AT_ONCE, left = most;
    size_t bytes = 0;
    while (w->class < FIRST_PAGED && left > 0) {
        if (waste_of(h, w->class) != 0)
            bytes += class_purge_slabs(h, w->class, &w->at, &left);
        else
            w->at = 0;
        w->class += w->at == 0;
    }
    purge_note_given(bytes);
    w->purged += bytes / hak_region.page_size;
    w->purges -= most - left;
    w->until_look = 0; /* the next ones at once */
    if (w->class == FIRST_PAGED || w->purges == 0)
        purging_to_steady(w, waste_in(h));
}

/* What went back the last time was wanted soon after, or was not. */
static void judge_last_time(struct hollow *w)
{
    if (w->purged != 0 && w->missed >= w->purged / 2)
        wait_longer(w);
    else if (w->purged != 0)
        w->patience_ms = 0;
    w->purged = w->missed = 0;
}

/* It has been hollow for long enough, or for as long as a step of gathering takes. */
static void go_on(struct heap *h, size_t waste, bool awake)
{
    if (!h->hollow.gathers)
        awake ? steady_to_gathering(h, waste) : steady_to_purging(h, waste);
    else if (has_changed_little(h->hollow.waste, waste) && !is_under_way(h))
        gathering_to_purging(h);
    h->hollow.moved_before = h->hollow.moved;
}

/* From steady to gathering, and from either to purging. */
static void look_at_waste(struct heap *h, uint64_t now, bool awake)
{
    struct hollow *w = &h->hollow;
    uint32_t wait_ms = w->gathers ? (uint32_t)option(hollow_time) : patience_ms(w);
    size_t waste = waste_in(h);
    bool is_due = waste != 0 && w->since_ms != 0 && w->since_ms + wait_ms <= now;
    if ((waste == 0 || option(hollow_time) == 0) && w->gathers)
        stop_gathering(h);
    else if (is_due)
        go_on(h, waste, awake);
    if (waste != 0 && w->since_ms == 0)
        judge_last_time(w);
    if (waste == 0) {
        w->since_ms = 0;
    } else if (w->since_ms == 0 || is_due) {
        w->since_ms = now;
        w->waste = waste;
    }
}

/* What a thread keeps of a class that it has not needed for so long would keep slabs, and all their pages. A magazine that serves all
 * there is to do by itself may seem idle as well: filling it again once in a while is little. */
static void empty_idle_if_due(struct heap *h, uint64_t now)
{
    if (h->hollow.idle_ms + option(hollow_time) > now)
        return;
    h->hollow.idle_ms = now;
    heap_empty_magazines(h, HAND_IDLE);
    outbox_flush_all(h); /* a parcel that nothing is added to any more keeps its owners' slabs */
    heap_release_kept(h);
}

HAK_COLD void hollow_look(struct heap *h)
{
    uint64_t now = os_now_ms();
    bool is_due = h->hollow.looked_ms + LOOKS_APART_MS <= now;
    if (h->hollow.purges != 0 || is_due)
        h->hollow.looked_ms = now;
    empty_idle_if_due(h, now);
    if (h->hollow.purges == 0 && is_due)
        look_at_waste(h, now, true);
    else if (h->hollow.purges != 0 && may_purge(now, true))
        purge_some(h);
    if (hollow_tend(h))
        h->hollow.until_look = 0;
}

HAK_COLD void hollow_look_unlocked(struct heap *h)
{
    if (!lock_take(&h->lock))
        return;
    hollow_look(h);
    heap_unlock(h);
}

/* ---- heaps of sleeping and ended threads ---- */

static struct {
    _Atomic uint64_t turn_ms;    /* whoever moves it on has the turn */
    _Atomic(struct heap *) next; /* whose turn it is; NULL: the first one's */
} tended;

/* With its lock held. True: there is more to do at once. */
static bool tend_asleep(struct heap *h, uint64_t now, bool paced)
{
    inbox_drain(h, false);
    if (h->hollow.purges == 0)
        look_at_waste(h, now, false);
    else if (may_purge(now, paced))
        purge_some(h);
    else
        return false;
    return h->hollow.purges != 0;
}

static bool tend(struct heap *h, bool paced)
{
    bool more = false;
    if (load_relaxed(&h->state) == HEAP_LOST || !lock_try(&h->lock))
        return false;
    uint64_t now = os_now_ms(); /* now that its thread cannot look later than that */
    if (h->hollow.looked_ms + option(hollow_time) <= now)
        more = tend_asleep(h, now, paced);
    heap_unlock_visited(h);
    return more;
}

/* Two that do so at once only look at some heaps twice: all that a heap has is under its lock, and heaps stay. */
HAK_COLD bool hollow_tend(struct heap *own)
{
    uint64_t now = os_now_ms(), last = load_relaxed(&tended.turn_ms);
    if (last + LOOKS_APART_MS > now || !cas_relaxed(&tended.turn_ms, &last, now))
        return false;
    /* acquire: what the heap was set up with, which whoever stored it has seen. */
    struct heap *h = load_acquire(&tended.next);
    bool more = false;
    h = h != NULL ? h : registry_first();
    for (int i = 0; h != NULL && i < TENDED_AT_ONCE && !more; i++) {
        more = h != own && tend(h, own != NULL);
        h = more ? h : h->all_next;
    }
    store_release(&tended.next, h);
    if (more)
        store_relaxed(&tended.turn_ms, last);
    return more;
}
