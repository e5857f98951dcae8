/* Shared by the unit tests of magazines' lengths: how long one is, to begin anew, and blocks that come and go. */
#ifndef HAK_TESTS_UNIT_SWINGS_H
#define HAK_TESTS_UNIT_SWINGS_H

#include "one_class.h"

static inline uint32_t capacity(uint32_t class)
{
    return magazine_of(heap, class)->cap;
}

/* All magazines as a new heap has them. */
static inline void forget_slots(void)
{
    lock_take(&heap->lock);
    heap_empty_magazines(heap, HAND_ALL);
    for (uint32_t class = 0; class < CLASS_COUNT; class ++) {
        struct magazine *m = magazine_of(heap, class);
        if (m->cap != 0)
            slots_give(heap, magazine_slots(m), m->cap);
        magazine_exchange(m, NULL, 0);
        heap->classes[class].spilled = heap->classes[class].lost = 0;
    }
    heap->magazine_bytes = 0;
    lock_release(&heap->lock);
}

/* Takes n blocks and gives them back. */
static inline void swing(uint32_t class, size_t n)
{
    static void *blocks[9000];
    assert_true(n <= sizeof blocks / sizeof blocks[0]);
    for (size_t i = 0; i < n; i++)
        blocks[i] = alloc(class);
    for (size_t i = 0; i < n; i++)
        release(blocks[i]);
}

#endif
