/* A fork closes all inboxes and opens them again (heap/registry.c): what is sent meanwhile arrives, and what the
 * child sees does not change under the picture. */
#include "heaps.h"

#include "purge/purge.h"

static struct heap *owner, *sender;
static uint64_t *block;
static struct block *picture;

static void setup(void)
{
    owner = heaps_attach(0);
    sender = heaps_attach(1);
    block = heaps_block(owner);
    model_assert(registry_before_fork()); /* touches what a fork asks of the locks */
    registry_after_fork(false);
}

static void fork_and_send(int index)
{
    if (index == 0) {
        hak_thread.depth = 0;
        if (!registry_before_fork())
            return;
        picture = owner->fork_inbox;
        if (picture != NULL)
            model_assert(*(uint64_t *)((uintptr_t)picture + 8) == 1); /* whole */
        model_assert(load_relaxed(&owner->inbox) == INBOX_CLOSED);
        registry_after_fork(false);
        return;
    }
    block[1] = 1;
    heaps_push(block);
}

static void check(void)
{
    lock_take(&owner->lock);
    inbox_drain(owner, false);
    heap_unlock(owner);
    model_assert(owner->classes[MODEL_CLASS].used == 0);
    (void)sender;
}

const struct model_scenario fork_sent = {"fork.sent", 2, 3, 2048, setup, fork_and_send, check};
