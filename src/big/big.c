#include "big/big.h"

#include "control/options.h"
#include "os/os.h"
#include "slab/slab.h"

enum { CACHE_SLOTS = 64 };

struct cached {
    size_t granule;
    size_t granules;
    size_t bytes; /* that may have been touched */
};

static struct {
    struct lock lock;
    /* Oldest first. */
    struct cached cache[CACHE_SLOTS];
    size_t cached;
    _Atomic size_t cached_bytes;
    _Atomic size_t live_bytes;
    _Atomic size_t live_count;
} big;

static size_t granules_for(size_t size)
{
    return (size + GRANULE_SIZE - 1) >> GRANULE_SHIFT;
}

static struct cached take_slot(size_t i)
{
    struct cached c = big.cache[i];
    big.cached--;
    for (; i < big.cached; i++)
        big.cache[i] = big.cache[i + 1];
    sub_relaxed(&big.cached_bytes, c.bytes);
    return c;
}

/* Newest block that fits with at most an eighth to spare. */
static bool take_cached(size_t granules, struct cached *out)
{
    if (load_relaxed(&big.cached_bytes) == 0 || !lock_take_if_safe(&big.lock))
        return false;
    bool found = false;
    for (size_t i = big.cached; i-- > 0 && !found;) {
        size_t have = big.cache[i].granules;
        if (have >= granules && have - granules <= granules / 8) {
            *out = take_slot(i);
            found = true;
        }
    }
    lock_release(&big.lock);
    return found;
}

static void account(size_t bytes, size_t before)
{
    add_relaxed(&big.live_bytes, bytes - before);
}

static void *make_block(size_t granule, size_t granules, size_t size)
{
    struct slab *s = slab_at(granule * GRANULE_UNITS);
    s->back = 0;
    store_relaxed(&s->heap, NULL);
    s->granules = granules;
    s->size = round_up(size, hak_region.page_size);
    account(s->size, 0);
    add_relaxed(&big.live_count, 1);
    unit_set_word(granule * GRANULE_UNITS, WORD_BIG);
    return granule_address(granule);
}

static void drop(struct cached c)
{
    bool purged = os_purge(granule_address(c.granule), c.granules << GRANULE_SHIFT);
    region_give(c.granule, c.granules, purged);
}

void *big_alloc(size_t size, size_t alignment, bool *zeroed)
{
    size_t granules = granules_for(size);
    struct cached c;
    if (alignment <= GRANULE_SIZE && take_cached(granules, &c)) {
        *zeroed = false;
        return make_block(c.granule, c.granules, size);
    }
    if (alignment < GRANULE_SIZE)
        alignment = GRANULE_SIZE;
    ptrdiff_t granule = region_take(granules, alignment, zeroed);
    if (granule < 0)
        return NULL;
    return make_block((size_t)granule, granules, size);
}

/* False: the cache takes none. Otherwise `*oldest` is what had to make room, or has no granules. */
static bool put_cached(struct cached c, struct cached *oldest)
{
    size_t most = hak_options.whale_capacity;
    oldest->granules = 0;
    if (most == 0 || !lock_take_if_safe(&big.lock))
        return false;
    if (big.cached >= most)
        *oldest = take_slot(0);
    big.cache[big.cached++] = c;
    add_relaxed(&big.cached_bytes, c.bytes);
    lock_release(&big.lock);
    return true;
}

bool big_free(size_t unit)
{
    uintptr_t expected = WORD_BIG;
    /* acquire: of two threads that free it, one alone goes on. */
    if (!cas_acquire(&hak_region.words[unit], &expected, (uintptr_t)WORD_FREED))
        return false;
    struct slab *s = slab_at(unit);
    account(0, s->size);
    sub_relaxed(&big.live_count, 1);
    struct cached c = {unit / GRANULE_UNITS, s->granules, s->size}, oldest;
    if (!put_cached(c, &oldest))
        drop(c);
    else if (oldest.granules != 0)
        drop(oldest);
    return true;
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
static void *move(size_t granule, struct slab *s, size_t size)
{
    bool zeroed;
    size_t granules = granules_for(size), old = s->granules;
    ptrdiff_t to = region_take(granules, GRANULE_SIZE, &zeroed);
    if (to < 0)
        return NULL;
    size_t kept = old < granules ? old : granules;
    if (!os_move(granule_address(granule), kept << GRANULE_SHIFT, granule_address((size_t)to),
                 kept << GRANULE_SHIFT)) {
        region_give((size_t)to, granules, zeroed);
        return NULL;
    }
    unit_set_word(granule * GRANULE_UNITS, WORD_FREED);
    account(0, s->size);
    sub_relaxed(&big.live_count, 1);
    region_forget(granule, old);
    return make_block((size_t)to, granules, size);
}

void *big_resize(size_t unit, size_t size)
{
    struct slab *s = slab_at(unit);
    size_t granule = unit / GRANULE_UNITS, granules = granules_for(size);
    bool zeroed;
    if (granules > s->granules) {
        if (!region_extend(granule + s->granules, granules - s->granules, &zeroed))
            return move(granule, s, size);
        s->granules = granules;
    } else if (granules < s->granules) {
        shrink(granule, s, granules);
    }
    size_t usable = round_up(size, hak_region.page_size);
    account(usable, s->size);
    s->size = usable;
    return unit_address(unit);
}

/* ---- purge ---- */

size_t big_purge(size_t keep)
{
    size_t bytes = 0;
    while (load_relaxed(&big.cached_bytes) > keep) {
        if (!lock_take_if_safe(&big.lock))
            break;
        struct cached c = {0, 0, 0};
        if (big.cached > 0)
            c = take_slot(0);
        lock_release(&big.lock);
        if (c.granules == 0)
            break;
        drop(c);
        bytes += c.bytes;
    }
    return bytes;
}

size_t big_live_bytes(void)
{
    return load_relaxed(&big.live_bytes);
}

size_t big_live_count(void)
{
    return load_relaxed(&big.live_count);
}

size_t big_cached_bytes(void)
{
    return load_relaxed(&big.cached_bytes);
}

struct lock *big_lock(void)
{
    return &big.lock;
}
