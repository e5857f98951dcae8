/* Threads end while others send to them, visit them and take over what they leave (heap/registry.c). Whatever
 * the order, no block stays in the inbox of a heap that nobody will look at. */
#include "heaps.h"

static struct heap *owner, *sender, *visitor;
static uint64_t *block, *other;

static void setup(void)
{
    owner = heaps_attach(0);
    sender = heaps_attach(1);
    visitor = heaps_attach(2);
    block = heaps_block(owner);
    other = heaps_block(owner);
    heaps_prepare(sender, heaps_block(owner));
    heaps_prepare(visitor, heaps_block(owner));
}

static void send(struct heap *h, void *p)
{
    *(uint64_t *)p = 1;
    heaps_send(h, p);
}

static void end_and_send(int index)
{
    if (index == 0)
        registry_abandon(owner);
    else
        send(sender, block);
}

static void check_one(void)
{
    model_assert(load_relaxed(&owner->inbox) == NULL);
    model_assert(owner->classes[MODEL_CLASS].used == 2);
}

/* Its thread has ended already; one visits while another sends. */
static void setup_ended(void)
{
    setup();
    registry_abandon(owner);
}

static void visit_and_send(int index)
{
    if (index == 0) {
        /* As whoever borrows a heap or frees into it. */
        if (lock_try(&owner->lock))
            heap_unlock_visited(owner);
    } else {
        send(index == 1 ? sender : visitor, index == 1 ? block : other);
    }
}

static void check_both(void)
{
    model_assert(load_relaxed(&owner->inbox) == NULL);
    model_assert(owner->classes[MODEL_CLASS].used == 0);
}

const struct model_scenario orphan_ends = {"orphan.ends", 2,        0, 1024, setup,
                                           end_and_send,  check_one};
const struct model_scenario orphan_visited = {"orphan.visited", 2,        0, 1024, setup_ended,
                                              visit_and_send,   check_one};
const struct model_scenario orphan_senders = {"orphan.senders", 3,         2, 1024, setup_ended,
                                              visit_and_send,   check_both};
