/* Shared by the programs that test heaps of the program's own. */
#ifndef HAK_TESTS_ABI_HEAPS_H
#define HAK_TESTS_ABI_HEAPS_H

#include "abi_check.h"

#include <hakmem/hakmem.h>

static inline hak_heap *new_heap(void)
{
    hak_heap *heap = hak_heap_new();
    CHECK(heap != NULL);
    return heap;
}

#endif
