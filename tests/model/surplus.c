/* A slab goes from one thread's heap to another's (heap/surplus.c), while its thread frees a block of it which it has found to be its
 * own, or another sends it one. */
#include "heaps.h"

#include "heap/surplus.h"

static struct heap *owner, *heir, *sender;
static uint64_t *block;
static uintptr_t word;

/* Blocks that stay: of a second slab, or nothing would go, and one of the first. */
enum { STAY = 4 };

static void setup(void)
{
    owner = heaps_attach(0);
    heir = heaps_attach(1);
    sender = heaps_attach(2);
    block = heaps_block(owner);
    struct slab *s = slab_of_unit(unit_of(block));
    (void)heaps_block(owner);
    slab_unlist(owner, s);
    void *other = heaps_block(owner);
    for (int i = 1; i < STAY; i++) /* so that the first is the emptier */
        (void)heaps_block(owner);
    slab_list(owner, s);
    heaps_prepare(sender, other);
    outbox_flush_all(sender);
    heaps_prepare(owner, heaps_block(sender)); /* it may have a block to send as well */
    outbox_flush_all(owner);
    heaps_drain(owner);
    surplus_note(owner, MODEL_CLASS);
    model_assert(surplus_is_noted(MODEL_CLASS));
    word = unit_word(unit_of(block));
}

static void free_thread(int index)
{
    if (index == 1) {
        heaps_take_slab(heir, surplus_take);
    } else {
        *block = 1;
        heap_flush(owner, word, block);
    }
}

static void send_thread(int index)
{
    if (index == 1) {
        heaps_take_slab(heir, surplus_take);
    } else {
        *block = 1;
        heaps_send(sender, block);
    }
}

/* Both open their inboxes as they would at their next slow paths. */
static void check(void)
{
    outbox_flush_all(owner);
    heaps_drain(owner);
    heaps_drain(heir);
    heaps_drain(owner);
    model_assert(load_relaxed(&owner->inbox) == NULL && load_relaxed(&heir->inbox) == NULL);
    model_assert(owner->classes[MODEL_CLASS].used + heir->classes[MODEL_CLASS].used == STAY);
    const struct slab *s = slab_of_unit(unit_of(block));
    const struct heap *has = load_relaxed(&s->heap);
    model_assert(s->used == 1 && heap_of_word(unit_word(unit_of(block))) == has);
    model_assert(heir->classes[MODEL_CLASS].used == (has == heir ? s->used : 0));
}

const struct model_scenario surplus_freed = {"surplus.freed", 2,           3,    1024,
                                             setup,           free_thread, check};
const struct model_scenario surplus_sent = {"surplus.sent", 2, 3, 1024, setup, send_thread, check};
