#include "big/big.h"

#include <string.h>

#include "base/budget.h"
#include "base/probe.h"
#include "big/cache.h"
#include "big/moved.h"
#include "control/options.h"
#include "os/os.h"
#include "pages/pages.h"
#include "pressure/pressure.h"
#include "region/arrays.h"
#include "slab/slab.h"
#include "super/super.h"

enum {
    ADVISED_MOST =
        2048,       /* live blocks with which some may have huge pages; two mappings each at most */
    REST_SHARE = 4, /* of a block's pages: more than that behind its end go back, ... */
    REST_MIN = UNIT_SIZE / 2, /* ... if it is worth a call, ... */
    REST_IN_MS = 64 << 10,    /* ... and so many bytes in a millisecond, ... */
    REST_AHEAD_MS = 128,      /* ... or of the next ones */
    ROOM_SHARE = 8 /* of what a block that moves has: address space for it to grow into */
};

struct big_counts hak_big;

/* What of a block is in use, and what it has touched behind that. */
struct extent {
    size_t bytes, rest;
};

static const struct extent nothing;

/* Without the lock, which a handler that gets a block may not have. */
static void account(struct extent now, struct extent before, size_t blocks)
{
    add_relaxed(&hak_big.live_bytes, now.bytes - before.bytes);
    add_relaxed(&hak_big.rest_bytes, now.rest - before.rest);
    add_relaxed(&hak_big.live_count, blocks);
}

/* ---- blocks ---- */

/* What another kind has left (alloc_whole). */
static void purge_maps(struct cached c)
{
    for (size_t g = c.granule; g < c.granule + c.granules; g++) {
        if (!super_at(g)->maps_left)
            continue;
        arrays_purge_maps(g);
        super_at(g)->maps_left = false;
    }
}

/* Nobody's any more. What was moved is unmapped, so that its mappings do not pile up, and so are pages that the kernel does not take
 * back, as those that are locked: nobody would ask for them again. False: it keeps its pages. */
static bool drop(struct cached c)
{
    void *at = granule_address(c.granule);
    size_t size = c.granules << GRANULE_SHIFT;
    bool was_moved = moved_forget(c.granule, c.granules);
    purge_maps(c);
    bool is_gone = !was_moved && os_purge(at, size);
    if (!is_gone && region_can_forget() && os_unmap(at, size)) {
        region_forget(c.granule, c.granules);
        return true;
    }
    if (was_moved)
        is_gone = os_purge(at, size);
    region_give(c.granule, c.granules, is_gone);
    return is_gone;
}

/* Bytes that may have been touched: all it has, and what others have left behind that. */
static size_t touched_bytes(const struct slab *s)
{
    return largest_of(s->size, s->touched * hak_region.page_size);
}

static struct extent extent_of(const struct slab *s)
{
    return (struct extent){s->size, touched_bytes(s) - s->size};
}

static void set_touched(struct slab *s, size_t bytes)
{
    s->touched = (uint32_t)(bytes / hak_region.page_size);
}

/* Of granules of which the first `dirty` may not be zero, and c.bytes bytes may have been touched. */
static void *make_block(struct cached c, size_t usable, size_t dirty)
{
    struct slab *s = slab_at(c.granule * GRANULE_UNITS);
    s->dirty = (uint32_t)dirty;
    /* What is scattered the block may fill up from its beginning. Each granule's part is at the granule's. */
    set_touched(s, c.scattered && c.granules > 1 ? c.granules << GRANULE_SHIFT : c.bytes);
    s->back = 0;
    store_relaxed(&s->heap, NULL);
    s->run_at = 0;
    s->granules = c.granules;
    s->size = usable;
    s->pages = BIG_PLAIN;
    unit_set_word(c.granule * GRANULE_UNITS, WORD_BIG);
    unit_show(c.granule * GRANULE_UNITS);
    return granule_address(c.granule);
}

/* ---- pages that come from elsewhere ---- */

/* What other kinds of memory have freed as a whole. */
static struct cached take_whole(void)
{
    ptrdiff_t granule = pages_take_whole();
    if (granule < 0)
        granule = supers_take_whole();
    if (granule < 0)
        return stretch(0, 0, 0);
    add_relaxed(&hak_big.others, 1);
    return stretch((size_t)granule, 1, 0);
}

/* Out of the cache, or a granule of another kind. False: nothing is to be had, or has been moved too often. */
static bool take_dirty(size_t granules, struct cached *c)
{
    *c = stretch(0, 0, 0);
    if (moved_too_often())
        return false;
    if (load_relaxed(&hak_big.cached_bytes) != 0 && big_take_lock()) {
        *c = cache_take_piece(granules);
        big_release_lock();
    }
    if (c->granules != 0)
        return true;
    *c = take_whole();
    if (c->granules != 0)
        arrays_purge_maps(c->granule); /* it is about to be nothing but address space */
    return c->granules != 0;
}

static HAK_NOINLINE void drop_between(size_t granule, size_t end)
{
    if (granule < end)
        drop(stretch(granule, end - granule, 0));
}

/* What c's pages left has gone, and they are at `to`. What could not be moved is dropped. */
static void settle_piece(struct cached c, size_t to, struct moving m)
{
    moved_note(c.granule, to, m);
    purge_maps(stretch(c.granule, m.done, 0)); /* nobody will ask for the granules' maps */
    if (m.done > 0)
        region_forget(c.granule, m.done);
    drop_between(c.granule + m.done, c.granule + c.granules);
}

/* Of n granules that were just taken from the region some are not mapped any more: all are given up. */
static HAK_COLD void lose(size_t granule, size_t n, struct moving m)
{
    region_forget(granule + m.done, m.lost);
    drop_between(granule, granule + m.done);
    drop_between(granule + m.done + m.lost, granule + n);
}

/* Gives n granules that were just taken from the region pages from the cache, or of what else is free; `*filled`: how
 * many got some. False: they had to be given up. */
static bool fill_from_dirty(size_t granule, size_t n, size_t *filled)
{
    struct cached c;
    struct moving m = {0, 0, 0};
    bool all = true;
    *filled = 0;
    while (*filled < n && all && region_can_forget() && take_dirty(n - *filled, &c)) {
        size_t to = granule + *filled;
        m = move_granules(c.granule, to, c.granules, 0);
        *filled += m.done;
        all = m.done == c.granules;
        settle_piece(c, to, m);
    }
    if (m.lost != 0) {
        m.done = *filled;
        lose(granule, n, m);
        return false;
    }
    if (*filled < n && big_take_lock()) {
        add_locked(&hak_big.fresh_bytes, (n - *filled) << GRANULE_SHIFT);
        big_release_lock();
    }
    return true;
}

/* ---- allocation ---- */

static void put_back(struct cached c)
{
    struct cached gone = c;
    if (big_take_lock()) {
        gone = cache_put(c);
        big_release_lock();
    }
    if (gone.granules != 0)
        drop(gone);
}

/* Of a block's granules from the `filled`-th on, which have no pages. What they were told before holds until they are
 * told otherwise. Each change of advice along the way is a mapping more, of which a process may have 65,530. */
static void advise(size_t granule, size_t granules, size_t filled, size_t usable,
                   enum big_pages pages)
{
    static _Atomic bool
        any;               /* relaxed: whoever gets such a granule has it from its user's thread */
    size_t whole = filled; /* the first that is not the block's as a whole */
    if (pages == BIG_HUGE && load_relaxed(&hak_big.live_count) < ADVISED_MOST)
        whole = largest_of(filled, usable >> GRANULE_SHIFT);
    if (whole == filled && pages == BIG_PLAIN && !load_relaxed(&any))
        return;
    store_relaxed(&any, true);
    if (whole > filled)
        os_advise_huge(granule_address(granule + filled), (whole - filled) << GRANULE_SHIFT, true);
    if (whole < granules)
        os_advise_huge(granule_address(granule + whole), (granules - whole) << GRANULE_SHIFT,
                       false);
}

/* A block's granules from the `have`-th on, with advice for those that get no pages here. */
static HAK_COLD bool fill_block(size_t granule, size_t granules, size_t have, size_t usable,
                                enum big_pages pages, size_t *filled)
{
    if (!fill_from_dirty(granule + have, granules - have, filled))
        return false;
    advise(granule, granules, have + *filled, usable, pages);
    return true;
}

/* Makes a cached stretch that is too short longer by what is free behind it; if that fails it goes back. */
static bool extend(struct cached *c, size_t granules, size_t usable, enum big_pages pages,
                   size_t *dirty)
{
    bool zeroed;
    size_t more = granules - c->granules, filled;
    if (!region_extend(c->granule + c->granules, more, &zeroed) ||
        !fill_block(c->granule, granules, c->granules, usable, pages, &filled)) {
        put_back(*c);
        return false;
    }
    filled = zeroed ? filled : more;
    *dirty = c->granules + filled;
    c->granules = granules;
    c->bytes += filled << GRANULE_SHIFT;
    return true;
}

static void *alloc_cached(size_t granules, size_t alignment, size_t usable, enum big_pages pages)
{
    struct cached c;
    if (load_relaxed(&hak_big.cached_bytes) == 0 || !big_take_lock())
        return NULL;
    size_t dirty = granules;
    bool found = cache_take_fitting(granules, alignment, &c);
    add_locked(&hak_big.hits, found);
    bool shorter = !found && alignment <= GRANULE_SIZE;
    if (shorter)
        c = cache_take_piece(SIZE_MAX);
    big_release_lock();
    if (shorter && c.granules != 0)
        found = extend(&c, granules, usable, pages, &dirty);
    return found ? make_block(c, usable, dirty) : NULL;
}

static void *alloc_fresh(size_t granules, size_t alignment, size_t usable, enum big_pages pages)
{
    bool zeroed;
    ptrdiff_t granule = region_take(granules, alignment, &zeroed);
    if (granule < 0)
        return NULL;
    size_t filled;
    if (!fill_block((size_t)granule, granules, 0, usable, pages, &filled))
        return NULL;
    size_t dirty = zeroed ? filled : granules;
    void *p = make_block(stretch((size_t)granule, granules, dirty << GRANULE_SHIFT), usable, dirty);
    slab_at((size_t)granule * GRANULE_UNITS)->pages = filled == 0 ? (uint8_t)pages : BIG_PLAIN;
    return p;
}

/* Where it is, with the maps that it has: it may be the other kind's again soon. */
static void *alloc_whole(size_t usable)
{
    struct cached c = take_whole();
    if (c.granules == 0)
        return NULL;
    c.bytes = GRANULE_SIZE;
    super_at(c.granule)->maps_left = true;
    return make_block(c, usable, c.granules);
}

void *big_alloc(size_t size, size_t alignment, enum big_pages pages, bool *zeroed)
{
    size_t granules = granules_for(size), usable = round_up(size, hak_region.page_size);
    alignment = largest_of(alignment, GRANULE_SIZE);
    void *p = alloc_cached(granules, alignment, usable, pages);
    if (p == NULL)
        add_relaxed(&hak_big.misses, 1);
    if (p == NULL && granules == 1 && alignment == GRANULE_SIZE)
        p = alloc_whole(usable);
    if (p == NULL)
        p = alloc_fresh(granules, alignment, usable, pages);
    *zeroed = p != NULL && big_dirty_bytes(p) == 0;
    if (p != NULL) {
        account(extent_of(slab_at(unit_of(p))), nothing, 1);
        probe_big_alloc(size);
    }
    return p;
}

bool big_free(size_t unit)
{
    struct slab *s = slab_at(unit);
    if (!big_take_lock())
        return true; /* in a handler that interrupted this very lock: the block stays */
    bool live = unit_word(unit) == WORD_BIG;
    struct cached gone = stretch(0, 0, 0);
    size_t room = 0, end = 0; /* that nobody has touched, and the cache has no use for */
    if (live) {
        unit_set_word(unit, WORD_FREED);
        unit_show(unit);
        probe_big_free(s->size);
        account(nothing, extent_of(s), (size_t)0 - 1);
        end = unit / GRANULE_UNITS + s->granules;
        room = end - s->granules + granules_for(touched_bytes(s));
        gone = cache_put(
            stretch(unit / GRANULE_UNITS, granules_for(touched_bytes(s)), touched_bytes(s)));
    }
    big_release_lock();
    drop_between(room, end);
    if (gone.granules != 0)
        drop(gone);
    return live;
}

/* One that was moved stays, as it is known here alone that it is a mapping of its own. */
HAK_COLD ptrdiff_t big_take_cached(size_t least, size_t *touched)
{
    if (load_relaxed(&hak_big.cached_bytes) < least || !big_take_lock())
        return REGION_NONE;
    struct cached c = cache_take_piece(1);
    bool will_do = c.granules != 0 && c.bytes >= least && !moved_is(c.granule);
    big_release_lock();
    if (!will_do && c.granules != 0)
        put_back(c);
    *touched = c.bytes;
    return will_do ? (ptrdiff_t)c.granule : REGION_NONE;
}

/* ---- resize ---- */

static void shrink(size_t granule, struct slab *s, size_t granules)
{
    size_t touched = granules_for(touched_bytes(s)), end = granule + s->granules;
    s->granules = granules;
    if (granules < touched)
        put_back(
            stretch(granule + granules, touched - granules, (touched - granules) << GRANULE_SHIFT));
    drop_between(granule + largest_of(granules, touched), end);
}

/* Takes granules right behind a block out of the cache; how many. */
static size_t take_behind(size_t granule, size_t granules)
{
    size_t taken = 0;
    if (load_relaxed(&hak_big.cached_bytes) == 0 || !big_take_lock())
        return 0;
    taken = cache_take_at(granule, granules);
    big_release_lock();
    return taken;
}

/* Longer where it is. */
static bool extend_block(size_t granule, struct slab *s, size_t granules, size_t usable,
                         enum big_pages pages)
{
    bool zeroed;
    size_t end = granule + s->granules, more = granules - s->granules;
    size_t cached = take_behind(end, more), filled = 0;
    if (cached < more) {
        size_t rest = more - cached;
        if (!region_extend(end + cached, rest, &zeroed) ||
            !fill_block(granule, granules, s->granules + cached, usable, pages, &filled)) {
            if (cached > 0)
                put_back(stretch(end, cached, cached << GRANULE_SHIFT));
            return false;
        }
    }
    if (cached + filled > 0)
        set_touched(s, (s->granules + cached + filled) << GRANULE_SHIFT);
    s->granules = granules;
    return true;
}

/* The block's first granules have moved, and the next ones' place could not be mapped again: back with
 * them. Nothing else can be done for its content if that fails. */
static HAK_COLD void move_back(size_t granule, size_t to, size_t granules, struct moving m)
{
    for (size_t i = 0; i < m.done; i++) {
        if (!os_move(granule_address(to + i), GRANULE_SIZE, granule_address(granule + i),
                     GRANULE_SIZE))
            os_fatal("realloc(%p): the kernel moved a part of the block and refuses the rest",
                     (uintptr_t)granule_address(granule));
    }
    region_forget(to, m.done + m.lost);
    drop_between(to + m.done + m.lost, to + granules);
}

/* With room where address space costs nothing: what has grown grows on. None of it is the block's as a whole (advise). */
static ptrdiff_t take_place(size_t least, enum big_pages pages, size_t *granules)
{
    bool zeroed, is_free = pages != BIG_HUGE && !region_is_counted() &&
                           load_relaxed(&hak_purges_refused) == 0;
    *granules = least + (is_free ? least / ROOM_SHARE : 0);
    ptrdiff_t place = region_take(*granules, GRANULE_SIZE, &zeroed);
    if (place < 0 && *granules > least)
        place = region_take(*granules = least, GRANULE_SIZE, &zeroed);
    return place;
}

/* Moves page tables instead of bytes. */
static void *move(size_t granule, struct slab *s, size_t least, size_t usable, enum big_pages pages)
{
    size_t granules, old = s->granules, touched = touched_bytes(s), filled;
    if (!region_can_forget() || moved_too_often())
        return NULL;
    ptrdiff_t place = take_place(least, pages, &granules);
    if (place < 0)
        return NULL;
    size_t to = (size_t)place;
    if (!fill_from_dirty(to + old, least - old, &filled)) {
        drop_between(to, to + old);
        drop_between(to + least, to + granules);
        return NULL;
    }
    size_t more = filled == 0 ? granules - old : 0;
    struct moving m = move_granules(granule, to, old, more);
    if (m.lost != 0) {
        move_back(granule, to, granules, m);
        return NULL;
    }
    for (size_t i = m.done; i < old; i++)
        memcpy(granule_address(to + i), granule_address(granule + i), GRANULE_SIZE);
    advise(to, granules, old + filled, usable, pages);
    if (filled != 0)
        touched = (old + filled) << GRANULE_SHIFT;
    unit_set_word(granule * GRANULE_UNITS, WORD_FREED);
    unit_show(granule * GRANULE_UNITS);
    settle_piece(stretch(granule, old, 0), to, m);
    /* Its old line may be another's by now. */
    return make_block(stretch(to, granules, touched), usable, granules);
}

/* A program that takes large blocks, and gives back what it did not need of each, touches the same pages again with the next one. So it
 * may keep as much of them as of other free memory, or, where giving them back would take all its time, retain_max.
 * docs/decisions/0113 */
static bool rest_may_stay(size_t rest)
{
    static _Atomic uint64_t paid_until_ms;
    size_t all = load_relaxed(&hak_big.rest_bytes) + rest;
    if (pressure_is(PRESSURE_NEAR))
        return false;
    if (all <= option(retain))
        return true;
    return all <= option(retain_max) &&
           !budget_pay(&paid_until_ms, os_now_ms(), rest / REST_IN_MS, REST_AHEAD_MS);
}

/* In its last granule: nobody else can use what is there. A block that is resized to and fro a little keeps it. */
static void purge_rest(size_t granule, struct slab *s)
{
    size_t touched = touched_bytes(s), rest = touched - s->size;
    if (rest > REST_MIN && rest > touched / REST_SHARE && !rest_may_stay(rest) &&
        os_purge((char *)granule_address(granule) + s->size, rest))
        set_touched(s, s->size);
}

/* Where it is, if it can. */
static void *resize_granules(size_t granule, struct slab *s, size_t granules, size_t usable,
                             enum big_pages pages)
{
    if (granules > s->granules && !extend_block(granule, s, granules, usable, pages))
        return move(granule, s, granules, usable, pages);
    bool is_shorter = usable < s->size;
    if (is_shorter && granules < s->granules)
        shrink(granule, s, granules);
    set_touched(s, least_of(granules << GRANULE_SHIFT, touched_bytes(s)));
    s->size = usable;
    if (is_shorter)
        purge_rest(granule, s);
    unit_show(granule * GRANULE_UNITS);
    return granule_address(granule);
}

void *big_resize(size_t unit, size_t size, enum big_pages pages)
{
    struct slab *s = slab_at(unit);
    size_t usable = round_up(size, hak_region.page_size);
    struct extent before = extent_of(s);
    void *p = resize_granules(unit / GRANULE_UNITS, s, granules_for(size), usable, pages);
    if (p != NULL)
        account(extent_of(slab_at(unit_of(p))), before, 0);
    return p;
}

/* ---- purge ---- */

/* Not more than there is at the beginning: others, and handlers of signals, may free as fast as this goes back. */
size_t big_purge(size_t keep)
{
    size_t before = load_relaxed(&hak_big.cached_bytes), dropped = 0, bytes = 0;
    while (load_relaxed(&hak_big.cached_bytes) > keep && dropped < before - keep) {
        if (!big_take_lock())
            break;
        struct cached c = stretch(0, 0, 0);
        size_t cached = load_relaxed(&hak_big.cached_bytes);
        if (cached > keep)
            c = cache_take_oldest(cached - keep);
        big_release_lock();
        if (c.granules == 0)
            break;
        dropped += c.bytes;
        bytes += drop(c) ? c.bytes : 0;
    }
    return bytes;
}
