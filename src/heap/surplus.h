/* Surplus slabs. A thread's magazines keep blocks of other threads as well as its own, and hand them out again. So where threads hand blocks
 * to each other, one comes to live on another's slabs, and its own lie half empty: each thread's heap grows to the most that it has
 * ever given, and all together to far more than lives. A heap that needs a slab therefore takes one out of another thread's that has
 * many of its blocks free, before it asks the pool (docs/decisions/0141). Orphans come before that (registry_adopt_slab): they may lose
 * their last slab.
 *
 * A slab changes its heap under both heaps' locks, as an orphan's does. The thread that it is taken from may have read a unit's word before,
 * and take the block for its own: under its lock it looks again (flush_own), and what it has noted as its own goes through
 * `receive`, which looks as well. Blocks on their way follow the slab, by one more inbox for each time that it moves meanwhile.
 *
 * Calls: registry, heap. Called by: heap, refill; with the lock held of the heap that is worked on. */
#ifndef HAK_SURPLUS_H
#define HAK_SURPLUS_H

#include "heap/registry.h"

/* A hint, one bit for each class: a heap may have a surplus of it. Set by whoever has one, cleared by whoever finds none among those he
 * looks at; one that is not found then, or is at work, says so again at its next refill or flush. What a thread that sleeps has is found by chance. */
extern _Atomic uint64_t hak_surplus[CLASS_WORDS] __attribute__((visibility("hidden")));

HAK_INLINE bool surplus_is_noted(uint32_t class)
{
    return (load_relaxed(&hak_surplus[class / 64]) & class_bit(class)) != 0;
}

/* Tells the others, if there are any, whether the heap, a thread's, has a surplus of the class. */
void surplus_note_if_any(const struct heap *h, uint32_t class);
HAK_INLINE void surplus_note(const struct heap *h, uint32_t class)
{
    if (HAK_UNLIKELY(load_relaxed(&hak_live_heaps) > 1))
        surplus_note_if_any(h, class);
}
/* The same of one that no thread has, which is not looked at before it is asked: it may have one. */
void surplus_note_shared(uint32_t class);

/* A slab with free blocks of the class, now h's; not on a list yet. NULL: nobody has one to spare. */
struct slab *surplus_look_around(struct heap *h, uint32_t class);
HAK_INLINE struct slab *surplus_take(struct heap *h, uint32_t class)
{
    return HAK_UNLIKELY(surplus_is_noted(class)) ? surplus_look_around(h, class) : NULL;
}

#endif
