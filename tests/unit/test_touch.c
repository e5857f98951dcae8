/* Huge pages for big blocks: by which share of their pages is touched, and by what the first touch costs. */
#include "unit.h"

#include "big/big.h"
#include "control/options.h"
#include "mind/keys.h"
#include "mind/touch.h"
#include "os/os.h"
#include "region/region.h"

/* Values of the setting, in the order of its words. */
enum { OFF, ALWAYS, SHADOW, LEARNT, SHUFFLED };

static struct decision last;

static int start(void **state)
{
    (void)state;
    region_init();
    return 0;
}

/* As often as it takes for what was before to be forgotten. */
static void prices(uint64_t small_ns, uint64_t huge_ns)
{
    for (int i = 0; i < 40; i++) {
        touch_note_price(BIG_SMALL, small_ns, &last);
        touch_note_price(BIG_HUGE, huge_ns, &last);
    }
}

static int learn(void **state)
{
    (void)state;
    prices(800000, 100000);
    hak_options.huge_blocks = LEARNT;
    hak_options.huge_pages = true;
    hak_options.learn = true;
    return 0;
}

/* A fresh block with small pages of which so many in 100 are touched, and what is learnt of it. */
static bool look(size_t size, size_t percent)
{
    bool zeroed;
    char *p = big_alloc(size, 1, BIG_LOOKED_AT, &zeroed);
    assert_non_null(p);
    for (size_t at = 0; at < size; at += hak_region.page_size) {
        if (at / hak_region.page_size * 37 % 100 < percent)
            p[at] = 1;
    }
    bool changed = touch_look(p, size, &last);
    assert_true(big_free(unit_of(p)));
    (void)big_purge(0);
    return changed;
}

/* Of those planned next, how many are to have such pages. */
static uint32_t planned(size_t size, enum big_pages pages, uint32_t blocks)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < blocks; i++)
        count += touch_plan(size, false) == pages;
    return count;
}

static void the_first_blocks_are_looked_at(void **state)
{
    (void)state;
    assert_int_equal(planned(2 * MIB, BIG_LOOKED_AT, 100), 100);
    assert_int_equal(touch_plan(2 * MIB - 1, false), BIG_PLAIN);
}

static void a_size_that_is_touched_as_a_whole_gets_huge_pages(void **state)
{
    (void)state;
    size_t size = 4 * MIB + 12345;
    for (int i = 0; i < 3; i++)
        assert_false(look(size, 100));
    assert_true(look(size, 100));
    assert_int_equal(last.from, 0);
    assert_int_equal(last.to, 1);
    assert_int_equal(last.episodes, 4);
    assert_int_equal(planned(size, BIG_HUGE, 640), 630);
    assert_int_equal(planned(size, BIG_LOOKED_AT, 640), 10);
    assert_int_equal(touch_plan(size, true), BIG_HUGE);
    assert_int_equal(touch_plan(2 * size, true), BIG_PLAIN); /* nothing is known of those */
}

static void the_cheaper_pages_are_chosen(void **state)
{
    (void)state;
    size_t size = 256 * MIB;
    for (int i = 0; i < 4; i++)
        look(size, 100);
    assert_int_equal(touch_cost(keep_key_of_size(size)), TOUCH_COST_SMALL / 8);
    assert_int_equal(touch_cost(keep_key_of_size(size * 2)), TOUCH_COST_SMALL);
    prices(100000, 800000);
    assert_int_equal(planned(size, BIG_SMALL, 640), 630);
    assert_int_equal(touch_cost(keep_key_of_size(size)), TOUCH_COST_SMALL);
    prices(100000, 95000); /* not for so little */
    assert_int_equal(planned(size, BIG_HUGE, 640), 0);
    assert_true(touch_note_price(BIG_SMALL, 1000000000, &last)); /* counts as four times the last */
    assert_int_equal(last.key, 0);
    assert_int_equal(last.to, 1);
    assert_true(last.seen_kib > 150000 && last.seen_kib < 200000 && last.reused_kib < 100000);
    assert_int_equal(planned(size, BIG_HUGE, 640), 630);
}

#ifndef HAK_TEST_EMULATED /* the emulator populates nothing */
/* Both prices change when 64 blocks are tried, whatever they were to have. */
static void the_dearer_pages_are_tried_now_and_then(void **state)
{
    (void)state;
    bool zeroed;
    prices(1000000000, 1000);
    for (int i = 0; i < 64; i++) {
        char *p = big_alloc(GRANULE_SIZE, 1, BIG_HUGE, &zeroed);
        touch_try(p, BIG_HUGE, &last);
        assert_true(big_free(unit_of(p)));
        (void)big_purge(0);
    }
    assert_true(last.seen_kib < 800000000 && last.reused_kib > 2000);
}

static void what_is_tried_is_timed(void **state)
{
    (void)state;
    bool zeroed;
    prices(10000, 10000);
    char *p = big_alloc(2 * GRANULE_SIZE, 1, BIG_SMALL, &zeroed);
    touch_try(p, BIG_SMALL, &last);
    assert_true(last.seen_kib > 10000); /* far above that: it is of 2 MiB */
    assert_int_equal(os_resident_pages(p, GRANULE_SIZE), GRANULE_SIZE / hak_region.page_size);
    assert_int_equal(os_resident_pages(p + GRANULE_SIZE, GRANULE_SIZE), 0);
    touch_try(p + GRANULE_SIZE, BIG_LOOKED_AT, &last);
    assert_int_equal(os_resident_pages(p + GRANULE_SIZE, GRANULE_SIZE), 0);
    assert_true(big_free(unit_of(p)));
}
#endif

static void a_size_that_is_not_keeps_small_ones(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++)
        assert_false(look(8 * MIB, 80));
    assert_int_equal(planned(8 * MIB, BIG_HUGE, 100), 0);
    assert_true(planned(8 * MIB, BIG_PLAIN, 640) >= 600);
}

static void what_a_program_does_later_counts(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++)
        look(16 * MIB, 100);
    assert_true(planned(16 * MIB, BIG_HUGE, 8) > 0);
    assert_false(look(16 * MIB, 90)); /* not for so little */
    int looks = 0;
    while (!look(16 * MIB, 10))
        assert_at(looks < 4, ++looks);
    assert_int_equal(planned(16 * MIB, BIG_HUGE, 8), 0);
    while (!look(16 * MIB, 100))
        assert_at(looks < 40, ++looks);
    assert_true(planned(16 * MIB, BIG_HUGE, 8) > 0);
}

static void settings_go_before_what_is_learnt(void **state)
{
    (void)state;
    size_t size = 32 * MIB;
    for (int i = 0; i < 4; i++)
        look(size, 100);
    hak_options.huge_blocks = SHADOW;
    assert_int_equal(planned(size, BIG_HUGE, 32), 0);
    assert_true(planned(size, BIG_PLAIN, 32) > 0);
    look(size, 0);
    assert_true(last.is_shadow);
    hak_options.huge_blocks = OFF;
    assert_int_equal(planned(size, BIG_PLAIN, 32), 32);
    hak_options.huge_blocks = ALWAYS;
    assert_int_equal(planned(size, BIG_HUGE, 32), 32);
    hak_options.huge_pages = false;
    assert_int_equal(planned(size, BIG_PLAIN, 32), 32);
    learn(state);
    hak_options.learn = false;
    assert_int_equal(planned(size, BIG_PLAIN, 32), 32);
}

/* Half of what is asked for gets what the other size should have. */
static void shuffled_pages_say_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        look(64 * MIB, 100);
        look(128 * MIB, 0);
    }
    hak_options.huge_blocks = SHUFFLED;
    uint32_t huge[2] = {0};
    for (int i = 0; i < 320; i++) {
        huge[0] += touch_plan(64 * MIB, false) == BIG_HUGE;
        huge[1] += touch_plan(128 * MIB, false) == BIG_HUGE;
    }
    assert_true(huge[1] > 100);
    assert_true(huge[0] < 100);
}

static void pages_in_memory_are_counted(void **state)
{
    (void)state;
    bool zeroed;
    char *p = big_alloc(2 * GRANULE_SIZE, 1, BIG_LOOKED_AT, &zeroed);
    p[0] = p[5 * hak_region.page_size] = p[GRANULE_SIZE] = 1;
    assert_int_equal(os_resident_pages(p, GRANULE_SIZE), 2);
    assert_int_equal(os_resident_pages(p + GRANULE_SIZE, GRANULE_SIZE), 1);
    assert_int_equal(os_resident_pages(p, 4 * GRANULE_SIZE), 0); /* too much at once */
    assert_true(big_free(unit_of(p)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_first_blocks_are_looked_at, learn),
        cmocka_unit_test_setup(a_size_that_is_touched_as_a_whole_gets_huge_pages, learn),
        cmocka_unit_test_setup(the_cheaper_pages_are_chosen, learn),
#ifndef HAK_TEST_EMULATED
        cmocka_unit_test_setup(the_dearer_pages_are_tried_now_and_then, learn),
        cmocka_unit_test_setup(what_is_tried_is_timed, learn),
#endif
        cmocka_unit_test_setup(a_size_that_is_not_keeps_small_ones, learn),
        cmocka_unit_test_setup(what_a_program_does_later_counts, learn),
        cmocka_unit_test_setup(settings_go_before_what_is_learnt, learn),
        cmocka_unit_test_setup(shuffled_pages_say_nothing, learn),
        cmocka_unit_test(pages_in_memory_are_counted),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
