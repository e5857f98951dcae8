/* Runs of pages: taken, extended, given back, joined, purged. */
#include "unit.h"

#include "control/options.h"
#include "os/os.h"
#include "pages/pages.h"
#include "super/super.h"

static uint32_t shortest, granule;

/* What the kernel was told of pages: bytes that are to be huge ones, and that are not. */
static _Atomic size_t told_huge, told_small;
void __real_os_advise_huge(void *p, size_t size, bool on);
void __wrap_os_advise_huge(void *p, size_t size, bool on);
void __wrap_os_advise_huge(void *p, size_t size, bool on)
{
    add_relaxed(on ? &told_huge : &told_small, size);
    __real_os_advise_huge(p, size, on);
}

/* What is done while the kernel purges: by another thread it could be, if the lock is not held. */
static void (*meanwhile)(void);
static char *locked[2]; /* pages that the kernel does not take */
bool __real_os_purge(void *p, size_t size);
bool __wrap_os_purge(void *p, size_t size);
bool __wrap_os_purge(void *p, size_t size)
{
    if (meanwhile != NULL && lock_try(pages_lock())) {
        lock_release(pages_lock());
        meanwhile();
    }
    for (size_t i = 0; i < ARRAY_LENGTH(locked); i++) {
        if (locked[i] >= (char *)p && locked[i] < (char *)p + size)
            return false;
    }
    return __real_os_purge(p, size);
}

static int set_up(void **state)
{
    (void)state;
    if (!region_init())
        return -1;
    shortest = unit_pages() + 1;
    granule = (uint32_t)(GRANULE_SIZE >> page_shift());
    return 0;
}

/* Each test starts with nothing free and dirty. */
static int purged(void **state)
{
    (void)state;
    pages_purge(0);
    return pages_dirty() == 0 ? 0 : -1;
}

static size_t bytes_of(uint32_t n)
{
    return (size_t)n << page_shift();
}

static size_t take(uint32_t n, bool *zeroed)
{
    ptrdiff_t got = pages_take(n, 1, zeroed);
    assert_true(got >= 0);
    return (size_t)got;
}

static void soil(size_t page, uint32_t n)
{
    memset(page_address(page), 'x', bytes_of(n));
}

static void accounts_add_up(void **state)
{
    (void)state;
    bool zeroed;
    size_t in_use = pages_in_use(), granules = pages_granules();
    for (uint32_t n = shortest; n <= granule; n++) {
        size_t page = take(n, &zeroed);
        assert_at(page / granule == (page + n - 1) / granule, n);
        assert_at(pages_in_use() == in_use + bytes_of(n), n);
        pages_give(page, n);
        assert_at(pages_in_use() == in_use, n);
    }
    assert_true(pages_dirty() > 0);
    assert_true(pages_purge(0) > 0);
    assert_int_equal(pages_dirty(), 0);
    assert_true(pages_granules() <= granules); /* whole ones go back */
}

static void what_is_free_side_by_side_becomes_one(void **state)
{
    (void)state;
    bool zeroed;
    size_t whole = take(granule, &zeroed); /* nobody else's */
    pages_give(whole, granule);
    size_t part[4];
    for (uint32_t i = 0; i < 4; i++) {
        part[i] = take(granule / 4, &zeroed);
        assert_int_equal(part[i], whole + i * (granule / 4));
    }
    static const uint32_t order[] = {0, 2, 3, 1}; /* behind, before, both, none */
    for (uint32_t i = 0; i < 4; i++)
        pages_give(part[order[i]], granule / 4);
    assert_int_equal(take(granule, &zeroed), whole);
    pages_give(whole, granule);
}

/* A run that ends at the page takes n more. */
static bool extend(size_t end, uint32_t n, bool *zeroed)
{
    uint32_t before = unit_pages() + 1;
    return pages_resize(end - before, before, before + n, zeroed);
}

static void the_shortest_that_fits_is_taken_dirty_ones_first(void **state)
{
    (void)state;
    bool zeroed = true;
    size_t whole = take(granule, &zeroed);
    assert_true(zeroed);
    uint32_t n = granule / 4;
    pages_give(whole, n + 8); /* two stretches, a used page between them, and used ones behind */
    pages_give(whole + n + 9, n);
    assert_int_equal(take(n, &zeroed), whole + n + 9);
    assert_false(zeroed); /* given back is dirty */
    assert_int_equal(take(n, &zeroed), whole);
    pages_give(whole, n);
    pages_give(whole + n + 8, granule - n - 8);
}

static void a_resize_gives_the_end_or_takes_what_is_free_behind(void **state)
{
    (void)state;
    bool zeroed;
    size_t page = take(granule, &zeroed);
    uint32_t half = granule / 2;
    pages_give(page + half, half);
    assert_false(extend(page + half, half + 1, &zeroed)); /* over the granule's end */
    assert_true(extend(page + half, 3, &zeroed));
    assert_false(zeroed);
    assert_false(extend(page + half, 1, &zeroed)); /* taken by now */
    assert_true(extend(page + half + 3, half - 3, &zeroed));
    assert_false(extend(page + granule, 1, &zeroed)); /* the next granule */
    size_t in_use = pages_in_use();
    assert_true(pages_resize(page, granule, half, &zeroed));
    assert_int_equal(pages_in_use(), in_use - bytes_of(half));
    assert_true(pages_resize(page, half, granule, &zeroed));
    assert_true(pages_resize(page, granule, granule, &zeroed));
    assert_int_equal(pages_in_use(), in_use);
    pages_give(page, granule);
}

static void purged_pages_are_zero_and_others_are_not(void **state)
{
    (void)state;
    bool zeroed;
    size_t page = take(granule, &zeroed);
    uint32_t n = granule / 4;
    soil(page, granule);
    pages_give(page, n);
    pages_give(page + 2 * n, n);
    assert_int_equal(pages_purge(bytes_of(n)), bytes_of(n));
    assert_int_equal(pages_dirty(), bytes_of(n));
    assert_int_equal(pages_purge(0), bytes_of(n));
    assert_true(is_zero(page_address(page), bytes_of(n)));
    assert_true(is_zero(page_address(page + 2 * n), bytes_of(n)));
    assert_int_equal(*(char *)page_address(page + n), 'x');
    assert_int_equal(*(char *)page_address(page + 3 * n), 'x');
    assert_true(extend(page + 2 * n, n, &zeroed) && zeroed);
    pages_give(page + n, granule - n);
}

static void a_run_knows_which_of_its_pages_were_touched(void **state)
{
    (void)state;
    bool zeroed;
    size_t whole = take(granule, &zeroed);
    assert_true(zeroed);
    uint32_t n = granule / 4;
    soil(whole + n, n);
    pages_give(whole, 2 * n);
    assert_int_equal(pages_purge(0), bytes_of(2 * n));
    assert_int_equal(take(2 * n, &zeroed), whole);
    assert_true(zeroed);
    pages_give(whole, n);
    pages_purge(0);
    soil(whole + n, n);
    pages_give(whole + n, n); /* joined with clean ones before it */
    assert_int_equal(pages_dirty(), bytes_of(n));
    assert_true(pages_have_touched(2 * n));
    assert_int_equal(take(n, &zeroed), whole + n);
    assert_false(zeroed);
    assert_int_equal(pages_dirty(), 0);
    assert_false(pages_have_touched(1));
    assert_int_equal(take(n, &zeroed), whole);
    assert_true(zeroed);
    soil(whole, n);
    pages_give(whole + n, n);
    pages_purge(0);
    pages_give(whole, n / 2);
    pages_give(whole + n / 2, n - n / 2); /* and behind it */
    assert_int_equal(pages_dirty(), bytes_of(n));
    assert_int_equal(take(n + 1, &zeroed), whole); /* more than were touched */
    assert_false(zeroed);
    assert_int_equal(pages_dirty(), 0);
    pages_give(whole, n + 1);
    assert_int_equal(pages_purge(0), bytes_of(n + 1));
    assert_int_equal(take(2 * n, &zeroed), whole);
    pages_give(whole, n / 2);
    pages_give(whole + n + n / 2, n / 2);
    pages_purge(0);
    pages_give(whole + n / 2, n); /* touched pages in the middle */
    assert_int_equal(take(n, &zeroed), whole + n / 2);
    assert_false(zeroed);
    assert_int_equal(pages_dirty(), 0);
    pages_give(whole + n / 2, n);
    pages_give(whole + 2 * n, granule - 2 * n);
}

/* Three runs of which the middle one is short, as `realloc` leaves it, and starts and ends in the unit where the first one ends
 * and the last one starts. */
static struct {
    size_t first, last;
    uint32_t before, between, behind;
} beside;

static void free_on_both_sides(void)
{
    bool zeroed;
    meanwhile = NULL;
    pages_give(beside.first, beside.before);
    assert_int_equal(take(beside.before - 1, &zeroed), beside.first);
    pages_give(beside.last, beside.behind);
}

static void what_is_purged_keeps_others_out_of_its_unit(void **state)
{
    (void)state;
    bool zeroed;
    if (unit_pages() < 4)
        skip();
    size_t whole = take(granule, &zeroed);
    beside.before = 2 * unit_pages() + 1;
    beside.between = unit_pages() - 2;
    beside.behind = granule - beside.before - beside.between;
    beside.first = whole;
    beside.last = whole + beside.before + beside.between;
    pages_give(whole + beside.before, beside.between);
    meanwhile = free_on_both_sides;
    assert_int_equal(pages_purge(0), bytes_of(beside.between));
    if (meanwhile != NULL)
        free_on_both_sides();
    pages_purge(0);
    assert_int_equal(pages_dirty(), 0);
    pages_give(whole, beside.before - 1);
    assert_int_equal(take(granule, &zeroed), whole); /* nothing of it is lost */
    pages_give(whole, granule);
}

/* ---- threads ---- */

enum { HELD = 24, ROUNDS = 20000 };

struct held {
    size_t page;
    uint32_t n;
};

static _Atomic size_t wrong;

static void check_and_give(struct held *h, size_t number)
{
    for (uint32_t i = 0; i < h->n; i++) {
        if (*(size_t *)page_address(h->page + i) != number)
            add_relaxed(&wrong, 1);
    }
    if (h->n != 0)
        pages_give(h->page, h->n);
    h->n = 0;
}

static void mark(size_t page, uint32_t n, size_t number, bool zeroed)
{
    for (uint32_t i = 0; i < n; i++) {
        size_t *word = page_address(page + i);
        if (zeroed && *word != 0)
            add_relaxed(&wrong, 1);
        *word = number;
    }
}

static void take_held(struct held *h, uint32_t random, size_t number)
{
    bool zeroed;
    uint32_t n = shortest + random % (granule / 4), alignment = 1u << (random % 3);
    ptrdiff_t page = pages_take(n, alignment <= unit_pages() ? alignment : 1, &zeroed);
    if (page < 0 || (size_t)page % (alignment <= unit_pages() ? alignment : 1) != 0) {
        add_relaxed(&wrong, 1);
        return;
    }
    *h = (struct held){(size_t)page, n};
    mark(h->page, n, number, zeroed);
    if (extend(h->page + n, 2, &zeroed)) {
        mark(h->page + n, 2, number, zeroed);
        h->n += 2;
    }
}

static void *take_and_give(void *number)
{
    uint32_t seed = (uint32_t)(uintptr_t)number;
    struct held held[HELD] = {{0}};
    for (int i = 0; i < ROUNDS; i++) {
        struct held *h = &held[next_random(&seed) % HELD];
        check_and_give(h, (size_t)number);
        take_held(h, next_random(&seed), (size_t)number);
        if (next_random(&seed) % 256 == 0)
            pages_purge(MIB);
    }
    for (int i = 0; i < HELD; i++)
        check_and_give(&held[i], (size_t)number);
    return NULL;
}

static void a_whole_granule_can_be_taken(void **state)
{
    (void)state;
    bool zeroed;
    assert_int_equal(pages_take_whole(), REGION_NONE);
    size_t page = take(granule - shortest, &zeroed), granules = pages_granules();
    size_t behind = page + granule - shortest;
    assert_true(extend(behind, shortest, &zeroed));
    soil(page, granule);
    pages_give(page, granule - shortest);
    assert_int_equal(pages_take_whole(), REGION_NONE); /* a part of it is in use */
    pages_give(behind, shortest);
    assert_int_equal(pages_take_whole(), page / granule);
    assert_int_equal(pages_dirty(), 0);
    assert_int_equal(pages_granules(), granules - 1);
    assert_int_equal(*(char *)page_address(page), 'x');
    assert_true(take(shortest, &zeroed) / granule != page / granule);
    region_give(page / granule, 1, false);
}

static void a_run_takes_over_a_super_slab_of_which_nothing_is_in_use(void **state)
{
    (void)state;
    bool zeroed;
    ptrdiff_t unit = units_take(GRANULE_UNITS, &zeroed);
    assert_true(unit >= 0);
    memset(unit_address((size_t)unit), 'x', GRANULE_SIZE);
    units_give((size_t)unit, GRANULE_UNITS, GRANULE_UNITS);
    size_t page = take(granule, &zeroed); /* none of those there is has so many free */
    assert_int_equal(unit_of_page(page), unit);
    assert_false(zeroed);
    assert_int_equal(units_dirty(), 0);
    pages_give(page, granule);
}

static void no_page_has_two_owners(void **state)
{
    (void)state;
    size_t in_use = pages_in_use(), granules = pages_granules();
    run_threads(take_and_give);
    assert_int_equal(wrong, 0);
    assert_int_equal(pages_in_use(), in_use);
    pages_purge(0);
    assert_int_equal(pages_dirty(), 0);
    assert_true(pages_granules() <= granules);
}

/* Most runs are shorter: a huge page would keep the others' places. */
static void granules_of_pages_have_no_huge_ones(void **state)
{
    (void)state;
    bool zeroed;
    size_t pages[2], granules = pages_granules();
    hak_options.huge_pages = 1;
    store_relaxed(&told_small, (size_t)0);
    for (size_t i = 0; i < 2; i++)
        pages[i] = take(granule, &zeroed);
    assert_int_equal(told_small, (pages_granules() - granules) * GRANULE_SIZE);
    assert_true(told_small != 0 && told_huge == 0);
    for (size_t i = 0; i < 2; i++)
        pages_give(pages[i], granule);
}

/* Runs between used pages, the longest first; of that some pages are locked. */
static void what_is_locked_keeps_no_others(void **state)
{
    (void)state;
    bool zeroed;
    uint32_t n = granule / 4, unit = unit_pages();
    size_t whole = take(granule, &zeroed);
    soil(whole, granule);
    locked[0] = page_address(whole + unit);
    locked[1] = page_address(whole + n);
    pages_give(whole, n + 2);
    pages_give(whole + n + 3, n);
    pages_give(whole + 2 * n + 4, n);
    for (int again = 0; again < 2; again++) {
        assert_true(pages_purge(0) > 0);
        /* What lies between the two counts still. */
        assert_in_range(pages_dirty(), bytes_of(unit), bytes_of(n + 2 - unit));
    }
    locked[1] = NULL;
    assert_true(pages_purge(0) > 0);
    assert_int_equal(pages_dirty(), bytes_of(unit));
    pages_give(whole + 3 * n + 4, granule - 3 * n - 4);
    assert_true(pages_purge(0) > 0);
    assert_int_equal(pages_dirty(), bytes_of(unit));
    assert_true(is_zero(page_address(whole + 2 * unit), bytes_of(n - 2 * unit)));
    locked[0] = NULL;
    assert_int_equal(pages_purge(0), bytes_of(unit));
    pages_give(whole + n + 2, 1);
    pages_give(whole + 2 * n + 3, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(accounts_add_up, purged),
        cmocka_unit_test_setup(what_is_free_side_by_side_becomes_one, purged),
        cmocka_unit_test_setup(the_shortest_that_fits_is_taken_dirty_ones_first, purged),
        cmocka_unit_test_setup(a_resize_gives_the_end_or_takes_what_is_free_behind, purged),
        cmocka_unit_test_setup(purged_pages_are_zero_and_others_are_not, purged),
        cmocka_unit_test_setup(a_run_knows_which_of_its_pages_were_touched, purged),
        cmocka_unit_test_setup(a_whole_granule_can_be_taken, purged),
        cmocka_unit_test_setup(granules_of_pages_have_no_huge_ones, purged),
        cmocka_unit_test_setup(a_run_takes_over_a_super_slab_of_which_nothing_is_in_use, purged),
        cmocka_unit_test_setup(what_is_purged_keeps_others_out_of_its_unit, purged),
        cmocka_unit_test_setup(what_is_locked_keeps_no_others, purged),
        cmocka_unit_test_setup(no_page_has_two_owners, purged),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
