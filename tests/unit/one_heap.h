/* The fixture of the tests of one heap, which no program's malloc uses meanwhile. */
#ifndef HAK_TESTS_UNIT_ONE_HEAP_H
#define HAK_TESTS_UNIT_ONE_HEAP_H

#include "heaps.h"

static struct heap *heap;

static inline int make_heap(void **state)
{
    (void)state;
    heap = new_heap();
    return heap != NULL ? 0 : -1;
}

static inline int abandon_heap(void **state)
{
    (void)state;
    registry_abandon(heap);
    return 0;
}

#endif
