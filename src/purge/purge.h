/* Purge: how much free memory keeps its pages. There is no timer and no thread: the frees that make
 * memory superfluous give it back themselves, so a process that frees and goes idle is lean before
 * it goes idle. The allowance is the largest of
 *   retain                 a floor
 *   1/16 of what is in use
 *   regret                 what was purged and needed again within a second, but no more than makes up,
 *                          with what is in use, for the highest demand of the last two seconds and a
 *                          third for what lies scattered, or more where that has been missed
 *   keep                   what demand has fallen by lately and, as such falls were seen to, rises by again
 *                          soon enough (mind/keep.h)
 * Regret grows up to the swing between most and least in use lately, and what lies scattered, or
 * retain_max if that is more and nobody has set it. It halves with each second in which demand did not swing by half of it. So
 * a program whose demand goes up and down keeps what it will need again, one that frees a peak once
 * keeps the floor, and one that stops for good at the lowest point keeps no more than its last swing
 * and what lies scattered, at most its peak, until its next frees.
 *
 * Near a memory limit (pressure.h) little is allowed. Growth beyond the highest footprint is paid from other kinds of
 * free memory than what grows, within a budget of time (purge_pay; docs/decisions/0054).
 *
 * Calls: super, pages, big, mind, pressure, live, os. Called by: profile, heap, front, control, api. */
#ifndef HAK_PURGE_H
#define HAK_PURGE_H

#include "big/big.h"
#include "control/options.h"
#include "mind/log.h"
#include "os/thread.h"
#include "pages/pages.h"
#include "pressure/pressure.h"
#include "super/super.h"

/* What free memory is cut into, and cannot be used as another of: units, runs of pages, granules of big blocks. Growth by
 * stretches of units is told apart, since units that do not lie together do not serve it. */
enum memory_kind { MEMORY_NONE, MEMORY_UNITS, MEMORY_STRETCHES, MEMORY_PAGES, MEMORY_BIG };

/* Into the mind's log, within thread_enter. While another thread purges it is left out. */
void purge_log(const struct decision *d);

/* Begins with what earlier runs have learnt, as the setting `rules` says. */
void purge_load_rules(void);

/* Fresh pages of a kind had to be taken from the kernel: if the like was purged a moment ago, keep more. If that makes the
 * process larger than ever while other kinds are free, purge_pay gives those back. */
void purge_note_fresh(size_t bytes, enum memory_kind kind);

/* The same for what big blocks took since the last call. */
void purge_note_big(void);

/* What slabs, runs and big blocks lie in: all that lives and what heaps keep for reuse. */
HAK_INLINE size_t purge_in_use(void)
{
    return units_in_use() * UNIT_SIZE + pages_in_use() + big_live_bytes();
}

/* Free memory that keeps its pages and can be purged here. */
HAK_INLINE size_t purge_free_bytes(void)
{
    return units_dirty() * UNIT_SIZE + pages_dirty() + big_cached_bytes();
}

/* All free memory that keeps its pages. */
HAK_INLINE size_t purge_dirty_bytes(void)
{
    return purge_free_bytes() + kept_bytes();
}

void purge_look(size_t dirty);

/* Demand is followed in windows of that length, each of which begins at a look: when the current one began. */
enum { PURGE_WINDOW_MS = 1000 };
extern _Atomic uint64_t hak_purge_window_ms __attribute__((visibility("hidden")));

/* Whether nobody has looked since the window ended: what is allowed may be too much by now. */
HAK_INLINE bool purge_look_is_overdue(uint64_t now_ms)
{
    return now_ms - load_relaxed(&hak_purge_window_ms) > PURGE_WINDOW_MS;
}

/* What was allowed at the last look, by anyone. */
extern _Atomic size_t hak_purge_allowed __attribute__((visibility("hidden")));

/* What is allowed and what slabs have is more than `retain` has to do with. Else nothing is to be found by looking again. */
HAK_INLINE bool purge_finds_much(void)
{
    return load_relaxed(&hak_purge_allowed) + units_in_use() * UNIT_SIZE > 2 * option(retain);
}

/* How many bytes more may be free, when so many are besides what is known of here. */
HAK_INLINE size_t purge_room(size_t besides)
{
    size_t allowed = load_relaxed(&hak_purge_allowed), dirty = purge_dirty_bytes() + besides;
    return allowed > dirty ? allowed - dirty : 0;
}

/* Purges what exceeds the allowance. Called without any lock, after memory was freed. Demand is looked at
 * now and then even if nothing seems due: what is allowed goes down when demand has been low. */
HAK_INLINE void purge_if_due(void)
{
    size_t dirty = purge_dirty_bytes();
    if (HAK_LIKELY(dirty <= option(retain)) && !pressure_is(PRESSURE_NEAR))
        return;
    if (dirty > load_relaxed(&hak_purge_allowed) || hak_thread.until_look-- == 0)
        purge_look(dirty);
}

/* The kind whose growth is to be paid from the others. */
extern _Atomic enum memory_kind hak_purge_owed_for __attribute__((visibility("hidden")));

void purge_pay(void);

/* Called without any lock, after memory was allocated or resized. */
HAK_INLINE void purge_pay_if_owed(void)
{
    if (HAK_UNLIKELY(load_relaxed(&hak_purge_owed_for) != MEMORY_NONE))
        purge_pay();
}

/* The next purge_if_due of this thread looks: much was freed at once. */
HAK_INLINE void purge_look_soon(void)
{
    hak_thread.until_look = 0;
}

/* So many bytes went back to the kernel. */
void purge_note_given(size_t bytes);

/* So many bytes of slabs that went back while these were in use are about to be touched again: growth of the process that no
 * count of what is in use tells of. */
void purge_note_filled(size_t bytes);

/* Purges all that is free and forgets regret. Returns bytes given back. */
size_t purge_everything(void);

/* Bytes purged since the start. */
size_t purge_total(void);

struct lock *purge_lock(void);

#endif
