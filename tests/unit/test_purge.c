/* How much free memory keeps its pages. */
#include "unit.h"

#include "big/big.h"
#include "control/options.h"
#include "mind/keep.h"
#include "os/os.h"
#include "pages/pages.h"
#include "purge/purge.h"
#include "super/super.h"

enum { SUPERS = 16 };
#define DIRTY (3 * SUPERS * GRANULE_SIZE)

/* The clock stands still but where a test moves it: purge.c is linked to this one. */
enum { SECOND = 1000 };
static uint64_t clock_ms = 1000 * SECOND;
uint64_t __wrap_os_now_ms(void);
uint64_t __wrap_os_now_ms(void)
{
    return clock_ms;
}

/* The kernel refuses to take pages back. */
static bool is_refused;
static int refusals;
bool __wrap_os_purge(void *at, size_t size), __real_os_purge(void *at, size_t size);
bool __wrap_os_purge(void *at, size_t size)
{
    refusals += is_refused;
    return !is_refused && __real_os_purge(at, size);
}

/* What pressure was told last, and how often. */
static size_t held, looks;
void __wrap_pressure_note_time(size_t bytes);
void __wrap_pressure_note_time(size_t bytes)
{
    held = bytes;
    looks++;
}

/* How often the mind was asked. */
static size_t asked;
size_t __real_keep_look(size_t in_use, uint16_t key, uint64_t now_ms);
size_t __wrap_keep_look(size_t in_use, uint16_t key, uint64_t now_ms);
size_t __wrap_keep_look(size_t in_use, uint16_t key, uint64_t now_ms)
{
    asked++;
    return __real_keep_look(in_use, key, now_ms);
}

static int set_up(void **state)
{
    (void)state;
    hak_options.keep = KEEP_OFF; /* what that adds is seen at the end */
    return region_init() ? 0 : -1;
}

static size_t dirty_bytes(void)
{
    return units_dirty() * UNIT_SIZE + pages_dirty() + big_cached_bytes();
}

static void look(void)
{
    purge_look_soon();
    purge_if_due();
}

static size_t take_units(void)
{
    bool zeroed;
    ptrdiff_t got = units_take(GRANULE_UNITS, &zeroed);
    assert_true(got >= 0);
    if (zeroed)
        purge_note_fresh(GRANULE_SIZE, MEMORY_UNITS);
    return (size_t)got;
}

static size_t take_pages(void)
{
    bool zeroed;
    ptrdiff_t got = pages_take((uint32_t)(GRANULE_SIZE >> page_shift()), 1, &zeroed);
    assert_true(got >= 0);
    if (zeroed)
        purge_note_fresh(GRANULE_SIZE, MEMORY_PAGES);
    return (size_t)got;
}

static void *take_big(void)
{
    bool zeroed;
    void *p = big_alloc(GRANULE_SIZE, 1, BIG_PLAIN, &zeroed);
    assert_non_null(p);
    purge_note_big();
    return p;
}

/* Leaves SUPERS SuperSlabs of free dirty units, as much in runs and in the cache of big blocks. */
static void make_dirty(void)
{
    size_t units[SUPERS], pages[SUPERS];
    void *blocks[SUPERS];
    for (int i = 0; i < SUPERS; i++) {
        units[i] = take_units();
        memset(unit_address(units[i]), 'x', GRANULE_SIZE);
        pages[i] = take_pages();
        memset(page_address(pages[i]), 'x', GRANULE_SIZE);
        blocks[i] = take_big();
        memset(blocks[i], 'x', GRANULE_SIZE);
    }
    for (int i = 0; i < SUPERS; i++) {
        units_give(units[i], GRANULE_UNITS, GRANULE_UNITS);
        pages_give(pages[i], (uint32_t)(GRANULE_SIZE >> page_shift()));
        assert_true(big_free(unit_of(blocks[i])));
    }
    assert_true(dirty_bytes() >= DIRTY);
}

static size_t asked_now(void)
{
    asked = 0;
    hak_options.keep = KEEP_SIZE;
    purge_note_big(); /* of nothing new */
    hak_options.keep = KEEP_OFF;
    return asked;
}

static void a_process_is_followed_once_it_was_large(void **state)
{
    (void)state;
    size_t first = take_units(); /* as much as a small one may have */
    assert_int_equal(asked_now(), 0);
    size_t second = take_units();
    assert_int_equal(asked_now(), 1);
    units_give(first, GRANULE_UNITS, 0);
    units_give(second, GRANULE_UNITS, 0);
    assert_int_equal(asked_now(), 1);
}

static void retained_memory_stays(void **state)
{
    (void)state;
    hak_options.retain = 1024 * MIB;
    make_dirty();
    size_t dirty = dirty_bytes(), total = purge_total();
    look();
    assert_int_equal(dirty_bytes(), dirty);
    assert_int_equal(purge_total(), total);
}

static size_t footprint(void)
{
    return units_in_use() * UNIT_SIZE + pages_in_use() + big_live_bytes() + dirty_bytes();
}

static void a_look_is_one_at_the_limit_as_well(void **state)
{
    (void)state;
    hak_options.retain = 8 * MIB;
    make_dirty();
    size_t bytes = footprint();
    look();
    assert_int_equal(held, bytes);
}

/* Also where nothing seems due. */
static void one_free_of_some_is_followed_by_a_look(void **state)
{
    (void)state;
    enum { FREES = 1000, SOME = 16 };
    hak_options.retain = 8 * MIB;
    make_dirty();
    look();
    bool zeroed;
    ptrdiff_t unit = units_take(1, &zeroed);
    hak_options.retain = MIB; /* less than is dirty, which is what was allowed */
    looks = 0;
    for (int i = 0; i < FREES; i++)
        purge_if_due();
    assert_in_range(looks, FREES / SOME / 2, FREES / 2);
    units_give((size_t)unit, 1, 1);
}

static void excess_goes_down_to_the_allowance(void **state)
{
    (void)state;
    hak_options.retain = 8 * MIB;
    purge_everything();
    make_dirty();
    size_t dirty = dirty_bytes(), total = purge_total();
    look();
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
    look();
    assert_int_equal(dirty_bytes(), dirty);
}

static void everything_is_everything(void **state)
{
    (void)state;
    hak_options.retain = 8 * MIB;
    make_dirty();
    look();
    assert_true(load_relaxed(&hak_purge_allowed) >= 8 * MIB);
    size_t dirty = dirty_bytes(), total = purge_total();
    assert_int_equal(purge_everything(), dirty);
    assert_int_equal(dirty_bytes(), 0);
    assert_int_equal(load_relaxed(&hak_purge_allowed), 0); /* whatever is freed next is looked at */
    assert_int_equal(purge_total(), total + dirty);
    bool zeroed = false;
    char *p = big_alloc(GRANULE_SIZE, 1, BIG_PLAIN, &zeroed);
    assert_non_null(p);
    assert_true(zeroed && is_zero(p, GRANULE_SIZE));
    assert_true(big_free(unit_of(p)));
}

static void one_thread_purges_at_a_time(void **state)
{
    (void)state;
    hak_options.retain = 0;
    purge_everything();
    make_dirty();
    size_t dirty = dirty_bytes();
    lock_take(purge_lock());
    look(); /* another one is at it: goes on */
    assert_int_equal(dirty_bytes(), dirty);
    lock_release(purge_lock());
    look();
    assert_true(dirty_bytes() < dirty);
}

/* One turn of demand that goes up and down. */
static void swing(void)
{
    make_dirty();
    look();
}

/* Locked pages, say: trying at every free would cost calls and help nobody. */
static void what_was_refused_is_not_tried_for_a_second(void **state)
{
    (void)state;
    hak_options.retain = 0;
    purge_everything();
    make_dirty();
    size_t total = purge_total();
    is_refused = true;
    look();
    assert_true(refusals > 0);
    assert_int_equal(purge_total(), total);
    refusals = 0;
    look();
    assert_int_equal(refusals, 0);
    clock_ms += SECOND;
    look();
    assert_true(refusals > 0);
    is_refused = false;
    clock_ms += SECOND;
    look();
    assert_true(dirty_bytes() < DIRTY);
}

/* Demand goes up and down all the time: what it needs again stays, wherever in the turns the seconds begin by
 * which demand is judged. */
static void an_oscillation_keeps_what_it_needs(void **state)
{
    (void)state;
    enum { TURNS = 20, TURN_MS = 30, PHASES = 25 };
    hak_options.retain = MIB;
    hak_options.retain_max = 4 * MIB;
    for (int phase = 0; phase < PHASES; phase++) {
        purge_everything();
        clock_ms += SECOND + (uint64_t)phase * SECOND / PHASES;
        for (int i = 0; i < 6; i++, clock_ms += TURN_MS)
            swing();
        size_t total = purge_total();
        for (int i = 0; i < TURNS; i++, clock_ms += TURN_MS)
            swing();
        assert_at(purge_total() == total, phase);
        assert_true(dirty_bytes() <= DIRTY + DIRTY / 4 + GRANULE_SIZE); /* and no more than that */
    }
}

static void seconds_pass(int seconds)
{
    for (int i = 0; i < seconds; i++) {
        clock_ms += SECOND + SECOND / 10;
        look();
    }
}

/* ... and goes when demand has stayed low. */
static void an_oscillation_is_forgotten(void **state)
{
    (void)state;
    seconds_pass(8);
    assert_true(dirty_bytes() <= 2 * MIB);
}

/* It goes as well where demand stays high, of which a share may stay. */
static void an_oscillation_of_much_is_forgotten(void **state)
{
    (void)state;
    enum { BLOCKS = 256, SHARE = 16, TURNS = 6, TURN_MS = 30 };
    void *blocks[BLOCKS];
    hak_options.retain = MIB;
    purge_everything();
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = take_big();
    for (int i = 0; i < TURNS; i++, clock_ms += TURN_MS)
        swing();
    assert_true(dirty_bytes() >= DIRTY);
    seconds_pass(8);
    assert_true(dirty_bytes() <= (BLOCKS / SHARE + 2) * GRANULE_SIZE);
    for (int i = 0; i < BLOCKS; i++)
        assert_true(big_free(unit_of(blocks[i])));
}

static void a_single_peak_is_not_kept(void **state)
{
    (void)state;
    purge_everything();
    make_dirty();
    look();
    assert_true(dirty_bytes() <= 2 * MIB);
}

/* Too slow for regret, which forgets within seconds. */
static void a_slow_rhythm_is_learnt_and_forgotten(void **state)
{
    (void)state;
    purge_everything();
    hak_options.keep = KEEP_SIZE;
    for (int i = 0; i < 5; i++) {
        clock_ms += 2 * SECOND + SECOND / 2;
        make_dirty();
        look();
    }
    clock_ms += 2 * SECOND;
    look();
    assert_true(dirty_bytes() >= DIRTY);
    clock_ms += 10 * SECOND;
    look();
    look(); /* what the first one found to be over it has settled */
    assert_true(dirty_bytes() <= 3 * MIB);
    hak_options.keep = KEEP_OFF;
}

static void near_a_limit_nothing_is_allowed(void **state)
{
    (void)state;
    hak_options.retain = 1024 * MIB;
    make_dirty();
    store_relaxed(&hak_pressure.level, (uint32_t)PRESSURE_NEAR);
    purge_if_due();
    assert_int_equal(dirty_bytes(), 0);
    bool zeroed;
    ptrdiff_t page = pages_take(unit_pages() * 4, 1, &zeroed);
    assert_true(page >= 0);
    pages_give((size_t)page, unit_pages() * 4);
    look(); /* as the free of such a block does */
    assert_int_equal(dirty_bytes(), 0);
    store_relaxed(&hak_pressure.level, (uint32_t)PRESSURE_NONE);
    make_dirty();
    look();
    assert_true(dirty_bytes() >= DIRTY);
}

/* Empty slabs of heaps and warm magazines are not to be had here: that nothing is found is no refusal of the kernel's,
 * after which nothing would be tried for a second. */
static void what_heaps_keep_is_no_excess_near_a_limit(void **state)
{
    (void)state;
    hak_options.retain = 1024 * MIB;
    (void)purge_everything();
    add_relaxed(&hak_kept.slabs, MIB);
    store_relaxed(&hak_pressure.level, (uint32_t)PRESSURE_NEAR);
    look();
    store_relaxed(&hak_pressure.level, (uint32_t)PRESSURE_NONE);
    make_dirty();
    store_relaxed(&hak_pressure.level, (uint32_t)PRESSURE_NEAR);
    look();
    assert_int_equal(dirty_bytes(), 0);
    store_relaxed(&hak_pressure.level, (uint32_t)PRESSURE_NONE);
    sub_relaxed(&hak_kept.slabs, MIB);
}

/* ---- growth that is paid from other kinds of memory ---- */

enum { HIGH = 1024, STEPS = 16 };
static void *high[HIGH];
static size_t highest; /* footprint, of this test at first and so of all before */

static size_t seen; /* the highest footprint of all tests */

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
    seen = seen == 0 ? 3 * DIRTY : seen; /* of what came before these tests */
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
        cmocka_unit_test(a_process_is_followed_once_it_was_large),
        cmocka_unit_test(retained_memory_stays),
        cmocka_unit_test(a_look_is_one_at_the_limit_as_well),
        cmocka_unit_test(one_free_of_some_is_followed_by_a_look),
        cmocka_unit_test(excess_goes_down_to_the_allowance),
        cmocka_unit_test(a_little_excess_is_let_be),
        cmocka_unit_test(everything_is_everything),
        cmocka_unit_test(one_thread_purges_at_a_time),
        cmocka_unit_test(what_was_refused_is_not_tried_for_a_second),
        cmocka_unit_test(an_oscillation_keeps_what_it_needs),
        cmocka_unit_test(an_oscillation_is_forgotten),
        cmocka_unit_test(a_single_peak_is_not_kept),
        cmocka_unit_test(a_slow_rhythm_is_learnt_and_forgotten),
        cmocka_unit_test(near_a_limit_nothing_is_allowed),
        cmocka_unit_test(what_heaps_keep_is_no_excess_near_a_limit),
        cmocka_unit_test_setup_teardown(growth_is_paid_from_other_kinds, rise, fall),
        cmocka_unit_test_setup_teardown(what_was_in_use_before_is_not_to_be_paid, rise, fall),
        cmocka_unit_test_setup_teardown(growth_is_not_paid_from_its_own_kind, rise, fall),
        cmocka_unit_test_setup_teardown(units_pay_for_other_kinds, rise, fall),
        cmocka_unit_test_setup_teardown(paying_has_a_budget_of_time, rise, fall),
        cmocka_unit_test_setup_teardown(what_is_set_to_be_retained_pays_for_nothing, rise, fall),
        cmocka_unit_test_setup_teardown(whoever_is_faster_pays, rise, fall),
        cmocka_unit_test(
            an_oscillation_of_much_is_forgotten), /* last: higher than the others rise */
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
