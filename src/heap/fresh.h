#ifndef HAK_FRESH_H
#define HAK_FRESH_H

/* How the pages of a class's next slab come: as they are touched, or all at once, in advance or as a huge page's, where many
 * slabs of the class say that it is going to be filled. Blocks larger than a page need not be touched as a whole: buffers
 * that are never full. How many of their pages are can be seen only where they come one by one: so they do in one slab of
 * WITNESS_EVERY, the class's witness, which is looked at when the next one is due, by when its blocks have been in use
 * (docs/decisions/0098). All with the heap's lock held. */

#include "heap/heap.h"

/* Units for a slab of the class, REGION_NONE if there is no memory. Their content is unknown if not `*zeroed`. */
ptrdiff_t fresh_units_take(struct heap *h, uint32_t class, bool *zeroed);

#endif
