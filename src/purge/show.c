#include "purge/show.h"

#include "live/live.h"
#include "purge/purge.h"

/* The counts are changed by many without a lock, and of two that store what they read the later may have read
 * earlier: a word may then be as old as one change of another thread, until the next one. */
#define SHOWN_COUNTS(ROW)                                                                          \
    ROW(super_bytes, (supers_mapped() + pages_granules()) << GRANULE_SHIFT)                        \
    ROW(supers_made, load_relaxed(&hak_supers.made))                                               \
    ROW(units_in_use, units_in_use())                                                              \
    ROW(units_dirty, units_dirty())                                                                \
    ROW(page_granules, pages_granules())                                                           \
    ROW(pages_in_use, pages_in_use())                                                              \
    ROW(pages_dirty, pages_dirty())                                                                \
    ROW(big_bytes, big_live_bytes())                                                               \
    ROW(big_blocks, big_live_count())                                                              \
    ROW(big_cached, big_cached_bytes())                                                            \
    ROW(kept_bytes, load_relaxed(&hak_kept.slabs))                                                 \
    ROW(warm_bytes, load_relaxed(&hak_kept.warm))                                                  \
    ROW(allowed_bytes, load_relaxed(&hak_purge_allowed))                                           \
    ROW(purged_bytes, purge_total())

void purge_show(void)
{
    struct live_area *a = live_area();
    if (a == NULL)
        return;
    struct live_process *p = a->process;
#define ROW(field, count) store_relaxed(&p->field, (uint64_t)(count));
    SHOWN_COUNTS(ROW)
#undef ROW
}
