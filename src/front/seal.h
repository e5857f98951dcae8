/* The last word of a block in the build `secure`, what it says and how it is sealed, and what is filled between the
 * program's bytes and it. No call but of what is given; nothing is known of heaps.
 *
 * Called by: secure. */
#ifndef HAK_SEAL_H
#define HAK_SEAL_H

#include <string.h>

#include "front/secure.h"

enum {
    WORD = SECURE_WORD,
    FILLING = 0xA5 /* behind the program's bytes */
};

/* ---- the last word ---- */

/* A block's states, as what else the word is exclusive-or: one that says one of them cannot be made to say the other by
 * changing some of its bytes. The second is 2^64 / golden ratio. */
#define LIVE UINT64_C(0)
#define FREE UINT64_C(0x9E3779B97F4A7C15)

/* Below the size. */
enum flags {
    GUARDED = 1, /* a large block with a guard page */
    WHOLE = 2,   /* a free one that was filled to its end */
    FLAG_BITS = 2
};

/* Of a place. Multiplier: a prime of xxHash (XXH_PRIME64_2), which spreads each bit over those above it. */
HAK_INLINE uint64_t seal_of(const _Atomic uint64_t *place)
{
    uint64_t n = ((uintptr_t)place ^ hak_region.key) * UINT64_C(0xC2B2AE3D27D4EB4F);
    return n ^ n >> 32;
}

/* The lowest byte is filling: the one that is overwritten most, and most often with zero. */
HAK_INLINE void say(_Atomic uint64_t *place, uint64_t seal, uint64_t state, uint64_t said)
{
    store_relaxed(place, ((said << 8 ^ seal ^ state) & ~(uint64_t)UINT8_MAX) | FILLING);
}

HAK_INLINE uint64_t said_with(size_t size, enum flags flags)
{
    return (uint64_t)size << FLAG_BITS | flags;
}

/* Whether a word says that a block of at most so many bytes is in that state; `*said`: size and flags then. */
HAK_INLINE bool says(uint64_t word, uint64_t seal, uint64_t state, size_t most, uint64_t *said)
{
    *said = (word ^ seal ^ state) >> 8;
    return (*said < (uint64_t)(most + 1) << FLAG_BITS) & ((word & UINT8_MAX) == FILLING);
}

/* The same of the word itself, for rare use. */
static inline bool place_says(const _Atomic uint64_t *place, uint64_t state, const void *block,
                              uint64_t *said)
{
    return says(load_relaxed(place), seal_of(place), state, (uintptr_t)place - (uintptr_t)block,
                said);
}

HAK_INLINE bool is_large(size_t total)
{
    return total > UNIT_SIZE;
}

/* Bytes of the block up to its guard page. */
HAK_INLINE size_t inner(size_t total)
{
    return is_large(total) ? (total & ~(hak_region.page_size - 1)) - hak_region.page_size : total;
}

HAK_INLINE _Atomic uint64_t *word_before(const void *end)
{
    return (_Atomic uint64_t *)(uintptr_t)end - 1;
}

HAK_INLINE _Atomic uint64_t *last_word(const void *p, size_t total)
{
    return word_before((const char *)p + inner(total));
}

/* ---- what is filled behind the program's bytes ---- */

#define FILLING_WORD (UINT64_MAX / UINT8_MAX * FILLING)

HAK_INLINE uint64_t load_word(const char *at)
{
    uint64_t word;
    memcpy(&word, at, WORD);
    return word;
}

/* Of n bytes before it, those of a word that are filling. Here and below there is no branch on what differs from block to
 * block: nobody could predict it. */
HAK_INLINE uint64_t mask_of_last(size_t n)
{
    uint32_t half = 32 - 4 * (uint32_t)least_of(n, WORD);
    return UINT64_MAX << half << half;
}

/* Of the bytes between the program's and the last word the first eight and the last: what runs over the end meets the
 * first ones. */
struct behind {
    char *first, *last;
    uint64_t first_mask, last_mask;
};

HAK_INLINE struct behind behind(const char *p, size_t size, const _Atomic uint64_t *last)
{
    char *end = (char *)(uintptr_t)last - WORD;
    size_t n = (size_t)((const char *)last - p) - size;
    uint64_t mask = mask_of_last(n);
    return (struct behind){n > WORD ? (char *)(uintptr_t)p + size : end, end,
                           n > WORD ? UINT64_MAX : mask, mask};
}

HAK_INLINE void store_masked(char *at, uint64_t mask)
{
    uint64_t word = (load_word(at) & ~mask) | (FILLING_WORD & mask);
    memcpy(at, &word, WORD);
}

HAK_INLINE void fill_behind(const char *p, size_t size, const _Atomic uint64_t *last)
{
    struct behind b = behind(p, size, last);
    store_masked(b.last, b.last_mask);
    store_masked(b.first, b.first_mask);
}

HAK_INLINE bool is_filled_behind(const char *p, size_t size, const _Atomic uint64_t *last)
{
    struct behind b = behind(p, size, last);
    return (((load_word(b.last) ^ FILLING_WORD) & b.last_mask) |
            ((load_word(b.first) ^ FILLING_WORD) & b.first_mask)) == 0;
}

#endif
