/* Pages: granules cut into runs of pages, side by side wherever there is room and joined again when they
 * are free. For blocks of more than a unit: no two of them start in the same unit, so a unit's line says
 * all there is to know about the run, live or free, that starts in it.
 *
 * Pages are counted from the start of the window. Calls: region, super, slab (a unit's line), os. Called by: heap (runs, fresh), big, purge, control (numbers). */
#ifndef HAK_PAGES_H
#define HAK_PAGES_H

#include "region/region.h"

/* Takes n neighbouring pages of one granule, n more than a unit has and no more than a granule; the first
 * one is a multiple of `alignment`, a power of two of at most a unit. Returns it or REGION_NONE;
 * `*zeroed`: all of them read as zeros. */
ptrdiff_t pages_take(uint32_t n, uint32_t alignment, bool *zeroed);

/* Whether n neighbouring pages are free that may hold something: those come first. Without a lock, so a moment old. */
bool pages_have_touched(uint32_t n);

void pages_give(size_t first, uint32_t n);

/* Makes the `before` pages from `first` on, which are taken, n, more than a unit has: gives the last ones, or takes those behind if they are
 * free. `*zeroed`: what it takes reads as zeros, if it takes any. */
bool pages_resize(size_t first, uint32_t before, uint32_t n, bool *zeroed);

/* Purges free runs that may hold pages, longest first, until they add up to at most `keep` bytes, and
 * gives granules back that are free and clean as a whole. Returns bytes purged. */
size_t pages_purge(size_t keep);

/* Written under the lock, read by anyone. In bytes, and in granules. */
struct pages_counts {
    _Atomic size_t in_use, dirty, granules;
};

extern struct pages_counts hak_pages __attribute__((visibility("hidden")));

HAK_INLINE size_t pages_in_use(void)
{
    return load_relaxed(&hak_pages.in_use);
}

/* Free, and may hold something else than zeros, or lie between such pages. */
HAK_INLINE size_t pages_dirty(void)
{
    return load_relaxed(&hak_pages.dirty);
}

HAK_INLINE size_t pages_granules(void)
{
    return load_relaxed(&hak_pages.granules);
}

/* The caller's granule, which nothing is in, becomes free pages. Its first `touched` bytes may be touched, and hold anything. */
void pages_add(size_t granule, size_t touched);

/* A granule of which all pages are free and some dirty becomes the caller's, with unknown content. REGION_NONE: none is
 * found. */
ptrdiff_t pages_take_whole(void);

struct lock *pages_lock(void);

HAK_INLINE uint32_t page_shift(void)
{
    return (uint32_t)__builtin_ctzl(hak_region.page_size);
}

HAK_INLINE void *page_address(size_t page)
{
    return (void *)(hak_region.base + (page << page_shift()));
}

HAK_INLINE size_t page_of(const void *p)
{
    return ((uintptr_t)p - hak_region.base) >> page_shift();
}

HAK_INLINE uint32_t pages_for(size_t size)
{
    return (uint32_t)((size + hak_region.page_size - 1) >> page_shift());
}

HAK_INLINE uint32_t unit_pages(void)
{
    return 1u << (UNIT_SHIFT - page_shift());
}

HAK_INLINE size_t unit_of_page(size_t page)
{
    return page >> (UNIT_SHIFT - page_shift());
}

HAK_INLINE uint8_t place_in_unit(size_t page)
{
    return (uint8_t)(page & (unit_pages() - 1));
}

#endif
