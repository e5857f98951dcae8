/* Growth that is paid from other kinds of memory. */
#include "kinds.h"

static int set_up(void **state)
{
    (void)state;
    hak_options.keep = KEEP_OFF; /* what that adds is seen in test_purge.c */
    return region_init() ? 0 : -1;
}

enum { HIGH = 1024, STEPS = 16 };
static void *high[HIGH];
static size_t highest; /* footprint when a test begins: its process was never larger */
static size_t seen;    /* the highest of all tests so far */

static size_t take_more_units(void)
{
    size_t unit = take_units();
    seen = footprint() > seen ? footprint() : seen;
    return unit;
}

/* Higher than ever, all of it big blocks in use. The setting is as large as it can be, so that nothing else purges. */
static int rise(void **state)
{
    (void)state;
    hak_options.retain = 1024 * MIB;
    hak_option_sources.retain = OPTION_DEFAULT;
    (void)purge_everything();
    for (int i = 0; i < 3 * STEPS || footprint() <= seen; i++)
        high[i] = take_big();
    highest = footprint();
    purge_pay_if_owed();
    assert_int_equal(dirty_bytes(), 0);
    return 0;
}

static int fall(void **state)
{
    (void)state;
    for (int i = 0; i < HIGH; i++) {
        assert_true(high[i] == NULL || big_free(unit_of(high[i])));
        high[i] = NULL;
    }
    hak_option_sources.retain = OPTION_DEFAULT;
    (void)purge_everything();
    return 0;
}

static void free_high(int from, int to)
{
    for (int i = from; i < to; i++) {
        assert_true(big_free(unit_of(high[i])));
        high[i] = NULL;
    }
}

static void grow_by_units(size_t *units, int steps)
{
    for (int i = 0; i < steps; i++) {
        units[i] = take_more_units();
        purge_pay_if_owed();
        clock_ms += SECOND; /* so that time has been for it */
    }
}

static void give_units(const size_t *units, int steps)
{
    for (int i = 0; i < steps; i++)
        units_give(units[i], GRANULE_UNITS, GRANULE_UNITS);
}

static void growth_is_paid_from_other_kinds(void **state)
{
    (void)state;
    size_t units[2 * STEPS], total = purge_total();
    free_high(0, STEPS);
    size_t dirty = dirty_bytes();
    grow_by_units(units, STEPS / 2);
    assert_true(footprint() <= highest + GRANULE_SIZE);
    assert_true(dirty_bytes() <= dirty / 2 + GRANULE_SIZE);
    assert_true(dirty_bytes() >= dirty / 2 - GRANULE_SIZE); /* and no more than it has grown by */
    assert_int_equal(purge_total() - total, dirty - dirty_bytes());
    grow_by_units(units + STEPS / 2, STEPS);
    assert_int_equal(big_cached_bytes(), 0);
    assert_true(footprint() >=
                highest + (STEPS / 2 - 1) * GRANULE_SIZE); /* there was nothing more to pay with */
    give_units(units, STEPS / 2 + STEPS);
}

static void what_was_in_use_before_is_not_to_be_paid(void **state)
{
    (void)state;
    size_t units[STEPS], total;
    free_high(0, 2 * STEPS);
    (void)purge_everything();
    free_high(2 * STEPS, 3 * STEPS);
    total = purge_total();
    grow_by_units(units, STEPS);
    assert_int_equal(purge_total(), total);
    assert_true(big_cached_bytes() != 0);
    give_units(units, STEPS);
}

static void growth_is_not_paid_from_its_own_kind(void **state)
{
    (void)state;
    size_t half[STEPS], units[STEPS], total;
    grow_by_units(half, STEPS);
    for (int i = 0; i < STEPS; i++)
        units_give(half[i], GRANULE_UNITS / 2, GRANULE_UNITS / 2);
    total = purge_total();
    for (int i = 0; i < STEPS; i++) {
        units[i] = take_more_units(); /* none of the halves is long enough */
        assert_int_equal(load_relaxed(&hak_purge_owed_for), MEMORY_NONE);
    }
    assert_int_equal(purge_total(), total);
    for (int i = 0; i < STEPS; i++)
        units_give(half[i] + GRANULE_UNITS / 2, GRANULE_UNITS / 2, GRANULE_UNITS / 2);
    give_units(units, STEPS);
}

/* Those that are free do not lie together, or would have been taken. */
static void a_stretch_is_paid_from_units(void **state)
{
    (void)state;
    size_t half[STEPS], total;
    bool zeroed;
    grow_by_units(half, STEPS);
    for (int i = 0; i < STEPS; i++)
        units_give(half[i], GRANULE_UNITS / 2, GRANULE_UNITS / 2);
    highest = footprint();
    total = purge_total();
    ptrdiff_t unit = units_take(GRANULE_UNITS, &zeroed);
    assert_true(unit >= 0 && zeroed);
    purge_note_fresh(GRANULE_SIZE, MEMORY_STRETCHES);
    purge_pay_if_owed();
    assert_int_equal(purge_total() - total, GRANULE_SIZE);
    assert_int_equal(footprint(), highest);
    clock_ms += SECOND;
    for (int i = 0; i < STEPS; i++)
        units_give(half[i] + GRANULE_UNITS / 2, GRANULE_UNITS / 2, GRANULE_UNITS / 2);
    units_give((size_t)unit, GRANULE_UNITS, GRANULE_UNITS);
}

static void units_pay_for_other_kinds(void **state)
{
    (void)state;
    size_t units[STEPS], dirty;
    void *blocks[STEPS / 2];
    grow_by_units(units, STEPS);
    highest = footprint();
    give_units(units, STEPS);
    dirty = units_dirty();
    for (int i = 0; i < STEPS / 2; i++) {
        blocks[i] = big_alloc(2 * GRANULE_SIZE, 1, BIG_PLAIN, &(bool){false});
        purge_note_big();
        purge_pay_if_owed();
        clock_ms += SECOND;
    }
    assert_true(units_dirty() < dirty);
    assert_true(footprint() <= highest + 2 * GRANULE_SIZE);
    for (int i = 0; i < STEPS / 2; i++)
        assert_true(big_free(unit_of(blocks[i])));
}

static void paying_has_a_budget_of_time(void **state)
{
    (void)state;
    size_t units[2 * STEPS], total = purge_total();
    free_high(0, 2 * STEPS);
    for (int i = 0; i < 2 * STEPS; i++) {
        units[i] = take_more_units();
        purge_pay_if_owed();
    }
    size_t paid = purge_total() - total;
    assert_true(paid >= GRANULE_SIZE && paid <= STEPS * GRANULE_SIZE);
    assert_true(footprint() >= highest + STEPS * GRANULE_SIZE); /* it may have grown instead */
    give_units(units, 2 * STEPS);
}

static void take_high(int from, int to)
{
    for (int i = from; i < to; i++)
        high[i] = take_big();
    purge_pay_if_owed();
    clock_ms += SECOND;
}

/* Units grow at the cost of big blocks, and these take over what the units leave. */
static void take_turns(size_t turns)
{
    size_t units[STEPS];
    for (size_t i = 0; i < turns; i++) {
        free_high(0, STEPS);
        grow_by_units(units, STEPS);
        give_units(units, STEPS);
        take_high(0, STEPS);
    }
}

static void what_kinds_take_in_turns_is_not_paid_for_ever(void **state)
{
    (void)state;
    size_t total = purge_total(), turn = STEPS * GRANULE_SIZE;
    take_turns(highest / turn);
    assert_true(purge_total() - total > highest / 2);
    take_turns(2 * highest / turn);
    total = purge_total();
    take_turns(2);
    assert_int_equal(purge_total(), total);
    take_high(HIGH - 3 * STEPS, HIGH); /* but for growth it is */
    take_turns(1);
    assert_true(purge_total() > total);
}

static void what_is_set_to_be_retained_pays_for_nothing(void **state)
{
    (void)state;
    size_t units[STEPS], total = purge_total();
    hak_option_sources.retain = OPTION_ENVIRONMENT;
    free_high(0, STEPS);
    grow_by_units(units, STEPS);
    assert_int_equal(purge_total(), total);
    give_units(units, STEPS);
}

static void whoever_is_faster_pays(void **state)
{
    (void)state;
    size_t total = purge_total();
    free_high(0, STEPS);
    size_t units[2] = {take_units(), take_units()};
    lock_take(purge_lock());
    purge_pay_if_owed(); /* another one is at it: goes on */
    assert_int_equal(purge_total(), total);
    lock_release(purge_lock());
    purge_pay_if_owed();
    size_t paid = purge_total() - total;
    assert_true(paid >= GRANULE_SIZE);
    purge_pay_if_owed();
    assert_int_equal(purge_total() - total, paid);
    give_units(units, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(growth_is_paid_from_other_kinds, rise, fall),
        cmocka_unit_test_setup_teardown(what_was_in_use_before_is_not_to_be_paid, rise, fall),
        cmocka_unit_test_setup_teardown(growth_is_not_paid_from_its_own_kind, rise, fall),
        cmocka_unit_test_setup_teardown(a_stretch_is_paid_from_units, rise, fall),
        cmocka_unit_test_setup_teardown(units_pay_for_other_kinds, rise, fall),
        cmocka_unit_test_setup_teardown(paying_has_a_budget_of_time, rise, fall),
        cmocka_unit_test_setup_teardown(what_kinds_take_in_turns_is_not_paid_for_ever, rise, fall),
        cmocka_unit_test_setup_teardown(what_is_set_to_be_retained_pays_for_nothing, rise, fall),
        cmocka_unit_test_setup_teardown(whoever_is_faster_pays, rise, fall),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
