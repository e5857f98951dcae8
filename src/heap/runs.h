/* Runs (A12, L2.5): blocks of whole units inside a SuperSlab, above SLAB_MAX and up to RUN_MAX. A
 * run has no owner; a thread keeps a few it freed, for its next request of the same length. */
#ifndef HAK_RUNS_H
#define HAK_RUNS_H

#include "heap/heap.h"

/* A run for `size` bytes at a unit boundary; h: the caller's own heap, or NULL if it must not be
 * used. NULL: no memory. `*zeroed`: it reads as zeros. */
void *run_alloc(struct heap *h, size_t size, bool *zeroed);

/* The unit's word said WORD_RUN. False if it is free already. */
bool run_free(struct heap *h, size_t unit);

/* Makes the run `size` bytes where it is; false if it cannot. */
bool run_resize(struct heap *h, size_t unit, size_t size);

/* Gives all the heap keeps back to the pool. */
void runs_empty(struct heap *h);

/* Live runs of the whole process. */
void runs_live(size_t *bytes, size_t *blocks);

#endif
