/* Shared by the unit tests of what keeps its pages: memory of each kind, how much there is, and a clock that is theirs. */
#ifndef HAK_TESTS_UNIT_KINDS_H
#define HAK_TESTS_UNIT_KINDS_H

#include "unit.h"

#include "big/big.h"
#include "control/options.h"
#include "mind/keep.h"
#include "os/os.h"
#include "pages/pages.h"
#include "purge/purge.h"
#include "super/super.h"

/* The clock stands still but where a test moves it: purge.c is linked to this one. */
enum { SECOND = 1000 };
static uint64_t clock_ms = 1000 * SECOND;
uint64_t __wrap_os_now_ms(void);
uint64_t __wrap_os_now_ms(void)
{
    return clock_ms;
}

static inline size_t dirty_bytes(void)
{
    return units_dirty() * UNIT_SIZE + pages_dirty() + big_cached_bytes();
}

static inline size_t take_units(void)
{
    bool zeroed;
    ptrdiff_t got = units_take(GRANULE_UNITS, &zeroed);
    assert_true(got >= 0);
    if (zeroed)
        purge_note_fresh(GRANULE_SIZE, MEMORY_UNITS);
    return (size_t)got;
}

static inline size_t take_pages(void)
{
    bool zeroed;
    ptrdiff_t got = pages_take((uint32_t)(GRANULE_SIZE >> page_shift()), 1, &zeroed);
    assert_true(got >= 0);
    if (zeroed)
        purge_note_fresh(GRANULE_SIZE, MEMORY_PAGES);
    return (size_t)got;
}

static inline void *take_big(void)
{
    bool zeroed;
    void *p = big_alloc(GRANULE_SIZE, 1, BIG_PLAIN, &zeroed);
    assert_non_null(p);
    purge_note_big();
    return p;
}

static inline size_t footprint(void)
{
    return units_in_use() * UNIT_SIZE + pages_in_use() + big_live_bytes() + dirty_bytes();
}

#endif
