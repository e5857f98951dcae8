/* Sampler: which allocations are looked at, and what is known of those.
 *
 * Points lie on the line of all words of 8 bytes a thread asks for, at random, one per `interval` bytes on average
 * (a Poisson process); a block on which one falls is a sample. So a block of n bytes in whole words is one with
 * probability 1 - exp(-n / interval), and stands for what was asked for divided by that: sums over samples are
 * unbiased, whatever the sizes and whoever allocates between two samples. The fast path counts down the words to the
 * next point, but no more than LEFT_MOST at once, and takes the slow path below zero.
 *
 *   malloc -> countdown below zero -> words go on: as any other block
 *                                  -> a point passed -> sampled_alloc -> arena, or guarded (up to 64 KiB)
 *                                                    -> sampled_note, for blocks that are pages
 *   free   -> unit's word is a tag -> sampled_free; of pages: sampled_forget
 *
 * Sampled blocks of slabs' sizes lie in units of their own (arena.h, guarded.h), whose word is a tag: that is how
 * free finds them without a test. Everything here is under one lock, and samples are few.
 *
 * Calls: live, slab (classes), purge, os. Called by: heap (and by way of heap.h in front), control. */
#ifndef HAK_SAMPLER_H
#define HAK_SAMPLER_H

#include "live/live.h"
#include "os/lock.h"
#include "os/thread.h"
#include "profile/past.h"

/* Words that the fast path may count down before it looks here: how many is the sampler's to know, between these (all bits below
 * one, so that doubling ends by itself). And those of the largest request that it may serve. */
enum { LEFT_LEAST = (1 << 14) - 1, LEFT_MOST = (1 << 18) - 1, SERVED_MOST = 4096 };

/* A thread's, in its heap. Its thread alone. */
struct sampler {
    int64_t rest; /* words to the next point beyond those in hak_thread.left; never below zero */
    uint64_t interval; /* of which the distance to it was drawn */
    uint64_t random;
    uintptr_t site;  /* that the caller of malloc has named; 0: none */
    int64_t at_once; /* words of the next countdown, LEFT_LEAST to LEFT_MOST */
};

/* A thread begins: draws its first point, for the request in which it does so as well. */
void sampler_start(struct sampler *s);

/* What a request counts for, which is what its fast path does first. 0 also for sizes so large that it wraps. */
HAK_INLINE size_t words_of(size_t size)
{
    return (size + 7) / 8;
}

/* False: sampler_goes_on is to say how to go on. The countdown is read once: what words_are_served leans on must be of this request, and
 * a handler may begin another one. */
HAK_INLINE bool count_words(size_t words)
{
    if (!HAK_INSIGHT)
        return true;
    int64_t left = hak_thread.left - (int64_t)words;
    hak_thread.left = left;
    return HAK_LIKELY(left >= 0);
}

/* Whether the fast path may serve a request that has been counted. What the countdown lets pass is no more than LEFT_MOST, so half of the
 * register tells, in a byte less: the fast path of malloc fits a line of the cache. */
HAK_INLINE bool words_are_served(size_t words)
{
    return HAK_LIKELY((HAK_INSIGHT ? (uint32_t)words : words) <= SERVED_MOST);
}

/* What has been counted by a thread without a heap, or a handler, is nobody's: neither does the next request stand for it, nor do
 * many of them make the countdown wrap. */
HAK_INLINE void forget_words(void)
{
    if (hak_thread.left < 0)
        hak_thread.left = 0;
}

/* `words` from here to the next point, of which the fast path counts down `at_once` at most. A handler between the two finds some too
 * many or too few, once. */
HAK_INLINE void sampler_let(struct sampler *s, int64_t at_once, int64_t words)
{
    if (!HAK_INSIGHT)
        return;
    hak_thread.left = words < at_once ? words : at_once;
    s->rest = words - hak_thread.left;
}

/* Whether the countdown is over, if it is the thread's own. */
HAK_INLINE bool sampler_is_over(void)
{
    return HAK_INSIGHT && hak_thread.left < 0;
}

/* The countdown that has just begun is over after so many words. */
HAK_INLINE void sampler_shorten(struct sampler *s, int64_t words)
{
    if (hak_thread.left > words)
        sampler_let(s, words, s->rest + hak_thread.left);
}

/* Of a request that has been counted: whether no point has been passed. Otherwise it is a sample, until the next point
 * is drawn. */
HAK_INLINE bool sampler_goes_on(struct sampler *s)
{
    if (!HAK_INSIGHT || HAK_LIKELY(hak_thread.left >= 0))
        return true;
    int64_t words = s->rest + hak_thread.left;
    if (HAK_UNLIKELY(words < 0))
        return false;
    sampler_let(s, s->at_once, words);
    return true;
}

/* Whether a request for so many words, which has not been counted, would be a sample. */
HAK_INLINE bool sampler_is_due(const struct sampler *s, size_t words)
{
    return HAK_INSIGHT && hak_thread.left + s->rest < (int64_t)words;
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

/* The same of a block that may be one. Whether it was. `at_once`: by nobody, of whom there is a trace. */
bool sampled_forget_if(const void *p, bool at_once);

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

/* False: nothing is, or another thread has the lock. For the crash line (story.c). */
bool sampled_story(uintptr_t at, struct block_story *out);

/* In the child of a fork: what the parent sampled goes into the new area. */
void sampler_carry_over(struct live_area *a);

/* In the child of a fork: a thread that is gone had the lock, and what it guards may be half changed. */
void sampler_give_up(void);

struct lock *sampler_lock(void);

#endif
