/* Shared heaps (heap/registry.c): two threads that make the first ones at once have one each and find them whole; and what is sent to one
 * while another takes from it does not stay in its inbox. */
#include "heaps.h"

static struct heap *sender, *shared;
static uint64_t *taken[2], *block;

static void touch_places(void)
{
    for (int i = 0; i < SHARED_HEAPS; i++)
        (void)registry_shared(i);
    (void)load_relaxed(&hak_live_heaps);
}

/* Where the next heaps and their slabs will be. */
static void touch_next(struct heap *first, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        struct heap *next = (struct heap *)(void *)((char *)first + i * UNIT_SIZE);
        heaps_ignore_classes(next);
        heaps_touch(next);
    }
    (void)region_top();
}

static void setup(void)
{
    touch_places();
    struct heap *first = heaps_attach(0);
    (void)heaps_attach(1);
    (void)heaps_block(first);
    touch_next(first, 3, 7);
}

static void take(int index)
{
    struct heap *h = registry_take_shared();
    if (h == NULL)
        return; /* the other thread was at it: its own slabs serve */
    /* Plain: a race if it is not whole. */
    model_assert(h->all_next != NULL);
    taken[index] = heap_take_one(h, MODEL_CLASS);
    heap_unlock_visited(h);
    model_assert(taken[index] != NULL);
}

static void check_apart(void)
{
    model_assert(taken[0] != NULL || taken[1] != NULL);
    model_assert(taken[0] != taken[1]);
}

static void setup_sent(void)
{
    touch_places();
    sender = heaps_attach(0);
    (void)heaps_attach(1);
    shared = registry_take_shared();
    model_assert(shared != NULL);
    heap_unlock_visited(shared);
    heaps_touch(shared);
    block = heaps_block(shared);
    (void)heaps_block(shared);
    (void)heaps_block(sender);
    heaps_prepare(sender, heaps_block(shared));
    touch_next(sender, 5, 9);
}

static void take_and_send(int index)
{
    if (index == 1) {
        take(1);
        return;
    }
    *block = 1;
    heaps_send(sender, block);
}

static void check_sent(void)
{
    model_assert(load_relaxed(&shared->inbox) == NULL);
    /* One is still out, and one more unless the shared heap was busy. */
    model_assert(taken[1] != NULL);
    bool was_busy = heap_of_word(unit_word(unit_of(taken[1]))) != shared;
    model_assert(shared->classes[MODEL_CLASS].used == (was_busy ? 1 : 2));
}

const struct model_scenario shared_made = {"shared.made", 2, 2, 4096, setup, take, check_apart};
const struct model_scenario shared_sent = {"shared.sent", 2,         0, 2048, setup_sent,
                                           take_and_send, check_sent};
