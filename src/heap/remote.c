/* Remote frees. A block freed by another thread than its owner's goes into that thread's outbox,
 * with others for the same owner as one chain, and the chain into the owner's inbox by one
 * compare-and-swap. The owner empties its inbox when a magazine runs dry.
 *
 * Why nothing is lost and nothing is freed twice:
 *   - A chain is private to the sender until its CAS (release) makes it the inbox's head; whoever
 *     exchanges the head for NULL (acquire) owns all chains of it, links included.
 *   - Heaps are never unmapped, so the CAS always hits an inbox. Nodes are never popped singly, so
 *     a stale head makes the CAS fail and nothing else: no ABA.
 *   - The owner may change while a block travels (adoption). Whoever drains looks at the slab's
 *     owner under the lock of the heap it drains: if it is not that heap, the block is sent on.
 *     Slabs move from heaps of ended threads to living ones only, so a block is sent on finitely
 *     often.
 *   - A heap whose thread has ended is told by its state. Abandoning stores ORPHAN and then empties
 *     the inbox; sending pushes and then reads the state. Both meet in the inbox's modification
 *     order (acq_rel on both sides): a push that comes after the emptying sees ORPHAN and its
 *     sender drains in the owner's place.
 *   - The owner that does not look (it sleeps, or only frees) is helped once INBOX_PATIENCE bytes
 *     have gathered: the lists are under the heap's lock, and its magazines are left alone. */
#include "heap/heap.h"
#include "heap/registry.h"
#include "os/os.h"
#include "purge/purge.h"

#include <sched.h>

enum { BATCH_BLOCKS = 32, BATCH_BYTES = 32 << 10 };

#define INBOX_PATIENCE ((size_t)1 << 20)

void inbox_push(struct heap *to, struct block *first, struct block *last, size_t bytes)
{
    struct block *head = load_relaxed(&to->inbox);
    do {
        while (HAK_UNLIKELY(head == INBOX_CLOSED)) {
            sched_yield(); /* a fork is under way, for as long as it takes */
            head = load_relaxed(&to->inbox);
        }
        last->next = head;
    } while (!atomic_compare_exchange_weak_explicit(&to->inbox, &head, first, memory_order_acq_rel,
                                                    memory_order_relaxed));
    add_relaxed(&to->inbox_bytes, bytes);
}

/* Empties another heap's inbox if nobody else is at it. */
static void help(struct heap *h, struct heap *other)
{
    if (!lock_try(&other->lock))
        return;
    count(h, COUNTER_remote_help, 1);
    inbox_drain(other, false);
    lock_release(&other->lock);
}

static bool wants_help(struct heap *to)
{
    return load_acquire(&to->state) == HEAP_ORPHAN ||
           load_relaxed(&to->inbox_bytes) > INBOX_PATIENCE;
}

static void outbox_flush(struct heap *h, struct outbox *o)
{
    struct heap *to = o->to;
    if (o->count == 0)
        return;
    count(h, COUNTER_remote_batch, 1);
    count(h, COUNTER_ss_remote, o->count);
    inbox_push(to, o->first, o->last, o->bytes);
    o->count = 0;
    o->bytes = 0;
    if (wants_help(to))
        help(h, to);
}

void outbox_flush_all(struct heap *h)
{
    for (int i = 0; i < OUTBOX_SLOTS; i++)
        outbox_flush(h, &h->outbox[i]);
}

void remote_free(struct heap *h, struct heap *owner, void *p)
{
    struct outbox *o = &h->outbox[((uintptr_t)owner >> UNIT_SHIFT) % OUTBOX_SLOTS];
    if (o->to != owner) {
        outbox_flush(h, o);
        o->to = owner;
    }
    struct block *b = p;
    if (o->count == 0)
        o->last = b;
    else
        b->next = o->first;
    o->first = b;
    o->count++;
    o->bytes += hak_classes[slab_of_unit(unit_of(p))->class].size;
    if (o->count >= BATCH_BLOCKS || o->bytes >= BATCH_BYTES)
        outbox_flush(h, o);
}

/* ---- the receiving side ---- */

static void receive(struct heap *h, struct block *b, bool own, uint32_t *in_magazine)
{
    struct slab *s = slab_of_unit(unit_of(b));
    struct heap *owner = load_relaxed(&s->heap);
    if (HAK_UNLIKELY(owner != h)) {
        count(h, COUNTER_remote_forwarded, 1);
        inbox_push(owner, b, b, hak_classes[s->class].size);
    } else if (own && magazine_push(magazine_of(h, s->class), b)) {
        (*in_magazine)++;
    } else {
        heap_put(h, s, b);
    }
}

void inbox_drain(struct heap *h, bool own)
{
    if (load_relaxed(&h->inbox) == INBOX_CLOSED)
        return; /* by this thread, which is about to fork and holds the lock */
    struct block *b = exchange_acq_rel(&h->inbox, NULL);
    store_relaxed(&h->inbox_bytes, (size_t)0);
    uint32_t n = 0, in_magazine = 0;
    for (struct block *next; b != NULL; b = next, n++) {
        next = b->next;
        receive(h, b, own, &in_magazine);
    }
    count(h, COUNTER_remote_drained, n);
    count(h, COUNTER_remote_to_magazine, in_magazine);
}
