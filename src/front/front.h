/* Front: the code every malloc and free runs. The inlined functions below are the only hot code
 * of the library; everything else is reached by a tail call when they cannot serve.
 *
 * Calls: heap, profile, big, mind, purge, pressure, live, os. Called by: api. */
#ifndef HAK_FRONT_H
#define HAK_FRONT_H

#include <string.h>

#include "heap/heap.h"

/* Requests that have been counted and frees the fast path cannot serve. Each sets errno to ENOMEM where it returns NULL. */
void *front_alloc_slow(size_t size);
void front_free_slow(void *p);
/* Ends the program if the size is more than the block has. */
void front_free_sized_slow(void *p, size_t size);

/* Zeroed memory, counted, that front_alloc_zeroed cannot give; aligned memory, whose alignment is a power of two. */
void *front_alloc_zeroed_slow(size_t size);
void *front_alloc_aligned(size_t alignment, size_t size);

/* What the calling thread's requests are for, until it says otherwise; 0: what their call stacks say. */
void front_name_site(uintptr_t site);

/* A block where another is to be replaced, in its explicit heap; NULL: it is in none. */
void *front_alloc_beside(struct heap *owner, size_t size);

/* What the C standard and glibc say of realloc(p, size), p and size not zero. */
void *front_realloc(void *p, size_t size);

/* Usable bytes of a live block; `what` names the caller in the message if it is none. */
size_t front_usable(const void *p, const char *what);

/* Usable bytes of the block that front_alloc_aligned(alignment, size) returns. */
size_t front_usable_for(size_t alignment, size_t size);

/* Gives back all the calling thread and the pool keep for reuse. Returns bytes. */
size_t front_trim(void);

/* Of all threads' slabs the pages on which no block lives; in bytes. */
size_t front_purge_slabs(void);

/* The live area of a fork's child is there from now on, with what the parent's said of the blocks that both have. */
void front_show_inherited(void);

/* At a normal end of the process: ends it otherwise if what was freed last was not to be freed. */
void front_verify(void);

/* Sets up what cannot be set up at link time. Runs as the library's constructor, or earlier. */
void front_init(void);

/* The same for the settings, once; earlier if the C library has started by then. */
void front_read_settings(void);

/* In the build `secure` a block that a signal handler frees waits instead of going back to where it came from, so a handler
 * may not take one from a magazine whose top is about to change: a fast path counts as a slow one there, which sends
 * handlers to other heaps. */
HAK_INLINE bool fast_path_enter(void)
{
    return !HAK_SECURE || thread_enter() == 1;
}

HAK_INLINE void fast_path_leave(void)
{
    if (HAK_SECURE)
        thread_leave();
}

/* Before the top moves the block has been read, as in magazine_pop. On x86-64 it is told where the two are best, or one would
 * be moved once more. */
HAK_INLINE void block_is_read(void **block, size_t *offset)
{
#if defined(__x86_64__)
    __asm__ volatile("" : "+a"(*block), "+d"(*offset) : : "memory");
#else
    (void)block, (void)offset;
    atomic_signal_fence(memory_order_seq_cst);
#endif
}

/* Takes the newest block of the magazine at this offset, unless it is empty. */
HAK_INLINE bool pop_newest(struct heap *h, size_t offset, void **p)
{
    void **top = magazine_at(h, offset)->top;
    if (HAK_UNLIKELY((uintptr_t)top >= (uintptr_t)magazine_again(h, &offset)->end))
        return false;
    void *block = *top;
    block_is_read(&block, &offset);
    magazine_set_top(magazine_at(h, offset), top + 1);
    *p = block;
    return true;
}

HAK_INLINE bool pop_at(struct heap *h, size_t offset, void **p)
{
    bool popped = fast_path_enter() && pop_newest(h, offset, p);
    fast_path_leave();
    return popped;
}

/* 16 instructions on x86-64: the countdown, a size that is served, the thread's heap, the magazine's top. `slow` is called with the size
 * when the countdown is over, the magazine is empty or the size has none in the heap's table. */
HAK_INLINE void *front_alloc_or(size_t size, void *(*slow)(size_t))
{
    size_t words = words_of(size);
    void *p = NULL;
    if (count_words(words) && words_are_served(words)) {
        struct heap *h = hak_thread.heap;
        if (HAK_LIKELY(pop_at(h, h->offset_of_words[words], &p)))
            return p;
    }
    return slow(size);
}

HAK_INLINE void *front_alloc(size_t size)
{
    return front_alloc_or(size, front_alloc_slow);
}

enum { CLEAR_SMALL_MAX = 64 };

/* Clears a small block, with lengths the compiler knows, so that nothing is called. What lies behind the
 * request up to a multiple of 16 bytes belongs to the block. */
HAK_INLINE void *clear_small(char *p, size_t size)
{
    if (size <= 8)
        return memset(p, 0, 8);
    char *last = p + ((size - 1) & ~(BLOCK_ALIGN - 1));
    memset(p, 0, BLOCK_ALIGN);
    memset(last, 0, BLOCK_ALIGN);
    if (size > 2 * BLOCK_ALIGN) {
        memset(p + BLOCK_ALIGN, 0, BLOCK_ALIGN);
        memset(last - BLOCK_ALIGN, 0, BLOCK_ALIGN);
    }
    return p;
}

/* Zeroed memory; in the build `secure` without the request's last word: a free of the block behind this one may look at
 * that at any time, and must not see it half cleared. */
HAK_INLINE void *front_alloc_zeroed(size_t size)
{
    size_t words = words_of(size);
    void *p = NULL;
    if (count_words(words) && !HAK_SECURE && size <= CLEAR_SMALL_MAX) {
        struct heap *h = hak_thread.heap;
        if (HAK_LIKELY(pop_at(h, h->offset_of_words[words], &p)))
            return clear_small(p, size);
    }
    return front_alloc_zeroed_slow(size);
}

/* Where a freed block goes. */
struct free_slot {
    struct heap *heap;
    size_t offset; /* of the magazine in it */
    void **top;    /* the slot is the one before */
};

/* In the magazine at this offset. The newest block is not taken again, so that it is looked at with care: the double free
 * that happens most. */
HAK_INLINE bool find_slot_at(struct heap *h, size_t offset, const void *p, struct free_slot *r)
{
    r->heap = h;
    r->offset = offset;
    r->top = magazine_at(h, r->offset)->top;
    return HAK_LIKELY((uintptr_t)r->top > (uintptr_t)magazine_again(h, &r->offset)->start) &&
           HAK_LIKELY(*r->top != p);
}

/* The unit's word names the magazine of the block's class, and into that of this thread it goes, whoever's block it is:
 * the thread that has it in its cache is the best one to use it next, and asking would cost a branch that nobody can
 * predict where threads exchange blocks. A tag (large block, no block) names one without room, and so does every word
 * before the thread has a heap. */
HAK_INLINE bool find_slot_below(size_t units, const void *p, struct free_slot *r)
{
    struct heap *h = hak_thread.heap;
    size_t unit = unit_of(p);
    if (HAK_UNLIKELY(unit >= units))
        return false;
    return find_slot_at(h, unit_word_low(unit), p, r);
}

HAK_INLINE bool find_slot(const void *p, struct free_slot *r)
{
    return find_slot_below(hak_region.units, p, r);
}

HAK_INLINE void fill_slot(struct free_slot *r, void *p)
{
    r->top[-1] = p;
    magazine_set_top(magazine_again(r->heap, &r->offset), r->top - 1);
}

/* 18 instructions. */
HAK_INLINE void front_free(void *p)
{
    struct free_slot r;
    bool found = fast_path_enter() && find_slot(p, &r);
    if (HAK_LIKELY(found))
        fill_slot(&r, p);
    fast_path_leave();
    if (HAK_UNLIKELY(!found))
        front_free_slow(p);
}

HAK_INLINE bool fill_slot_of_size(size_t units, void *p, size_t size)
{
    struct free_slot r;
    if (!find_slot_below(units, p, &r) ||
        HAK_UNLIKELY(size > magazine_again(r.heap, &r.offset)->size))
        return false;
    fill_slot(&r, p);
    return true;
}

/* 21 instructions: as front_free, and a look whether the block is that large. A smaller size passes: programs that delete an
 * object by its base are many. docs/decisions/0053 */
HAK_INLINE void front_free_sized(void *p, size_t size)
{
    if (HAK_UNLIKELY(!fill_slot_of_size(hak_region.units, p, size)))
        front_free_sized_slow(p, size);
}

/* The same, without a size with 0, where it is this library that operators delete free for: false if it may not be, and
 * where the other would go a slow way. Whether the program has replaced an operator costs nothing so: docs/decisions/0099 */
HAK_INLINE bool front_delete(void *p, size_t size)
{
    if (HAK_SECURE || HAK_CHECKED)
        return false;
    return fill_slot_of_size(hak_region.deletable, p, size);
}

enum { CREEP_SHARE = 8, HEADROOM_SHARE = 4 }; /* of the block: docs/decisions/0013 */

/* What to allocate for a block that has outgrown its class by little: it is likely to do so again, and
 * classes lie so close to each other that nearly every step would move it. */
HAK_INLINE size_t with_headroom(size_t old, size_t size)
{
    bool creeps = size > old && size - old <= old / CREEP_SHARE && size <= SLAB_MAX;
    return creeps && !HAK_CHECKED ? size + old / HEADROOM_SHARE : size;
}

#endif
