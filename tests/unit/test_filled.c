/* Which pages granules of runs have, by whether those before were filled. */
#include "unit.h"

#include "control/options.h"
#include "os/os.h"
#include "pages/filled.h"
#include "pages/pages.h"
#include "pressure/pressure.h"
#include "super/super.h"

enum { EVERY = 8 /* one of so many is a witness */, TURNS = 3 * EVERY };

/* Whether there is time for a huge page is test_huge's matter. */
static struct {
    size_t asked, told_small, last; /* how often; a granule */
    bool refuses;
} huge;

bool __wrap_huge_advise(size_t granule, bool fresh);
bool __wrap_huge_advise(size_t granule, bool fresh)
{
    assert_true(fresh);
    huge.asked++;
    huge.last = granule;
    return !huge.refuses;
}

void __wrap_os_advise_huge(void *at, size_t size, bool wanted);
void __wrap_os_advise_huge(void *at, size_t size, bool wanted)
{
    if (unit_of(at) >= hak_region.units)
        return; /* the library's own */
    assert_int_equal(size, GRANULE_SIZE);
    assert_false(wanted);
    huge.told_small++;
}

static size_t taken[3 * TURNS], count;
static uint32_t granule_pages;

static int set_up(void **state)
{
    (void)state;
    if (!region_init())
        return -1;
    granule_pages = (uint32_t)(GRANULE_SIZE >> page_shift());
    return 0;
}

static int begin(void **state)
{
    (void)state;
    hak_options.huge_min = 0;
    memset(&huge, 0, sizeof huge);
    return 0;
}

static int end(void **state)
{
    (void)state;
    while (count > 0)
        pages_give(taken[--count], granule_pages);
    pages_purge(0);
    return pages_dirty() == 0 && pages_granules() == 0 ? 0 : -1;
}

/* A run that is all of a granule, of which so many bytes are written. Whether a huge page was asked for. */
static bool grow(size_t bytes)
{
    size_t asked = huge.asked;
    bool zeroed;
    ptrdiff_t page = pages_take(granule_pages, 1, &zeroed);
    assert_true(page >= 0 && zeroed && count < ARRAY_LENGTH(taken));
    memset(page_address((size_t)page), 'x', bytes);
    taken[count++] = (size_t)page;
    return huge.asked != asked;
}

static size_t asked_in(size_t turns, size_t bytes)
{
    size_t asked = huge.asked;
    for (size_t i = 0; i < turns; i++)
        grow(bytes);
    return huge.asked - asked;
}

/* Up to a witness, and that what was known before is not any more. */
static void grow_to_witness(size_t bytes)
{
    asked_in(EVERY + 1, bytes);
    while (grow(bytes))
        ;
}

static void what_is_filled_has_huge_pages_but_for_witnesses(void **state)
{
    (void)state;
    grow_to_witness(GRANULE_SIZE);
    assert_int_equal(asked_in(TURNS, GRANULE_SIZE), TURNS - TURNS / EVERY);
    assert_int_equal(huge.told_small, count - huge.asked);
}

static void up_to_a_quarter_may_be_missing(void **state)
{
    (void)state;
    grow_to_witness(GRANULE_SIZE);
    asked_in(EVERY, GRANULE_SIZE / 4 * 3); /* the witness is the last of them */
    assert_true(grow(0));
    asked_in(EVERY - 1, GRANULE_SIZE / 4 * 3 - hak_region.page_size);
    assert_int_equal(asked_in(EVERY - 1, 0), 0);
}

static void what_is_touched_in_part_has_small_pages(void **state)
{
    (void)state;
    grow_to_witness(GRANULE_SIZE);
    asked_in(EVERY, 1);
    assert_int_equal(asked_in(TURNS, 1), 0);
    assert_int_equal(huge.told_small, count - huge.asked);
}

static void a_small_heap_has_small_pages(void **state)
{
    (void)state;
    grow_to_witness(GRANULE_SIZE);
    size_t granules = pages_granules() + supers_mapped();
    hak_options.huge_min = 2 * (granules + EVERY) << GRANULE_SHIFT;
    assert_int_equal(asked_in(EVERY, GRANULE_SIZE), 0);
    assert_true(grow(GRANULE_SIZE));
}

static void near_a_limit_pages_come_as_they_are_touched(void **state)
{
    (void)state;
    grow_to_witness(GRANULE_SIZE);
    store_relaxed(&hak_pressure.level, PRESSURE_NEAR);
    assert_int_equal(asked_in(EVERY, GRANULE_SIZE), 0);
    store_relaxed(&hak_pressure.level, PRESSURE_NONE);
    assert_true(grow(GRANULE_SIZE));
}

static void without_huge_pages_nothing_is_said(void **state)
{
    (void)state;
    hak_options.huge_pages = 0;
    assert_int_equal(asked_in(TURNS, GRANULE_SIZE), 0);
    assert_int_equal(huge.told_small, 0);
    hak_options.huge_pages = 1;
}

/* Else its pages, which have gone, would speak against it. */
static void a_witness_that_has_gone_says_nothing(void **state)
{
    (void)state;
    grow_to_witness(GRANULE_SIZE);
    asked_in(EVERY, GRANULE_SIZE);
    assert_int_equal(end(NULL), 0);
    assert_int_equal(asked_in(EVERY - 1, GRANULE_SIZE), EVERY - 1);
}

/* All pages are there then, and hold nothing; until the first part of it is given back, or all of it. */
static void a_huge_page_is_there_as_a_whole(void **state)
{
    (void)state;
    bool zeroed;
    uint32_t n = unit_pages() + 1;
    grow_to_witness(GRANULE_SIZE);
    assert_int_equal(pages_dirty(), 0);
    ptrdiff_t page = pages_take(n, 1, &zeroed);
    assert_int_equal(page / granule_pages, huge.last);
    assert_true(zeroed);
    assert_int_equal(pages_dirty(), GRANULE_SIZE - ((size_t)n << page_shift()));
    struct super *s = super_at(huge.last);
    assert_int_equal(load_relaxed(&s->pages), SUPER_HUGE);
    size_t told = huge.told_small;
    pages_purge(0);
    assert_int_equal(huge.told_small, told + 1);
    assert_int_equal(load_relaxed(&s->pages), SUPER_NONE);
    pages_give((size_t)page, n);
    pages_purge(0);
    assert_int_equal(huge.told_small, told + 1);
}

/* Or a block that is touched here and there would have them. */
static void what_has_a_huge_page_goes_with_small_ones(void **state)
{
    (void)state;
    grow_to_witness(GRANULE_SIZE);
    assert_true(grow(GRANULE_SIZE));
    pages_give(taken[--count], granule_pages);
    size_t told = huge.told_small;
    assert_int_equal(pages_take_whole(), huge.last);
    assert_int_equal(huge.told_small, told + 1);
    assert_int_equal(load_relaxed(&super_at(huge.last)->pages), SUPER_NONE);
    assert_true(os_purge(granule_address(huge.last), GRANULE_SIZE));
    region_give(huge.last, 1, true);
}

static void what_is_refused_is_small(void **state)
{
    (void)state;
    grow_to_witness(GRANULE_SIZE);
    huge.refuses = true;
    assert_true(grow(GRANULE_SIZE));
    assert_int_equal(load_relaxed(&super_at(huge.last)->pages), SUPER_NONE);
    assert_int_equal(pages_dirty(), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_filled_has_huge_pages_but_for_witnesses),
        TEST(up_to_a_quarter_may_be_missing),
        TEST(what_is_touched_in_part_has_small_pages),
        TEST(a_small_heap_has_small_pages),
        TEST(near_a_limit_pages_come_as_they_are_touched),
        TEST(without_huge_pages_nothing_is_said),
        TEST(a_witness_that_has_gone_says_nothing),
        TEST(a_huge_page_is_there_as_a_whole),
        TEST(what_has_a_huge_page_goes_with_small_ones),
        TEST(what_is_refused_is_small),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
