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

bool reach_read(struct reach *r, uintptr_t at, uintptr_t *word);

#endif
