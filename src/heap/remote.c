/* Blocks on their way home. A block freed by another thread than its owner's stays in that thread's magazine if
 * there is room (front_free). Beyond that, and in threads that do not allocate the class, it is noted in
 * a parcel for the owner; a full parcel goes into the owner's inbox by one compare-and-swap. The block
 * itself is not touched on the way, neither by the sender nor by the owner, who puts it from the parcel
 * into a magazine: two cache lines travel for 30 blocks, and where many wait, fewer for each (next_places). The owner opens its inbox when a magazine runs dry, as far
 * as that has use for it: what is opened too early goes to a slab, and is taken from there again.
 *
 * A thread's own blocks without room are gathered just so, and return to their slabs a parcel at a time.
 *
 * A parcel is an ordinary block from the sender's magazine, and the owner frees it as such.
 *
 * Why nothing is lost and nothing is freed twice:
 *   - A node is private to the sender until its CAS (release) makes it the inbox's head; whoever
 *     exchanges the head for NULL (acquire) owns all nodes below it, content included.
 *   - Heaps are never unmapped, so the CAS always hits an inbox. Nodes are never popped singly, so
 *     a stale head makes the CAS fail and nothing else: no ABA.
 *   - The owner may change while a block travels (adoption). Whoever drains looks at the slab's
 *     owner under the lock of the heap it drains: if it is not that heap, the block is sent on.
 *     A slab moves out of an ended thread's heap, or out of one that has many free (surplus.h), to where blocks are taken
 *     from it at once, and a block is sent on at most as often as its slab has moved meanwhile.
 *   - A heap whose thread has ended is told by its state. Abandoning stores ORPHAN and then empties
 *     the inbox; sending pushes and then reads the state. Both meet in the inbox's modification
 *     order (acq_rel on both sides): a push that comes after the emptying sees ORPHAN and its
 *     sender drains in the owner's place. A block that is passed on by itself, or that a thread
 *     without a heap frees while the lock is taken, waits there for who looks next (hollow_tend).
 *   - A fork closes the inboxes whose heaps' locks it holds, so that the child gets them as they are: it exchanges the head for
 *     INBOX_CLOSED (acquire) and keeps what was there in `fork_inbox`, which that thread alone writes until it stores it back (release).
 *     Who sends meanwhile waits, also in a handler: for the fork alone, which ends without it, since all locks were taken before. The
 *     forking thread itself adds to `fork_inbox`.
 *   - The owner that does not look (it sleeps, or only frees) is helped once INBOX_PATIENCE bytes
 *     have gathered: the lists are under the heap's lock, and its magazines are left alone. */
#include "base/probe.h"
#include "heap/explicit.h"
#include "heap/heap.h"
#include "heap/put.h"
#include "heap/registry.h"
#include "os/os.h"
#include "purge/purge.h"

#include <sched.h>

_Static_assert(sizeof(struct parcel) + PARCEL_BLOCKS * sizeof(void *) == (HAK_SECURE ? 248 : 256) &&
                   sizeof(struct parcel) + LONG_PARCEL_BLOCKS * sizeof(void *) ==
                       (HAK_SECURE ? 1016 : 1024),
               "a parcel is a block of 256 bytes, a long one of 1 KiB");

#define INBOX_PATIENCE ((size_t)1 << 20)
#define WAITING_MOST (INBOX_PATIENCE / 4) /* bytes for which the owner has no use yet */

/* A node of an inbox is a block, linked through its first word, or a parcel: then a bit says how long. */
enum { NODE_PARCEL = 1, NODE_LONG_PARCEL = 2, NODE_KINDS = NODE_PARCEL | NODE_LONG_PARCEL };

static struct block *node_of_parcel(struct parcel *c, uint32_t places)
{
    return (struct block *)((uintptr_t)c |
                            (places == PARCEL_BLOCKS ? NODE_PARCEL : NODE_LONG_PARCEL));
}

/* Of the parcel that it is; 0: it is a block. */
static uint32_t node_places(const struct block *node)
{
    static const uint8_t of_kind[NODE_KINDS + 1] = {
        [NODE_PARCEL] = PARCEL_BLOCKS, [NODE_LONG_PARCEL] = LONG_PARCEL_BLOCKS};
    return of_kind[(uintptr_t)node & NODE_KINDS];
}

static struct block *node_memory(struct block *node)
{
    return (struct block *)((uintptr_t)node & ~(uintptr_t)NODE_KINDS);
}

/* What hides the link in a node: that lies where the program may still write by mistake. Another than what shows a lease that a block is
 * free (leased_mark). */
HAK_INLINE uintptr_t link_key(const struct block *memory)
{
    return (uintptr_t)memory ^ ~hak_region.mark;
}

HAK_INLINE struct block *hidden(const struct block *node, uintptr_t key)
{
    return (struct block *)((uintptr_t)node ^ key);
}

static HAK_COLD _Noreturn void die_written(const void *p)
{
    os_fatal("free(%p): the block was written to after it was freed", (uintptr_t)p);
}

/* No address lies as high, but nearly everything that is none. */
enum { ADDRESS_BITS = 48 };

/* The node that this one is linked to. Not through hidden(), which ends gcc 12 with an internal error here. */
static struct block *next_of(struct block *node)
{
    const struct block *memory = node_memory(node);
    uintptr_t next = (uintptr_t)memory->next ^ link_key(memory);
    if (HAK_UNLIKELY(next >> ADDRESS_BITS != 0))
        die_written(memory);
    return (struct block *)next;
}

/* What waits is shown by whoever sends in steps, since a store of each would take the line from the last one; and exactly by who
 * opens, after all that senders have stored before they pushed: once nothing waits, it says so. */
enum { SHOWN_STEP = 4 << 10 };

static void show_inbox(struct heap *h, size_t now)
{
    live_u64 *shown = load_acquire(&h->inbox_shown); /* pairs with give_row in show.c */
    if (shown != NULL)
        store_relaxed(shown, (uint64_t)now);
}

size_t inbox_push(struct heap *to, void *p, size_t bytes)
{
    struct block *node = p, *memory = node_memory(node);
    uintptr_t key = link_key(memory);
    size_t before = add_relaxed(&to->inbox_bytes, bytes);
    if (HAK_UNLIKELY(before / SHOWN_STEP != (before + bytes) / SHOWN_STEP))
        show_inbox(to, before + bytes);
    struct block *head = load_relaxed(&to->inbox);
    do {
        if (HAK_UNLIKELY(head == INBOX_CLOSED) && hak_thread.closed_inboxes && to->fork_held) {
            /* Closed by this thread, which opens it again. */
            memory->next = hidden(to->fork_inbox, key);
            to->fork_inbox = node;
            return before;
        }
        while (HAK_UNLIKELY(head == INBOX_CLOSED)) {
            sched_yield(); /* a fork is under way, for as long as it takes */
            head = load_relaxed(&to->inbox);
        }
        memory->next = hidden(head, key);
    } while (!cas_weak_acq_rel(&to->inbox, &head, node));
    return before;
}

/* ---- the receiving side ---- */

struct reception {
    struct heap *heap;
    bool own;                /* by the heap's thread itself: its magazines may be used */
    struct magazine *wanted; /* the one that is to be filled; NULL: none */
    uint32_t blocks, in_magazine;
    size_t bytes; /* of what was opened */
};

/* Of what stands in a parcel, which a program may have written to. */
HAK_INLINE uintptr_t word_or_none(size_t unit)
{
    return HAK_LIKELY(unit < hak_region.units) ? unit_word(unit) : WORD_NONE;
}

/* Of a block: its size, if it is a slab's. */
static size_t size_in_unit(size_t unit)
{
    uintptr_t word = word_or_none(unit);
    if (word == WORD_EXPLICIT)
        return hak_classes[slab_of_unit(unit)->class].size;
    return word > WORD_TAG_MAX ? hak_classes[class_of_word(word)].size : 0;
}

static HAK_COLD void receive_tagged(struct heap *h, void *p, uintptr_t word)
{
    if (word == WORD_NONE || !explicit_receive(h, p, word))
        die_double_free(p);
}

/* The last of n blocks; with it those before it that lie in its slab, if that is what it returns to and they are to be looked for.
 * Returns how many. */
HAK_INLINE uint32_t receive(struct reception *r, void *const *blocks, uint32_t n, bool rows)
{
    void *p = blocks[n - 1];
    size_t unit = unit_of(p);
    uintptr_t word = word_or_none(unit);
    if (HAK_UNLIKELY(word <= WORD_TAG_MAX)) {
        receive_tagged(r->heap, p, word);
        return 1;
    }
    uint32_t class = class_of_word(word);
    /* The word is stored under the lock of the heap it named before, which is this one if it is
     * still named: then it stays so while the lock is held. */
    if (HAK_UNLIKELY(heap_of_word(word) != r->heap)) {
        count(r->heap, COUNTER_remote_forwarded, 1);
        inbox_push(heap_of_word(word), p, hak_classes[class].size);
    } else if (r->own && magazine_push(magazine_of(r->heap, class), p)) {
        r->in_magazine++;
        heap_changed(r->heap, class);
    } else if (class < FIRST_OF_UNITS && rows && is_row(unit, blocks, n)) {
        return (uint32_t)put_row(r->heap, unit, blocks, n);
    } else if (HAK_LIKELY(class < FIRST_OF_UNITS)) {
        class_unuse(r->heap, class, 1);
        put_block_of_unit(r->heap, class, unit, p);
    } else {
        heap_put(r->heap, slab_of_unit(unit), p);
    }
    return 1;
}

/* Their slabs' lines may be far away, and are asked for all at once. */
static void prefetch_slabs(void *const *blocks, uint32_t n)
{
    for (uint32_t i = n; i-- > 0;)
        __builtin_prefetch(slab_at(unit_of(blocks[i])), 1);
}

static HAK_NOINLINE void receive_blocks(struct reception *r, void *const *blocks, uint32_t n)
{
    r->blocks += n;
    if (n > 1)
        prefetch_slabs(blocks, n);
    /* Where one lies alone the next few do as well. */
    for (uint32_t alone = 0, done; n > 0; n -= done) {
        done = receive(r, blocks, n, alone == 0);
        alone = done == 1 ? (alone + 1) % ROW_NEXT : 0;
    }
}

/* One that comes alone: a parcel, or a block that none could be had for. */
static void receive_one(struct reception *r, void *p)
{
    receive_blocks(r, &p, 1);
}

/* As free() would, into this thread's magazine, whoever's it is: there it is at hand for what this thread sends. Else it goes
 * home, but not by way of an outbox, which is the business of this heap's thread alone. */
static void parcel_delete(struct reception *r, struct parcel *c)
{
    uintptr_t word = unit_word(unit_of(c));
    if (word == WORD_SAMPLED) /* hak_free_sized_inline had put it into the sender's magazine */
        (void)sampled_free(c);
    else if (r->own && magazine_push(magazine_for_word(r->heap, word), c))
        heap_changed(r->heap, class_of_word(word));
    else if (heap_of_word(word) == r->heap)
        receive_one(r, c);
    else
        inbox_push(heap_of_word(word), c, size_in_unit(unit_of(c)));
}

/* Blocks of its class, one after the other, go from the parcel straight into the magazine that is to be filled. */
static void receive_wanted(struct reception *r, struct parcel *c)
{
    struct magazine *m = r->wanted;
    uint32_t n = c->count;
    while (n > 0 && word_or_none(unit_of(c->blocks[n - 1])) == (uintptr_t)m &&
           magazine_push(m, c->blocks[n - 1]))
        n--;
    uint32_t taken = c->count - n, bytes = taken * m->size;
    r->blocks += taken;
    r->in_magazine += taken;
    r->bytes += bytes;
    c->count = n;
    c->bytes -= bytes;
}

static void receive_parcel(struct reception *r, struct parcel *c, uint32_t places)
{
    r->bytes += parcel_size(places) + c->bytes;
    receive_blocks(r, c->blocks, c->count);
    parcel_delete(r, c);
}

/* Of what arrived before, then, `*once`, of what is in the inbox. NULL: no more. */
static struct block *next_arrived(struct heap *h, bool *once)
{
    if (h->arrived == NULL) {
        if (*once || load_relaxed(&h->inbox) == INBOX_CLOSED)
            return NULL; /* by this thread, which is about to fork and holds the lock */
        *once = true;
        h->arrived = exchange_acq_rel(&h->inbox, NULL);
    }
    struct block *node = h->arrived;
    if (node != NULL)
        h->arrived = next_of(node);
    return node;
}

/* Whether the rest waits until the magazine is empty again: what is opened too early goes to a slab, and is taken from
 * there once more. */
static bool may_wait(const struct reception *r)
{
    const struct magazine *m = r->wanted;
    return m != NULL && 2 * magazine_kept(m) >= m->cap &&
           load_relaxed(&r->heap->inbox_bytes) - r->bytes <= WAITING_MOST;
}

/* False: it is not empty yet, and waits. */
static bool open_node(struct reception *r, struct block *node)
{
    struct parcel *c = (struct parcel *)node_memory(node);
    uint32_t places = node_places(node);
    if (places == 0) {
        r->bytes += size_in_unit(unit_of(node));
        receive_one(r, node);
        return true;
    }
    if (HAK_UNLIKELY(c->count > places))
        die_written(c);
    if (r->wanted != NULL)
        receive_wanted(r, c);
    if (c->count != 0 && may_wait(r))
        return false;
    receive_parcel(r, c, places);
    return true;
}

void inbox_open(struct heap *h, bool own, struct magazine *wanted)
{
    struct reception r = {.heap = h, .own = own, .wanted = wanted};
    struct block *node;
    bool once = false;
    while (!may_wait(&r) && (node = next_arrived(h, &once)) != NULL) {
        if (!open_node(&r, node))
            h->arrived = node;
    }
    show_inbox(h, sub_relaxed(&h->inbox_bytes, r.bytes) - r.bytes);
    count(h, COUNTER_remote_drained, r.blocks);
    count(h, COUNTER_remote_to_magazine, r.in_magazine);
}

/* ---- the sending side ---- */

/* What the heap's own thread had gathered of its blocks: one walk for all of them, and none of the waits that each
 * would have cost the program. */
static void take_home(struct heap *h, struct parcel *c, uint32_t places)
{
    struct reception r = {.heap = h, .own = true};
    receive_parcel(&r, c, places);
}

/* Leaves a heap that is not the caller's. If it is an orphan, a sender may have found the lock taken
 * and gone: then what it sent is for this visitor to take. The fences make it either see the node or
 * let the sender see the lock free (each side writes one word and then reads the other's). */
void heap_unlock_visited(struct heap *other)
{
    for (;;) {
        heap_unlock(other);
        atomic_thread_fence(memory_order_seq_cst);
        if (!is_nobodys(load_relaxed(&other->state)) || load_relaxed(&other->inbox) == NULL ||
            load_relaxed(&other->inbox) == INBOX_CLOSED || !lock_try(&other->lock))
            return;
        inbox_drain(other, false);
    }
}

/* Empties another heap's inbox, or leaves that to whoever is at it. */
static void help(struct heap *h, struct heap *other)
{
    atomic_thread_fence(memory_order_seq_cst); /* after the push; see heap_unlock_visited */
    if (!lock_try(&other->lock))
        return;
    count(h, COUNTER_remote_help, 1);
    inbox_drain(other, false);
    heap_unlock_visited(other);
}

/* model: relaxed would do for the state, which the push's order brings and whose heap is then locked. */
static bool wants_help(struct heap *to)
{
    return is_nobodys(load_acquire(&to->state)) || load_relaxed(&to->inbox_bytes) > INBOX_PATIENCE;
}

/* Returns how many bytes the owner has let wait. */
static size_t send(struct heap *h, struct heap *to, struct parcel *c, uint32_t places)
{
    count(h, COUNTER_remote_batch, 1);
    count(h, COUNTER_ss_remote, c->count);
    probe_remote_batch((uint32_t)c->count);
    size_t waited = inbox_push(to, node_of_parcel(c, places), parcel_size(places) + c->bytes);
    if (wants_help(to))
        help(h, to);
    return waited;
}

static size_t bytes_in(const struct outbox *o)
{
    return PARCEL_BYTES_MAX - o->room;
}

HAK_NOINLINE void outbox_flush(struct heap *h, struct outbox *o)
{
    struct parcel *c = outbox_parcel(o);
    if (c == NULL)
        return;
    uint32_t places = o->places;
    c->count = (uint32_t)(o->next - c->blocks);
    c->bytes = (uint32_t)bytes_in(o);
    bool is_full = c->count == places;
    o->next = o->last = NULL;
    o->places = 0;
    h->long_parcels -= places == LONG_PARCEL_BLOCKS;
    if (o->to == h)
        take_home(h, c, places);
    else if (send(h, o->to, c, places) >= LONG_PARCELS_FROM && is_full)
        o->places = places;
}

static void flush_each(struct heap *h, struct outbox *o, const struct outbox *end)
{
    for (; o < end; o++)
        outbox_flush(h, o);
}

/* ---- outboxes set aside ---- */

/* Where that owner's may be. */
static struct outbox *aside_for(struct heap *h, const struct heap *owner)
{
    return &h->aside[owner_number(owner) * ASIDE_WAYS % ASIDE_PLACES];
}

static struct outbox *aside_find(struct heap *h, const struct heap *owner)
{
    struct outbox *o = aside_for(h, owner);
    for (int i = 0; i < ASIDE_WAYS; i++, o++) {
        if (o->to == owner && o->last != NULL)
            return o;
    }
    return NULL;
}

/* One that holds nothing, else the fullest: what is sent half empty costs as much as what is full. */
static struct outbox *aside_place(struct heap *h, const struct heap *owner)
{
    struct outbox *o = aside_for(h, owner), *best = o;
    for (int i = 0; i < ASIDE_WAYS; i++, o++) {
        if (o->last == NULL)
            return o;
        best = o->room < best->room ? o : best;
    }
    return best;
}

static HAK_NOINLINE void aside_flush(struct heap *h)
{
    h->aside_bytes = 0;
    flush_each(h, h->aside, h->aside + ASIDE_PLACES);
}

_Static_assert(ASIDE_PLACES * sizeof(struct outbox) <= SLOTS_MOST * sizeof(void *),
               "they are lent as slots");

/* False: no memory for them. */
static bool aside_make(struct heap *h, bool locked)
{
    if (!locked && !lock_take(&h->lock))
        return false;
    h->aside =
        (struct outbox *)(void *)slots_take(h, ASIDE_PLACES * sizeof *h->aside / sizeof(void *));
    if (h->aside != NULL)
        __builtin_memset(h->aside, 0, ASIDE_PLACES * sizeof *h->aside);
    if (!locked)
        heap_unlock(h);
    return h->aside != NULL;
}

/* Where there is no room another one's parcel is sent. */
static void set_aside(struct heap *h, struct outbox *o, bool locked)
{
    if (h->aside == NULL && !aside_make(h, locked)) {
        outbox_flush(h, o);
        return;
    }
    struct outbox *place = aside_place(h, o->to), other = *place;
    *place = *o;
    h->aside_bytes += bytes_in(o);
    if (other.last != NULL) {
        h->aside_bytes -= bytes_in(&other);
        outbox_flush(h, &other);
    }
    if (h->aside_bytes > ASIDE_BYTES_MOST)
        aside_flush(h);
}

/* Programs with few owners never come here: it lies apart. */
static HAK_COLD void turn_to(struct heap *h, struct outbox *o, struct heap *owner, bool locked)
{
    if (o->last != NULL)
        set_aside(h, o, locked);
    *o = (struct outbox){.to = owner};
    struct outbox *place = h->aside != NULL ? aside_find(h, owner) : NULL;
    if (place != NULL) {
        *o = *place;
        h->aside_bytes -= bytes_in(o);
        place->next = place->last = NULL;
    }
}

void outbox_flush_all(struct heap *h)
{
    flush_each(h, h->outbox, &h->outbox[OUTBOXES]);
    if (h->aside != NULL)
        aside_flush(h);
}

static uint32_t parcel_class(uint32_t places)
{
    return places == PARCEL_BLOCKS ? class_for(parcel_size(PARCEL_BLOCKS))
                                   : class_for(parcel_size(LONG_PARCEL_BLOCKS));
}

/* Past the magazine's capacity and budget, whose upkeep may itself send blocks home. The inbox is
 * looked at, because a thread that only frees gets its parcels back there. */
static struct parcel *parcel_new(struct heap *h, uint32_t places, bool locked)
{
    uint32_t class = parcel_class(places);
    void *p = NULL;
    if (!locked) {
        p = magazine_pop(magazine_of(h, class));
        if (p != NULL || !lock_take(&h->lock))
            return p;
        inbox_open_for(h, class);
        p = magazine_pop(magazine_of(h, class));
    }
    if (p == NULL)
        p = heap_take_one(h, class);
    if (!locked)
        heap_unlock(h);
    return p;
}

/* The lines of an inbox and of the parcel's head change processors with each parcel, whatever it holds. So it is long where blocks come
 * faster than their owner wants them, who would let them wait anyway. */
static uint32_t next_places(const struct heap *h, const struct outbox *o)
{
    return o->places != 0 && h->long_parcels < LONG_PARCELS_MOST ? LONG_PARCEL_BLOCKS
                                                                 : PARCEL_BLOCKS;
}

/* False: no memory for it. */
static bool open_parcel(struct heap *h, struct outbox *o, bool locked)
{
    uint32_t places = next_places(h, o);
    struct parcel *c = parcel_new(h, places, locked);
    if (c == NULL)
        return false;
    h->long_parcels += places == LONG_PARCEL_BLOCKS;
    o->next = c->blocks;
    o->last = &c->blocks[places - 1];
    o->places = places;
    o->room = PARCEL_BYTES_MAX;
    return true;
}

/* One for that owner is open; false: no memory for it. */
static bool have_parcel(struct heap *h, struct outbox *o, struct heap *owner, bool locked)
{
    if (o->to != owner && o->last == NULL && h->aside == NULL)
        *o = (struct outbox){.to = owner};
    else if (o->to != owner)
        turn_to(h, o, owner, locked);
    return o->next != NULL || open_parcel(h, o, locked);
}

void remote_send(struct heap *h, uintptr_t word, void *p, bool locked)
{
    struct heap *owner = heap_of_word(word);
    struct outbox *o = outbox_for(h, owner);
    bool is_open = have_parcel(h, o, owner, locked);
    uint32_t size = hak_classes[class_of_word(word)].size;
    if (HAK_UNLIKELY(!is_open)) {
        inbox_push(owner, p, size);
        return;
    }
    bool fills = o->next == o->last || o->room <= size;
    outbox_add(o, p, size);
    if (fills)
        outbox_flush(h, o);
}
