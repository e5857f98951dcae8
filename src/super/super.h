/* SuperSlabs: granules of 2 MiB cut into 32 units of 64 KiB. A SuperSlab has no owner; its units
 * have. This is the shared pool's lock-free part: taking an unused unit (stage 2) is one
 * compare-and-swap on the SuperSlab's mask; only a new SuperSlab (stage 3) meets a lock.
 *
 * Calls: region, pressure, os. Called by: heap, pages, big, purge, profile (arena), control (numbers), and for a granule's line region. */
#ifndef HAK_SUPER_H
#define HAK_SUPER_H

#include "region/region.h"

struct super {
    _Atomic uint32_t free;    /* bit = unit is free. Taken by CAS, given by OR */
    _Atomic uint32_t dirty;   /* bit = unit may have pages */
    _Atomic uint32_t written; /* bit = unit may hold something else than zeros; dirty as well */
    _Atomic uint8_t kind;     /* what it is cut into; set before its first unit is free */
    uint8_t state;            /* the granule's, SuperSlab or not: the region's, under its lock */
    _Atomic uint8_t pages;    /* enum super_pages */
    bool maps_left;           /* a big block's granule, whose maps others have used; its owner's */
};

/* What the kernel was told: a SuperSlab's pages stay small, or those of a SuperSlab or of a granule of runs may be joined to a huge one, whether
 * there are all or one of them. Of granules of runs that have small pages one in some is a witness (pages/filled.h). All else: none. */
enum super_pages { SUPER_NONE, SUPER_SMALL, SUPER_HUGE, SUPER_WITNESS };

/* Those of the first 128 MiB, on a page that the library has anyway. */
enum { EARLY_SUPERS = 64 };
extern struct super hak_early_supers[EARLY_SUPERS] __attribute__((visibility("hidden")));

HAK_INLINE struct super *super_at(size_t granule)
{
    return granule < EARLY_SUPERS ? &hak_early_supers[granule] : &hak_region.supers[granule];
}

/* Takes n <= 32 neighbouring units of one SuperSlab. Returns the first one's index or REGION_NONE;
 * `*zeroed`: all of them read as zeros. Single units and longer stretches come from SuperSlabs of
 * their own, so that longer ones are not cut short by single ones. But memory whose pages are there comes
 * first, whatever its kind, for a single unit; and for a stretch if a whole SuperSlab of it is free. */
ptrdiff_t units_take(uint32_t n, bool *zeroed);

/* The same for one unit that is going to be filled. In a large heap these have SuperSlabs of their own, where huge pages pay:
 * of others the kernel would bring 2 MiB where a few pages are touched. */
ptrdiff_t units_take_dense(bool *zeroed);

/* A granule of the caller's becomes a SuperSlab of which all units are free and dirty. */
void units_add(size_t granule);

/* Gives units back, of which the first `touched` may have been written to. */
void units_give(size_t first, uint32_t n, uint32_t touched);

/* The same for units that may have few of their pages: the others go as well, so that whoever takes the units is known to
 * grow. False: the kernel has not taken them. */
bool units_give_purged(size_t first, uint32_t n);

/* A SuperSlab of which all units are free and some dirty becomes a granule of the caller's, whose content is unknown.
 * REGION_NONE: none is found. */
ptrdiff_t supers_take_whole(void);

/* When pages of a SuperSlab go back while others stay: the kernel would bring those that went again in time, for a huge page.
 * Its pages stay small until it is made anew. */
void super_huge_to_small(size_t granule);

/* When a granule comes, and the kernel has been told so, or goes: whoever has it next, as a block that is touched here and there, finds
 * no advice of huge pages. */
void super_set_pages(size_t granule, enum super_pages pages);

/* Looks at some SuperSlabs, others at each call. Small pages of those that are full become huge ones. By one thread
 * at a time, with time to spare. */
void supers_collapse(void);

struct super_counts {
    _Atomic size_t in_use;    /* units of slabs, runs and heaps */
    _Atomic size_t dirty;     /* free units that may hold pages */
    _Atomic size_t mapped;    /* SuperSlabs */
    _Atomic size_t made;      /* since the start: stage 3 */
    _Atomic size_t collapsed; /* likewise: small pages made one */
};

/* Free memory that heaps keep for what comes next: touched bytes of slabs that hold no block and stay with
 * their class (heap.c), and bytes in the magazines of heaps that wait for their next thread (registry.c). It
 * keeps its pages as free dirty units do, which are allowed what this leaves. */
enum { KEPT_SLABS_MOST = 1 << 20, WARM_MOST = 2 << 20 };
struct kept_counts {
    _Atomic size_t slabs, warm;
};

extern struct kept_counts hak_kept __attribute__((visibility("hidden")));

HAK_INLINE size_t kept_bytes(void)
{
    return load_relaxed(&hak_kept.slabs) + load_relaxed(&hak_kept.warm);
}

extern struct super_counts hak_supers __attribute__((visibility("hidden")));

HAK_INLINE size_t units_in_use(void)
{
    return load_relaxed(&hak_supers.in_use);
}

HAK_INLINE size_t units_dirty(void)
{
    return load_relaxed(&hak_supers.dirty);
}

HAK_INLINE size_t supers_mapped(void)
{
    return load_relaxed(&hak_supers.mapped);
}

/* Purges free dirty units, neighbours of 256 KiB and more first, highest addresses first, until at
 * most `keep` are left. Returns the number of units purged. Not reentrant: the caller holds the
 * purge lock. */
size_t supers_purge(size_t keep);

#endif
