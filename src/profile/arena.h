/* Arena: units that hold sampled blocks and nothing else, in pieces of 16 bytes with a bit each. A block is
 * as large and as aligned as one of its size class, so whoever takes it for one is not wrong.
 *
 * All under the sampler's lock but where it says otherwise. Calls: super, slab (a unit's line), os. Called by: sampler, control (place). */
#ifndef HAK_ARENA_H
#define HAK_ARENA_H

#include "base/base.h"

/* A block for a class of slabs made of units, aligned to the largest power of two that divides its size. NULL: no
 * memory, or the arena is as large as it gets. `*zeroed`: it reads as zeros. */
void *arena_take(uint32_t class, bool *zeroed);

/* Bytes of the live block at p, 0 if there is none. Without the lock for whoever has the block. */
size_t arena_usable(const void *p);

/* Where the live block starts that an address of the arena lies in, and its bytes; 0: in none. For whoever explains
 * an address: at any time and without the lock. */
uintptr_t arena_block_around(uintptr_t at, size_t *size);

/* The block must be live. */
void arena_give(void *p);

/* Units it has, of so many at most. */
uint32_t arena_units(void);
enum { ARENA_UNITS_MOST = 512 };

#endif
