/* Memory that big blocks get of other kinds, and give them. */
#include "big_blocks.h"

#include "os/os.h"
#include "pages/pages.h"
#include "slab/slab.h"
#include "super/super.h"

/* What other kinds of memory have freed as a whole moves as well. */
static void pages_of_other_kinds_come_together(void **state)
{
    (void)state;
    if (!region_can_forget())
        skip();
    bool zeroed = true;
    (void)pages_purge(0);
    (void)supers_purge(0);
    ptrdiff_t unit = units_take(GRANULE_UNITS, &zeroed);
    ptrdiff_t page = pages_take((uint32_t)(GRANULE_SIZE >> page_shift()), 1, &zeroed);
    assert_true(unit >= 0 && page >= 0);
    char *of_units = unit_address((size_t)unit), *of_pages = page_address((size_t)page);
    stamp(of_units, GRANULE_SIZE);
    stamp(of_pages, GRANULE_SIZE);
    units_give((size_t)unit, GRANULE_UNITS, GRANULE_UNITS);
    pages_give((size_t)page, (uint32_t)(GRANULE_SIZE >> page_shift()));
    size_t fresh = big_fresh_bytes(), supers = supers_mapped(), granules = pages_granules();
    char *p = big_alloc(3 * GRANULE_SIZE, 1, BIG_PLAIN, &zeroed);
    assert_non_null(p);
    assert_false(zeroed);
    assert_int_equal(big_fresh_bytes() - fresh, GRANULE_SIZE);
    assert_int_equal(units_dirty() + pages_dirty(), 0);
    assert_true(supers_mapped() == supers - 1 && pages_granules() == granules - 1);
    assert_true(has_stamp(p, GRANULE_SIZE) && has_stamp(p + GRANULE_SIZE, GRANULE_SIZE));
    memset(p, 'x', 3 * GRANULE_SIZE);
    unit = units_take(GRANULE_UNITS, &zeroed); /* the old places can be used again */
    assert_true(unit >= 0 && zeroed && is_zero(unit_address((size_t)unit), GRANULE_SIZE));
    units_give((size_t)unit, GRANULE_UNITS, 0);
    release(p);
}

/* A single granule needs no moving. */
static void a_granule_of_pages_serves_where_it_is(void **state)
{
    (void)state;
    bool zeroed = true;
    (void)pages_purge(0);
    (void)supers_purge(0);
    ptrdiff_t page = pages_take((uint32_t)(GRANULE_SIZE >> page_shift()), 1, &zeroed);
    assert_true(page >= 0);
    char *of_pages = page_address((size_t)page);
    stamp(of_pages, GRANULE_SIZE);
    pages_give((size_t)page, (uint32_t)(GRANULE_SIZE >> page_shift()));
    size_t fresh = big_fresh_bytes(), granules = pages_granules();
    assert_ptr_equal(big_alloc(MIB + 1, 1, BIG_PLAIN, &zeroed), of_pages);
    assert_false(zeroed);
    assert_int_equal(big_dirty_bytes(of_pages), GRANULE_SIZE);
    assert_true(has_stamp(of_pages, GRANULE_SIZE));
    assert_int_equal(pages_granules(), granules - 1);
    assert_int_equal(pages_dirty(), 0);
    assert_int_equal(big_fresh_bytes(), fresh);
    release(of_pages);
    assert_int_equal(big_cached_bytes(), GRANULE_SIZE); /* all of it may be touched */
    /* What the other kind has left of its own goes with it, where it is whole pages. */
    size_t page_size = os_page_size();
    char *map = (char *)unit_map(unit_of(of_pages), FIRST_PAGED);
    map -= (uintptr_t)map % page_size;
    assert_int_equal(os_resident_pages(map, page_size), 1);
    (void)big_purge(0);
    assert_int_equal(os_resident_pages(map, page_size), page_size > 4096);
}

/* A block that begins where another kind's granule was leaves for another place. */
static void maps_of_the_other_kind_do_not_stay(void **state)
{
    (void)state;
    size_t page_size = os_page_size();
    if (!region_can_forget() || page_size > 4096)
        skip();
    bool zeroed = true, is_behind;
    (void)pages_purge(0);
    (void)supers_purge(0);
    ptrdiff_t page = pages_take((uint32_t)(GRANULE_SIZE >> page_shift()), 1, &zeroed);
    assert_true(page >= 0);
    char *of_pages = page_address((size_t)page);
    size_t granule = unit_of(of_pages) / GRANULE_UNITS;
    char *map = (char *)unit_map(unit_of(of_pages), FIRST_PAGED);
    map -= (uintptr_t)map % page_size;
    *of_pages = *map = 1;
    pages_give((size_t)page, (uint32_t)(GRANULE_SIZE >> page_shift()));
    is_behind = region_extend(granule + 1, 1, &zeroed); /* nobody else grows into it */
    assert_ptr_equal(alloc(GRANULE_SIZE), of_pages);
    release(of_pages);
    assert_int_equal(os_resident_pages(map, page_size), 1);
    char *whole = alloc(3 * GRANULE_SIZE);
    assert_ptr_not_equal(whole, of_pages);
    assert_int_equal(*whole, 1); /* its pages */
    assert_int_equal(os_resident_pages(map, page_size), 0);
    release(whole);
    if (is_behind)
        region_give(granule + 1, 1, false);
}

/* What the kernel did not take back is there, however little of the granule its next block has. */
static void what_stayed_in_a_granule_is_not_zero(void **state)
{
    (void)state;
    size_t touched = 0;
    char *p = alloc(GRANULE_SIZE);
    size_t granule = unit_of(p) / GRANULE_UNITS;
    stamp(p, GRANULE_SIZE);
    release(p);
    assert_int_equal(big_take_cached(1, &touched), granule);
    region_give(granule, 1, false);
    assert_ptr_equal(alloc(MIB + 1), p);
    release(p);
    assert_int_equal(big_take_cached(1, &touched), granule);
    assert_int_equal(touched, GRANULE_SIZE);
    region_give(granule, 1, os_purge(p, GRANULE_SIZE));
}

static void others_get_a_granule_of_the_cache(void **state)
{
    (void)state;
    size_t touched = 0;
    char *p = alloc(MIB + 1), *end = p + round_up(MIB + 1, os_page_size());
    assert_int_equal(big_take_cached(1, &touched), REGION_NONE);
    release(p);
    assert_int_equal(big_take_cached((size_t)(end - p) + 1, &touched), REGION_NONE);
    assert_int_equal(big_cached_bytes(), end - p);
    size_t granule = unit_of(p) / GRANULE_UNITS;
    assert_int_equal(big_take_cached((size_t)(end - p), &touched), granule);
    assert_int_equal(touched, end - p);
    assert_int_equal(big_cached_bytes(), 0);
    assert_int_equal(big_take_cached(1, &touched), REGION_NONE);
    region_give(granule, 1, false);
    p = alloc(6 * MIB);
    release(p);
    assert_int_equal(big_take_cached(GRANULE_SIZE, &touched),
                     unit_of(p) / GRANULE_UNITS + 2); /* the end of it */
    assert_int_equal(big_cached_bytes(), 4 * MIB);
    region_give(unit_of(p) / GRANULE_UNITS + 2, 1, false);
}

/* It is a mapping of its own, which is known of big blocks alone. */
static void what_was_moved_is_not_for_others(void **state)
{
    (void)state;
    if (!region_can_forget())
        skip();
    void *p[2], *between[2];
    size_t touched;
    alloc_apart(p, between, 2, 2 * MIB);
    release_all(p, 2);
    void *whole = alloc(4 * MIB);
    assert_int_equal(big_cached_bytes(), 0);
    release(whole);
    assert_int_equal(big_take_cached(1, &touched), REGION_NONE);
    assert_int_equal(big_cached_bytes(), 4 * MIB);
    assert_ptr_equal(alloc(4 * MIB), whole);
    release(whole);
    release_all(between, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(pages_of_other_kinds_come_together, empty_cache),
        cmocka_unit_test_setup(a_granule_of_pages_serves_where_it_is, empty_cache),
        cmocka_unit_test_setup(maps_of_the_other_kind_do_not_stay, empty_cache),
        cmocka_unit_test_setup(what_stayed_in_a_granule_is_not_zero, empty_cache),
        cmocka_unit_test_setup(others_get_a_granule_of_the_cache, empty_cache),
        cmocka_unit_test_setup(what_was_moved_is_not_for_others, empty_cache),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
