/* How much free memory keeps its pages. */
#include <errno.h>
#include <sys/mman.h>

#include "kinds.h"

enum { SUPERS = 16 };
#define DIRTY (3 * SUPERS * GRANULE_SIZE)

/* The kernel refuses to take pages back, in either way. */
static bool is_refused;
static int refusals;
int __wrap_madvise(void *at, size_t size, int advice),
    __real_madvise(void *at, size_t size, int advice);
int __wrap_madvise(void *at, size_t size, int advice)
{
    if (!is_refused || advice != MADV_DONTNEED)
        return __real_madvise(at, size, advice);
    refusals++;
    errno = EINVAL;
    return -1;
}
int __wrap_munmap(void *at, size_t size), __real_munmap(void *at, size_t size);
int __wrap_munmap(void *at, size_t size)
{
    return is_refused ? (errno = ENOMEM, -1) : __real_munmap(at, size);
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

static void look(void)
{
    purge_look_soon();
    purge_if_due();
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

/* Other threads take what is free while one thread purges, and free as much: there is nothing to be had at that moment, but the
 * kernel refuses nothing. */
static void what_others_took_is_tried_at_once(void **state)
{
    (void)state;
    hak_options.retain = 0;
    purge_everything();
    add_relaxed(&hak_big.cached_bytes, DIRTY); /* of which none is found */
    look();
    sub_relaxed(&hak_big.cached_bytes, DIRTY);
    make_dirty();
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

static void who_sets_the_most_that_is_kept_means_it(void **state)
{
    (void)state;
    enum { TURNS = 20, TURN_MS = 30 };
    hak_options.retain = MIB;
    hak_options.retain_max = 4 * MIB;
    hak_option_sources.retain_max = OPTION_ENVIRONMENT;
    purge_everything();
    clock_ms += 3 * SECOND;
    for (int i = 0; i < TURNS; i++, clock_ms += TURN_MS)
        swing();
    assert_true(DIRTY > 8 * MIB);
    assert_true(dirty_bytes() <= 5 * MIB);
    hak_option_sources.retain_max = OPTION_DEFAULT;
}

/* Units and pages of which each cannot be had as the other, all of one at a time. */
static void take_turns(void)
{
    size_t units[SUPERS], pages[SUPERS];
    for (int i = 0; i < SUPERS; i++)
        units[i] = take_units();
    for (int i = 0; i < SUPERS; i++)
        units_give(units[i], GRANULE_UNITS, GRANULE_UNITS);
    look();
    for (int i = 0; i < SUPERS; i++)
        pages[i] = take_pages();
    for (int i = 0; i < SUPERS; i++)
        pages_give(pages[i], (uint32_t)(GRANULE_SIZE >> page_shift()));
    look();
}

/* What is free is never what is wanted, however much regret there is. */
static void scattered_demand_keeps_as_much_again_and_no_more(void **state)
{
    (void)state;
    enum { LEARNING = 20, TURNS = 20, TURN_MS = 20 };
    const size_t peak = SUPERS * GRANULE_SIZE;
    hak_options.retain = MIB;
    hak_options.retain_max = 4 * MIB;
    purge_everything();
    clock_ms += 3 * SECOND;
    for (int i = 0; i < LEARNING; i++, clock_ms += TURN_MS)
        take_turns();
    size_t total = purge_total();
    for (int i = 0; i < TURNS; i++, clock_ms += TURN_MS)
        take_turns();
    assert_int_equal(purge_total(), total);
    assert_true(dirty_bytes() <= 2 * peak + 2 * peak / 8);
    make_dirty(); /* three times as much, once */
    look();
    assert_true(dirty_bytes() < DIRTY);
}

/* Units take the place of pages, one by one, and pages theirs. */
static void change_places(size_t *units, size_t *pages)
{
    for (int i = 0; i < SUPERS; i++) {
        pages_give(pages[i], (uint32_t)(GRANULE_SIZE >> page_shift()));
        units[i] = take_units();
    }
    look();
    for (int i = 0; i < SUPERS; i++) {
        units_give(units[i], GRANULE_UNITS, GRANULE_UNITS);
        pages[i] = take_pages();
    }
    look();
}

/* Demand that stays as it is and wants now this kind of memory, now that: there is no swing to go by. */
static void steady_demand_for_changing_kinds_is_learnt(void **state)
{
    (void)state;
    enum { LEARNING = 20, TURNS = 20, TURN_MS = 20, HELD = 2 * SUPERS };
    size_t units[SUPERS], pages[SUPERS], held_units[HELD];
    hak_options.retain = MIB;
    hak_options.retain_max = 4 * MIB;
    purge_everything();
    clock_ms += 3 * SECOND;
    for (int i = 0; i < HELD; i++)
        held_units[i] = take_units();
    for (int i = 0; i < SUPERS; i++)
        pages[i] = take_pages();
    clock_ms += 3 * SECOND;
    for (int i = 0; i < LEARNING; i++, clock_ms += TURN_MS)
        change_places(units, pages);
    size_t total = purge_total();
    for (int i = 0; i < TURNS; i++, clock_ms += TURN_MS)
        change_places(units, pages);
    assert_int_equal(purge_total(), total);
    for (int i = 0; i < SUPERS; i++)
        pages_give(pages[i], (uint32_t)(GRANULE_SIZE >> page_shift()));
    for (int i = 0; i < HELD; i++)
        units_give(held_units[i], GRANULE_UNITS, GRANULE_UNITS);
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

static void take_of_many(void **blocks, int n)
{
    for (int i = 0; i < n; i++) {
        blocks[i] = take_big();
        purge_note_big();
    }
}

/* Looked at all the time, what grew for seconds and is dropped then has not swung. */
static void growth_is_no_swing(void **state)
{
    (void)state;
    enum { ROUNDS = 2, SECONDS = 8, EACH = 16 };
    void *blocks[SECONDS * EACH];
    hak_options.retain = MIB;
    hak_options.retain_max = 4 * MIB;
    purge_everything();
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < SECONDS * EACH; i++) {
            take_of_many(&blocks[i], 1);
            clock_ms += SECOND / EACH + 1;
            purge_look(purge_dirty_bytes());
        }
        for (int i = 0; i < SECONDS * EACH; i++)
            assert_true(big_free(unit_of(blocks[i])));
        look();
    }
    assert_true(dirty_bytes() <= 8 * MIB);
}

/* A window that begins when all but a few are taken again saw no fall; the one before did. */
static void a_swing_may_begin_in_the_window_before(void **state)
{
    (void)state;
    enum { MANY = 128, FEW = 8 };
    void *blocks[MANY];
    hak_options.retain = MIB;
    hak_options.retain_max = 4 * MIB;
    purge_everything();
    for (int turn = 0; turn < 3; turn++) {
        take_of_many(blocks, MANY - FEW);
        clock_ms += SECOND - SECOND / 8;
        purge_look(purge_dirty_bytes());
        take_of_many(blocks + MANY - FEW, FEW);
        for (int i = 0; i < MANY; i++)
            assert_true(big_free(unit_of(blocks[i])));
        clock_ms += SECOND / 4;
        look();
    }
    assert_true(dirty_bytes() >= MANY / 2 * GRANULE_SIZE);
    purge_everything();
    clock_ms += 3 * SECOND;
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

static void without_learning_the_mind_is_not_asked(void **state)
{
    (void)state;
    assert_int_equal(asked_now(), 1); /* this process was large */
    hak_options.learn = false;
    assert_int_equal(asked_now(), 0);
    hak_options.learn = true;
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
        cmocka_unit_test(a_process_is_followed_once_it_was_large),
        cmocka_unit_test(retained_memory_stays),
        cmocka_unit_test(a_look_is_one_at_the_limit_as_well),
        cmocka_unit_test(one_free_of_some_is_followed_by_a_look),
        cmocka_unit_test(excess_goes_down_to_the_allowance),
        cmocka_unit_test(a_little_excess_is_let_be),
        cmocka_unit_test(everything_is_everything),
        cmocka_unit_test(one_thread_purges_at_a_time),
        cmocka_unit_test(what_was_refused_is_not_tried_for_a_second),
        cmocka_unit_test(what_others_took_is_tried_at_once),
        cmocka_unit_test(an_oscillation_keeps_what_it_needs),
        cmocka_unit_test(who_sets_the_most_that_is_kept_means_it),
        cmocka_unit_test(an_oscillation_is_forgotten),
        cmocka_unit_test(scattered_demand_keeps_as_much_again_and_no_more),
        cmocka_unit_test(an_oscillation_is_forgotten),
        cmocka_unit_test(steady_demand_for_changing_kinds_is_learnt),
        cmocka_unit_test(an_oscillation_is_forgotten),
        cmocka_unit_test(growth_is_no_swing),
        cmocka_unit_test(a_swing_may_begin_in_the_window_before),
        cmocka_unit_test(a_single_peak_is_not_kept),
        cmocka_unit_test(a_slow_rhythm_is_learnt_and_forgotten),
        cmocka_unit_test(without_learning_the_mind_is_not_asked),
        cmocka_unit_test(near_a_limit_nothing_is_allowed),
        cmocka_unit_test(what_heaps_keep_is_no_excess_near_a_limit),
        cmocka_unit_test(
            an_oscillation_of_much_is_forgotten), /* last: higher than the others rise */
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
