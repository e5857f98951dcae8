/* SuperSlabs: which of them have huge pages, and what the kernel is told. */
#include "supers.h"

#include "control/options.h"
#include "pressure/pressure.h"
#include "super/huge.h"

/* Whether there is time for one is test_huge's matter. */
bool __wrap_huge_advise(size_t granule, bool fresh);
bool __wrap_huge_advise(size_t granule, bool fresh)
{
    (void)granule;
    assert_true(fresh);
    return true;
}

static size_t take_dense(bool *zeroed)
{
    ptrdiff_t got = units_take_dense(zeroed);
    assert_true(got >= 0);
    return (size_t)got;
}

/* The first touch of a huge page brings all of it: free units have pages then, and still read as zeros. They are for who
 * fills them, until they have been. */
static void units_beside_a_huge_page_have_pages(void **state)
{
    (void)state;
    size_t huge_min = hak_options.huge_min;
    bool zeroed;
    supers_purge(0);
    hak_options.huge_min = 0;
    size_t first = take_dense(&zeroed);
    assert_true(zeroed);
    assert_int_equal(units_dirty(), GRANULE_UNITS - 1);
    size_t sparse = take(1, &zeroed);
    assert_int_not_equal(sparse / GRANULE_UNITS, first / GRANULE_UNITS);
    size_t second = take_dense(&zeroed);
    assert_int_equal(second / GRANULE_UNITS, first / GRANULE_UNITS);
    assert_true(zeroed);
    soil(second, 1);
    units_give(second, 1, 1);
    assert_int_equal(take(1, &zeroed), second);
    assert_false(zeroed);
    units_give(second, 1, 0);
    units_give(first, 1, 0);
    units_give(sparse, 1, 0);
    hak_options.huge_min = huge_min;
    supers_purge(0);
    assert_int_equal(units_dirty(), 0);
}

static _Atomic size_t told_small; /* how often */
static _Atomic(char *) told_small_at;

void __real_os_advise_huge(void *at, size_t size, bool wanted);
void __wrap_os_advise_huge(void *at, size_t size, bool wanted);
void __wrap_os_advise_huge(void *at, size_t size, bool wanted)
{
    if (!wanted && unit_of(at) < hak_region.units) {
        add_relaxed(&told_small, 1);
        store_relaxed(&told_small_at, (char *)at);
        assert_int_equal(size, GRANULE_SIZE);
    }
    __real_os_advise_huge(at, size, wanted);
}

/* SuperSlabs that are not dense: the kernel is told so once for each. */
static void what_is_not_dense_has_small_pages(void **state)
{
    (void)state;
    enum { UNITS = 3 * GRANULE_UNITS };
    size_t units[UNITS], mapped = load_relaxed(&hak_supers.mapped);
    bool zeroed;
    store_relaxed(&told_small, 0);
    for (size_t i = 0; i < UNITS; i++)
        units[i] = take(1, &zeroed);
    mapped = load_relaxed(&hak_supers.mapped) - mapped;
    assert_true(mapped != 0);
    assert_int_equal(load_relaxed(&told_small), mapped);
    assert_ptr_equal(load_relaxed(&told_small_at),
                     granule_address(units[UNITS - 1] / GRANULE_UNITS));
    for (size_t i = 0; i < UNITS; i++)
        units_give(units[i], 1, 1);
    supers_purge(0);
}

/* Or the kernel would fill again in time what went back, or at once what becomes another kind of memory. */
static void where_some_of_a_huge_page_goes_back_the_rest_stays_small(void **state)
{
    (void)state;
    size_t huge_min = hak_options.huge_min, unit[3];
    bool zeroed;
    supers_purge(0);
    hak_options.huge_min = 0;
    for (size_t i = 0; i < ARRAY_LENGTH(unit); i++)
        unit[i] = take_dense(&zeroed);
    char *at = granule_address(unit[0] / GRANULE_UNITS);
    store_relaxed(&told_small, 0);
    for (size_t i = 1; i < ARRAY_LENGTH(unit); i++) {
        units_give(unit[i], 1, 1);
        supers_purge(0);
        assert_int_equal(load_relaxed(&told_small), 1);
        assert_ptr_equal(load_relaxed(&told_small_at), at);
    }
    units_give(unit[0], 1, 1);
    supers_purge(0);
    unit[0] = take_dense(&zeroed); /* made anew */
    store_relaxed(&told_small, 0);
    units_give(unit[0], 1, 1);
    supers_purge(0); /* all of it goes, and may be a block's next that is touched here and there */
    assert_int_equal(load_relaxed(&told_small), 1);
    assert_int_equal(load_relaxed(&super_at(unit[0] / GRANULE_UNITS)->pages), SUPER_NONE);
    hak_options.huge_min = huge_min;
}

/* What the kernel makes of a SuperSlab, and what may happen meanwhile. */
static struct {
    size_t granule;              /* the one that is watched, ... */
    size_t resident;             /* ... and its pages */
    size_t looked_at, collapsed; /* how often */
    bool has_no_time, refuses, goes_back;
} kernel;

size_t __wrap_os_resident_pages(void *at, size_t size);
size_t __wrap_os_resident_pages(void *at, size_t size)
{
    assert_int_equal(size, GRANULE_SIZE);
    kernel.looked_at += at == granule_address(kernel.granule);
    return at == granule_address(kernel.granule) ? kernel.resident : 0;
}

bool __wrap_huge_may_collapse(void);
bool __wrap_huge_may_collapse(void)
{
    return !kernel.has_no_time;
}

bool __wrap_huge_collapse(size_t granule);
bool __wrap_huge_collapse(size_t granule)
{
    assert_int_equal(granule, kernel.granule);
    kernel.collapsed++;
    if (kernel.goes_back)
        super_huge_to_small(granule);
    return !kernel.refuses;
}

static size_t collapsed_by_looking(void)
{
    kernel.collapsed = kernel.looked_at = 0;
    size_t before = load_relaxed(&hak_supers.collapsed);
    for (size_t i = 0; i < region_top(); i++)
        supers_collapse();
    size_t counted = load_relaxed(&hak_supers.collapsed) - before;
    assert_int_equal(counted, kernel.refuses ? 0 : kernel.collapsed);
    return kernel.collapsed;
}

/* A SuperSlab of which all units are the caller's, and all pages there. Returns the first. */
static size_t take_full(void)
{
    bool zeroed;
    supers_purge(0);
    size_t first = take(GRANULE_UNITS, &zeroed);
    kernel.granule = first / GRANULE_UNITS;
    kernel.resident = GRANULE_SIZE / hak_region.page_size;
    kernel.refuses = kernel.goes_back = false;
    store_relaxed(&told_small, 0);
    return first;
}

static int pages_of_watched(void)
{
    return load_relaxed(&super_at(kernel.granule)->pages);
}

static void full_ones_become_huge(void **state)
{
    (void)state;
    size_t first = take_full(), pages = kernel.resident;
    kernel.resident = pages - pages / 16 - 1;
    assert_int_equal(collapsed_by_looking(), 0);
    assert_true(kernel.looked_at > 0);
    kernel.resident = pages - pages / 16;
    assert_int_equal(collapsed_by_looking(), 1);
    assert_int_equal(pages_of_watched(), SUPER_HUGE);
    assert_int_equal(load_relaxed(&told_small), 0);
    units_give(first, GRANULE_UNITS, 0);
}

static void others_are_left_as_they_are(void **state)
{
    (void)state;
    int huge_pages = (int)hak_options.huge_pages;
    size_t first = take_full();
    hak_options.huge_pages = 0;
    assert_int_equal(collapsed_by_looking(), 0);
    hak_options.huge_pages = 1;
    kernel.has_no_time = true;
    assert_int_equal(collapsed_by_looking(), 0);
    kernel.has_no_time = false;
    store_relaxed(&hak_pressure.level, PRESSURE_NEAR);
    assert_int_equal(collapsed_by_looking(), 0);
    store_relaxed(&hak_pressure.level, PRESSURE_NONE);
    units_give(first, 1, 1);
    assert_int_equal(collapsed_by_looking(), 0); /* one unit is free */
    units_give(first + 1, GRANULE_UNITS - 1, 1);
    assert_int_equal(supers_take_whole(), REGION_NONE); /* so few are dirty */
    supers_purge(0);
    assert_int_equal(collapsed_by_looking(), 0); /* it is no SuperSlab any more */
    assert_int_equal(kernel.looked_at, 0);
    hak_options.huge_pages = (size_t)huge_pages;
}

static void what_is_refused_stays_small(void **state)
{
    (void)state;
    size_t first = take_full();
    kernel.refuses = true;
    assert_true(collapsed_by_looking() > 0); /* how often is huge.c's affair */
    assert_int_equal(pages_of_watched(), SUPER_SMALL);
    assert_int_equal(load_relaxed(&told_small), kernel.collapsed);
    units_give(first, GRANULE_UNITS, 0);
}

/* The kernel was told so before it was told otherwise. */
static void where_some_goes_back_meanwhile_the_rest_stays_small(void **state)
{
    (void)state;
    size_t first = take_full();
    kernel.goes_back = true;
    assert_true(collapsed_by_looking() > 0);
    assert_int_equal(pages_of_watched(), SUPER_SMALL);
    assert_int_equal(load_relaxed(&told_small), 2 * kernel.collapsed);
    units_give(first, GRANULE_UNITS, 0);
}

/* Whichever of the two comes last. */
static void what_is_refused_meanwhile_stays_small(void **state)
{
    (void)state;
    size_t first = take_full();
    kernel.refuses = kernel.goes_back = true;
    assert_true(collapsed_by_looking() > 0);
    assert_int_equal(pages_of_watched(), SUPER_SMALL);
    assert_int_equal(load_relaxed(&told_small), 2 * kernel.collapsed);
    units_give(first, GRANULE_UNITS, 0);
}

static void a_small_heap_has_no_dense_ones(void **state)
{
    (void)state;
    size_t huge_min = hak_options.huge_min;
    bool zeroed;
    supers_purge(0);
    hak_options.huge_min = (supers_mapped() + 1) * GRANULE_SIZE;
    size_t sparse = take(1, &zeroed), dense = take_dense(&zeroed);
    assert_int_equal(units_dirty(), 0); /* no huge page was asked for */
    units_give(sparse, 1, 0);
    units_give(dense, 1, 0);
    hak_options.huge_min = huge_min;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(units_beside_a_huge_page_have_pages),
        cmocka_unit_test(where_some_of_a_huge_page_goes_back_the_rest_stays_small),
        cmocka_unit_test(full_ones_become_huge),
        cmocka_unit_test(others_are_left_as_they_are),
        cmocka_unit_test(what_is_refused_stays_small),
        cmocka_unit_test(where_some_goes_back_meanwhile_the_rest_stays_small),
        cmocka_unit_test(what_is_refused_meanwhile_stays_small),
        cmocka_unit_test(a_small_heap_has_no_dense_ones),
        cmocka_unit_test(what_is_not_dense_has_small_pages),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
