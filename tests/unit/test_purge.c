/* How much free memory keeps its pages. */
#include "unit.h"

#include "big/big.h"
#include "control/options.h"
#include "purge/purge.h"
#include "super/super.h"

enum { SUPERS = 16 };

static int set_up(void **state)
{
    (void)state;
    return region_init() ? 0 : -1;
}

static size_t dirty_bytes(void)
{
    return units_dirty() * UNIT_SIZE + big_cached_bytes();
}

/* Leaves SUPERS SuperSlabs of free dirty units and as much in the cache of big blocks. */
static void make_dirty(void)
{
    size_t units[SUPERS];
    void *blocks[SUPERS];
    bool zeroed;
    for (int i = 0; i < SUPERS; i++) {
        ptrdiff_t got = units_take(GRANULE_UNITS, &zeroed);
        assert_true(got >= 0);
        units[i] = (size_t)got;
        memset(unit_address(units[i]), 'x', GRANULE_SIZE);
        blocks[i] = big_alloc(GRANULE_SIZE, 1, &zeroed);
        assert_non_null(blocks[i]);
        memset(blocks[i], 'x', GRANULE_SIZE);
    }
    for (int i = 0; i < SUPERS; i++) {
        units_give(units[i], GRANULE_UNITS, GRANULE_UNITS);
        assert_true(big_free(unit_of(blocks[i])));
    }
    assert_true(dirty_bytes() >= 2 * SUPERS * GRANULE_SIZE);
}

static void retained_memory_stays(void **state)
{
    (void)state;
    hak_options.retain = 1024 * MIB;
    make_dirty();
    size_t dirty = dirty_bytes(), total = purge_total();
    purge_if_due();
    assert_int_equal(dirty_bytes(), dirty);
    assert_int_equal(purge_total(), total);
}

static void excess_goes_down_to_the_allowance(void **state)
{
    (void)state;
    hak_options.retain = 8 * MIB;
    make_dirty();
    size_t dirty = dirty_bytes(), total = purge_total();
    purge_if_due();
    /* No regret yet, and what is in use is far below sixteen times that. */
    assert_true(dirty_bytes() <= 8 * MIB);
    assert_true(dirty_bytes() > 8 * MIB - 2 * GRANULE_SIZE);
    assert_int_equal(purge_total() - total, dirty - dirty_bytes());
}

static void a_little_excess_is_let_be(void **state)
{
    (void)state;
    purge_everything();
    make_dirty();
    size_t dirty = dirty_bytes();
    hak_options.retain = dirty - UNIT_SIZE; /* within the slack: not worth the calls */
    purge_if_due();
    assert_int_equal(dirty_bytes(), dirty);
}

static void everything_is_everything(void **state)
{
    (void)state;
    hak_options.retain = 1024 * MIB;
    make_dirty();
    size_t dirty = dirty_bytes(), total = purge_total();
    assert_int_equal(purge_everything(), dirty);
    assert_int_equal(dirty_bytes(), 0);
    assert_int_equal(purge_total(), total + dirty);
    bool zeroed = false;
    char *p = big_alloc(GRANULE_SIZE, 1, &zeroed);
    assert_non_null(p);
    assert_true(zeroed && is_zero(p, GRANULE_SIZE));
    assert_true(big_free(unit_of(p)));
}

static void one_thread_purges_at_a_time(void **state)
{
    (void)state;
    hak_options.retain = 0;
    make_dirty();
    size_t dirty = dirty_bytes();
    lock_take(purge_lock());
    purge_if_due(); /* another one is at it: goes on */
    assert_int_equal(dirty_bytes(), dirty);
    lock_release(purge_lock());
    purge_if_due();
    assert_true(dirty_bytes() < dirty);
}

static void regret_is_bounded(void **state)
{
    (void)state;
    hak_options.retain = MIB;
    hak_options.retain_max = 4 * MIB;
    for (int i = 0; i < 4; i++) {
        make_dirty();
        purge_if_due();
        purge_note_fresh(64 * MIB); /* needed again at once */
    }
    make_dirty();
    purge_if_due();
    size_t most = 4 * MIB; /* or the share of what is in use, which is less */
    assert_true(dirty_bytes() <= most);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(retained_memory_stays),
        cmocka_unit_test(excess_goes_down_to_the_allowance),
        cmocka_unit_test(a_little_excess_is_let_be),
        cmocka_unit_test(everything_is_everything),
        cmocka_unit_test(one_thread_purges_at_a_time),
        cmocka_unit_test(regret_is_bounded),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
