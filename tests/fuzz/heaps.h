/* Heaps of the program's own, as part of what a model has: which there are, whose each block is. */
#ifndef HAK_FUZZ_HEAPS_H
#define HAK_FUZZ_HEAPS_H

#include "model.h"

enum { HEAPS = 6 }; /* more than a thread has leases */

struct heaps {
    hak_heap *at[HEAPS]; /* NULL: none, until it is asked for */
};

/* Any of them, which is made if need be. */
hak_heap *heaps_any(struct heaps *h, struct input *in);

/* NULL: of none. */
void *heaps_malloc(hak_heap *heap, size_t size);

/* Any of them ends, with its blocks or without. */
void heaps_end_any(struct heaps *h, struct model *m, struct input *in);
void heaps_end_all(struct heaps *h, struct model *m);

/* What each says it has must be what the model has of it. */
void heaps_check(const struct heaps *h, const struct model *m);

#endif
