/* What magazines hold when the process ends normally: blocks that were freed and of which nobody has looked, since,
 * whether they are blocks, and free once only. */
#ifndef HAK_VERIFY_H
#define HAK_VERIFY_H

#include "heap/heap.h"

/* Looks through the magazines of the calling thread's heap (NULL: it has none) and of ended threads', at depth 1.
 * Ends the program if a block is in them twice, or in its slab as well (of these heaps or a shared one), or is none.
 * What the calling thread has gathered goes home. Touches none of the blocks; the order in the magazines changes. */
void heaps_verify(struct heap *own);

#endif
