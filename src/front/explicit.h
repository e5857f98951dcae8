/* Front of the explicit heaps: what hak_heap_malloc and its family run. A free comes by way of front.
 *
 * Calls: front, heap (explicit). Called by: api. */
#ifndef HAK_FRONT_EXPLICIT_H
#define HAK_FRONT_EXPLICIT_H

#include "heap/lease.h"

/* NULL: errno is ENOMEM. */
struct heap *front_heap_new(void);

/* A block of the heap for a request that has been counted; the alignment is a power of two, 1: as malloc's. NULL: errno
 * is ENOMEM. */
void *front_heap_alloc_counted(struct heap *to, size_t alignment, size_t size);
/* The same, and it reads as zeros. */
void *front_heap_alloc_zeroed(struct heap *to, size_t size);

/* What is no explicit heap has no lease: then NULL as well, and the request is counted. */
HAK_INLINE void *front_heap_pop(const struct heap *h, size_t size)
{
    size_t words = words_of(size);
    if (!count_words(words) || size > SMALL_MAX)
        return NULL;
    return lease_pop(h, class_of_word(hak_small_offset[words]));
}

/* Whether nobody has the block, of which its heap knows no free: in the child of a fork, what another thread had leased, or had in its
 * hands between the heap and the program. */
bool front_heap_has_lost(const void *p);

/* A heap has ended: what it had may be more than is to be kept. Keeps errno. */
void front_heap_ended(void);

/* The explicit heap whose block starts at p; NULL: none is. `what` names the caller in the message if no block does. */
struct heap *front_heap_of(const void *p, const char *what);

#endif
