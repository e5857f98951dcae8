/* The inbox (heap/remote.c): what several threads send arrives once, with its content. */
#include "heaps.h"

static struct heap *owner, *sender[3];
static uint64_t *block[3];

static void setup(void)
{
    owner = heaps_attach(0);
    for (int i = 1; i < 3; i++) {
        sender[i] = heaps_attach(i);
        block[i] = heaps_block(owner);
        heaps_prepare(sender[i], heaps_block(owner));
    }
}

static void drain(void)
{
    lock_take(&owner->lock);
    inbox_drain(owner, true);
    heap_unlock(owner);
}

/* The owner writes to what it gets back: the last owner's writes must be over. */
static void reuse(void)
{
    lock_take(&owner->lock);
    inbox_drain(owner, true);
    for (uint64_t *p; (p = magazine_pop(magazine_of(owner, MODEL_CLASS))) != NULL;) {
        *p = 3;
        heap_put(owner, slab_of_unit(unit_of(p)), p);
    }
    for (int i = 0; i < 2; i++) {
        uint64_t *p = heap_take_one(owner, MODEL_CLASS);
        *p = 4;
        heap_put(owner, slab_of_unit(unit_of(p)), p);
    }
    heap_unlock(owner);
}

static void blocks_thread(int index)
{
    if (index == 0) {
        reuse();
        return;
    }
    block[index][1] = (uint64_t)index;
    heaps_push(block[index]);
}

static void parcels_thread(int index)
{
    if (index == 0)
        reuse();
    else
        heaps_send(sender[index], block[index]);
}

static void check(void)
{
    drain();
    model_assert(load_relaxed(&owner->inbox) == NULL);
    model_assert(heaps_in_use(owner) == 2); /* the prepared ones */
}

static void check_parcels(void)
{
    drain();
    model_assert(load_relaxed(&owner->inbox) == NULL);
    model_assert(heaps_in_use(owner) == 0);
}

const struct model_scenario inbox_blocks = {"inbox.blocks", 3,    3, 1024, setup,
                                            blocks_thread,  check};
const struct model_scenario inbox_parcels = {"inbox.parcels", 3, 2, 1024, setup, parcels_thread,
                                             check_parcels};
