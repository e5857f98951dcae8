/* Runs and the cache of freed ones each heap has. */
#include "one_heap.h"

#include "heap/runs.h"
#include "os/os.h"
#include "super/super.h"

#define KIB ((size_t)1024)

static int empty_cache(void **state)
{
    (void)state;
    runs_empty(heap);
    return heap->runs.count == 0 && heap->runs.units == 0 ? 0 : -1;
}

static char *alloc(size_t size)
{
    bool zeroed;
    char *p = run_alloc(heap, size, &zeroed);
    assert_non_null(p);
    return p;
}

static size_t live_bytes(void)
{
    size_t bytes, blocks;
    runs_live(&bytes, &blocks);
    return bytes;
}

static size_t live_count(void)
{
    size_t bytes, blocks;
    runs_live(&bytes, &blocks);
    return blocks;
}

static void runs_are_accounted_for(void **state)
{
    (void)state;
    for (size_t size = SLAB_MAX + 1; size <= RUN_MAX; size += 40961) {
        size_t bytes = live_bytes(), runs = live_count();
        size_t usable = round_up(size, os_page_size());
        char *p = alloc(size);
        assert_at((uintptr_t)p % UNIT_SIZE == 0, size);
        assert_at(unit_word(unit_of(p)) == WORD_RUN, size);
        assert_at(slab_at(unit_of(p))->size == usable, size);
        assert_at(live_bytes() == bytes + usable && live_count() == runs + 1, size);
        memset(p, 'x', usable);
        assert_at(run_free(heap, unit_of(p)), size);
        assert_at(live_bytes() == bytes && live_count() == runs, size);
    }
}

static void a_second_free_is_refused(void **state)
{
    (void)state;
    char *p = alloc(100 * KIB);
    assert_true(run_free(heap, unit_of(p)));
    assert_int_equal(unit_word(unit_of(p)), WORD_FREED);
    uint32_t cached = heap->runs.count;
    assert_false(run_free(heap, unit_of(p)));
    assert_int_equal(heap->runs.count, cached);
}

static void the_newest_of_a_length_is_reused(void **state)
{
    (void)state;
    char *a = alloc(100 * KIB), *b = alloc(100 * KIB), *other = alloc(200 * KIB);
    assert_true(run_free(heap, unit_of(a)));
    assert_true(run_free(heap, unit_of(b)));
    assert_true(run_free(heap, unit_of(other)));
    uint64_t hits = counted(heap, COUNTER_run_hit);
    assert_ptr_equal(alloc(100 * KIB), b);
    assert_ptr_equal(alloc(120 * KIB), a); /* two units as well */
    assert_int_equal(counted(heap, COUNTER_run_hit), hits + 2);
    uint64_t misses = counted(heap, COUNTER_run_miss);
    char *c = alloc(100 * KIB);
    assert_int_equal(counted(heap, COUNTER_run_miss), misses + 1);
    assert_ptr_equal(alloc(200 * KIB), other);
    char *all[] = {a, b, c, other};
    for (size_t i = 0; i < ARRAY_LENGTH(all); i++)
        assert_true(run_free(heap, unit_of(all[i])));
}

static void the_cache_is_bounded(void **state)
{
    (void)state;
    char *p[32];
    for (size_t i = 0; i < ARRAY_LENGTH(p); i++)
        p[i] = alloc((1 + i % 6) * 64 * KIB + 64 * KIB);
    size_t in_use = units_in_use();
    for (size_t i = 0; i < ARRAY_LENGTH(p); i++) {
        assert_true(run_free(heap, unit_of(p[i])));
        assert_true(heap->runs.count <= RUN_CACHE_SLOTS);
        assert_true(heap->runs.units * UNIT_SIZE <= RUN_MAX);
    }
    size_t given = 0;
    for (size_t i = 0; i < ARRAY_LENGTH(p); i++)
        given += 2 + i % 6;
    assert_int_equal(units_in_use(), in_use - given + heap->runs.units);
    runs_empty(heap);
    assert_int_equal(units_in_use(), in_use - given);
}

/* Books are kept by heap, and only their sum means something. */
static void any_thread_may_free_a_run(void **state)
{
    (void)state;
    bool zeroed;
    size_t bytes = live_bytes(), runs = live_count();
    char *p = alloc(100 * KIB), *q = run_alloc(NULL, 200 * KIB, &zeroed);
    assert_non_null(q);
    assert_true(run_free(NULL, unit_of(p)));
    assert_true(run_free(heap, unit_of(q)));
    assert_int_equal(live_bytes(), bytes);
    assert_int_equal(live_count(), runs);
}

static void without_a_heap_nothing_is_cached(void **state)
{
    (void)state;
    bool zeroed;
    size_t in_use = units_in_use();
    char *p = run_alloc(NULL, 300 * KIB, &zeroed);
    assert_non_null(p);
    assert_int_equal(units_in_use(), in_use + 5);
    assert_true(run_free(NULL, unit_of(p)));
    assert_int_equal(units_in_use(), in_use);
}

static void resize_stays_where_it_is(void **state)
{
    (void)state;
    bool zeroed;
    ptrdiff_t got = units_take(GRANULE_UNITS, &zeroed); /* a SuperSlab with nobody else in it */
    assert_true(got >= 0);
    units_give((size_t)got, GRANULE_UNITS, GRANULE_UNITS);
    char *p = alloc(900 * KIB);
    size_t unit = unit_of(p), in_use = units_in_use(), bytes = live_bytes();
    memset(p, 'x', 900 * KIB);
    assert_true(run_resize(heap, unit, 200 * KIB));
    assert_int_equal(units_in_use(), in_use - 11);
    assert_int_equal(live_bytes(), bytes - 700 * KIB);
    assert_true(run_resize(heap, unit, 900 * KIB)); /* what it gave away is still free */
    assert_int_equal(units_in_use(), in_use);
    assert_int_equal(live_bytes(), bytes);
    assert_int_equal(p[0], 'x');
    assert_int_equal(p[200 * KIB - 1], 'x');
    assert_true(run_free(heap, unit));
}

static void resize_stops_at_a_neighbour(void **state)
{
    (void)state;
    bool zeroed;
    char *p = alloc(128 * KIB);
    size_t unit = unit_of(p);
    bool mine = units_extend(unit + 2, 1, &zeroed); /* else somebody else is there */
    size_t bytes = live_bytes();
    assert_false(run_resize(heap, unit, 192 * KIB));
    assert_int_equal(live_bytes(), bytes);
    assert_int_equal(slab_at(unit)->size, 128 * KIB);
    assert_int_equal(unit_word(unit), WORD_RUN);
    if (mine)
        units_give(unit + 2, 1, 0);
    assert_true(run_free(heap, unit));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(runs_are_accounted_for, empty_cache),
        cmocka_unit_test_setup(a_second_free_is_refused, empty_cache),
        cmocka_unit_test_setup(the_newest_of_a_length_is_reused, empty_cache),
        cmocka_unit_test_setup(the_cache_is_bounded, empty_cache),
        cmocka_unit_test_setup(any_thread_may_free_a_run, empty_cache),
        cmocka_unit_test_setup(without_a_heap_nothing_is_cached, empty_cache),
        cmocka_unit_test_setup(resize_stays_where_it_is, empty_cache),
        cmocka_unit_test_setup(resize_stops_at_a_neighbour, empty_cache),
    };
    return cmocka_run_group_tests(tests, make_heap, abandon_heap);
}
