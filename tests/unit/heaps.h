/* Shared by the unit tests of heaps: one thread plays the threads of several. */
#ifndef HAK_TESTS_UNIT_HEAPS_H
#define HAK_TESTS_UNIT_HEAPS_H

#include "unit.h"

#include "front/front.h"
#include "heap/registry.h"

/* A heap as a new thread would get it. */
static inline struct heap *new_heap(void)
{
    front_free(front_alloc(16)); /* sets up the library and gives this thread a heap of its own */
    return registry_attach();
}

/* What the heap's thread would do. */
static inline void *alloc_as(struct heap *h, size_t size)
{
    struct heap *own = hak_thread.heap;
    hak_thread.heap = h;
    void *p = front_alloc(size);
    hak_thread.heap = own;
    assert_non_null(p);
    return p;
}

static inline void free_as(struct heap *h, void *p)
{
    struct heap *own = hak_thread.heap;
    hak_thread.heap = h;
    front_free(p);
    hak_thread.heap = own;
}

/* Sends, receives and gives back everything that waits in it. */
static inline void trim_as(struct heap *h)
{
    struct heap *own = hak_thread.heap;
    hak_thread.heap = h;
    front_trim();
    hak_thread.heap = own;
}

static inline uint64_t counted(struct heap *h, enum counter c)
{
    return load_relaxed(&h->counters[c]);
}

#endif
