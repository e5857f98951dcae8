/* Guarded samples: a share of the sampled blocks lies on pages of its own between pages that allow no access, so that
 * what the program does beside such a block faults at once, and what it does to it once it is freed. What GWP-ASan
 * does, on the samples there are.
 *
 *   granule | unit 0: closed | unit 1: block's pages, closed | unit 2: block's pages, closed | ...
 *
 *   slot    fresh -> live -> waiting -> live ...;   live -> lost (the kernel does not close it)
 *
 * A slot is a unit. Its block's pages are the first ones and never all, so the unit in front of each ends with a closed
 * page. The block lies at their end, now and then at their start, and what is left of them is filled with a pattern
 * that shows when the block is freed whether it was written to. All other pages are closed, and given back: a slot that
 * waits has none. Fresh slots are used first and then the one that has waited longest.
 *
 * All under the sampler's lock but where it says otherwise. Calls: slab (a unit's line), os. Called by: sampler, control. */
#ifndef HAK_GUARDED_H
#define HAK_GUARDED_H

#include "profile/past.h"

/* A block for the class that reads as zeros, as large and as aligned as one of its slabs; NULL: it is to be had from
 * the arena. `chance` decides where on its pages it lies. */
void *guarded_take(uint32_t class, uint64_t chance);

/* Whether an address lies in a slot, or beside one: in a granule of theirs. At any time and without the lock. */
bool guarded_owns(const void *p);

/* Bytes of the live block at p, which guarded_owns; 0 if there is none. Without the lock for whoever has the block. */
size_t guarded_usable(const void *p);

/* What has been written beside the live block, on its own pages; NULL: nothing. */
const char *guarded_damage(const void *p);

/* The block must be live. */
void guarded_give(void *p);

/* What is known of the block that was given last to this slot. */
void guarded_remember(const struct freed_block *b);

/* The block that an access to such an address, which guarded_owns, was meant for: the one in whose slot it lies or
 * before whose start, whichever is nearer. For whoever explains an address: at any time and without the lock. */
struct guarded_block {
    uintptr_t address; /* 0: none is known */
    size_t usable;
    bool is_live;
};
struct guarded_block guarded_near(uintptr_t at);

/* What was remembered of the block that was given last at the address, or NULL. */
const struct freed_block *guarded_past(uintptr_t address);

/* Since the start, and pages of live ones. */
struct guarded_sums {
    uint64_t taken;
    size_t bytes;
};
struct guarded_sums guarded_sums(void);

/* How many blocks may be live when so much time has passed since the first one, of `most` in the end. */
uint32_t guarded_places(uint64_t age_ms, uint32_t most);

#endif
