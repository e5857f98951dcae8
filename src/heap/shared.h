/* Shared heaps. A slab for each thread and size class is what makes threads independent, and many of them expensive: all pages
 * of a slab are written to sooner or later, however little its thread needs of the class. So where there are many heaps a
 * thread takes of such a class from slabs that all threads share: from a few heaps that are nobody's. What it frees goes
 * into its magazines, as any other heap's blocks do, and from there home. Of a class that it needs often it gets
 * slabs of its own (docs/decisions/0085); a third of that makes a class *busy*: its magazine may then have slots that others have
 * no room for (capacity.c), with which it may need neither slabs nor the shared ones (0130).
 *
 * Two threads may so have blocks in one line of the processor's cache, but seldom a thread that works on them much.
 *
 * Calls: registry, heap, os. Called by: refill, capacity; for the calling thread's own heap, at depth 1, with its lock held. */
#ifndef HAK_SHARED_H
#define HAK_SHARED_H

#include "heap/registry.h"

HAK_INLINE bool heaps_are_many(void)
{
    return load_relaxed(&hak_live_heaps) > MANY_HEAPS;
}

/* Refills of a class within a second that are still few, those from which on it is busy, and as how many one of pages counts. */
enum { FEW_REFILLS = 255, BUSY_FROM = FEW_REFILLS / 3, PAGED_WEIGHT = 5 };

HAK_INLINE bool is_busy(const struct heap *h, uint32_t class)
{
    return h->classes[class].busy;
}

/* Counts a refill of the class that found nothing of the thread's own, or one of pages, as several; where they are BUSY_FROM the class
 * becomes busy. Whether they are so few that it should have nothing of its own. */
bool needs_little(struct heap *h, uint32_t class);

/* From whose slabs the class is to be refilled: a shared heap, then locked, of which `*most` blocks may be taken; or the own. */
struct heap *shared_or_own(struct heap *h, uint32_t class, uint32_t *most);

#endif
