/* Magazines: a thread's stack of free blocks of one class, the only thing the fast paths touch.
 *
 * Its slots are an array that the heap lends it (slots.c) and exchanges for a longer one when the class
 * turns out to need it (capacity.c); the fast paths see three pointers and no capacity.
 *
 * Calls: nothing. Called by: heap (and by way of heap.h in front). */
#ifndef HAK_MAGAZINE_H
#define HAK_MAGAZINE_H

#include "base/atomic.h"
#include "base/base.h"

/* Written by the heap's thread alone, with relaxed atomic stores, so that others may read the pointers for
 * numbers (magazine_kept); its thread reads them as plain words, which lets the compiler compare in
 * memory. A zeroed one is empty and full, and so takes the slow path either way. */
struct magazine {
    void **top;         /* the newest block; end: empty, start: full */
    void **end;         /* one past the oldest. Closed: the first slot, so that it looks empty */
    void **start;       /* the last slot to fill. Closed, or giving: so high that it looks full */
    uint32_t size;      /* of its blocks; set once */
    uint16_t cap;       /* slots, a power of two; 0: none. Under the heap's lock, as the next two */
    uint8_t batch;      /* blocks that the last refill asked for; 0 after it was emptied */
    uint8_t swings : 7; /* wider than it is long, since that last changed (capacity.c) */
    uint8_t gives : 1;  /* it is opened to give alone: what is freed goes to its slab (hollow.h) */
};

enum { MAGAZINE_SHIFT = 5 };

_Static_assert(sizeof(struct magazine) == (size_t)1 << MAGAZINE_SHIFT, "place to class by a shift");

#define MAGAZINE_CLOSED ((void **)UINTPTR_MAX)
#define MAGAZINE_GIVES (MAGAZINE_CLOSED - 1)

HAK_INLINE void magazine_set_top(struct magazine *m, void **top)
{
    plain_store_relaxed(&m->top, top);
}

/* The block is read before the top moves: a signal handler in between that finds no more than it would fill the slots anew, and
 * what was read then would be a block that the magazine still has. */
HAK_INLINE void *magazine_pop(struct magazine *m)
{
    void **top = m->top;
    if (HAK_UNLIKELY((uintptr_t)top >= (uintptr_t)m->end))
        return NULL;
    void *p = *top;
    atomic_signal_fence(memory_order_seq_cst);
    magazine_set_top(m, top + 1);
    return p;
}

HAK_INLINE bool magazine_push(struct magazine *m, void *p)
{
    void **top = m->top;
    if (HAK_UNLIKELY((uintptr_t)top <= (uintptr_t)m->start))
        return false;
    top[-1] = p;
    magazine_set_top(m, top - 1);
    return true;
}

/* Whether p is the newest block of all. */
HAK_INLINE bool magazine_newest_is(const struct magazine *m, const void *p)
{
    return (uintptr_t)m->top < (uintptr_t)m->end && *m->top == p;
}

/* Whether p is any of them; none is while it is closed. */
HAK_INLINE bool magazine_has(const struct magazine *m, const void *p)
{
    void **slot = m->top;
    while ((uintptr_t)slot < (uintptr_t)m->end && *slot != p)
        slot++;
    return (uintptr_t)slot < (uintptr_t)m->end;
}

HAK_INLINE bool magazine_is_open(const struct magazine *m)
{
    return m->cap != 0 && m->start != MAGAZINE_CLOSED;
}

/* Whether blocks may be pushed, if there is room. */
HAK_INLINE bool magazine_takes(const struct magazine *m)
{
    return (uintptr_t)m->start < (uintptr_t)MAGAZINE_GIVES;
}

/* Of a closed one. */
HAK_INLINE void **magazine_slots(const struct magazine *m)
{
    return m->end;
}

/* Shows a magazine as empty and as full while its slots are worked on: a signal handler on this thread then
 * neither takes what is being put back nor adds what would be overwritten. What it holds stays where it
 * is, from `top` on. Each store alone leaves a valid state. */
HAK_INLINE void magazine_close(struct magazine *m)
{
    if (!magazine_is_open(m))
        return;
    plain_store_relaxed(&m->end, m->end - m->cap);
    atomic_signal_fence(memory_order_seq_cst);
    plain_store_relaxed(&m->start, MAGAZINE_CLOSED);
    atomic_signal_fence(memory_order_seq_cst);
}

/* Of a closed one that is to be open. */
HAK_INLINE void **magazine_start(const struct magazine *m)
{
    return m->gives ? MAGAZINE_GIVES : magazine_slots(m);
}

/* Of a closed one: the blocks from `top` on are there to be had, and there is room before them unless it only gives. The
 * start first: until the end follows the magazine is empty, and a block pushed finds its place above the others. */
HAK_INLINE void magazine_open(struct magazine *m, void **top)
{
    void **slots = magazine_slots(m);
    atomic_signal_fence(memory_order_seq_cst);
    magazine_set_top(m, top);
    atomic_signal_fence(memory_order_seq_cst);
    plain_store_relaxed(&m->start, magazine_start(m));
    atomic_signal_fence(memory_order_seq_cst);
    plain_store_relaxed(&m->end, slots + m->cap);
}

/* Of one that is open and takes: after so many blocks more the next one pushed takes the slow path. */
HAK_INLINE void magazine_seem_full_after(struct magazine *m, size_t blocks)
{
    void **top = m->top; /* once: a handler may push */
    if ((size_t)(top - m->start) > blocks)
        plain_store_relaxed(&m->start, top - blocks);
}

/* Of zeros. Closed. */
HAK_INLINE void magazine_init(struct magazine *m, uint32_t size)
{
    m->start = MAGAZINE_CLOSED;
    m->size = size;
}

/* Gives a closed, empty magazine other slots, or none (NULL, 0); it stays closed. */
HAK_INLINE void magazine_exchange(struct magazine *m, void **slots, uint32_t cap)
{
    plain_store_relaxed(&m->end, (void **)NULL); /* no top is below that */
    atomic_signal_fence(memory_order_seq_cst);
    magazine_set_top(m, slots + cap);
    atomic_signal_fence(memory_order_seq_cst);
    plain_store_relaxed(&m->end, slots);
    m->cap = (uint16_t)cap;
    m->swings = 0;
}

/* Blocks in it. Exact for its thread, at most a moment old for whoever holds the heap's lock. */
HAK_INLINE size_t magazine_kept(const struct magazine *m)
{
    uintptr_t top = (uintptr_t)plain_load_relaxed(&m->top);
    uintptr_t end = (uintptr_t)plain_load_relaxed(&m->end);
    return end > top ? (end - top) / sizeof(void *) : 0;
}

#endif
