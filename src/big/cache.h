/* BigCache ("Whale cache"): stretches of granules that big blocks have left and that keep their pages, for the next
 * ones. Bounded in number by the setting `whale_capacity`, in bytes by whoever purges.
 *
 * Everything here with the lock of big blocks held (moved.h). Calls: nothing. Called by: big. */
#ifndef HAK_CACHE_H
#define HAK_CACHE_H

#include "big/moved.h"

struct cached {
    size_t granule;
    size_t granules; /* 0: none */
    size_t bytes;    /* that may have been touched, or more after a split */
    bool scattered;  /* of several blocks, each of which begins with its own */
};

/* Of which what may have been touched is the beginning. */
HAK_INLINE struct cached stretch(size_t granule, size_t granules, size_t bytes)
{
    return (struct cached){granule, granules, bytes, false};
}

HAK_INLINE size_t granules_for(size_t size)
{
    return (size + GRANULE_SIZE - 1) >> GRANULE_SHIFT;
}

/* So many granules, the first at a multiple of `alignment`, of the shortest stretch that has them. False: none has. */
bool cache_take_fitting(size_t granules, size_t alignment, struct cached *out);

/* The longest of up to so many granules, or the start of one. */
struct cached cache_take_piece(size_t granules);

/* Of a stretch that begins at the granule, so many at most; how many. */
size_t cache_take_at(size_t granule, size_t granules);

/* Of the oldest, what brings the cache down by at least so many bytes, or all of it. */
struct cached cache_take_oldest(size_t excess);

/* Returns what must go: the oldest if the cache is full, c itself if it takes none. */
struct cached cache_put(struct cached c);

#endif
