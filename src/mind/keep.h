/* Keep-alive: how long the pages of memory that fell free are kept, learnt for each key from how soon such
 * memory was used again.
 *
 * A key is what was freed: blocks of size classes, or larger ones by their size (a power of two), or by size and
 * call stack. For each, a histogram of the gaps between a fall of demand and the rise that used it
 * again, weighted by bytes. Every time-to-live that could have been chosen is scored after the fact: memory
 * that was used again in time has saved touching it anew, and all that was kept has cost holding it.
 * What touching a byte anew is worth, in the time for which it may be held instead, is the setting keep_worth; a fraction
 * of it for blocks whose huge pages cost a fraction (touch.h). The best is
 * taken if it beats the present one by a margin; without evidence nothing is kept beyond what purge.c does.
 *
 * There are no trials: the score of each choice follows from the gaps, whatever was chosen (decision 0048).
 *
 * Under the purge's lock, but for keys. Calls: falls, touch, log, live. Called by: purge, rules, front (keys), api. */
#ifndef HAK_KEEP_H
#define HAK_KEEP_H

#include "base/base.h"
#include "control/options.h"
#include "mind/keys.h"

/* Values of the setting `keep`, in the order of its words. */
enum keep_mode { KEEP_OFF, KEEP_FIXED, KEEP_SHADOW, KEEP_SIZE, KEEP_SITE, KEEP_SHUFFLED };

/* Times to live there are, the first of which keeps nothing. */
enum { KEEP_TIMES = 12 };
/* The most KiB that a file of rules may name. */
#define KEEP_KIB_MOST ((uint64_t)1 << 40)

HAK_INLINE bool keep_is_on(void)
{
    return option(keep) == KEEP_FIXED || (option(learn) && option(keep) != KEEP_OFF);
}

HAK_INLINE bool keep_is_by_site(void)
{
    return option(learn) && option(keep) >= KEEP_SITE;
}

/* Of size and the innermost return addresses of where it is allocated: the same in each run of a program, wherever
 * it is loaded. Never 0. */
uint64_t keep_signature_of(size_t size, const uintptr_t *frames, uint32_t depth);

/* The key of that. Without any lock. */
uint16_t keep_key_of_site(size_t size, const uintptr_t *frames, uint32_t depth);

/* What an earlier run has learnt of a key. */
struct keep_known {
    uint16_t key;       /* by size */
    uint64_t signature; /* 0: by size alone; otherwise its key counts */
    size_t keep_ms;
    uint64_t kib[KEEP_TIMES]; /* used again: as in live/tables.def */
};

/* As if learnt. False: what is learnt is not by that, or not at all. */
bool keep_know(const struct keep_known *known, uint64_t now_ms);

/* Follows demand. Returns how much of what it has fallen by should keep its pages. `key`: of what was freed last. */
size_t keep_look(size_t in_use, uint16_t key, uint64_t now_ms);

#endif
