/* Which memory around a stack pointer may be read. Nothing outside of it ever is. */
#ifndef HAK_REACH_H
#define HAK_REACH_H

#include "base/base.h"

struct reach {
    uintptr_t low, high; /* [low, high) is known to be readable */
    uintptr_t limit;     /* how far `high` may be moved by asking the kernel, page by page */
    uint32_t questions;  /* that may still be asked */
};

/* Around the stack pointer of the calling thread. */
void reach_start(struct reach *r, uintptr_t sp);

/* Around one that was read from a signal's frame: it may lie on another stack, or be wrong. */
void reach_move(struct reach *r, uintptr_t sp);

/* Moves `high` beyond `at`. */
bool reach_extend(struct reach *r, uintptr_t at);

/* Whether `bytes`, whole words from a word's boundary on, may be read at `at`. */
HAK_INLINE bool reach_covers(struct reach *r, uintptr_t at, size_t bytes)
{
    if (at % sizeof(uintptr_t) != 0 || at < r->low || at > UINTPTR_MAX - bytes)
        return false;
    return HAK_LIKELY(at + bytes <= r->high) || reach_extend(r, at + bytes - 1);
}

/* A word that may be read. The stack is full of what the sanitizers forbid to read. */
#if HAK_SANITIZED
uintptr_t reach_load(uintptr_t at);
#else
HAK_INLINE uintptr_t reach_load(uintptr_t at)
{
    return *(const volatile uintptr_t *)at;
}
#endif

HAK_INLINE bool reach_read(struct reach *r, uintptr_t at, uintptr_t *word)
{
    /* 0 is below any `low`, which static analysis cannot see. */
    if (at == 0 || !reach_covers(r, at, sizeof *word))
        return false;
    *word = reach_load(at);
    return true;
}

#endif
