/* What a block is filled with while it waits in the build `secure`, all of it or where it begins and ends. No call but of
 * what is given.
 *
 * Called by: secure. */
#ifndef HAK_FREED_H
#define HAK_FREED_H

#include "front/seal.h"

enum { FREED = 0xDF }; /* as a pointer it is no address */

#define FREED_WORD (UINT64_MAX / UINT8_MAX * FREED)

typedef uint64_t pair __attribute__((vector_size(2 * WORD), may_alias));
static const pair freed = {FREED_WORD, FREED_WORD};

/* Unaligned, for the last one of a block whose bytes before its last word are an odd number of words. */
HAK_INLINE void store_freed(char *at)
{
    memcpy(at, &freed, sizeof freed);
}

HAK_INLINE pair difference(const char *at)
{
    pair is;
    memcpy(&is, at, sizeof is);
    return is ^ freed;
}

/* The first two pairs and the last one, of n bytes, at least three words. */
HAK_INLINE void fill_some(char *p, size_t n)
{
    store_freed(p);
    store_freed(p + least_of(n - sizeof(pair), sizeof(pair)));
    store_freed(p + n - sizeof(pair));
}

HAK_INLINE bool is_filled_some(const char *p, size_t n)
{
    pair all = difference(p) | difference(p + least_of(n - sizeof(pair), sizeof(pair))) |
               difference(p + n - sizeof(pair));
    return (all[0] | all[1]) == 0;
}

static HAK_NOINLINE void fill_to(char *p, const char *end)
{
    memset(p, FREED, (size_t)(end - p));
}

static HAK_NOINLINE bool is_filled_to(const char *p, const char *end)
{
    uint64_t all = 0;
    for (; p < end; p += WORD)
        all |= load_word(p) ^ FREED_WORD;
    return all == 0;
}

enum { FILLED_MOST = 3 * sizeof(pair) }; /* unless as a whole */

HAK_INLINE void fill_freed(char *p, const char *last, bool as_a_whole)
{
    size_t n = (size_t)(last - p);
    if (HAK_UNLIKELY(n == WORD))
        memset(p, FREED, WORD);
    else
        fill_some(p, n);
    if (as_a_whole && HAK_UNLIKELY(n > FILLED_MOST))
        fill_to(p, last);
}

HAK_INLINE bool is_filled_freed(const char *p, const char *last, bool as_a_whole)
{
    size_t n = (size_t)(last - p);
    bool is = HAK_UNLIKELY(n == WORD) ? load_word(p) == FREED_WORD : is_filled_some(p, n);
    return is && (!as_a_whole || HAK_LIKELY(n <= FILLED_MOST) || is_filled_to(p, last));
}

#endif
