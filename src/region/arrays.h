/* The side arrays of the window: where they lie, and how much of them is mapped. All of it under the region's lock, but
 * for what says otherwise.
 *
 * Four of them in two pairs, whose arrays begin at the same place and lie away from it:
 *   <- slabs | words ->        slabs have the place's first bytes, so that both begin in one page
 *   <- wide maps | maps ->     begin at a page: they are purged by the granule
 *   supers ->
 *
 * Calls: super, slab (the lengths of their lines), os. Called by: region; super, big, pages (maps), control (an address). */
#ifndef HAK_ARRAYS_H
#define HAK_ARRAYS_H

#include "region/region.h"

/* Bytes of address space for the arrays of so many granules. */
size_t arrays_need(size_t granules);

/* Their place, where nothing is mapped. Words are mapped, and can be read, as somebody may look before a granule is taken. False: they
 * cannot be, and the place is nobody's still. */
bool arrays_choose(uintptr_t at, size_t granules);

/* The same where the kernel likes, reserved as a whole. */
bool arrays_reserve(size_t granules);

/* Granules from there on have nothing yet that describes them; before the first arrays_describe, those that no static super
 * stands in for. */
size_t arrays_described(void);

/* So many shall. False: there is no memory for all of them. */
bool arrays_describe(size_t granules);

/* Gives back what the maps of a granule without slabs occupy: they are all zeros. By whoever has the granule, without a lock. */
void arrays_purge_maps(size_t granule);

/* Whether an address lies in them. At any time, without a lock. */
bool arrays_hold(uintptr_t at);

#endif
