/* Shared by the unit tests of hollow heaps: one that is full of blocks of which few survive, and a clock that is theirs. */
#ifndef HAK_TESTS_UNIT_HOLLOW_HEAP_H
#define HAK_TESTS_UNIT_HOLLOW_HEAP_H

#include "one_class.h"

#include "control/options.h"
#include "heap/hollow.h"

enum {
    SIZE = 512,
    BLOCKS = 32768, /* 16 MiB */
    SURVIVES = 16,  /* one in so many */
    PATIENCE_MS = 1000
};

static uint64_t clock_ms = 1;
static void *blocks[BLOCKS];
static uint32_t class_at_hand;

uint64_t __wrap_os_now_ms(void);
uint64_t __wrap_os_now_ms(void)
{
    return clock_ms;
}

/* As a refill would do at that time, when all that is purged at once has been. */
static inline void look_after(uint64_t ms)
{
    clock_ms += ms;
    do {
        lock_take(&heap->lock);
        hollow_look(heap);
        lock_release(&heap->lock);
        clock_ms += heap->hollow.purges != 0; /* purging takes its time */
    } while (heap->hollow.purges != 0);
}

static inline const struct class_slabs *slabs(void)
{
    return &heap->classes[class_at_hand];
}

static inline bool gives(void)
{
    return magazine_of(heap, class_at_hand)->gives;
}

static inline void fill_first(size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (blocks[i] == NULL)
            memset(blocks[i] = alloc(class_at_hand), 'x', SIZE);
    }
}

static inline void fill(void)
{
    fill_first(BLOCKS);
}

static inline void hollow_out_but(size_t one_in)
{
    for (size_t i = 0; i < BLOCKS; i++) {
        if (i % one_in != 0 && blocks[i] != NULL) {
            release(blocks[i]);
            blocks[i] = NULL;
        }
    }
    check_books(class_at_hand);
}

/* In each slab some blocks stay. */
static inline void hollow_out(void)
{
    hollow_out_but(SURVIVES);
}

static inline int full_heap(void **state)
{
    class_at_hand = class_for(SIZE);
    hak_options.hollow_time = PATIENCE_MS;
    if (make_heap(state) != 0)
        return -1;
    heap->hollow = (struct hollow){0};
    fill();
    return 0;
}

static inline int no_heap(void **state)
{
    for (size_t i = 0; i < BLOCKS; i++) {
        if (blocks[i] != NULL)
            release(blocks[i]);
        blocks[i] = NULL;
    }
    look_after(PATIENCE_MS);
    assert_false(gives());
    give_all_back(class_at_hand);
    return abandon_heap(state);
}

#endif
