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
 * changing some of its bytes. The second is 2^64 / golden ratio, but for its lowest byte. */
#define LIVE UINT64_C(0)
#define FREE UINT64_C(0x9E3779B97F4A7C00)

/* Below the size. */
enum flags {
    GUARDED = 1, /* a large block with a guard page */
    WHOLE = 2,   /* a free one that was filled to its end */
    FLAG_BITS = 2
};

/* Of a place. Multiplier: a prime of xxHash (XXH_PRIME64_2), which spreads each bit over those above it; so the bytes are
 * turned around, for the size stands in the lower ones. The lowest byte is filling, and so it is in the sealed word: it is
 * the one that is overwritten most, and most often with zero. */
HAK_INLINE uint64_t seal_of(const _Atomic uint64_t *place)
{
    uint64_t n = ((uintptr_t)place ^ hak_region.key) * UINT64_C(0xC2B2AE3D27D4EB4F);
    return (__builtin_bswap64(n) & ~(uint64_t)UINT8_MAX) | FILLING;
}

HAK_INLINE void say(_Atomic uint64_t *place, uint64_t seal, uint64_t state, uint64_t said)
{
    store_relaxed(place, said << 8 ^ seal ^ state);
}

/* What it says in that state. A lowest byte that is not filling makes it larger than anything that can be said. */
HAK_INLINE uint64_t said_by(uint64_t word, uint64_t seal, uint64_t state)
{
    uint64_t open = word ^ seal ^ state;
    return open >> 8 | open << 56;
}

HAK_INLINE uint64_t said_with(size_t size, enum flags flags)
{
    return (uint64_t)size << FLAG_BITS | flags;
}

/* Whether a word says that a block of at most so many bytes is in that state; `*said`: size and flags then. */
HAK_INLINE bool says(uint64_t word, uint64_t seal, uint64_t state, size_t most, uint64_t *said)
{
    *said = said_by(word, seal, state);
    return *said < (uint64_t)(most + 1) << FLAG_BITS;
}

/* Whether it says either. */
HAK_INLINE bool says_live_or_free(uint64_t word, uint64_t seal, size_t most)
{
    uint64_t live = said_by(word, seal, LIVE), is_free = said_by(word, seal, FREE);
    return least_of(live, is_free) < (uint64_t)(most + 1) << FLAG_BITS;
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

HAK_INLINE void store_word(char *at, uint64_t word)
{
    memcpy(at, &word, WORD);
}

/* Of the bytes between the program's and the last word the first eight and the last are filled: what runs over the end
 * meets the first ones. If there are fewer, these two are the word in front of the last one, and the program's last
 * bytes are filled as well. Here and below there is no branch on what differs from block to block: nobody could predict
 * it. */
HAK_INLINE void fill_behind(char *p, size_t size, const _Atomic uint64_t *last)
{
    size_t end = (size_t)((const char *)last - p) - WORD;
    store_word(p + least_of(size, end), FILLING_WORD);
    store_word(p + end, FILLING_WORD);
}

/* How far a word is shifted twice to lose all but its first n bytes. */
HAK_INLINE uint32_t half_without(size_t n)
{
    return 32 - 4 * (uint32_t)least_of(n, WORD);
}

/* The same, and the program's bytes stay what they are. */
HAK_INLINE void fill_behind_kept(char *p, size_t size, const _Atomic uint64_t *last)
{
    char *end = (char *)(uintptr_t)last - WORD;
    uint32_t half = half_without((size_t)((const char *)last - p) - size);
    uint64_t mask = UINT64_MAX << half << half, kept = load_word(end) & ~mask;
    fill_behind(p, size, last);
    store_word(end, kept | (FILLING_WORD & mask));
}

/* What is loaded may reach into the last word; that is shifted out. */
HAK_INLINE bool is_filled_behind(const char *p, size_t size, const _Atomic uint64_t *last)
{
    size_t all = (size_t)((const char *)last - p), n = all - size;
    uint32_t half = half_without(n);
    uint64_t first = load_word(p + size), end = load_word(p + all - least_of(n, WORD));
    return ((first ^ FILLING_WORD) | (end ^ FILLING_WORD)) << half << half == 0;
}

#endif
