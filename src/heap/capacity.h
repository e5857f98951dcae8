/* Capacity: how long magazines are.
 *
 * A magazine has as many slots as its class has shown to need. Refills alone make it as long as its class is wont to be (what
 * a program that only grows can use); longer ones, up to LONG_BYTES, are for blocks that come
 * back in such numbers that what is spilled, or goes in a fall, is wanted again (the setting `magazines`; decisions 0049, 0120). All magazines of
 * a heap together stay within a budget (0082, 0089, 0130, 0131, 0138, 0139); the hand that goes round takes the slots of idle ones that are not busy, and a heap that has
 * shrunk loses all.
 *
 * Calls: slots, heap, shared, registry, purge, pressure, os. Called by: refill, paged. The calling thread's own heap, at depth 1, with its lock held. */
#ifndef HAK_CAPACITY_H
#define HAK_CAPACITY_H

#include "heap/heap.h"

/* A refill or a flush moves up to BATCH_MAX blocks or half a magazine, or this share if that is more: each has a fixed cost, and what
 * a flush leaves is moved up in the slots. */
enum {
    BATCH_MAX = 32,
    FLUSH_SHARE = 4,
    REFILL_SHARE = 8,
    REFILL_MAX = 128 /* at most, however long the magazine: somebody waits for it */
};

/* Of a closed, empty magazine that has been missed: others slots, if it should be longer. */
void adjust_slots(struct heap *h, uint32_t class);

/* What it holds goes back. Closed afterwards. */
void empty_magazine(struct heap *h, uint32_t class);

/* The same for all, and they lose their slots: how long they became is for a demand that is gone. */
void magazines_lose_slots(struct heap *h);

/* The oldest blocks of a full magazine, flush_most of them, have just gone back, and the rest has moved up. */
void note_spill(struct heap *h, uint32_t class);

/* Of a class that has fallen to few blocks, with a magazine that has just run full, or is closed since it did: what it holds goes
 * back, and that is remembered. Closed afterwards. */
void magazine_falls(struct heap *h, uint32_t class);

/* A refill has brought n blocks, which lie in the closed magazine. */
void note_refill(struct heap *h, uint32_t class, uint32_t n);

/* Whether it has grown anew soon after it had shrunk so far that its magazines were emptied. What shrinks now will be
 * wanted again then. With the lock held. */
bool heap_swings(struct heap *h);

HAK_INLINE uint32_t batch_most(uint32_t cap, uint32_t share)
{
    uint32_t half = (cap + 1) / 2, part = cap / share, batch = part < BATCH_MAX ? BATCH_MAX : part;
    return batch < half ? batch : half;
}

/* Blocks that a flush of a magazine with so many slots puts back. */
HAK_INLINE uint32_t flush_most(uint32_t cap, uint32_t class)
{
    return class < FIRST_PAGED ? batch_most(cap, FLUSH_SHARE) : 1;
}

/* Blocks that a refill of it asks for in the end. */
HAK_INLINE uint32_t refill_most(uint32_t cap)
{
    uint32_t most = batch_most(cap, REFILL_SHARE);
    return most < REFILL_MAX ? most : REFILL_MAX;
}

#endif
