/* Purge: how much free memory keeps its pages. There is no timer and no thread: the frees that make
 * memory superfluous give it back themselves, so a process that frees and goes idle is lean before
 * it goes idle. The allowance is the largest of
 *   retain                 a floor
 *   1/16 of what is in use
 *   regret                 what was purged and needed again within a second, but no more than makes up,
 *                          with what is in use, for the highest demand of the last two seconds and a
 *                          quarter for what lies scattered
 * Regret grows up to the swing between most and least in use lately, or retain_max if that is more, and
 * halves with each second in which demand did not swing by half of it. So a program whose demand goes
 * up and down keeps what it will need again, one that frees a peak once keeps the floor, and one that
 * stops for good at the lowest point keeps no more than its last swing.
 *
 * Calls: super, big, os. Called by: heap, front, api. */
#ifndef HAK_PURGE_H
#define HAK_PURGE_H

#include "big/big.h"
#include "control/options.h"
#include "super/super.h"

/* Fresh pages had to be taken from the kernel: if the like was purged a moment ago, keep more. */
void purge_note_fresh(size_t bytes);

/* Free memory that keeps its pages. */
HAK_INLINE size_t purge_dirty_bytes(void)
{
    return units_dirty() * UNIT_SIZE + big_cached_bytes() + load_relaxed(&hak_kept_bytes);
}

void purge_look(size_t dirty);

/* Purges what exceeds the allowance. Called without any lock, after memory was freed. */
HAK_INLINE void purge_if_due(void)
{
    size_t dirty = purge_dirty_bytes();
    if (HAK_UNLIKELY(dirty > hak_options.retain))
        purge_look(dirty);
}

/* Purges all that is free. Returns bytes given back. */
size_t purge_everything(void);

/* Bytes purged since the start. */
size_t purge_total(void);

struct lock *purge_lock(void);

#endif
