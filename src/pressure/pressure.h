/* Pressure: how near the process is to the memory limit that it will be killed for. The limit is its control group's
 * (cgroup.h) or the setting soft_limit, which counts what the process itself holds: the one of which the smaller share is left.
 *
 *   none    nothing changes
 *   near    free memory keeps no pages, near soft_limit few; magazines do not grow
 *   tight   besides, heaps give back what they keep, slabs the pages on which no block lives; no huge pages are
 *           asked for and nothing is populated ahead
 *
 * There is no timer and no thread: whoever takes fresh memory or gives some back looks. The first look comes when the
 * process holds 16 MiB; how much it may grow before the next is a share of what was left then, so that the
 * nearer the limit the closer the looks, however fast it grows. What a look finds to be done (`rounds`) is done by
 * front, which holds no lock then.
 *
 * Calls: os, live. Called by: region, super, pages, big, purge, heap, front. */
#ifndef HAK_PRESSURE_H
#define HAK_PRESSURE_H

#include "base/atomic.h"
#include "base/base.h"

enum pressure_level { PRESSURE_NONE, PRESSURE_NEAR, PRESSURE_TIGHT };

struct pressure {
    _Atomic uint32_t level;  /* enum pressure_level */
    _Atomic uint32_t rounds; /* times that memory is to be given back: each heap once per round */
    _Atomic bool due; /* the rest of the process' memory has not had its turn in this round */
    _Atomic bool first_tight;    /* it has not been tight yet */
    _Atomic bool mappings_count; /* os_mappings_count, at the last look at files */
    _Atomic size_t look_at;      /* bytes held at which to look again */
    _Atomic size_t allowed;      /* bytes that may be free and keep their pages when it is near */
};

extern struct pressure hak_pressure __attribute__((visibility("hidden")));

HAK_INLINE bool pressure_is(enum pressure_level level)
{
    return HAK_UNLIKELY(load_relaxed(&hak_pressure.level) >= (uint32_t)level);
}

/* Whether free memory is to be unmapped. */
HAK_INLINE bool pressure_counts_mappings(void)
{
    return load_relaxed(&hak_pressure.mappings_count);
}

/* The level that follows, by what is left of a limit. */
enum pressure_level pressure_next(enum pressure_level now, size_t limit, size_t left);

void pressure_look(size_t held, size_t fresh);

/* The process holds so many bytes, of which `fresh` have just been taken and have no pages yet. */
HAK_INLINE void pressure_note_growth(size_t held, size_t fresh)
{
    if (HAK_UNLIKELY(held >= load_relaxed(&hak_pressure.look_at)))
        pressure_look(held, fresh);
}

/* The process grows by so many bytes that count as held already. */
void pressure_note_filled(size_t held, size_t bytes);

/* The same where memory was freed, now and then: others in the group may have grown, and growth counts from where the
 * process has shrunk to. */
void pressure_note_time(size_t held);

/* Memory was given back to the kernel. */
void pressure_gave(size_t bytes);

/* In the child of a fork: a thread that is gone may have been looking. */
void pressure_forget_looker(void);

#endif
