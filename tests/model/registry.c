/* The list of all heaps (heap/registry.c): a heap that is found is whole. */
#include "heaps.h"

static struct heap *next; /* where the next one will be */

static void setup(void)
{
    struct heap *first = heaps_attach(0);
    model_thread_of(1)->heap = first;
    next = (struct heap *)(void *)((char *)first + UNIT_SIZE);
    heaps_touch(next);
    heaps_touch((struct heap *)(void *)((char *)next + UNIT_SIZE));
    heaps_touch((struct heap *)(void *)((char *)next + 2 * UNIT_SIZE));
    (void)region_top();
}

static void look(struct heap *h, void *context)
{
    (void)context;
    model_assert(h->offset_of_words[1] ==
                 hak_small_offset[1]); /* plain: a race if it is not whole */
}

static void join_and_look(int index)
{
    if (index == 0) {
        model_assert(registry_attach() == next);
        return;
    }
    registry_each(look, NULL);
}

static void check(void) {}

/* Who wants any heap for a moment passes the new one. */
static void join_and_borrow(int index)
{
    if (index == 0)
        model_assert(registry_attach() != NULL);
    else {
        struct heap *h = registry_borrow();
        model_assert(h != NULL);
        heap_unlock_visited(h);
    }
}

/* A signal handler that has interrupted the list's own thread makes a heap, which cannot join. */
static void borrow_in_handler(void)
{
    lock_take(registry_lock());
    (void)thread_enter();
    (void)thread_enter();
    model_assert(registry_borrow() == NULL);
    thread_leave();
    thread_leave();
    lock_release(registry_lock());
}

static void setup_spare(void)
{
    setup();
    borrow_in_handler();
    model_assert(registry_attach() == next); /* the spare's place was used before */
}

/* Whoever takes a spare has a whole heap. */
static void spare_and_attach(int index)
{
    if (index == 0) {
        borrow_in_handler();
        return;
    }
    struct heap *h = registry_attach();
    model_assert(h != NULL);
    look(h, NULL);
}

const struct model_scenario registry_spare = {"registry.spare", 2,    2, 2048, setup_spare,
                                              spare_and_attach, check};
const struct model_scenario registry_borrowed = {"registry.borrowed", 2,    2, 2048, setup,
                                                 join_and_borrow,     check};
const struct model_scenario registry_joined = {"registry.joined", 2,    0, 2048, setup,
                                               join_and_look,     check};
