/* Shared by the unit tests of heaps: one thread plays the threads of several. */
#ifndef HAK_TESTS_UNIT_HEAPS_H
#define HAK_TESTS_UNIT_HEAPS_H

#include "unit.h"

#include "front/front.h"
#include "heap/registry.h"
#include "super/super.h"

/* A heap as a new thread would get it. */
static inline struct heap *new_heap(void)
{
    front_free(front_alloc(16)); /* sets up the library and gives this thread a heap of its own */
    struct heap *h = registry_attach();
    store_relaxed(&h->passing, NULL);
    return h;
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

static inline void alloc_each_as(struct heap *h, size_t size, void **out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = alloc_as(h, size);
}

static inline void free_each_as(struct heap *h, void **blocks, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free_as(h, blocks[i]);
}

static inline bool inbox_is_empty(struct heap *h)
{
    return load_relaxed(&h->inbox) == NULL;
}

/* Sends, receives and gives back everything that waits in it. */
static inline void trim_as(struct heap *h)
{
    struct heap *own = hak_thread.heap;
    hak_thread.heap = h;
    front_trim();
    hak_thread.heap = own;
}

/* Returns how many blocks of the class came in. */
static inline size_t receive_all_as(struct heap *h, uint32_t class)
{
    size_t before = h->classes[class].used - magazine_kept(magazine_of(h, class));
    trim_as(h);
    return before - h->classes[class].used;
}

/* As if others had used up what may wait warm: abandoning empties everything. */
static inline void no_warm_orphans(void)
{
    store_relaxed(&hak_kept.warm, (size_t)WARM_MOST);
}

static inline uint64_t counted(struct heap *h, enum counter c)
{
    return load_relaxed(&h->counters[c]);
}

#endif
