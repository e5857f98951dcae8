/* A slab changes its owner (registry_adopt_slab) and a heap its thread (registry_attach), while blocks of both are
 * on their way. */
#include "heaps.h"

static struct heap *ended, *heir, *sender;
static uint64_t *block;

static void setup(void)
{
    ended = heaps_attach(0);
    heir = heaps_attach(1);
    sender = heaps_attach(2);
    block = heaps_block(ended);
    (void)heaps_block(sender);
    heaps_prepare(sender, heaps_block(ended));
    registry_abandon(ended);
}

/* Blocks of the slab, wherever it is now. */
static size_t still_used(void)
{
    return slab_of_unit(unit_of(block))->used;
}

static void adopt_thread(int index)
{
    if (index == 0)
        heaps_take_slab(heir, registry_adopt_slab);
    else {
        *block = 1;
        heaps_send(sender, block);
    }
}

/* The heir drains its inbox as it would at its next slow path. */
static void check_adopted(void)
{
    heaps_drain(heir);
    model_assert(load_relaxed(&ended->inbox) == NULL && load_relaxed(&heir->inbox) == NULL);
    model_assert(still_used() == 0);
    const struct heap *owner = load_relaxed(&slab_of_unit(unit_of(block))->heap);
    model_assert(owner == ended || owner == heir);
    model_assert(heap_of_word(unit_word(unit_of(block))) == owner);
    model_assert(owner->classes[MODEL_CLASS].used == 0);
}

/* A new thread takes the whole heap, and uses what its last thread has left. */
static struct heap *attached;

static void attach_thread(int index)
{
    if (index == 0) {
        attached = registry_attach();
        model_assert(attached == ended);
        attached->tid++;
        (void)magazine_pop(magazine_of(attached, MODEL_CLASS));
    } else {
        *block = 1;
        heaps_send(sender, block);
    }
}

static void check_attached(void)
{
    heaps_drain(ended);
    model_assert(load_relaxed(&ended->inbox) == NULL);
    model_assert(still_used() == 0);
}

const struct model_scenario adopt_sent = {"adopt.sent", 2, 3, 1024, setup, adopt_thread,
                                          check_adopted};
const struct model_scenario adopt_attached = {"adopt.attached", 2, 3, 1024, setup, attach_thread,
                                              check_attached};
