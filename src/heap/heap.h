/* Heaps: what a thread owns. A heap is one unit of 64 KiB: magazines in front, which its thread
 * alone touches without any lock, and behind them the slab lists, which belong to whoever holds the
 * heap's lock: its thread in slow paths, another thread that empties its inbox because it does not,
 * or a thread that adopts from it after its thread has ended. A shared heap is without a thread (shared.h).
 *
 *   malloc -> magazine -> heap_refill -> inbox -> slab list -> shared heap -> stage 1 adopt, surplus_take -> stage 2, 3 units_take
 *   free   -> magazine -> heap_flush  -> slab list -> (empty slab) units_give
 *          -> outbox -> (batch) slab list of the own heap | inbox of the owner
 *
 * Heaps are never unmapped: any address that once was a heap's stays one, which is what makes the
 * words that name heaps, and the inboxes, safe to use at any time.
 *
 * Calls: slab, super, purge, pressure, profile, live, os. Called by: front, control (numbers). */
#ifndef HAK_HEAP_H
#define HAK_HEAP_H

#include "heap/magazine.h"
#include "heap/waiting.h"
#include "live/live.h"
#include "os/lock.h"
#include "profile/sampler.h"
#include "slab/slab.h"

/* The magazines, which start where their unit does: a unit's word is the address of the owner's magazine
 * for it, and as heaps are all alike its low 16 bits say where the magazine of that class is in any. */
struct magazines {
    /* Always zero: what a tag in a unit's word is taken for by free is a magazine without room. */
    uint64_t no_room[(WORD_TAG_LAST + sizeof(struct magazine)) / sizeof(uint64_t)];
    _Alignas(sizeof(struct magazine)) struct magazine of[CLASS_COUNT];
    struct sampler sampler;
};

_Static_assert(offsetof(struct magazines, of) % sizeof(struct magazine) == 0, "class_of_word");

HAK_INLINE size_t magazine_offset(uint32_t class)
{
    return offsetof(struct magazines, of) + ((size_t) class << MAGAZINE_SHIFT);
}

enum counter {
#define COUNTER(name, text) COUNTER_##name,
#include "control/counters.def"
#undef COUNTER
    COUNTER_COUNT
};

/* They stand side by side in a heap's row, too. */
HAK_INLINE live_u64 *counters_of(struct live_heaps *row)
{
#define COUNTER(name, text)                                                                        \
    _Static_assert(offsetof(struct live_heaps, name) ==                                            \
                       offsetof(struct live_heaps, refill) + COUNTER_##name * sizeof(live_u64),    \
                   "in the order of counters.def");
#include "control/counters.def"
#undef COUNTER
    return &row->refill;
}

/* Where arrays of slots come from: powers of two, cut from the heap's first slots, what is left of its unit and then from
 * further ones, kept by length when given back. Its thread's, under the heap's lock, so that a fork
 * finds it whole. All zeros is one from which nothing has been taken. */
enum { SLOT_LENGTHS = 13, SLOTS_MOST = 1 << (SLOT_LENGTHS - 1) };
struct slot_arena {
    void **next, **limit;       /* not cut yet */
    void **given[SLOT_LENGTHS]; /* linked through their first slot */
};

/* A heap's slabs of one class. Under the heap's lock. */
struct class_slabs {
    uint32_t list;     /* slabs with free blocks: unit index + 1 of the first; 0: none */
    uint32_t listed;   /* their number */
    uint32_t slabs;    /* all slabs, full ones included */
    uint32_t touched;  /* pages of them that blocks were ever carved from */
    uint32_t purged;   /* of these, pages that went back and were not needed since */
    uint32_t witness;  /* unit index + 1 of the slab that tells (fresh.h); 0: none yet */
    size_t used;       /* blocks handed out of all of them */
    uintptr_t spilled; /* what the last spill left (capacity.c); 0: not noted since */
    uint32_t kept; /* the one slab of which no block is used, unit index + 1, that stays; 0: none */
    uint8_t active; /* refilled or flushed: a bit for each hand, until that next comes by */
    bool
        taken : 1; /* blocks were taken from its slabs or shared ones since the last sweep, of a class that is swept */
    bool busy : 1; /* needed often at some time since its magazine last lost its slots (shared.h) */
    bool filled : 1;  /* of the last witness nearly all pages were touched */
    uint8_t lost : 4; /* binary logarithm of the slots that its magazine has lost (capacity.c) */
    uint8_t seen;     /* blocks in the magazine when the idle hand last came by, modulo 256 */
    uint8_t few;      /* refills that found nothing of its own since `few_since_ms` (shared.h) */
};

/* Who empties magazines: those of idle classes, one in turn where there are too many slots (refill.c) or all now and then (hollow.c);
 * or those of all classes. */
enum hand { HAND_ALL = 0, HAND_BUDGET = 1, HAND_IDLE = 2, HANDS = HAND_BUDGET | HAND_IDLE };

/* Runs allocated less runs freed by the heap's thread: may wrap, the sum over all heaps does not. */
struct live_runs {
    _Atomic size_t bytes, count;
};

enum {
    OUTBOX_SLOTS = 32,
    OUTBOX_OWN = OUTBOX_SLOTS,
    OUTBOXES,
    CLASS_WORDS = (CLASS_COUNT + 63) / 64 /* of a bit for each class */
};

/* Blocks on their way home, gathered by destination, which may be the sender's own heap. The sender's thread alone,
 * until it is pushed into the owner's inbox. */
enum {
    PARCEL_BLOCKS = HAK_SECURE ? 29 : 30, /* of a secure block the last word is not free */
    LONG_PARCEL_BLOCKS = HAK_SECURE ? 125 : 126,
    LONG_PARCELS_FROM = 8 << 10, /* bytes that wait: behind a full parcel comes a long one */
    LONG_PARCELS_MOST = 4,       /* that a thread fills at a time, for a few owners */
    PARCEL_BYTES_MAX = 32 << 10,
    GATHERED_MAX = PARCEL_BYTES_MAX / 4, /* of the own heap, larger blocks do not wait */
    ASIDE_PLACES = 512,
    ASIDE_WAYS = 4,              /* places for those of an owner, side by side */
    ASIDE_BYTES_MOST = 256 << 10 /* of blocks in all that are set aside */
};
struct parcel {
    struct block *next;    /* as in any node of an inbox */
    uint32_t count, bytes; /* set when it is sent */
    void *blocks[];        /* PARCEL_BLOCKS places, or LONG_PARCEL_BLOCKS */
};

HAK_INLINE uint32_t parcel_size(uint32_t places)
{
    return (uint32_t)(sizeof(struct parcel) + places * sizeof(void *));
}

struct outbox {
    struct heap *to;
    /* Places for the next block and for the last one, which remote_send fills before it sends the parcel; both
     * NULL: no parcel is being filled. */
    void **next, **last;
    uint32_t room; /* bytes of blocks that it has not got yet, of PARCEL_BYTES_MAX */
    /* Of that parcel. Of the last one, if that went full where much waited: the next is long then. Else 0. */
    uint32_t places;
};

enum heap_state {
    HEAP_LIVE = 1, /* a thread's */
    HEAP_ORPHAN,   /* its thread has ended; on the registry's list */
    HEAP_LOST,     /* torn by a fork in mid-change; never looked at again */
    HEAP_SHARED,   /* nobody's: threads that need little take from its slabs (shared.h) */
    HEAP_EXPLICIT, /* the program's: no thread has it, and no magazine its blocks (explicit.h) */
    HEAP_VACANT    /* was one, and has no block in use; on the registry's list of those */
};

/* What heap/hollow.c knows of a heap. Under its lock. */
struct hollow {
    uint32_t until_look;  /* refills and flushes until the clock is looked at */
    uint32_t patience_ms; /* how long it must have been hollow; 0: as the setting says */
    bool gathers;         /* what is being done about it: magazines only give, ... */
    uint32_t purges;      /* ... or so many slabs are yet to be looked through, ... */
    uint32_t class, at;   /* ... from there on, as class_purge_slabs takes it */
    uint64_t looked_ms;   /* when its own thread last did */
    uint64_t idle_ms;     /* when idle magazines were last emptied */
    uint64_t since_ms;    /* when it was found hollow, or the last step was done; 0: it is not */
    size_t waste;         /* bytes of its hollow classes then that hold no block ... */
    size_t waste_before;  /* ... and when gathering began */
    size_t moved;         /* blocks taken since then where magazines give, ... */
    size_t moved_before;  /* ... and until the last step */
    size_t purged;        /* pages purged since it last became hollow, ... */
    size_t missed;        /* ... and those of slabs that were taken from afterwards */
};

struct lease;
enum { LEASES = 4 /* a thread's, of as many explicit heaps (lease.h) */ };

/* What there is of an explicit heap besides its classes. Under its lock. */
struct explicit_parts {
    uint32_t full;  /* slabs without a free block, which no class lists ... */
    uint32_t large; /* ... and blocks of more than a unit: unit index + 1 of the first; 0: none */
    size_t large_bytes, large_blocks;
    uint32_t leases; /* so many at most, of threads (lease.h) */
};

enum { HEAP_PAGE = 4096, FIRST_SLOTS = 248 };

struct heap {
    struct magazines magazines;
    /* Where the magazine is for a request of so many words, at hand without another address. Up to SMALL_MAX bytes a
     * copy of hak_small_offset; above as they are asked for, so that what is not has no memory. Zeros lead to a magazine that is empty:
     * of no words, which are also those of sizes that wrap, and of the static empty heap. Its thread alone. */
    uint16_t offset_of_words[SERVED_MOST + 1];
    uint8_t up_to_page[HEAP_PAGE -
                       (sizeof(struct magazines) + sizeof(uint16_t[SERVED_MOST + 1])) % HEAP_PAGE];
    struct lock lock;
    _Atomic uint32_t state;   /* enum heap_state; changed under the lock */
    struct heap *all_next;    /* every heap there is; set once */
    struct heap *orphan_next; /* registry's lists, under its lock */
    bool fork_held;           /* locked by the thread that forks, which alone looks at these two */
    size_t warm_bytes;        /* in the magazines of an orphan; under the lock */
    struct block *fork_inbox; /* what the inbox held when it was closed */
    struct block
        *arrived; /* what its thread took out of the inbox and has not opened yet; under the lock */
    struct live_runs live_runs;
    /* What the live area shows of it; NULL: nothing. Set under the lock, in a fork's child cleared. */
    _Atomic(struct live_heaps *) row;
    uint64_t changed[CLASS_WORDS]; /* classes whose words there are old; under the lock */
    /* Classes that have ever had slots or a slab: of the others there is nothing to be found. Under the lock. */
    uint64_t had[CLASS_WORDS];
    uint32_t tid;   /* of the thread it is or was; under the lock */
    bool unseen;    /* there was no row for it, which is counted; under the lock */
    uint32_t round; /* of pressure in which it last gave back (pressure.h); its thread alone */
    struct class_slabs classes[CLASS_COUNT];
    struct slot_arena slots;
    /* Bytes handed out of all slabs, under the lock, and the most of them since the magazines were
     * last emptied for having too little left behind them; when that was, 0 if long ago, and how many there were. */
    size_t used_bytes, peak_bytes;
    uint64_t emptied_ms;
    size_t emptied_bytes;
    size_t taken_bytes; /* of blocks handed out since then; under the lock */
    /* Bytes of blocks of pages in its magazines, when last looked at; under the lock (paged.c). */
    size_t paged_kept;
    size_t grown_bytes; /* fresh pages taken since the last sweep; under the lock */
    /* What the magazines' capacities add up to in bytes, those of blocks of pages by themselves, and the class that is next to give
     * some of it up for another. Its thread alone. */
    size_t magazine_bytes, paged_bytes;
    uint32_t budget_hand;
    int32_t looks_owed;    /* at blocks of pages, in parts of one; under the lock (touched.c) */
    uint64_t few_since_ms; /* since when each class' `few` counts; under the lock */
    uint64_t glanced_ms;   /* when the clock was last looked at (front.c); its thread alone */
    struct hollow hollow;
    struct explicit_parts parts;
    /* Set by its thread, once; read by who ends an explicit heap. NULL: not made yet. */
    _Atomic(struct lease *) leases[LEASES];
#if HAK_SECURE
    struct waiting waiting;
#endif
    _Atomic uint64_t counters[COUNTER_COUNT];
    /* The thread to whose `heap` it is on its way from the registry, or back; NULL: none. No handler may use it, and one that
     * forks leaves it to what it has interrupted. Written by that thread. */
    _Atomic(struct thread *) passing;
    /* Written by other threads, on a line of its own. A stack of batches: pushed by CAS, always
     * taken whole by exchange, so no element is ever popped and ABA cannot arise. */
    _Alignas(64) _Atomic(struct block *) inbox;
    _Atomic size_t
        inbox_bytes; /* in it or arrived: added to before a push, taken off when it is opened */
    _Atomic(live_u64 *)
        inbox_shown; /* where the live area says so; NULL: nowhere. Set with `row` */
    /* The first slots fill this page, in front of what only threads need that hand blocks to each other. */
    _Alignas(64) void *first_slots[FIRST_SLOTS];
    struct outbox outbox[OUTBOXES];
    /* Outboxes whose places another owner's took, ASIDE_PLACES of them; NULL: none yet. Where there are many owners nearly
     * every parcel would be sent with a single block otherwise. As the outboxes, but for the own heap's. */
    struct outbox *aside;
    size_t aside_bytes;    /* of the blocks in them */
    uint32_t long_parcels; /* that are being filled, LONG_PARCELS_MOST at most */
};

_Static_assert(sizeof(struct heap) <= UNIT_SIZE / 2, "a heap leaves room for slots in its unit");
_Static_assert(HAK_SECURE || offsetof(struct heap, outbox) - offsetof(struct heap, lock) ==
                                 (size_t)2 * HEAP_PAGE,
               "what every thread needs fills two pages");

/* Of a heap's state: it has no thread, and who sends to it may have to empty its inbox. */
HAK_INLINE bool is_nobodys(uint32_t state)
{
    return state == HEAP_ORPHAN || state == HEAP_SHARED;
}

/* Where the magazine is for every multiple of 8 up to SMALL_MAX. */
extern const uint16_t hak_small_offset[SMALL_MAX / 8 + 1] __attribute__((visibility("hidden")));

/* What a thread's heap is before it has one. */
extern struct heap hak_empty_heap __attribute__((visibility("hidden")));

/* The calling thread's, or on its way to or from it. */
HAK_INLINE bool heap_is_own(const struct heap *h)
{
    return h == hak_thread.heap || load_relaxed(&h->passing) == &hak_thread;
}

HAK_INLINE struct magazine *magazine_at(struct heap *h, size_t offset)
{
    return (struct magazine *)(void *)((char *)h + offset);
}

/* The same once more, so that no instruction adds the two up: an address of x86-64 may name both. */
HAK_INLINE struct magazine *magazine_again(struct heap *h, size_t *offset)
{
#if defined(__x86_64__)
    __asm__("" : "+r"(*offset)); /* another one, for all the compiler knows */
#endif
    return magazine_at(h, *offset);
}

HAK_INLINE struct magazine *magazine_of(struct heap *h, uint32_t class)
{
    return &h->magazines.of[class];
}

/* The magazine for the blocks of a unit, by the low half of its word: the offset in any heap. Which heap the
 * word names is not asked. Tags have no room. */
HAK_INLINE struct magazine *magazine_for_word(struct heap *h, uintptr_t word)
{
    return magazine_at(h, word & (UNIT_SIZE - 1));
}

/* The heap a unit's word names. */
HAK_INLINE struct heap *heap_of_word(uintptr_t word)
{
    return (struct heap *)(word & ~(uintptr_t)(UNIT_SIZE - 1));
}

/* The class a unit's word names. For whoever is not the owner: the owner changes the slab's line all
 * the time, and this does not touch it. */
HAK_INLINE uint32_t class_of_word(uintptr_t word)
{
    return (uint32_t)(((word & (UNIT_SIZE - 1)) - magazine_offset(0)) >> MAGAZINE_SHIFT);
}

/* Relaxed, and no read-modify-write: one writer at a time, readers want a recent value. */
HAK_INLINE void count(struct heap *h, enum counter c, uint64_t n)
{
    uint64_t now = load_relaxed(&h->counters[c]) + n;
    store_relaxed(&h->counters[c], now);
    struct live_heaps *row = load_acquire(&h->row); /* pairs with give_row */
    if (row != NULL)
        store_relaxed(&counters_of(row)[c], now);
}

/* Of a class, in the word class / 64 of CLASS_WORDS. */
HAK_INLINE uint64_t class_bit(uint32_t class)
{
    return (uint64_t)1 << (class % 64);
}

/* With the lock held: the class is to have slots or a slab. */
HAK_INLINE void heap_has_class(struct heap *h, uint32_t class)
{
    h->had[class / 64] |= class_bit(class);
}

/* With the lock held: the first class from this one on that the heap has ever had anything of; CLASS_COUNT: none. */
HAK_INLINE uint32_t heap_class_from(const struct heap *h, uint32_t class)
{
    for (uint32_t word = class / 64; word < CLASS_WORDS; class = ++word * 64) {
        uint64_t bits = h->had[word] >> (class % 64);
        if (bits != 0)
            return class + lowest_bit(bits);
    }
    return CLASS_COUNT;
}

/* With the lock held: the class' words in the live area are to be written at the lock's release. */
HAK_INLINE void heap_changed(struct heap *h, uint32_t class)
{
    h->changed[class / 64] |= class_bit(class);
}

void heap_show_changed(struct heap *h, struct live_heaps *row);

/* Releases the heap's lock. */
HAK_INLINE void heap_unlock(struct heap *h)
{
    struct live_heaps *row = load_relaxed(&h->row); /* set under the lock */
    if (row != NULL)
        heap_show_changed(h, row);
    lock_release(&h->lock);
}

/* With the lock held: it has another thread or none, and its row says so. */
void heap_show_thread(const struct heap *h);
/* A heap that has joined gets a row, if it has none. Takes the lock. */
void heap_show(struct heap *h);

/* Makes the live area and a row for each heap. At depth 1, without a lock. */
void heaps_make_area(void);
/* In the child of a fork: the row is the parent's. */
void heap_forget_row(struct heap *h);

/* ---- refill and flush: the calling thread's own heap, at depth 1 ---- */

/* A block of the class, and more of them into its empty magazine. NULL: no memory. `zeroed`, if not NULL,
 * is set to true if the block reads as zeros: for a caller who would have to clear it. */
void *heap_refill(struct heap *h, uint32_t class, bool *zeroed);

/* Puts a block, its own or another heap's, into the magazine of its class. If that is full, the heap's
 * own blocks make room there, and another's is sent home. `word` is the block's unit's. */
void heap_flush(struct heap *h, uintptr_t word, void *p);

/* Differs between heaps of one SuperSlab and, up to 32, between those of neighbours: threads that begin at the same time get
 * the same unit of one SuperSlab each. */
HAK_INLINE size_t owner_number(const struct heap *owner)
{
    size_t unit = (uintptr_t)owner >> UNIT_SHIFT;
    return unit ^ unit >> (GRANULE_SHIFT - UNIT_SHIFT);
}

HAK_INLINE struct outbox *outbox_for(struct heap *h, struct heap *owner)
{
    return &h->outbox[owner == h ? OUTBOX_OWN : owner_number(owner) % OUTBOX_SLOTS];
}

/* The one that is being filled; NULL: none. */
HAK_INLINE struct parcel *outbox_parcel(const struct outbox *o)
{
    return o->last != NULL ? (struct parcel *)(void *)((char *)(o->last + 1 - o->places) -
                                                       sizeof(struct parcel))
                           : NULL;
}

HAK_INLINE void outbox_add(struct outbox *o, void *p, uint32_t size)
{
    *o->next++ = p;
    o->room -= size;
}

/* Notes a block of `size` bytes in the parcel for its owner if there is one that this will not fill. */
HAK_INLINE bool remote_note(struct heap *h, struct heap *owner, void *p, uint32_t size)
{
    struct outbox *o = outbox_for(h, owner);
    if (o->to != owner || o->next == o->last || o->room <= size)
        return false;
    outbox_add(o, p, size);
    return true;
}

/* ---- anybody: threads without a heap of their own, handlers that interrupted a slow path ---- */

void *heap_alloc_detached(uint32_t class);
void heap_free_detached(struct heap *owner, void *p);

/* ---- inside the layer ---- */

/* Not inlined: they are many, and no path that needs them is short. */
HAK_NOINLINE void open_magazine(struct magazine *m, void **top);
HAK_NOINLINE void close_magazine(struct magazine *m);
/* With the lock held: takes one slab with free blocks to the front of the class's list. */
struct slab *heap_find_slab(struct heap *h, uint32_t class);
/* With the lock held: blocks of any number of slabs; fewer than wanted only if memory runs out, or if it
 * would take a second new slab. */
uint32_t heap_take(struct heap *h, uint32_t class, void **out, uint32_t wanted);
/* With the lock held: a block returns to its slab, which must be the heap's. */
void heap_put(struct heap *h, struct slab *s, void *p);
/* With the lock held: blocks of one class return to their slabs, or leave for their owners', the last
 * first. */
void heap_put_all(struct heap *h, uint32_t class, void *const *blocks, size_t n);
/* With the lock held: takes the slab out of the heap, to be given to another. */
void slab_unlist(struct heap *h, struct slab *s);
void slab_list(struct heap *h, struct slab *s);
/* With the lock held: the slab of that unit index + 1, NULL if it is none of the heap's and the class's (any more) or `link` is 0. */
struct slab *slab_if_of(const struct heap *h, uint32_t class, uint32_t link);
/* With the lock held: takes what has been sent, all of it or, with an open magazine `wanted`, until that is half full and
 * little waits.
 * `own`: by the heap's thread itself, which may put blocks into its magazines. */
void inbox_open(struct heap *h, bool own, struct magazine *wanted);
HAK_INLINE void inbox_drain(struct heap *h, bool own)
{
    inbox_open(h, own, NULL);
}
/* By the heap's thread, before it looks elsewhere for blocks of the class. */
HAK_INLINE void inbox_open_for(struct heap *h, uint32_t class)
{
    struct magazine *m = magazine_of(h, class);
    if (h->arrived == NULL && load_relaxed(&h->inbox) == NULL)
        return;
    inbox_open(h, true, m->cap != 0 && magazine_takes(m) ? m : NULL);
    heap_changed(h, class);
}
/* Releases the lock of a heap that is not the calling thread's. */
void heap_unlock_visited(struct heap *other);
/* Hangs a block, or a parcel, into the inbox. Lock-free. Returns how many bytes were there. */
size_t inbox_push(struct heap *to, void *p, size_t bytes);
/* Sends a block home by way of the outbox, to whichever heap `word` names; `locked`: the caller holds h's lock, which h's own
 * blocks need. */
void remote_send(struct heap *h, uintptr_t word, void *p, bool locked);
/* What has been gathered for one heap goes to it; if that is h, with its lock held. */
void outbox_flush(struct heap *h, struct outbox *o);
/* With the lock held: what has been sent to the heap itself returns to its slabs. */
HAK_INLINE void outbox_empty_own(struct heap *h)
{
    struct outbox *o = &h->outbox[OUTBOX_OWN];
    if (HAK_UNLIKELY(o->next != NULL))
        outbox_flush(h, o);
}
/* With the lock held, nothing stays in any of them. */
void outbox_flush_all(struct heap *h);
/* With the lock held: one block of the class, past the magazine. */
void *heap_take_one(struct heap *h, uint32_t class);
/* With the lock held: everything in the magazines that the hand takes from returns to the slabs. They keep their slots. */
void heap_empty_magazines(struct heap *h, enum hand hand);
/* With the lock held: everything that the heap keeps for reuse goes back; what is in magazines and outboxes only if
 * they are the calling thread's or nobody's. When memory is tight also pages inside slabs. */
void heap_trim(struct heap *h, bool with_magazines);
/* With the lock held: the pages of slabs on which no block lives, in bytes. */
size_t heap_purge_slabs(struct heap *h);
/* With the lock held: purges the pages on which no block lives of a class's slabs that have changed since the last time.
 * `*left`: looks at so many at most, less those looked at. `*at`: where it begins, unit index + 1 (0: with the first),
 * and where it is to go on, 0 after the last. Returns bytes. */
size_t class_purge_slabs(struct heap *h, uint32_t class, uint32_t *at, uint32_t *left);
/* With the lock held: slabs that stayed although they are empty go back. */
void heap_release_kept(struct heap *h);
void class_release_kept(struct heap *h, uint32_t class);
/* With the lock held: the slab is not empty any more, or another heap's from now on. */
void slab_kept_to_used(struct heap *h, struct slab *s);
/* A unit for a heap or its slots, never given back; REGION_NONE: no memory. */
ptrdiff_t own_unit_take(bool *zeroed);
/* With the lock held: `length` slots, a power of two of at most SLOTS_MOST; NULL: no memory. */
void **slots_take(struct heap *h, uint32_t length);
void slots_give(struct heap *h, void **slots, uint32_t length);
_Noreturn void die_double_free(void *p);

/* Sentinel of a closed inbox, while a fork takes its picture of the process. */
#define INBOX_CLOSED ((struct block *)(uintptr_t)1)

#endif
