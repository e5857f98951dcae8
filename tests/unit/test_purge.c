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
        purge_note_fresh(GRANULE_SIZE);
    return (size_t)got;
}

static size_t take_pages(void)
{
    bool zeroed;
    ptrdiff_t got = pages_take((uint32_t)(GRANULE_SIZE >> page_shift()), 1, &zeroed);
    assert_true(got >= 0);
    if (zeroed)
        purge_note_fresh(GRANULE_SIZE);
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
    hak_options.retain = 1024 * MIB;
    make_dirty();
    size_t dirty = dirty_bytes(), total = purge_total();
    assert_int_equal(purge_everything(), dirty);
    assert_int_equal(dirty_bytes(), 0);
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

/* ... and goes when demand has stayed low. */
static void an_oscillation_is_forgotten(void **state)
{
    (void)state;
    for (int second = 0; second < 8 && dirty_bytes() > 2 * MIB; second++) {
        clock_ms += SECOND + SECOND / 10;
        look();
    }
    assert_true(dirty_bytes() <= 2 * MIB);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(retained_memory_stays),
        cmocka_unit_test(excess_goes_down_to_the_allowance),
        cmocka_unit_test(a_little_excess_is_let_be),
        cmocka_unit_test(everything_is_everything),
        cmocka_unit_test(one_thread_purges_at_a_time),
        cmocka_unit_test(an_oscillation_keeps_what_it_needs),
        cmocka_unit_test(an_oscillation_is_forgotten),
        cmocka_unit_test(a_single_peak_is_not_kept),
        cmocka_unit_test(a_slow_rhythm_is_learnt_and_forgotten),
        cmocka_unit_test(near_a_limit_nothing_is_allowed),
        cmocka_unit_test(what_heaps_keep_is_no_excess_near_a_limit),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
