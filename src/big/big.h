/* Big blocks (above 1 MiB): whole granules of their own, and the BigCache ("Whale cache"), a bounded
 * store of freed ones that keep their pages.
 *
 * Calls: super, pages (for granules that are free as a whole), slab (a unit's line), region, pressure, os. Called by: heap (paged, fresh), front, mind (touch), purge, control (numbers). */
#ifndef HAK_BIG_H
#define HAK_BIG_H

#include "region/region.h"
#include "slab/slab.h"

/* What a fresh block's whole granules are to have: pages as they come, huge ones where there are any, small ones,
 * or small ones which somebody looks at when the block is freed. */
enum big_pages { BIG_PLAIN, BIG_HUGE, BIG_SMALL, BIG_LOOKED_AT };

/* A block of at least `size` bytes at a multiple of `alignment` (a power of two); NULL: no memory.
 * `*zeroed`: it reads as zeros. If not, what lies behind big_dirty_bytes does. */
void *big_alloc(size_t size, size_t alignment, enum big_pages pages, bool *zeroed);

/* Of a block that was just allocated, from its start on. */
HAK_INLINE size_t big_dirty_bytes(const void *p)
{
    return (size_t)slab_at(unit_of(p))->dirty << GRANULE_SHIFT;
}

/* The unit's word said WORD_BIG. False if another thread freed it first. */
bool big_free(size_t unit);

/* Makes the block `size` bytes (above RUN_MAX), where it is or by moving its pages, with such `pages` where it grows; NULL:
 * cannot, and the block is as it was. */
void *big_resize(size_t unit, size_t size, enum big_pages pages);

/* Gives cached blocks back, oldest first, until at most `keep` bytes are cached. Returns the bytes
 * whose pages the kernel took. */
size_t big_purge(size_t keep);

/* A granule of the cache for others, of which so many bytes from its start on may be touched, `least` and more. REGION_NONE: there is
 * none. Its content is unknown. */
ptrdiff_t big_take_cached(size_t least, size_t *touched);

/* Written under the lock but where it says otherwise, read by anyone. */
struct big_counts {
    _Atomic size_t cached_bytes;
    _Atomic size_t live_bytes, live_count; /* changed by adding */
    _Atomic size_t rest_bytes;  /* touched behind the ends of live blocks; changed by adding */
    _Atomic size_t fresh_bytes; /* ever taken from the region for want of cached ones */
    _Atomic size_t others; /* granules ever taken from other kinds of memory; changed by adding */
    /* Blocks ever served by a cached stretch that was long enough, and without the cache (changed by adding). What a stretch was made
     * longer for counts as neither. */
    _Atomic size_t hits, misses;
};

extern struct big_counts hak_big __attribute__((visibility("hidden")));

HAK_INLINE size_t big_cached_bytes(void)
{
    return load_relaxed(&hak_big.cached_bytes);
}

HAK_INLINE size_t big_live_bytes(void)
{
    return load_relaxed(&hak_big.live_bytes);
}

HAK_INLINE size_t big_fresh_bytes(void)
{
    return load_relaxed(&hak_big.fresh_bytes);
}

HAK_INLINE size_t big_others(void)
{
    return load_relaxed(&hak_big.others);
}

HAK_INLINE size_t big_live_count(void)
{
    return load_relaxed(&hak_big.live_count);
}

/* For whoever explains an address, at any time and without the lock: whether the granule is cached. */
bool big_is_cached(size_t granule);

struct lock *big_lock(void);

#endif
