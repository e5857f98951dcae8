/* Where a thread's freed blocks wait in the build `secure` (front/secure.c). Its thread alone; of an ended thread's
 * heap whoever holds its lock, and then the thread that takes it over. */
#ifndef HAK_WAITING_H
#define HAK_WAITING_H

#include "base/base.h"

#if HAK_SECURE

/* Rooms, each of two halves of so many places, powers of two. */
enum {
    WAITING_SMALL = 256, /* of blocks up to SMALL_MAX bytes */
    WAITING_MIDDLE = 16, /* up to a unit */
    WAITING_LARGE = 16,  /* that had a guard page: without their pages, and not to be accessed */
    MIDDLE_AT = 2 * WAITING_SMALL,
    LARGE_AT = MIDDLE_AT + 2 * WAITING_MIDDLE,
    WAITING_PLACES = LARGE_AT + 2 * WAITING_LARGE
};

struct room {
    uint32_t turn; /* the place in its first half that is next */
};

struct waiting {
    uintptr_t places[WAITING_PLACES]; /* a block's address and class each; 0: none */
    struct room small, middle, large;
    bool pays_back;  /* no block is filled as a whole until half the debt is paid */
    uint64_t random; /* 0: not begun */
    size_t debt;     /* bytes filled beyond what is always filled, less what was paid back */
};

/* No address is that high: neither kernel gives any above 47 bits (x86-64) or 48 (aarch64) unless asked to. */
enum { WAITING_CLASS_SHIFT = 48 };

/* class: CLASS_COUNT if it is no slab's block. */
HAK_INLINE uintptr_t waiting_entry(const void *p, uint32_t class)
{
    return (uintptr_t)p | (uintptr_t) class << WAITING_CLASS_SHIFT;
}

HAK_INLINE void *waiting_block(uintptr_t entry)
{
    return (void *)(entry & (((uintptr_t)1 << WAITING_CLASS_SHIFT) - 1));
}

HAK_INLINE uint32_t waiting_class(uintptr_t entry)
{
    return (uint32_t)(entry >> WAITING_CLASS_SHIFT);
}

#endif
#endif
