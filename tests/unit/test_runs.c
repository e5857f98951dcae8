/* Runs: blocks of whole pages. */
#include "one_heap.h"

#include "big/big.h"
#include "heap/runs.h"
#include "os/os.h"
#include "pages/pages.h"

static char *alloc(size_t size)
{
    bool zeroed;
    char *p = run_alloc(heap, size, 1, &zeroed);
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
    for (size_t size = UNIT_SIZE + 1; size <= RUN_MAX; size += 40961) {
        size_t bytes = live_bytes(), runs = live_count();
        size_t usable = round_up(size, os_page_size());
        char *p = alloc(size);
        assert_at(p == run_address(unit_of(p)), size);
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
    size_t dirty = pages_dirty();
    assert_false(run_free(heap, unit_of(p)));
    assert_int_equal(pages_dirty(), dirty);
}

/* Before pages are touched that never were. */
static void what_big_blocks_have_free_serves_runs(void **state)
{
    (void)state;
    bool zeroed = true;
    (void)pages_purge(0);
    size_t granules = pages_granules();
    char *big = big_alloc(RUN_MAX + 1, 1, BIG_PLAIN, &zeroed);
    assert_non_null(big);
    size_t usable = slab_at(unit_of(big))->size;
    memset(big, 'x', usable);
    assert_true(big_free(unit_of(big)));
    char *p = run_alloc(heap, RUN_MAX, 1, &zeroed);
    assert_ptr_equal(p, big);
    assert_false(zeroed);
    assert_int_equal(big_cached_bytes(), 0);
    assert_int_equal(pages_granules(), granules + 1);
    assert_int_equal(pages_dirty(), usable - RUN_MAX);
    char *q = run_alloc(heap, RUN_MAX / 2, 1, &zeroed); /* behind what was touched */
    assert_ptr_equal(q, big + RUN_MAX);
    assert_true(is_zero(q + (usable - RUN_MAX), RUN_MAX / 2 - (usable - RUN_MAX)));
    assert_true(run_free(heap, unit_of(p)) && run_free(heap, unit_of(q)));
    (void)pages_purge(0);
    assert_int_equal(pages_granules(), granules);
}

static void alignments_are_kept(void **state)
{
    (void)state;
    for (size_t alignment = 1; alignment <= UNIT_SIZE; alignment *= 2) {
        char *p[8];
        bool zeroed;
        for (size_t i = 0; i < ARRAY_LENGTH(p); i++) {
            p[i] = run_alloc(heap, (70 + 20 * i) * KIB + 1, alignment, &zeroed);
            assert_at(p[i] != NULL && (uintptr_t)p[i] % alignment == 0, alignment);
        }
        for (size_t i = 0; i < ARRAY_LENGTH(p); i++)
            assert_at(run_free(heap, unit_of(p[i])), alignment);
    }
}

/* Books are kept by heap, and only their sum means something. */
static void any_thread_may_free_a_run(void **state)
{
    (void)state;
    bool zeroed;
    size_t bytes = live_bytes(), runs = live_count();
    char *p = alloc(100 * KIB), *q = run_alloc(NULL, 200 * KIB, 1, &zeroed);
    assert_non_null(q);
    assert_true(run_free(NULL, unit_of(p)));
    assert_true(run_free(heap, unit_of(q)));
    assert_int_equal(live_bytes(), bytes);
    assert_int_equal(live_count(), runs);
}

/* Whole pages, of 64 KiB, too. */
static void resize_stays_where_it_is(void **state)
{
    (void)state;
    char *p = alloc(896 * KIB);
    size_t unit = unit_of(p), in_use = pages_in_use(), bytes = live_bytes();
    memset(p, 'x', 896 * KIB);
    assert_true(run_resize(heap, unit, 320 * KIB));
    assert_int_equal(pages_in_use(), in_use - 576 * KIB);
    assert_int_equal(live_bytes(), bytes - 576 * KIB);
    assert_true(run_resize(heap, unit, 896 * KIB)); /* what it gave away is still free */
    assert_int_equal(pages_in_use(), in_use);
    assert_int_equal(live_bytes(), bytes);
    assert_int_equal(p[0], 'x');
    assert_int_equal(p[320 * KIB - 1], 'x');
    assert_true(run_free(heap, unit));
}

/* In a handler that interrupted whoever has the lock of the pages nothing can be given, and the run keeps what it has. */
static void resize_beside_a_held_lock_leaves_all(void **state)
{
    (void)state;
    char *p = alloc(896 * KIB);
    size_t unit = unit_of(p), in_use = pages_in_use(), bytes = live_bytes();
    thread_enter();
    thread_enter();
    assert_true(lock_try(pages_lock()));
    assert_true(run_resize(heap, unit, 320 * KIB));
    assert_false(run_resize(heap, unit, 1000 * KIB));
    lock_release(pages_lock());
    thread_leave();
    thread_leave();
    assert_int_equal(slab_at(unit)->size, 896 * KIB);
    assert_int_equal(pages_in_use(), in_use);
    assert_int_equal(live_bytes(), bytes);
    assert_true(run_free(heap, unit));
}

static void resize_stops_at_a_neighbour(void **state)
{
    (void)state;
    char *p = alloc(320 * KIB);
    size_t unit = unit_of(p), end = page_of(p) + 320 * KIB / os_page_size();
    uint32_t pages = (uint32_t)(end - page_of(p));
    bool zeroed, mine = pages_resize(page_of(p), pages, pages + 1,
                                     &zeroed); /* else somebody else is there */
    size_t bytes = live_bytes();
    assert_false(run_resize(heap, unit, 384 * KIB));
    assert_int_equal(live_bytes(), bytes);
    assert_int_equal(slab_at(unit)->size, 320 * KIB);
    assert_int_equal(unit_word(unit), WORD_RUN);
    if (mine)
        pages_give(end, 1);
    assert_true(run_free(heap, unit));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_are_accounted_for),
        cmocka_unit_test(a_second_free_is_refused),
        cmocka_unit_test(what_big_blocks_have_free_serves_runs),
        cmocka_unit_test(any_thread_may_free_a_run),
        cmocka_unit_test(alignments_are_kept),
        cmocka_unit_test(any_thread_may_free_a_run),
        cmocka_unit_test(resize_stays_where_it_is),
        cmocka_unit_test(resize_beside_a_held_lock_leaves_all),
        cmocka_unit_test(resize_stops_at_a_neighbour),
    };
    return cmocka_run_group_tests(tests, make_heap, abandon_heap);
}
