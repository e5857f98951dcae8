/* Region: one window of address space, cut into granules of 2 MiB, and the side arrays that
 * describe what lies in it.
 *
 *   window   [base, base + granules * 2 MiB)   blocks, heaps; mapped granule by granule
 *   words    one machine word per unit         who owns the unit: all that free() looks at
 *   slabs    one 64-byte line per unit         what the owner keeps about it
 *   maps     a bit per block                   which blocks of a slab are free
 *   supers   one entry per granule             the granule's state, the SuperSlab's masks
 *
 * The side arrays have their place from the beginning and are mapped in steps as granules are used, so a process that
 * is small or limited (ulimit -v, strict overcommit) pays for what it uses. For the same reason slabs
 * run downwards from where words begin, in the middle of a page: a small process has one for both. The
 * first entries of supers are static, the others committed once they are needed.
 *
 * Calls: super (a granule's line), live, pressure, os. Called by: super, slab, pages, big, heap (look-up). */
#ifndef HAK_REGION_H
#define HAK_REGION_H

#include "base/atomic.h"
#include "base/base.h"
#include "os/lock.h"

struct slab;
struct super;

/* Largest window: plenty for any machine, and its reservation stays small. */
#define WINDOW_MAX ((size_t)1 << 42)

/* What a unit's word says. Above WORD_TAG_MAX: the address of the owner's magazine for the unit's
 * class, which names heap (the 64 KiB around it) and class in one. Below that a tag, which free takes for
 * the offset of a magazine as well (heap.h): so they are aligned as one. */
enum {
    WORD_NONE = 0,      /* no block starts in this unit */
    WORD_RUN = 8,       /* a live run starts here */
    WORD_BIG = 16,      /* a live big block starts here */
    WORD_HEAP = 24,     /* a heap's own memory */
    WORD_FREED = 32,    /* a block of pages was here and has been freed */
    WORD_SAMPLED = 40,  /* a unit of sampled blocks (profile/arena.h) */
    WORD_EXPLICIT = 48, /* of an explicit heap's slab (heap/explicit.h) */
    WORD_TAG_LAST = WORD_EXPLICIT,
    WORD_TAG_MAX = 55
};

struct region {
    /* Read by every free. Written once, before the first block exists; zero until then, so that
     * every look-up misses. */
    uintptr_t base;
    size_t units;
    _Atomic uintptr_t *words; /* written by the unit's owner, read by anyone who frees */
    /* As `units`, for operators delete that have to call the program's operator delete where it has one: then 0. Written with it. */
    size_t deletable;
    struct slab *slabs;   /* unit 0's; downwards: slab_at (slab.h) */
    uint64_t *maps;       /* unit 0's narrow one; wide ones downwards: unit_map (slab.h) */
    struct super *supers; /* granule 0's: super_at (super.h) */
    size_t granules;
    size_t page_size;
    uintptr_t key;  /* random: what cannot be guessed hangs on it (front/seal.h, front/secure.c) */
    uintptr_t mark; /* another, which freed blocks show (heap/lease.h) */
};

extern struct region hak_region __attribute__((visibility("hidden")));

/* Which operator delete the dynamic linker has found, and this library's (api/operators.c). A program without any has no part of the
 * static library that says so. */
struct delete_in_use {
    void (*used)(void *p);
    void (*ours)(void *p);
};
extern const struct delete_in_use hak_delete_in_use
    __attribute__((weak)); /* not hidden: gold gives what is, and not there, an address */
bool region_deletes_are_ours(void);

/* Learns the page size: all that is needed before the first block. */
void region_start(void);

struct live_area;

/* Says in the live area where the window and its arrays are. */
void region_show(struct live_area *a);

/* Chooses the window. Idempotent and thread-safe; false if the system gives no address space. */
bool region_init(void);

/* False: there would be no room for it if all else were given back. Before the window is chosen nobody knows. */
HAK_INLINE bool region_may_hold(size_t size)
{
    return size >> GRANULE_SHIFT <= hak_region.granules - 1;
}

/* Takes n free granules whose address is a multiple of `alignment`, mapped read-write. Returns the
 * first granule's index or REGION_NONE. `*zeroed` says whether all of it is known to read as zeros. */
enum { REGION_NONE = -1 };
ptrdiff_t region_take(size_t n, size_t alignment, bool *zeroed);

/* Takes the n granules behind a taken range, if they are free. */
bool region_extend(size_t first, size_t n, bool *zeroed);

/* Gives n taken granules back; their pages have been purged if `zeroed`. */
void region_give(size_t first, size_t n, bool zeroed);

/* The n granules are not mapped any more (they were moved away). Only where region_can_forget: a hole
 * in a reserved window could be taken by others before it is closed. */
void region_forget(size_t first, size_t n);
bool region_can_forget(void);

/* Address space itself is short: a limit of the process counts it, or the kernel promises no more memory than there is. */
bool region_is_counted(void);

/* Whether the process began with a limit on its address space. */
bool region_is_limited(void);

/* One past the highest granule that was ever taken or mapped. */
size_t region_top(void);

/* For whoever explains an address, at any time and without a lock: whether a granule below the top is
 * nobody's now. */
bool region_is_free(size_t granule);

/* The lock, for fork. */
struct lock *region_lock(void);

HAK_INLINE void *granule_address(size_t granule)
{
    return (void *)(hak_region.base + (granule << GRANULE_SHIFT));
}

HAK_INLINE bool granule_is_aligned(size_t granule, size_t alignment)
{
    return ((uintptr_t)granule_address(granule) & (alignment - 1)) == 0;
}

HAK_INLINE void *unit_address(size_t unit)
{
    return (void *)(hak_region.base + (unit << UNIT_SHIFT));
}

/* Index of the unit a pointer lies in; anything from hak_region.units up is not ours. */
HAK_INLINE size_t unit_of(const void *p)
{
    return ((uintptr_t)p - hak_region.base) >> UNIT_SHIFT;
}

/* Relaxed: whoever holds a live block has it from its allocation, which came after the word's
 * store; all later stores name another owner of the same block, and every one of them is right. */
HAK_INLINE uintptr_t unit_word(size_t unit)
{
    return load_relaxed(&hak_region.words[unit]);
}

/* The word's low half alone, which is all that free wants: one instruction less than cutting it off. The
 * same relaxed load of a part of the same word, so a whole old or new half. */
HAK_INLINE size_t unit_word_low(size_t unit)
{
    typedef uint16_t __attribute__((may_alias)) half;
    _Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the low half comes first");
    return plain_load_relaxed((const half *)(const void *)&hak_region.words[unit]);
}

/* Whether blocks of a slab lie in a unit of that word. */
HAK_INLINE bool word_is_of_slab(uintptr_t word)
{
    return word >= WORD_EXPLICIT;
}

HAK_INLINE void unit_set_word(size_t unit, uintptr_t word)
{
    store_relaxed(&hak_region.words[unit], word);
}

#endif
