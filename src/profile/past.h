/* What became of sampled blocks: the last ones that were freed, and by whom. For the crash line.
 *
 * Under the sampler's lock. Calls: nothing. Called by: sampler. */
#ifndef HAK_PAST_H
#define HAK_PAST_H

#include "base/base.h"

enum { PAST_FRAMES = 4 };

/* Return addresses, innermost first, and in which thread; 0: not known. */
struct trace {
    uint32_t depth, tid;
    uintptr_t at[PAST_FRAMES];
};

struct freed_block {
    uintptr_t address;
    uint64_t size;
    uint32_t site, tid; /* which allocated it, and in which thread */
    struct trace by;
};

void past_note(const struct freed_block *b);

/* The block freed last of those in which the address lies, or NULL. */
const struct freed_block *past_find(uintptr_t at);

#endif
