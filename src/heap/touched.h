/* How much of their blocks of pages programs touch. Buffers are seldom full, tables sparse. Where such a block goes back to the
 * pages and comes back cut otherwise, other pages of it are touched each time, until all are. So where little is touched, a thread
 * keeps the blocks it has, more of them than else, and takes fresh pages for others (paged.h; docs/decisions/0134).
 *
 * It is seen in blocks made of fresh pages: what is there of them was touched. Of some that are freed the kernel is asked. Where
 * no such block is left nothing is seen any more, but neither does the process grow.
 *
 * With the lock of the caller's heap held. Calls: pages, os. Called by: paged. */
#ifndef HAK_TOUCHED_H
#define HAK_TOUCHED_H

#include "heap/heap.h"

enum {
    TOUCHED_WHOLE = 256,
    TOUCHED_LITTLE = 3, /* one page in so many or less: so many bytes may be kept for one */
    LOOK_EVERY = 32,    /* a heap looks at one block freed of so many, ... */
    LOOK_FRESH = 8      /* ... and one for so many that are made of fresh pages */
};

/* Of TOUCHED_WHOLE, what is not touched of a block. Relaxed: a guess, which publishes nothing else. */
extern _Atomic uint32_t hak_untouched __attribute__((visibility("hidden")));

HAK_INLINE bool touched_little(void)
{
    return load_relaxed(&hak_untouched) >= TOUCHED_WHOLE - TOUCHED_WHOLE / TOUCHED_LITTLE;
}

/* The heap has taken fresh pages for a block. If the program uses more of its blocks than before, that is why. */
HAK_INLINE void touched_note_fresh(struct heap *h)
{
    h->looks_owed += LOOK_EVERY / LOOK_FRESH;
}

/* The block was freed. A signal handler may have taken it since: then it is looked at all the same. */
void touched_note_freed(struct heap *h, void *p);

#endif
