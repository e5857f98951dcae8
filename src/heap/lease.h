/* Leases: a few blocks of an explicit heap that a thread has taken in advance, or freed, so that most of what it does with that heap
 * needs no lock. They lie in slots of the thread's own heap.
 *
 *   blocks   the thread alone takes and gives them, without a lock, ...
 *   of       ... while this names their heap. Written under that heap's lock, by the thread or by who ends the heap, who
 *            finds it by way of the list of all heaps; the thread reads it without. The program sees to it that no thread
 *            is at a heap that ends, so nobody but who ends it is at the blocks then
 *   kept     read by others for numbers, under the lock of the heap
 *
 * Calls: explicit, heap. Called by: front, attach, explicit_end, fork, control (place). */
#ifndef HAK_LEASE_H
#define HAK_LEASE_H

#include "heap/explicit.h"

enum {
    LEASED_MOST = 14,              /* blocks of a class */
    LEASED_CLASSES = CLASS_32 + 1, /* of up to SMALL_MAX bytes */
    LEASE_SLOTS = 512
};

struct leased {
    _Atomic size_t kept;
    void *blocks[LEASED_MOST];
};

struct lease {
    /* Before them are slots, and free's fast path reads what is behind those of an empty magazine. */
    void *behind_slots;
    _Atomic(struct heap *) of; /* NULL: no heap's, and empty */
    struct leased of_class[LEASED_CLASSES];
};

_Static_assert(sizeof(struct lease) <= LEASE_SLOTS * sizeof(void *), "it is lent as slots");

/* Where it is in any heap. */
HAK_INLINE size_t lease_place(const struct heap *of)
{
    return owner_number(of) % LEASES;
}

/* The lease of that heap that the thread of `by` has; NULL: it has none. */
HAK_INLINE struct lease *lease_by(const struct heap *by, const struct heap *of)
{
    /* acquire: pairs with lease_make; who ends the heap sees the lease empty or as it was made. */
    struct lease *l = load_acquire(&by->leases[lease_place(of)]);
    return l != NULL && load_relaxed(&l->of) == of ? l : NULL;
}

/* The calling thread's. */
HAK_INLINE struct lease *lease_of(const struct heap *of)
{
    return lease_by(hak_thread.heap, of);
}

/* What a block begins with that has been freed: in a lease its slab does not know it from one in use. */
HAK_INLINE uintptr_t leased_mark(const void *p)
{
    return (uintptr_t)p ^ hak_region.mark;
}

/* Of a block whose unit says WORD_EXPLICIT. One in use begins with zeros until the program writes there, and the key is secret. */
HAK_INLINE bool leased_says_free(const void *p)
{
    const uintptr_t *first = p;
    return *first == leased_mark(p);
}

/* NULL: there is none. */
HAK_INLINE void *leased_pop(struct leased *l)
{
    size_t kept = load_relaxed(&l->kept);
    if (HAK_UNLIKELY(kept == 0))
        return NULL;
    store_relaxed(&l->kept, kept - 1);
    uintptr_t *first = l->blocks[kept - 1];
    *first = 0; /* no mark any more */
    return first;
}

/* Whether the thread may use its leases, until lease_leave: a handler that has interrupted that, or a slow path, may not. */
HAK_INLINE bool lease_enter(void)
{
    if (HAK_UNLIKELY(hak_thread.leasing || hak_thread.depth != 0))
        return false;
    hak_thread.leasing = true;
    atomic_signal_fence(memory_order_seq_cst);
    return true;
}

HAK_INLINE void lease_leave(void)
{
    atomic_signal_fence(memory_order_seq_cst);
    hak_thread.leasing = false;
}

/* A block of the class that is in the thread's lease of that heap; NULL: none is. */
HAK_INLINE void *lease_pop(const struct heap *of, uint32_t class)
{
    if (!lease_enter())
        return NULL;
    struct lease *l = lease_of(of);
    void *p = HAK_LIKELY(l != NULL) ? leased_pop(&l->of_class[class]) : NULL;
    lease_leave();
    return p;
}

/* A block of the class, below FIRST_PAGED; NULL: no memory, or a lock cannot be had. `*zeroed`: it reads as zeros. */
void *lease_alloc(struct heap *of, uint32_t class, bool *zeroed);

/* A block whose unit said WORD_EXPLICIT, and which was that heap's, goes back. False: it is not any more. Ends the program if it
 * is known to be free. */
bool lease_free(struct heap *of, void *p);

/* The thread that has this heap ends. */
void leases_end(struct heap *own);

/* With the lock held: all that is in leases of the heap returns, and they are no heap's. */
void leases_take_back(struct heap *of);

/* Blocks of the class in all leases of a thread. Exact for it, at most a moment old for others. */
size_t leases_kept(const struct heap *own, uint32_t class);

/* With the lock held: how many blocks in leases of the heap, and their bytes. */
void leases_read(const struct heap *of, size_t *blocks, size_t *bytes);

/* In the child of a fork: the thread of the heap is gone, and its leases may be torn. */
void leases_forget(struct heap *h);

#endif
