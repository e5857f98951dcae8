/* Sampler: which allocations are looked at, and what is known of those.
 *
 * Points lie on the line of all bytes a thread asks for, at random, one per `interval` bytes on average (a
 * Poisson process); a block on which one falls is a sample. So a block of n bytes is one with probability
 * 1 - exp(-n / interval), and stands for n bytes divided by that: sums over samples are unbiased, whatever
 * the sizes and whoever allocates between two samples. The fast path counts down the bytes to the next
 * point and takes the slow path below zero.
 *
 *   malloc -> countdown below zero -> sampled_alloc -> arena, or guarded (up to 64 KiB)
 *                                  -> sampled_note, for blocks that are pages
 *   free   -> unit's word is a tag -> sampled_free; of pages: sampled_forget
 *
 * Sampled blocks of slabs' sizes lie in units of their own (arena.h, guarded.h), whose word is a tag: that is how
 * free finds them without a test. Everything here is under one lock, and samples are few.
 *
 * Calls: live, super, slab (classes), os. Called by: heap, front, control. */
#ifndef HAK_SAMPLER_H
#define HAK_SAMPLER_H

#include "live/live.h"
#include "os/lock.h"
#include "profile/past.h"

/* A thread's, in its heap. Its thread alone. */
struct sampler {
    int64_t left;      /* bytes to the next point; below zero: passed. At this place for inline.h */
    uint64_t interval; /* of which `left` was drawn */
    uint64_t random;
};

/* A thread begins: draws its first point. */
void sampler_start(struct sampler *s);

/* Counts a request that the fast path has not counted; whether it is a sample. */
HAK_INLINE bool sampler_counts(struct sampler *s, size_t size)
{
    if (!HAK_INSIGHT)
        return false;
    if (HAK_LIKELY(s->left >= 0))
        s->left -= (int64_t)size;
    return HAK_UNLIKELY(s->left < 0);
}

/* Blocks of up to SMALL_MAX bytes may from now on be freed by code that does not look what they are: of those
 * only what was allocated is counted, and not what lives. */
void sampler_lose_sight(void);

/* A block for a request of the class that is a sample; NULL: it is to be had as any other. `*zeroed`: it
 * reads as zeros. Draws the next point in any case. */
void *sampled_alloc(struct sampler *s, size_t size, uint32_t class, bool *zeroed);

/* The block, of whole pages, is a sample: its free is to be followed by sampled_forget. False: it is not
 * recorded. Draws the next point. */
bool sampled_note(struct sampler *s, const void *p, size_t size, size_t usable);
void sampled_forget(const void *p);

/* While a block of pages is resized, which may move it and give its address to another, its record stands under none
 * (0: it has no record). Then the record ends, or the block is as it was and has it again. Whether it is a sample. */
uint32_t sampled_detach(const void *p);
bool sampled_settle(uint32_t detached, bool as_it_was);

/* Frees a sampled block of a slab's size; false: there is none at p. */
bool sampled_free(void *p);

/* Usable bytes of such a block that lives, 0 if there is none at p. */
size_t sampled_usable(const void *p);

/* What such blocks that live add up to: their number and usable bytes. */
void sampled_live(size_t *blocks, size_t *bytes);

/* Memory has become tight: the sites remember what lives now. */
void sampler_keep_tight(void);

/* What is known of a sampled block in which the address lies, live or freed not long ago; of a guarded one also if it
 * lies beside it. */
struct block_story {
    uintptr_t address;
    uint64_t size; /* as requested */
    bool is_freed;
    struct trace allocated, freed;
};

/* False: nothing is, or another thread has the lock. For the crash line. */
bool sampled_story(uintptr_t at, struct block_story *out);

/* In the child of a fork: what the parent sampled goes into the new area. */
void sampler_carry_over(struct live_area *a);

/* In the child of a fork: a thread that is gone had the lock, and what it guards may be half changed. */
void sampler_give_up(void);

struct lock *sampler_lock(void);

#endif
