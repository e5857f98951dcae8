/* Blocks of more than a unit: each is a slab by itself, made of a run of pages. What a thread keeps of them in its magazines goes
 * back before it takes memory that has no pages yet, and when it has ever fewer in use. Where programs touch little of such blocks
 * (touched.h) more of them stay, before it takes some as well. */
#ifndef HAK_PAGED_H
#define HAK_PAGED_H

#include "heap/heap.h"

enum {
    PAGED_KEPT_MIN = 512 << 10, /* bytes that stay with the thread in any case, ... */
    PAGED_KEPT_ALL = 8 << 20,   /* ... or its share of so many for all heaps if that is less, ... */
    PAGED_KEPT_SHARE = 8,       /* ... and one part in so many of what its slabs have handed out */
    PAGED_STEP = 8 * UNIT_SIZE  /* bytes of a class that go by before it is looked how many stay */
};

/* Where little is touched (touched.h) TOUCHED_LITTLE times as much stays, and of two such parts. */

/* Pages become a block of the class in use, and go back. The lock of the heap is held, whose own the slab is. NULL: no memory.
 * `*zeroed`: it reads as zeros. */
void *paged_take(struct heap *h, uint32_t class, bool *zeroed);
void paged_put(struct heap *h, struct slab *s, void *p);

/* A block that is in use becomes one of the class, of pages, where it is: what it has too much goes back, or the pages behind it are taken. False:
 * they are not free. h: the calling thread's own heap, at depth 1, whose the slab is. */
bool paged_resize(struct heap *h, struct slab *s, uint32_t class);

/* The oldest go back until n neighbouring pages are free that may hold something, or `most` bytes are left. Returns whether any
 * does. Likewise, with its lock held. */
bool paged_give_back(struct heap *h, uint32_t n, size_t most);

/* A block for a request that found nothing in its class' magazine. What is kept beyond the limit goes back first, and before
 * pages are taken that may never have been touched, one that is kept of a class somewhat larger is used as it is; neither where little of
 * such blocks is touched. Likewise. */
void *paged_refill(struct heap *h, uint32_t class, bool *zeroed);

/* Before n neighbouring pages are taken, where none are free that may hold something. What the thread keeps goes back, where little of it is
 * touched what is beyond its limit; or big blocks that are free give a granule. Likewise. */
void paged_make_room(struct heap *h, uint32_t n);

/* After one of the class was freed for which there seemed to be no room, or much has been given back: what the heap keeps beyond
 * its limit goes back, the largest first. Who keeps too much is asked again at the next. `freed`: that block, which may be in the
 * magazine; NULL: none was. With the heap's lock held. */
void paged_limit(struct heap *h, uint32_t class, void *freed);

/* The magazine has just been opened: it is to seem full after PAGED_STEP bytes, or one block; where little of such blocks is touched after as
 * many blocks as if they were of the least size, near a memory limit at once. */
void paged_opened(struct magazine *m);

/* A block of the class that the thread keeps is no block any more: its pages are the caller's. NULL: none is kept, or it was
 * another heap's and has gone there. h: the calling thread's own heap, at depth 1, here and below. */
void *paged_release(struct heap *h, uint32_t class);
/* Such pages, as many as the class' blocks have, become one that is freed: the thread keeps it if there is room for it. False: they
 * are the caller's still. */
bool paged_keep(struct heap *h, uint32_t class, void *p);

#endif
