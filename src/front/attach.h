/* A thread's life: its heap from the first slow path to the thread's end, and what a fork holds still.
 *
 * Calls: heap (registry), purge, live, os. Called by: front. */
#ifndef HAK_ATTACH_H
#define HAK_ATTACH_H

#include "heap/heap.h"

/* The calling thread's heap, attached now if it had none. NULL: it has none to use and works detached. */
struct heap *thread_find_heap(uint32_t depth);

/* The calling thread's heap, on entering a slow path at this depth. */
HAK_INLINE struct heap *own_heap(uint32_t depth)
{
    struct heap *h = hak_thread.heap;
    return HAK_LIKELY(depth == 1 && h != &hak_empty_heap && !live_is_due())
               ? h
               : thread_find_heap(depth);
}

/* The calling thread has a heap from now on, if there is one to be had, with whatever else is to be set up. */
void thread_attach(void);

#endif
