#include "big/big.h"

#include "control/options.h"
#include "os/os.h"
#include "slab/slab.h"

enum { CACHE_SLOTS = 64 };

struct cached {
    size_t granule;
    size_t granules;
    size_t bytes; /* that may have been touched, or more after a split */
};

static struct {
    struct lock lock;
    /* Oldest first. */
    struct cached cache[CACHE_SLOTS];
    size_t cached;
} big;

struct big_counts hak_big;

static size_t granules_for(size_t size)
{
    return (size + GRANULE_SIZE - 1) >> GRANULE_SHIFT;
}

/* ---- with the lock held: the numbers need no read-modify-write ---- */

static void add(_Atomic size_t *number, size_t n)
{
    store_relaxed(number, load_relaxed(number) + n);
}

static void account(size_t bytes, size_t before, size_t blocks)
{
    add(&hak_big.live_bytes, bytes - before);
    add(&hak_big.live_count, blocks);
}

static struct cached take_slot(size_t i)
{
    struct cached c = big.cache[i];
    big.cached--;
    for (; i < big.cached; i++)
        big.cache[i] = big.cache[i + 1];
    add(&hak_big.cached_bytes, (size_t)0 - c.bytes);
    return c;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* The shortest that is long enough, newest among equals; CACHE_SLOTS: none is. */
static size_t find_fitting(size_t granules)
{
    size_t found = CACHE_SLOTS, have = SIZE_MAX;
    for (size_t i = big.cached; i-- > 0;) {
        size_t n = big.cache[i].granules;
        if (n >= granules && n < have) {
            found = i;
            have = n;
        }
    }
    return found;
}

/* Cuts granules off an entry's end. What was touched may lie in either part. */
static struct cached cut_end(struct cached *c, size_t granules)
{
    size_t rest = c->granules - granules, bytes = least(c->bytes, rest << GRANULE_SHIFT);
    struct cached end = {c->granule + rest, granules, least(c->bytes, granules << GRANULE_SHIFT)};
    add(&hak_big.cached_bytes, bytes - c->bytes);
    *c = (struct cached){c->granule, rest, bytes};
    return end;
}

/* What is longer than needed leaves its end behind, as old as it was. */
static bool take_fitting(size_t granules, struct cached *out)
{
    size_t i = find_fitting(granules);
    if (i == CACHE_SLOTS)
        return false;
    struct cached *c = &big.cache[i];
    size_t spare = c->granules - granules;
    if (spare == 0) {
        *out = take_slot(i);
        return true;
    }
    struct cached end = cut_end(c, spare);
    *out = *c;
    add(&hak_big.cached_bytes, end.bytes - c->bytes);
    *c = end;
    return true;
}

/* Of the oldest entry, what brings the cache down by at least so many bytes, or all of it. */
static struct cached take_oldest(size_t excess)
{
    struct cached *c = &big.cache[0];
    size_t granules = granules_for(excess);
    return granules < c->granules ? cut_end(c, granules) : take_slot(0);
}

/* Takes the neighbours out of the cache and adds them to c: what was freed in pieces can be used as a
 * whole. */
static struct cached join_neighbours(struct cached c)
{
    for (size_t i = big.cached; i-- > 0;) {
        const struct cached *n = &big.cache[i];
        if (n->granule + n->granules != c.granule && c.granule + c.granules != n->granule)
            continue;
        struct cached joined = take_slot(i);
        if (joined.granule < c.granule)
            c.granule = joined.granule;
        c.granules += joined.granules;
        c.bytes += joined.bytes;
    }
    return c;
}

/* Returns what must go: the oldest if the cache is full, c itself if it takes none. */
static struct cached put_slot(struct cached c)
{
    size_t most = hak_options.whale_capacity;
    struct cached oldest = {0, 0, 0};
    if (most == 0)
        return c;
    c = join_neighbours(c);
    if (big.cached >= most)
        oldest = take_slot(0);
    big.cache[big.cached++] = c;
    add(&hak_big.cached_bytes, c.bytes);
    return oldest;
}

/* ---- blocks ---- */

static void drop(struct cached c)
{
    bool purged = os_purge(granule_address(c.granule), c.granules << GRANULE_SHIFT);
    region_give(c.granule, c.granules, purged);
}

static void *make_block(struct cached c, size_t usable)
{
    struct slab *s = slab_at(c.granule * GRANULE_UNITS);
    s->back = 0;
    store_relaxed(&s->heap, NULL);
    s->granules = c.granules;
    s->size = usable;
    unit_set_word(c.granule * GRANULE_UNITS, WORD_BIG);
    return granule_address(c.granule);
}

/* With the lock held and something in the cache. */
static struct cached take_longest(void)
{
    size_t found = 0;
    for (size_t i = 1; i < big.cached; i++) {
        if (big.cache[i].granules >= big.cache[found].granules)
            found = i;
    }
    return take_slot(found);
}

/* Makes a cached stretch that is too short longer by what is free behind it; if that fails it goes back.
 * The kernel may have to be asked, so the lock is not held meanwhile. */
static bool extend(struct cached *c, size_t granules, size_t usable)
{
    bool zeroed, done = region_extend(c->granule + c->granules, granules - c->granules, &zeroed);
    struct cached gone = {0, 0, 0};
    if (lock_take_if_safe(&big.lock)) {
        if (done)
            account(usable, 0, 1);
        else
            gone = put_slot(*c);
        lock_release(&big.lock);
    }
    if (gone.granules != 0)
        drop(gone);
    if (done)
        c->granules = granules;
    return done;
}

static void *alloc_cached(size_t granules, size_t usable)
{
    struct cached c;
    if (load_relaxed(&hak_big.cached_bytes) == 0 || !lock_take_if_safe(&big.lock))
        return NULL;
    bool found = take_fitting(granules, &c);
    bool shorter = !found && big.cached > 0;
    if (found)
        account(usable, 0, 1);
    else if (shorter)
        c = take_longest();
    lock_release(&big.lock);
    if (shorter)
        found = extend(&c, granules, usable);
    return found ? make_block(c, usable) : NULL;
}

static void *alloc_fresh(size_t granules, size_t alignment, size_t usable, bool *zeroed)
{
    ptrdiff_t granule = region_take(granules, alignment, zeroed);
    if (granule < 0)
        return NULL;
    if (lock_take_if_safe(&big.lock)) {
        account(usable, 0, 1);
        lock_release(&big.lock);
    }
    return make_block((struct cached){(size_t)granule, granules, usable}, usable);
}

void *big_alloc(size_t size, size_t alignment, bool *zeroed)
{
    size_t granules = granules_for(size), usable = round_up(size, hak_region.page_size);
    void *p = alignment <= GRANULE_SIZE ? alloc_cached(granules, usable) : NULL;
    *zeroed = false;
    if (p == NULL)
        p = alloc_fresh(granules, alignment > GRANULE_SIZE ? alignment : GRANULE_SIZE, usable,
                        zeroed);
    return p;
}

bool big_free(size_t unit)
{
    struct slab *s = slab_at(unit);
    if (!lock_take_if_safe(&big.lock))
        return true; /* in a handler that interrupted this very lock: the block stays */
    bool live = unit_word(unit) == WORD_BIG;
    struct cached gone = {0, 0, 0};
    if (live) {
        unit_set_word(unit, WORD_FREED);
        account(0, s->size, (size_t)0 - 1);
        gone = put_slot((struct cached){unit / GRANULE_UNITS, s->granules, s->size});
    }
    lock_release(&big.lock);
    if (gone.granules != 0)
        drop(gone);
    return live;
}

/* ---- resize ---- */

static void shrink(size_t granule, struct slab *s, size_t granules)
{
    size_t spare = s->granules - granules, at = granule + granules;
    bool purged = os_purge(granule_address(at), spare << GRANULE_SHIFT);
    s->granules = granules;
    region_give(at, spare, purged);
}

/* Moves page tables instead of bytes. */
static void *move(size_t granule, struct slab *s, size_t granules, size_t usable)
{
    bool zeroed;
    size_t old = s->granules;
    if (!region_can_forget())
        return NULL;
    ptrdiff_t to = region_take(granules, GRANULE_SIZE, &zeroed);
    if (to < 0)
        return NULL;
    void *target = granule_address((size_t)to);
    if (!os_move(granule_address(granule), old << GRANULE_SHIFT, target, old << GRANULE_SHIFT)) {
        /* The target may have been unmapped all the same. */
        if (os_map_over(target, granules << GRANULE_SHIFT))
            region_give((size_t)to, granules, true);
        return NULL;
    }
    unit_set_word(granule * GRANULE_UNITS, WORD_FREED);
    region_forget(granule, old);
    return make_block((struct cached){(size_t)to, granules, usable}, usable);
}

/* Where it is, if it can. */
static void *resize_granules(size_t granule, struct slab *s, size_t granules, size_t usable)
{
    bool zeroed;
    if (granules > s->granules) {
        if (!region_extend(granule + s->granules, granules - s->granules, &zeroed))
            return move(granule, s, granules, usable);
        s->granules = granules;
    } else if (granules < s->granules) {
        shrink(granule, s, granules);
    }
    s->size = usable;
    return granule_address(granule);
}

void *big_resize(size_t unit, size_t size)
{
    struct slab *s = slab_at(unit);
    size_t before = s->size, usable = round_up(size, hak_region.page_size);
    void *p = resize_granules(unit / GRANULE_UNITS, s, granules_for(size), usable);
    if (p != NULL && lock_take_if_safe(&big.lock)) {
        account(usable, before, 0);
        lock_release(&big.lock);
    }
    return p;
}

/* ---- purge ---- */

size_t big_purge(size_t keep)
{
    size_t bytes = 0;
    while (load_relaxed(&hak_big.cached_bytes) > keep) {
        if (!lock_take_if_safe(&big.lock))
            break;
        struct cached c = {0, 0, 0};
        size_t cached = load_relaxed(&hak_big.cached_bytes);
        if (big.cached > 0 && cached > keep)
            c = take_oldest(cached - keep);
        lock_release(&big.lock);
        if (c.granules == 0)
            break;
        drop(c);
        bytes += c.bytes;
    }
    return bytes;
}

struct lock *big_lock(void)
{
    return &big.lock;
}
