/* Heaps: what a thread owns. A heap is one unit of 64 KiB: magazines in front, which its thread
 * alone touches without any lock, and behind them the slab lists, which belong to whoever holds the
 * heap's lock: its thread in slow paths, another thread that empties its inbox because it does not,
 * or a thread that adopts from it after its thread has ended.
 *
 *   malloc -> magazine -> heap_refill -> inbox -> slab list -> stage 1 adopt -> stage 2, 3 units_take
 *   free   -> magazine -> heap_flush  -> slab list -> (empty slab) units_give
 *          -> remote_free -> outbox -> (batch) inbox of the owner
 *
 * Heaps are never unmapped: any address that once was a heap's stays one, which is what makes the
 * words that name heaps, and the inboxes, safe to use at any time.
 *
 * Calls: slab, super, region, purge. Called by: front, api. */
#ifndef HAK_HEAP_H
#define HAK_HEAP_H

#include "os/lock.h"
#include "slab/slab.h"

/* A stack of free blocks. `room` counts the free slots, so that it grows downwards: slots[room] is
 * the newest block, room == cap means empty, room == 0 full. A zeroed one is both, and so takes the
 * slow path either way. Written by the heap's thread alone, with relaxed atomic stores, so that
 * others may read the two words for numbers (magazine_kept); its thread reads them as plain words,
 * which lets the compiler compare in memory. */
struct magazine {
    uint32_t room;
    uint32_t cap;
    void *slots[];
};

/* The magazines with their slots, one after the other. */
struct magazines {
    /* Always zero: what a tag in a unit's word is taken for by free is a magazine without room. */
    uint64_t no_room[(WORD_TAG_MAX + 1) / sizeof(uint64_t)];
#define CLASS(index, from, size, units, slot_count)                                                \
    struct {                                                                                       \
        uint32_t room, cap;                                                                        \
        void *slots[slot_count];                                                                   \
    } m##index;
#include "slab/size_classes.def"
#undef CLASS
    void *end; /* free's look at the slot above the room of an empty magazine stays in here */
};

_Static_assert(sizeof(((struct magazines *)0)->no_room) > WORD_TAG_MAX,
               "every tag is the offset of eight zero bytes");

enum counter {
#define COUNTER(name, text) COUNTER_##name,
#include "control/counters.def"
#undef COUNTER
    COUNTER_COUNT
};

/* A heap's slabs of one class. Under the heap's lock. */
struct class_slabs {
    uint32_t list;   /* slabs with free blocks: unit index + 1 of the first; 0: none */
    uint32_t listed; /* their number */
    uint32_t slabs;  /* all slabs, full ones included */
    size_t used;     /* blocks handed out of all of them */
    bool active;     /* refilled or flushed since the budget's hand last came by */
};

/* Runs allocated less runs freed by the heap's thread: may wrap, the sum over all heaps does not. */
struct live_runs {
    _Atomic size_t bytes, count;
};

enum { RUN_CACHE_SLOTS = 4, OUTBOX_SLOTS = 8 };

/* Freed runs this thread keeps. Its thread alone. */
struct run_cache {
    uint32_t count;
    uint32_t units;
    uint32_t unit[RUN_CACHE_SLOTS]; /* oldest first */
    uint8_t length[RUN_CACHE_SLOTS];
};

/* Blocks on their way home, gathered by destination. Its thread alone. */
struct parcel;
struct outbox {
    struct heap *to;
    struct parcel *parcel; /* being filled for it; NULL: none */
};

enum heap_state {
    HEAP_LIVE = 1, /* a thread's */
    HEAP_ORPHAN,   /* its thread has ended; on the registry's list */
    HEAP_LOST      /* torn by a fork in mid-change; never looked at again */
};

struct heap {
    struct magazines magazines;
    struct lock lock;
    _Atomic uint32_t state;   /* enum heap_state; changed under the lock */
    struct heap *all_next;    /* every heap there is; set once */
    struct heap *orphan_next; /* registry's list, under its lock */
    bool fork_held;           /* locked by the thread that forks, which alone looks at these two */
    struct block *fork_inbox; /* what the inbox held when it was closed */
    struct run_cache runs;
    struct live_runs live_runs;
    struct outbox outbox[OUTBOX_SLOTS];
    struct class_slabs classes[CLASS_COUNT];
    /* Bytes handed out of all slabs, under the lock, and the most of them since the magazines were
     * last emptied for having too little left behind them. */
    size_t used_bytes, peak_bytes;
    /* What the magazines' capacities add up to in bytes, and the class that is next to give some of it
     * up for another. Its thread alone. */
    size_t magazine_bytes;
    uint32_t budget_hand;
    _Atomic uint64_t counters[COUNTER_COUNT];
    /* Written by other threads, on a line of its own. A stack of batches: pushed by CAS, always
     * taken whole by exchange, so no element is ever popped and ABA cannot arise. */
    _Alignas(64) _Atomic(struct block *) inbox;
    _Atomic size_t inbox_bytes; /* about how much is in it */
};

_Static_assert(sizeof(struct heap) <= UNIT_SIZE, "a heap fits into one unit");

/* Offset of each class's magazine in its heap, and where they end. */
extern const uint16_t hak_magazine_offset[CLASS_COUNT + 1] __attribute__((visibility("hidden")));
/* Back from the offset of a magazine, in words, to its class. Filled in by heap_init_tables. */
extern uint8_t hak_class_at[UNIT_SIZE / sizeof(void *)] __attribute__((visibility("hidden")));
void heap_init_tables(void);
/* The same for every multiple of 8 up to SMALL_MAX. */
extern const uint16_t hak_small_offset[SMALL_MAX / 8 + 1] __attribute__((visibility("hidden")));
/* The same for sizes above that, in steps that divide all of their classes. */
enum { MID_STEP = 128 };
extern const uint16_t hak_mid_offset[SLAB_MAX / MID_STEP] __attribute__((visibility("hidden")));
extern const uint8_t hak_magazine_slots[CLASS_COUNT] __attribute__((visibility("hidden")));

/* What a thread's heap is before it has one. */
extern struct heap hak_empty_heap __attribute__((visibility("hidden")));

HAK_INLINE struct magazine *magazine_at(struct heap *h, size_t offset)
{
    return (struct magazine *)(void *)((char *)h + offset);
}

HAK_INLINE struct magazine *magazine_of(struct heap *h, uint32_t class)
{
    return magazine_at(h, hak_magazine_offset[class]);
}

HAK_INLINE void magazine_set_room(struct magazine *m, uint32_t room)
{
    __atomic_store_n(&m->room, room, __ATOMIC_RELAXED);
}

/* Shows an empty magazine without capacity while its slots are worked on: a signal handler on this
 * thread then neither takes what is being put back nor adds what would be overwritten. */
HAK_INLINE void magazine_close(struct magazine *m)
{
    __atomic_store_n(&m->cap, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&m->room, 0, __ATOMIC_RELAXED);
    atomic_signal_fence(memory_order_seq_cst);
}

/* The room first: until the capacity follows, the magazine is empty, and a block pushed finds its
 * place below the others. */
HAK_INLINE void magazine_open(struct magazine *m, uint32_t room, uint32_t cap)
{
    atomic_signal_fence(memory_order_seq_cst);
    __atomic_store_n(&m->room, room, __ATOMIC_RELAXED);
    __atomic_store_n(&m->cap, cap, __ATOMIC_RELAXED);
}

/* Blocks in it, by anybody's leave; at most a moment old. */
HAK_INLINE uint32_t magazine_kept(struct magazine *m)
{
    uint32_t room = __atomic_load_n(&m->room, __ATOMIC_RELAXED);
    uint32_t cap = __atomic_load_n(&m->cap, __ATOMIC_RELAXED);
    return cap > room ? cap - room : 0;
}

HAK_INLINE void *magazine_pop(struct magazine *m)
{
    uint32_t room = m->room;
    if (HAK_UNLIKELY(room >= m->cap))
        return NULL;
    magazine_set_room(m, room + 1);
    return m->slots[room];
}

HAK_INLINE bool magazine_push(struct magazine *m, void *p)
{
    uint32_t room = m->room;
    if (HAK_UNLIKELY(room == 0))
        return false;
    m->slots[room - 1] = p;
    magazine_set_room(m, room - 1);
    return true;
}

/* The magazine for the blocks of a unit. The low half of its word is the offset in any heap; which heap
 * the word names is not asked. Tags have no room. */
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
    return hak_class_at[(word & (UNIT_SIZE - 1)) / sizeof(void *)];
}

/* Relaxed, and no read-modify-write: one writer at a time, readers want a recent value. */
HAK_INLINE void count(struct heap *h, enum counter c, uint64_t n)
{
    store_relaxed(&h->counters[c], load_relaxed(&h->counters[c]) + n);
}

/* ---- refill and flush: the calling thread's own heap, at depth 1 ---- */

/* A block of the class, and more of them into its empty magazine. NULL: no memory. `*zeroed`: the
 * block reads as zeros (told for classes whose refill is a single block, which are the large ones). */
void *heap_refill(struct heap *h, uint32_t class, bool *zeroed);

/* Puts a block, its own or another heap's, into the magazine of its class. If that is full, the heap's
 * own blocks make room there, and another's is sent home. `word` is the block's unit's. */
void heap_flush(struct heap *h, uintptr_t word, void *p);

/* ---- anybody: threads without a heap of their own, handlers that interrupted a slow path ---- */

void *heap_alloc_detached(uint32_t class);
void heap_free_detached(struct heap *owner, void *p);

/* ---- inside the layer ---- */

/* With the lock held: takes one slab with free blocks to the front of the class's list. */
struct slab *heap_find_slab(struct heap *h, uint32_t class);
/* With the lock held: a block returns to its slab, which must be the heap's. */
void heap_put(struct heap *h, struct slab *s, void *p);
/* With the lock held: takes the slab out of the heap, to be given to another. */
void slab_unlist(struct heap *h, struct slab *s);
void slab_list(struct heap *h, struct slab *s);
/* With the lock held: takes what is in the inbox. `own`: by the heap's thread itself, which may put
 * blocks into its magazines. */
void inbox_drain(struct heap *h, bool own);
/* Releases the lock of a heap that is not the calling thread's. */
void heap_unlock_visited(struct heap *other);
/* Hangs a single block into the inbox. Lock-free. */
void inbox_push(struct heap *to, void *p, size_t bytes);
/* Sends a block of another heap's home by way of the outbox; `locked`: the caller holds h's lock. */
void remote_send(struct heap *h, uintptr_t word, void *p, bool locked);
void outbox_flush_all(struct heap *h);
/* With the lock held: one block of the class, past the magazine. */
void *heap_take_one(struct heap *h, uint32_t class);
/* With the lock held: everything in the magazines returns to the slabs. */
void heap_empty_magazines(struct heap *h);

/* Sentinel of a closed inbox, while a fork takes its picture of the process. */
#define INBOX_CLOSED ((struct block *)(uintptr_t)1)

#endif
