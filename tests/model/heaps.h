/* Heaps for scenarios: made by the library itself, in a small window, before the threads begin. */
#ifndef HAK_MODEL_HEAPS_H
#define HAK_MODEL_HEAPS_H

#include "model.h"

#include "heap/heap.h"
#include "heap/registry.h"

enum { MODEL_CLASS = 4 /* blocks of 64 bytes: the first whose freed ones are a map */ };

/* The heap of a thread of the model, which from then on is its own. */
struct heap *heaps_attach(int thread);

/* A block of the heap, handed out; the slab is its first or its newest. */
void *heaps_block(struct heap *h);

/* A slab from another heap, if `take` finds one, is the heap's from then on. */
void heaps_take_slab(struct heap *h, struct slab *(*take)(struct heap *h, uint32_t class));

/* Takes in what has been sent, as it would at its next slow path. */
void heaps_drain(struct heap *h);

/* Touches what threads will ask of it. */
void heaps_touch(struct heap *h);
void heaps_touch_unit(size_t unit);
/* And leaves out what is not to be explored. */
void heaps_ignore_classes(struct heap *h);
/* After a scenario has made its settings: no thread changes them. */
void heaps_ignore_settings(void);

/* Notes a block of another heap in a parcel, which is not sent. */
void heaps_prepare(struct heap *h, void *p);

/* Frees a block of another heap, as the program's free does when no magazine has room. */
void heaps_send(struct heap *h, void *p);
/* The same, but at once and without a parcel. */
void heaps_push(void *p);

/* Blocks that the heap counts as handed out, less those in its magazine. */
size_t heaps_in_use(struct heap *h);

#endif
