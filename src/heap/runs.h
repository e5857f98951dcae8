/* Runs: blocks of whole pages inside a granule, above a unit and up to RUN_MAX, that are not to be slabs: for alignments that no class has,
 * samples, and those of explicit heaps. A run has no owner. */
#ifndef HAK_RUNS_H
#define HAK_RUNS_H

#include "heap/heap.h"

/* A run for `size` bytes at a multiple of `alignment`, a power of two of at most a unit; h: the caller's
 * own heap, for its books, or NULL. NULL: no memory. `*zeroed`: it reads as zeros. */
void *run_alloc(struct heap *h, size_t size, size_t alignment, bool *zeroed);

/* Where the run starts that a unit's word says starts there, or the last one that did. */
HAK_INLINE void *run_address(size_t unit)
{
    return (char *)unit_address(unit) + slab_at(unit)->run_at * hak_region.page_size;
}

/* The unit's word said WORD_RUN. False if it is free already. */
bool run_free(struct heap *h, size_t unit);

/* A sample of a class is a run, but has the pages that the class' blocks have had: where a program touches little of such blocks, others
 * would be touched anew for each sample. h: as in paged.h. A block that the thread keeps of the class becomes a run where it is; NULL: there
 * is none. */
void *run_of_kept(struct heap *h, uint32_t class);
/* And back, as free would. False: no class has its size, or it is free already, or nothing is kept near a memory limit. */
bool run_to_kept(struct heap *h, size_t unit);

/* Makes the run `size` bytes where it is; false if it cannot. */
bool run_resize(struct heap *h, size_t unit, size_t size);

/* Live runs of the whole process. */
void runs_live(size_t *bytes, size_t *blocks);

#endif
