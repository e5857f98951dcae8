/* Shared heaps. A slab for each thread and size class is what makes threads independent, and many of them expensive: all pages
 * of a slab are written to sooner or later, however little its thread needs of the class. So where there are many heaps a
 * thread takes of such a class from slabs that all threads share: from a few heaps that are nobody's. What it frees goes
 * into its magazines, as any other heap's blocks do, and from there home. Of a class that it needs often it gets
 * slabs of its own. docs/decisions/0085
 *
 * Two threads may so have blocks in one line of the processor's cache, but seldom a thread that works on them much.
 *
 * Calls: registry, heap, os. Called by: refill. */
#ifndef HAK_SHARED_H
#define HAK_SHARED_H

#include "heap/registry.h"

HAK_INLINE bool heaps_are_many(void)
{
    return load_relaxed(&hak_heaps_are_many);
}

/* Counts a refill of the class that found nothing of the thread's own. Whether they are so few that it should have
 * nothing of its own. h: the calling thread's own heap, at depth 1, with its lock held. */
bool needs_little(struct heap *h, uint32_t class);

/* Likewise. Another heap, locked, if the class is to be refilled from its slabs; NULL: it is not, or all of them are busy. */
struct heap *shared_take(struct heap *h, uint32_t class);

/* How many blocks to take there if it would be so many of the heap's own: as many as there were refills lately, so that who asks
 * once takes one; but whole lines of the processor's cache, and few bytes. */
uint32_t shared_batch(const struct heap *h, uint32_t class, uint32_t wanted);

#endif
