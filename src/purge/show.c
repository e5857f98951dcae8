#include "purge/show.h"

#include "live/live.h"
#include "os/lock.h"
#include "purge/purge.h"

/* The counts are changed by many without a lock, and who is stopped between reading them and storing what it read may
 * store what is long past. So whoever has stored looks whether it still is so, and the last one to store is right;
 * but for the time that a store takes to be seen. */
#define SUPER_BYTES(ROW) ROW(super_bytes, (supers_mapped() + pages_granules()) << GRANULE_SHIFT)
#define UNIT_COUNTS(ROW)                                                                           \
    ROW(supers[0], load_relaxed(&hak_supers.made))                                                 \
    ROW(lock_waits[LOCK_SHARED], load_relaxed(&hak_lock_waits[LOCK_SHARED]))                       \
    ROW(lock_waits[LOCK_HEAP], load_relaxed(&hak_lock_waits[LOCK_HEAP]))                           \
    ROW(units_in_use, units_in_use())                                                              \
    ROW(units_dirty, units_dirty())
#define PAGE_COUNTS(ROW)                                                                           \
    ROW(page_granules, pages_granules())                                                           \
    ROW(pages_in_use, pages_in_use())                                                              \
    ROW(pages_dirty, pages_dirty())
#define BIG_COUNTS(ROW)                                                                            \
    ROW(big_bytes, big_live_bytes())                                                               \
    ROW(big_blocks, big_live_count())                                                              \
    ROW(big_cached, big_cached_bytes())                                                            \
    ROW(allowed_bytes, load_relaxed(&hak_purge_allowed))
#define CACHE_COUNTS(ROW)                                                                          \
    ROW(big_cache[0], load_relaxed(&hak_big.hits))                                                 \
    ROW(big_cache[1], load_relaxed(&hak_big.misses))
#define OTHER_COUNTS(ROW)                                                                          \
    ROW(kept_bytes, load_relaxed(&hak_kept.slabs))                                                 \
    ROW(warm_bytes, load_relaxed(&hak_kept.warm))                                                  \
    ROW(purged_bytes, purge_total())
#define ROW(field, count) store_relaxed(&p->field, (uint64_t)(count));
#define IS_OLD(field, count) || load_relaxed(&p->field) != (uint64_t)(count)
/* Stores `also`, and the counts until they are so. */
#define SHOW(COUNTS, also)                                                                         \
    struct live_area *a = live_area();                                                             \
    if (a == NULL)                                                                                 \
        return;                                                                                    \
    struct live_process *p = a->process;                                                           \
    do {                                                                                           \
        also COUNTS(ROW)                                                                           \
    } while (false COUNTS(IS_OLD))

void purge_show_units(void)
{
    SHOW(UNIT_COUNTS, SUPER_BYTES(ROW));
}

void purge_show_pages(void)
{
    SHOW(PAGE_COUNTS, SUPER_BYTES(ROW));
}

static void show_big(void)
{
    SHOW(BIG_COUNTS, );
}

void purge_show(void)
{
    purge_show_units();
    purge_show_pages();
    show_big();
    SHOW(OTHER_COUNTS, CACHE_COUNTS(ROW));
}

void purge_show_big(void)
{
    /* Relaxed: who shows more than there is to show has lost some time. */
    static _Atomic size_t seen;
    size_t others = big_others();
    if (load_relaxed(&seen) == others) {
        show_big();
    } else {
        store_relaxed(&seen, others);
        purge_show();
    }
}
