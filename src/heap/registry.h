/* The registry: every heap there is, those whose threads have ended, and what threads do with each
 * other's. Locks are taken in this order: own heap, registry, (tried only, but for a new one's) other heaps, region. */
#ifndef HAK_REGISTRY_H
#define HAK_REGISTRY_H

#include "heap/heap.h"

/* For whoever forks, as those of the layers below. */
struct lock *registry_lock(void);

/* A heap for the calling thread: an orphan with all it holds, or a new one. NULL: no memory. It is on its way
 * (`passing`) until the caller has it in hak_thread.heap. */
struct heap *registry_attach(void);

/* The calling thread ends: its magazines and outboxes go back, its heap becomes an orphan. It is on its way
 * until it is on the list. */
void registry_abandon(struct heap *h);

/* Some heap, locked, for a single operation of a thread that cannot use its own. */
struct heap *registry_borrow(void);

enum { SHARED_HEAPS = 8 /* so many threads may be at them at a time */ };
extern _Atomic(struct heap *) hak_shared_heaps[SHARED_HEAPS] __attribute__((visibility("hidden")));
/* One of them, from 0 on; NULL: not made yet, and the next ones are not either. */
HAK_INLINE struct heap *registry_shared(int i)
{
    return load_acquire(&hak_shared_heaps[i]); /* pairs with give_place */
}
/* Any of them, locked; NULL: others are at all of them, or no memory. With the calling thread's own lock held. */
struct heap *registry_take_shared(void);

/* A heap for the program, with nothing in it; NULL: no memory. */
struct heap *registry_take_explicit(void);
/* Such a heap, locked, of which no block is in use, is released. */
void registry_give_explicit(struct heap *h);

/* With both locks held: a slab that is on no list becomes another heap's. */
void slab_move(struct slab *s, struct heap *from, struct heap *to);
/* The same of one that is listed. It is on no list then. */
void slab_adopt(struct slab *s, struct heap *from, struct heap *to);

/* Stage 1: a slab with free blocks of the class out of an orphan, now h's; not on a list yet.
 * NULL: there is none. With h's lock held. */
struct slab *registry_adopt_slab(struct heap *h, uint32_t class);

/* Every heap but the calling thread's gives back what it keeps, unless somebody works on it: of an ended thread's
 * heap that includes magazines, which of others only their threads may touch. */
void registry_trim(void);

/* The pages of all heaps' slabs on which no block lives, but of heaps that are at work at this moment; in bytes. */
size_t registry_purge_slabs(void);

/* An orphan has a slab of the class listed. With its lock held. */
void registry_note_orphaned(uint32_t class);

/* The heaps one by one, by `all_next`, from the newest on; NULL: there is none. Lock-free; the list only grows. */
struct heap *registry_first(void);
/* How many of them threads have, at least 1. */
uint32_t registry_live_heaps(void);
/* Changed by adding. More than MANY_HEAPS are so many that what each keeps for itself adds up (shared.h). */
extern _Atomic uint32_t hak_live_heaps __attribute__((visibility("hidden")));
enum { MANY_HEAPS = 8 };
/* Calls `visit` for every heap. */
void registry_each(void (*visit)(struct heap *h, void *context), void *context);

/* In the child of a fork. Every heap of which has_no_thread says so, which is called once for each, is an orphan now, or
 * vacant still. */
void registry_restart(bool (*has_no_thread)(struct heap *h));

#endif
