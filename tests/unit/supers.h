/* Shared by the unit tests of SuperSlabs. */
#ifndef HAK_TESTS_UNIT_SUPERS_H
#define HAK_TESTS_UNIT_SUPERS_H

#include "unit.h"

#include "super/super.h"

static inline int set_up(void **state)
{
    (void)state;
    supers_purge(0);
    return region_init() ? 0 : -1;
}

static inline size_t take(uint32_t n, bool *zeroed)
{
    ptrdiff_t got = units_take(n, zeroed);
    assert_true(got >= 0);
    return (size_t)got;
}

static inline void soil(size_t unit, uint32_t n)
{
    memset(unit_address(unit), 'x', n * UNIT_SIZE);
}

#endif
