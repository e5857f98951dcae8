/* Explicit heaps: heaps that the program makes, and whose blocks it may end all at once. No thread has one: whoever works
 * on it takes its lock. And no magazine has one of its blocks, because who took that from there would not know when it ends: the units of
 * its slabs have a tag for a word, which every free looks at, and in the lines of its larger blocks, which are runs or big
 * ones, it is the owner. What a thread needs without the lock it has in a lease (lease.h).
 *
 *   lease_alloc   -> the thread's lease -> (empty) explicit_take -> slab list -> units_take
 *   lease_free    -> the thread's lease -> (full, or none) explicit_put -> slab -> (empty slab) units_give
 *   explicit_add     a run or big block joins           explicit_remove  it leaves, for whoever frees it
 *   explicit_to_vacant, explicit_give_blocks            it ends (explicit_end.c)
 *
 * A handler that has interrupted the lock's holder gets no block, and what it frees goes into the inbox, which is opened
 * with the next operation.
 *
 * Calls: heap, registry, runs, big. Called by: lease, front outside of its slow paths, remote. */
#ifndef HAK_EXPLICIT_H
#define HAK_EXPLICIT_H

#include "heap/heap.h"

/* The explicit heap at that address, which is the program's word; NULL: there is none. One that a fork has torn gives no
 * block any more. */
struct heap *explicit_at(void *p);

/* The one a live block belongs to; NULL: it is none's. `word`: its unit's. */
HAK_INLINE struct heap *explicit_owner(const void *p, uintptr_t word)
{
    if (word > WORD_TAG_MAX || word == WORD_SAMPLED)
        return NULL;
    size_t unit = unit_of(p);
    const struct slab *s = word == WORD_EXPLICIT ? slab_of_unit(unit) : slab_at(unit);
    return load_relaxed(&s->heap);
}

/* Takes its lock, and what came by the inbox, within a slow path that explicit_leave ends. False: it cannot be had. */
bool explicit_enter(struct heap *h);
void explicit_leave(struct heap *h);

/* With the lock held: up to `wanted` blocks of the class, below FIRST_PAGED, from one slab. `*zeroed`: they read as zeros. */
uint32_t explicit_take(struct heap *h, uint32_t class, void **out, uint32_t wanted, bool *zeroed);
/* With the lock held: n blocks of slabs of the class return. Ends the program if one is not in use. */
void explicit_put(struct heap *h, uint32_t class, void *const *blocks, size_t n);

/* The block, which a slab has, is the sampler's from now on: its free tells the sampler. */
void explicit_note_sampled(struct heap *h, void *p);

/* A block of the slab is about to be freed: the sampler is told, if it knows it. Whether it does. Before the lock is taken, which a handler
 * may wait for that has interrupted the sampler. */
bool explicit_forget_sample(const struct slab *s, const void *p);
/* With the lock held: it was one of those that the slab counts. */
void explicit_count_down(struct slab *s);

/* A run or big block becomes the heap's. False: the lock cannot be had. */
bool explicit_add(struct heap *h, void *p);
/* It is nobody's from now on. False: the lock cannot be had. */
bool explicit_remove(struct heap *h, void *p);
/* The same with the lock held. */
void explicit_unlink(struct heap *h, struct slab *s);

/* A block that cannot be freed because of the lock may be with the next operation. */
HAK_INLINE void explicit_defer(struct heap *h, void *p)
{
    size_t unit = unit_of(p);
    size_t bytes =
        unit_word(unit) == WORD_EXPLICIT ? hak_classes[slab_of_unit(unit)->class].size : 0;
    if (load_relaxed(&h->state) != HEAP_LOST) /* else nobody can have it back */
        inbox_push(h, p, bytes);              /* as is taken off when the inbox is opened */
}
/* With the lock held: such a block. False: it is none of the heap's. */
bool explicit_receive(struct heap *h, void *p, uintptr_t word);

/* ---- explicit_end.c ---- */

struct explicit_numbers {
    size_t live_bytes, live_blocks; /* by the size of their classes */
    size_t held_bytes;              /* of its slabs and larger blocks */
};
void explicit_read(struct heap *h, struct explicit_numbers *out);

/* A block that is to be freed before the heap ends; NULL: none is. */
void *explicit_next_to_free(struct heap *h);

/* It ends, and its blocks live on as the calling thread's, or as an ended one's. False: it stays, because there is no memory for a
 * heap that would have them, or a lock cannot be had. */
bool explicit_give_blocks(struct heap *h);
/* It ends with all its blocks in slabs; of others it has none. */
void explicit_to_vacant(struct heap *h);

#endif
