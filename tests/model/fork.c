/* A fork closes all inboxes and opens them again (heap/fork.c): what is sent meanwhile arrives, and what the
 * child sees does not change under the picture. */
#include "heaps.h"

#include "purge/purge.h"

static struct heap *owner, *sender;
static uint64_t *block;
static struct block *picture;

static void touch_forks_locks(void)
{
    model_assert(fork_before());
    fork_after(false);
}

static void setup(void)
{
    owner = heaps_attach(0);
    sender = heaps_attach(1);
    block = heaps_block(owner);
    touch_forks_locks();
}

static void fork_and_send(int index)
{
    if (index == 0) {
        hak_thread.depth = 0;
        if (!fork_before())
            return;
        picture = owner->fork_inbox;
        if (picture != NULL)
            model_assert(*(uint64_t *)((uintptr_t)picture + 8) == 1); /* whole */
        model_assert(load_relaxed(&owner->inbox) == INBOX_CLOSED);
        fork_after(false);
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

/* A thread ends, another forks, a third sends: it sees that the heap was left, and if it found the heap locked by
 * the fork it may leave what it sent to that. */
static void setup_ended(void)
{
    (void)heaps_attach(2);
    sender = heaps_attach(1);
    owner = heaps_attach(0); /* the newest: it is given back before any fence */
    block = heaps_block(owner);
    heaps_prepare(sender, heaps_block(owner));
    touch_forks_locks();
}

static void end_fork_and_send(int index)
{
    if (index == 0) {
        registry_abandon(owner);
    } else if (index == 1) {
        block[1] = 1;
        heaps_send(sender, block);
    } else {
        hak_thread.depth = 0;
        if (fork_before())
            fork_after(false);
    }
}

static void check_ended(void)
{
    model_assert(load_relaxed(&owner->inbox) == NULL);
    model_assert(owner->classes[MODEL_CLASS].used == 0);
}

const struct model_scenario fork_ended = {"fork.ended",      3,          2, 2048, setup_ended,
                                          end_fork_and_send, check_ended};
const struct model_scenario fork_sent = {"fork.sent", 2, 3, 2048, setup, fork_and_send, check};
