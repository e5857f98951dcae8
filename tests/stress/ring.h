/* A queue of pointers from one thread to one other, without a lock. */
#ifndef HAK_TEST_RING_H
#define HAK_TEST_RING_H

#include <sched.h>
#include <stdatomic.h>

#include "support.h"

struct ring {
    _Atomic(void *) *cells; /* NULL: empty */
    size_t count;
    size_t next_in;  /* the sender's */
    size_t next_out; /* the receiver's */
};

static inline struct ring ring_new(size_t count)
{
    return (struct ring){.cells = pages_new(count * sizeof(void *)), .count = count};
}

static inline void ring_send(struct ring *ring, void *item)
{
    _Atomic(void *) *cell = &ring->cells[ring->next_in++ % ring->count];
    while (atomic_load_explicit(cell, memory_order_acquire) != NULL) {
        sched_yield();
    }
    atomic_store_explicit(cell, item, memory_order_release);
}

static inline void *ring_receive(struct ring *ring)
{
    _Atomic(void *) *cell = &ring->cells[ring->next_out++ % ring->count];
    void *item;
    while ((item = atomic_load_explicit(cell, memory_order_acquire)) == NULL) {
        sched_yield();
    }
    atomic_store_explicit(cell, NULL, memory_order_release);
    return item;
}

#endif
