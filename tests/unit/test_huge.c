/* Huge pages for SuperSlabs: their first touch is timed, and what it costs beyond small pages has a budget. */
#include "unit.h"

#include "os/os.h"
#include "super/huge.h"

/* Each first touch takes as long as the test says: a page of a granule with small ones, or a huge one. */
static uint64_t now_ms, thread_ns, small_page_ns, huge_page_ns;
static bool told_huge, began, has_none;
static size_t granule;

uint64_t __wrap_os_now_ms(void);
uint64_t __wrap_os_now_ms(void)
{
    return now_ms;
}

uint64_t __wrap_os_thread_ns(void);
uint64_t __wrap_os_thread_ns(void)
{
    uint64_t pages = UNIT_SIZE / hak_region.page_size;
    began = !began;
    if (!began)
        thread_ns += told_huge ? huge_page_ns : pages * small_page_ns;
    return thread_ns;
}

void __wrap_os_advise_huge(void *at, size_t size, bool wanted);
void __wrap_os_advise_huge(void *at, size_t size, bool wanted)
{
    if (unit_of(at) >= hak_region.units)
        return; /* variables and tables */
    assert_ptr_equal(at, granule_address(granule));
    assert_int_equal(size, GRANULE_SIZE);
    told_huge = wanted;
}

/* One is there as a whole once it has been touched; where there is none, the page that was touched. */
size_t __wrap_os_resident_pages(void *at, size_t size);
size_t __wrap_os_resident_pages(void *at, size_t size)
{
    assert_ptr_equal(at, granule_address(granule));
    assert_int_equal(size, GRANULE_SIZE);
    assert_true(told_huge && !began);
    return has_none ? 1 : size / hak_region.page_size;
}

static bool advise_fresh(void)
{
    bool huge = huge_advise(granule, true);
    assert_int_equal(huge, told_huge);
    return huge;
}

/* In the order they run in: what is known of prices stays. */
static void the_first_tells_what_small_pages_cost(void **state)
{
    (void)state;
    bool zeroed;
    assert_true(region_init());
    ptrdiff_t got = region_take(1, GRANULE_SIZE, &zeroed);
    assert_true(got >= 0 && zeroed);
    granule = (size_t)got;
    now_ms = 1000;
    small_page_ns = 2000;
    huge_page_ns = 200000;
    assert_false(advise_fresh());
}

static void huge_pages_that_are_cheaper_are_taken_all_the_time(void **state)
{
    (void)state;
    for (int i = 0; i < 100; i++)
        assert_true(advise_fresh());
}

/* 512 small pages cost 1.024 ms, a huge one 7.024 ms: 6 ms are 1/32 of 192. */
static void dear_ones_have_a_budget_of_time(void **state)
{
    (void)state;
    uint64_t pages = GRANULE_SIZE / hak_region.page_size;
    huge_page_ns = pages * small_page_ns + 6000000;
    assert_true(advise_fresh());
    assert_false(advise_fresh());
    now_ms += 191;
    assert_false(advise_fresh());
    now_ms += 1;
    assert_true(advise_fresh());
    assert_false(advise_fresh());
}

static void as_small_pages_become_dear_so_may_huge_ones(void **state)
{
    (void)state;
    small_page_ns *= 8;
    for (int i = 0; i < 20; i++)
        assert_false(advise_fresh());
    now_ms += 192;
    for (int i = 0; i < 20; i++)
        assert_true(advise_fresh());
}

/* It has pages already, so that nothing can be learnt from touching them. */
static void one_with_pages_is_not_timed(void **state)
{
    (void)state;
    uint64_t before = thread_ns;
    assert_true(huge_advise(granule, false));
    assert_true(told_huge);
    assert_int_equal(thread_ns, before);
}

/* Of what is not there nobody says that it is, and it is not asked for again soon. */
static void where_there_are_none_pages_are_small(void **state)
{
    (void)state;
    has_none = true;
    assert_false(advise_fresh());
    has_none = false;
    now_ms += 9999;
    assert_false(advise_fresh());
    now_ms += 1;
    assert_true(advise_fresh());
}

static bool collapses;

bool __wrap_os_collapse(void *at, size_t size);
bool __wrap_os_collapse(void *at, size_t size)
{
    assert_ptr_equal(at, granule_address(granule));
    assert_int_equal(size, GRANULE_SIZE);
    assert_true(told_huge);
    return collapses;
}

/* 3 ms are 1/32 of 96. */
static void collapsing_has_a_budget_of_its_own(void **state)
{
    (void)state;
    huge_page_ns = 3000000;
    collapses = true;
    for (int i = 0; i < 3; i++) {
        assert_true(huge_may_collapse());
        assert_true(huge_collapse(granule));
        assert_false(huge_may_collapse());
        now_ms += 95;
        assert_false(huge_may_collapse());
        now_ms += 1;
    }
    assert_true(advise_fresh());
}

static void who_was_refused_waits(void **state)
{
    (void)state;
    collapses = false;
    assert_true(huge_may_collapse());
    assert_false(huge_collapse(granule));
    now_ms += 9999;
    assert_false(huge_may_collapse());
    now_ms += 1;
    assert_true(huge_may_collapse());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_tells_what_small_pages_cost),
        cmocka_unit_test(huge_pages_that_are_cheaper_are_taken_all_the_time),
        cmocka_unit_test(dear_ones_have_a_budget_of_time),
        cmocka_unit_test(as_small_pages_become_dear_so_may_huge_ones),
        cmocka_unit_test(one_with_pages_is_not_timed),
        cmocka_unit_test(where_there_are_none_pages_are_small),
        cmocka_unit_test(collapsing_has_a_budget_of_its_own),
        cmocka_unit_test(who_was_refused_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
