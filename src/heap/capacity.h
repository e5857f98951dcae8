/* Capacity: how long magazines are.
 *
 * A magazine has as many slots as its class has shown to need. Refills alone make it as long as its class is wont to be (what
 * a program that only grows can use); longer ones, up to LONG_BYTES, are for blocks that come
 * back in such numbers that what is spilled is wanted again (the setting `magazines`; decision 0049). All magazines of
 * a heap together stay within a budget (0082, 0089); the hand that goes round takes the slots of idle ones, and a heap that has
 * shrunk loses all.
 *
 * Calls: slots, heap, registry, purge, pressure, os. Called by: refill, paged. The calling thread's own heap, at depth 1, with its lock held. */
#ifndef HAK_CAPACITY_H
#define HAK_CAPACITY_H

#include "heap/heap.h"

enum {
    BATCH_MAX = 32, /* a refill or a flush moves up to so many blocks, or half a magazine; ... */
    LONG_SLOTS =
        128, /* ... of one that is so long a flush half of it, since what stays is moved up, ... */
    FLUSH_MAX = 1024, /* ... of so many at most: somebody waits for it; ... */
    REFILL_SHARE = 8, /* ... a refill this share if that is more, for each has a fixed cost, ... */
    REFILL_MAX = 128  /* ... of so many at most */
};

/* Of a closed, empty magazine that has been missed: others slots, if it should be longer. */
void adjust_slots(struct heap *h, uint32_t class);

/* What it holds goes back. Closed afterwards. */
void empty_magazine(struct heap *h, uint32_t class);

/* The same for all, and they lose their slots: how long they became is for a demand that is gone. */
void magazines_lose_slots(struct heap *h);

/* The oldest blocks of a full magazine, flush_most of them, have just gone back, and the rest has moved up. */
void note_spill(struct heap *h, uint32_t class);

/* Of a class that has fallen to few blocks: its magazine, if it is open, has run full, gives all back, and that is remembered.
 * Closed afterwards. */
void magazine_falls(struct heap *h, uint32_t class);

/* Whether it has grown anew soon after it had shrunk so far that its magazines were emptied. What shrinks now will be
 * wanted again then. With the lock held. */
bool heap_swings(struct heap *h);

/* Blocks that a flush of a magazine with so many slots puts back. */
HAK_INLINE uint32_t flush_most(uint32_t cap, uint32_t class)
{
    if (class >= FIRST_PAGED)
        return 1;
    uint32_t half = (cap + 1) / 2, most = cap < LONG_SLOTS ? BATCH_MAX : FLUSH_MAX;
    return half < most ? half : most;
}

/* Blocks that a refill asks for in the end. */
HAK_INLINE uint32_t refill_most(uint32_t cap, uint32_t class)
{
    uint32_t share = cap / REFILL_SHARE, most = share < BATCH_MAX ? BATCH_MAX : share;
    most = most < REFILL_MAX ? most : REFILL_MAX;
    uint32_t half = flush_most(cap, class);
    return half < most ? half : most;
}

#endif
