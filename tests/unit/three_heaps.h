/* Three heaps between which blocks travel. */
#ifndef HAK_TESTS_UNIT_THREE_HEAPS_H
#define HAK_TESTS_UNIT_THREE_HEAPS_H

#include "heaps.h"

enum { BATCH = 100 /* several times what is sent in one */, SIZE = 40 };

/* Three heaps, used by this one thread in turns. The thread's own is a fourth. */
static struct heap *owner, *sender, *third;
static uint32_t class;

static inline int set_up(void **state)
{
    (void)state;
    class = class_for(SIZE);
    owner = new_heap();
    sender = new_heap();
    third = new_heap();
    return owner != NULL && sender != NULL && third != NULL ? 0 : -1;
}

static inline int tear_down(void **state)
{
    (void)state;
    registry_abandon(third);
    registry_abandon(sender);
    registry_abandon(owner);
    return 0;
}

/* And nothing stays in the outbox. */
static inline void send_all(void **blocks, size_t n)
{
    free_each_as(sender, blocks, n);
    trim_as(sender);
}

#endif
