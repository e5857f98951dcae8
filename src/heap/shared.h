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

enum {
    SHARED_BATCH = 2 << 10, /* bytes that a refill takes of a shared heap, or else a block */
    LINE = 64               /* of a processor's cache */
};

HAK_INLINE bool heaps_are_many(void)
{
    return load_relaxed(&hak_heaps_are_many);
}

/* How many blocks a refill of the magazine is to take of a shared heap, if it would take so many of its own: whole lines, where
 * it has room for one. */
HAK_INLINE uint32_t shared_batch(const struct magazine *m, uint32_t wanted)
{
    uint32_t line = LINE / m->size, most = m->size < SHARED_BATCH ? SHARED_BATCH / m->size : 1;
    if (wanted < line && line <= m->cap)
        return line;
    return wanted < most ? wanted : most;
}

/* Counts a refill of the class that found nothing of the thread's own. Whether they are so few that it should have
 * nothing of its own. h: the calling thread's own heap, at depth 1, with its lock held. */
bool needs_little(struct heap *h, uint32_t class);

/* Likewise. Another heap, locked, if the class is to be refilled from its slabs; NULL: it is not, or all of them are busy. */
struct heap *shared_take(struct heap *h, uint32_t class);

#endif
