/* Falls of demand: by how much less memory is in use than was, since when, and whose it was. The level of
 * what is in use goes down and up; each fall is put on a stack and each rise takes off it, newest first, as
 * free memory is used again. So a fall's age is how long its pages have been of no use, and what is taken
 * off says how long they would have had to be kept.
 *
 * Calls: nothing. Called by: keep. Under the purge's lock. */
#ifndef HAK_FALLS_H
#define HAK_FALLS_H

#include "base/base.h"

struct fall {
    size_t bytes;
    size_t kept;  /* bytes of it whose pages were to be kept when it was last looked at */
    uint64_t ms;  /* when */
    uint16_t key; /* what was freed: see keep.h */
    bool is_old;  /* it counts as one that was in vain */
};

enum { FALLS_MOST = 64 };

struct falls {
    struct fall at[FALLS_MOST]; /* oldest first */
    uint32_t count;
};

/* What falls within `together_ms` of the newest one and has its key is added to that. When there are too many,
 * the two oldest become one. */
void falls_push(struct falls *f, struct fall fall, uint64_t together_ms);

/* Takes up to so many bytes off the newest fall; 0 bytes: there is none. */
struct fall falls_pop(struct falls *f, size_t bytes);

#endif
