#include "big/cache.h"

#include "control/options.h"

enum { CACHE_SLOTS = 512 };

static struct {
    size_t count; /* first: few slots are in use as a rule, and the others have no page */
    struct cached slots[CACHE_SLOTS]; /* oldest first */
} cache;

static const struct cached none;
#define NO_SLOT SIZE_MAX

static struct cached take_slot(size_t i)
{
    struct cached c = cache.slots[i];
    cache.count--;
    for (; i < cache.count; i++)
        cache.slots[i] = cache.slots[i + 1];
    add_locked(&hak_big.cached_bytes, (size_t)0 - c.bytes);
    return c;
}

/* Granules of an entry before the first that is aligned. */
static size_t misaligned(const struct cached *c, size_t alignment)
{
    return (-(uintptr_t)granule_address(c->granule) & (alignment - 1)) >> GRANULE_SHIFT;
}

/* The shortest that is long enough from its first aligned granule on, newest among equals; NO_SLOT: none is. */
static size_t find_fitting(size_t granules, size_t alignment)
{
    size_t found = NO_SLOT, have = SIZE_MAX;
    for (size_t i = cache.count; i-- > 0;) {
        size_t n = cache.slots[i].granules;
        if (n < have && n >= granules + misaligned(&cache.slots[i], alignment)) {
            found = i;
            have = n;
        }
    }
    return found;
}

/* Cuts granules off an entry's end. What was touched may lie in either part: who takes one for pages goes by that. */
static struct cached cut_end(struct cached *c, size_t granules)
{
    size_t rest = c->granules - granules, all = c->bytes;
    struct cached end = {c->granule + rest, granules, least_of(all, granules << GRANULE_SHIFT),
                         c->scattered};
    c->granules = rest;
    c->bytes = least_of(all, rest << GRANULE_SHIFT);
    add_locked(&hak_big.cached_bytes, c->bytes - all);
    return end;
}

/* Takes the first granules of an entry. What is longer leaves its end behind, as old as it was. */
static struct cached take_start(size_t i, size_t granules)
{
    struct cached *c = &cache.slots[i];
    if (c->granules == granules)
        return take_slot(i);
    struct cached end = cut_end(c, c->granules - granules), start = *c;
    add_locked(&hak_big.cached_bytes, end.bytes - start.bytes);
    *c = end;
    return start;
}

/* Makes two entries of one. False: there is no slot. */
static bool split(size_t i, size_t granules)
{
    if (cache.count >= option(whale_capacity))
        return false;
    for (size_t at = cache.count++; at > i; at--)
        cache.slots[at] = cache.slots[at - 1];
    struct cached *c = &cache.slots[i];
    c[1] = cut_end(c, c->granules - granules);
    add_locked(&hak_big.cached_bytes, c[1].bytes);
    return true;
}

/* What lies before it stays, as old as it was, and takes a slot more: without one only a whole entry will do. */
bool cache_take_fitting(size_t granules, size_t alignment, struct cached *out)
{
    size_t i = find_fitting(granules, alignment);
    if (i == NO_SLOT)
        return false;
    size_t before = misaligned(&cache.slots[i], alignment);
    if (before != 0 && !split(i, before))
        return false;
    *out = take_start(before != 0 ? i + 1 : i, granules);
    return true;
}

struct cached cache_take_oldest(size_t excess)
{
    if (cache.count == 0)
        return none;
    struct cached *c = &cache.slots[0];
    size_t granules = granules_for(excess);
    return excess < c->bytes && granules < c->granules ? cut_end(c, granules) : take_slot(0);
}

/* Takes the neighbours out of the cache and adds them to c: what was freed in pieces can be used as a
 * whole. */
static struct cached join_neighbours(struct cached c)
{
    for (size_t i = cache.count; i-- > 0;) {
        const struct cached *n = &cache.slots[i];
        if (n->granule + n->granules != c.granule && c.granule + c.granules != n->granule)
            continue;
        struct cached joined = take_slot(i);
        if (joined.granule < c.granule)
            c.granule = joined.granule;
        c.granules += joined.granules;
        c.bytes += joined.bytes;
        c.scattered = c.bytes != c.granules << GRANULE_SHIFT;
    }
    return c;
}

struct cached cache_put(struct cached c)
{
    size_t most = option(whale_capacity);
    struct cached oldest = none;
    if (most == 0)
        return c;
    c = join_neighbours(c);
    if (cache.count >= most)
        oldest = take_slot(0);
    cache.slots[cache.count++] = c;
    add_locked(&hak_big.cached_bytes, c.bytes);
    return oldest;
}

struct cached cache_take_piece(size_t granules)
{
    size_t found = NO_SLOT;
    for (size_t i = 0; i < cache.count; i++) {
        size_t n = cache.slots[i].granules;
        if (n <= granules && (found == NO_SLOT || n >= cache.slots[found].granules))
            found = i;
    }
    if (found != NO_SLOT)
        return take_slot(found);
    return cache.count > 0 ? cut_end(&cache.slots[0], granules) : none;
}

size_t cache_take_at(size_t granule, size_t granules)
{
    for (size_t i = 0; i < cache.count; i++) {
        if (cache.slots[i].granule == granule)
            return take_start(i, least_of(granules, cache.slots[i].granules)).granules;
    }
    return 0;
}

bool big_is_cached(size_t granule)
{
    for (size_t i = 0; i < least_of(cache.count, CACHE_SLOTS); i++) {
        if (granule - cache.slots[i].granule < cache.slots[i].granules)
            return true;
    }
    return false;
}
