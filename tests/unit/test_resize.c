/* realloc: what stays where it is, what is moved, and what ends the program. */
#include "aborts.h"

#include "front/secure.h"
#include "heap/runs.h"

static void realloc_keeps_the_content(void **state)
{
    (void)state;
    for (size_t from = 1; from <= 4 * MIB; from = from * 2 + from / 3) {
        for (size_t to = 1; to <= 4 * MIB; to = to * 3 + 5) {
            void *p = front_alloc(from);
            assert_at(p != NULL, from);
            memset(p, 'r', from);
            p = front_realloc(p, to);
            assert_at(p != NULL && front_usable(p, "test") >= to, to);
            assert_at(is_filled(p, from < to ? from : to, 'r'), to);
            memset(p, 's', to);
            front_free(p);
        }
    }
}

static void a_small_change_stays_in_place(void **state)
{
    (void)state;
    char *p = front_alloc(1100); /* a block of 1152 */
    assert_non_null(p);
    assert_ptr_equal(front_realloc(p, 1152), p);
    assert_ptr_equal(front_realloc(p, 1025), p);
    front_free(p);
}

/* Where frees are checked against sizes each size has its kind. */
static void realloc_to_and_fro_over_a_border_stays(void **state)
{
    static const size_t borders[] = {256 * KIB, RUN_MAX};
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(borders) && !HAK_CHECKED; i++) {
        size_t more = borders[i] + borders[i] / 8, less = borders[i] - borders[i] / 8;
        char *p = front_alloc(more);
        p[0] = p[less - 1] = 'x';
        for (int round = 0; round < 3; round++) {
            assert_ptr_equal(front_realloc(p, less), p);
            assert_true(front_usable(p, "test") >= less);
            assert_ptr_equal(front_realloc(p, more), p);
            assert_true(front_usable(p, "test") >= more);
        }
        assert_true(p[0] == 'x' && p[less - 1] == 'x');
        char *q = front_realloc(p, less / 4); /* what has become small is moved */
        assert_ptr_not_equal(q, p);
        assert_int_equal(q[0], 'x');
        front_free(q);
    }
}

static int64_t words_to_the_next_sample(void)
{
    return hak_thread.left + hak_thread.heap->magazines.sampler.rest;
}

/* Nothing is to be done then, and nothing counts as a request. */
static void realloc_that_changes_no_page_stays(void **state)
{
    static const struct {
        size_t size, alignment; /* with one of a unit it is a run */
    } blocks[] = {{RUN_MAX, 1},
                  {300 * KIB, UNIT_SIZE},
                  {RUN_MAX, UNIT_SIZE},
                  {RUN_MAX + 1, 1},
                  {16 * RUN_MAX, 1}};
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(blocks); i++) {
        if (HAK_CHECKED && blocks[i].alignment != 1)
            continue; /* what a class would serve is a slab's there */
        char *p = front_alloc_aligned(blocks[i].alignment, blocks[i].size);
        assert_non_null(p);
        size_t usable = front_usable(p, "test");
        int64_t left = words_to_the_next_sample();
        assert_ptr_equal(front_realloc(p, usable - 1), p);
        assert_ptr_equal(front_realloc(p, usable), p);
        assert_int_equal(front_usable(p, "test"), usable);
        assert_int_equal(words_to_the_next_sample(), left);
        front_free(p);
    }
}

/* A block of pages becomes one of another class where it is, and counts as a request. */
static void realloc_of_a_block_of_pages_stays(void **state)
{
    enum { LARGE = 700 << 10, SMALL = 300 << 10 };
    (void)state;
    if (HAK_CHECKED || HAK_SECURE)
        skip(); /* a block's class must stay its size's; nor is there room behind its last word */
    char *p = front_alloc(LARGE);
    memset(p, 'x', LARGE);
    while (words_to_the_next_sample() < (LARGE + SMALL) / 8) /* none is due */
        front_free(front_alloc(LARGE));
    int64_t left = words_to_the_next_sample();
    assert_ptr_equal(front_realloc(p, SMALL), p);
    assert_in_range(front_usable(p, "test"), SMALL, SMALL + SMALL / 4);
    assert_int_equal(left - words_to_the_next_sample(), SMALL / 8);
    assert_ptr_equal(front_realloc(p, LARGE), p); /* what it gave away is still free */
    assert_in_range(front_usable(p, "test"), LARGE, LARGE + LARGE / 4);
    assert_true(p[0] == 'x' && p[SMALL - 1] == 'x');
    front_free(p);
}

static void *resize_of_another(void *p)
{
    return front_realloc(p, 300 << 10);
}

/* Whoever else has it does not have its heap's books. */
static void another_threads_block_of_pages_is_moved(void **state)
{
    pthread_t other;
    (void)state;
    void *p = front_alloc(700 << 10), *q;
    assert_int_equal(pthread_create(&other, NULL, resize_of_another, p), 0);
    assert_int_equal(pthread_join(other, &q), 0);
    assert_non_null(q);
    assert_ptr_not_equal(q, p);
    front_free(q);
}

static void a_failing_realloc_leaves_the_block(void **state)
{
    (void)state;
    static const size_t sizes[] = {100, 100 * KIB, 3 * MIB};
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        void *p = front_alloc(sizes[i]);
        assert_non_null(p);
        memset(p, 'k', sizes[i]);
        assert_null(front_realloc(p, (size_t)PTRDIFF_MAX));
        assert_true(is_filled(p, sizes[i], 'k'));
        front_free(p);
    }
}

static void resize(void *p, size_t size)
{
    (void)front_realloc(p, size);
}

/* In its place, too, where it would be the caller's and the next request's. */
static void a_resize_of_what_was_freed_last_ends_the_program(void **state)
{
    (void)state;
    static const size_t sizes[] = {8, 48, 1000, 20 * KIB, 100 * KIB, 3 * MIB};
    if (HAK_SECURE)
        skip(); /* asks before it calls */
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        void *p = front_alloc(sizes[i]);
        assert_at(!ends_by_abort(resize, p, sizes[i]), sizes[i]);
        front_free(p);
        assert_at(ends_by_abort(resize, p, sizes[i]), sizes[i]);
        assert_at(ends_by_abort(resize, p, sizes[i] * 3), sizes[i]);
    }
}

/* Not the newest that is free: it may be in a magazine, where it would be of another class then. */
static void a_resize_of_a_free_block_of_pages_ends_the_program(void **state)
{
    (void)state;
    if (HAK_SECURE)
        skip();
    void *p = front_alloc(300 * KIB), *q = front_alloc(300 * KIB);
    front_free(p);
    front_free(q);
    assert_true(ends_by_abort(resize, p, 700 * KIB));
    assert_true(ends_by_abort(resize, p, 100 * KIB));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(realloc_keeps_the_content),
        cmocka_unit_test(a_small_change_stays_in_place),
        cmocka_unit_test(realloc_to_and_fro_over_a_border_stays),
        cmocka_unit_test(realloc_that_changes_no_page_stays),
        cmocka_unit_test(realloc_of_a_block_of_pages_stays),
        cmocka_unit_test(another_threads_block_of_pages_is_moved),
        cmocka_unit_test(a_failing_realloc_leaves_the_block),
        cmocka_unit_test(a_resize_of_what_was_freed_last_ends_the_program),
        cmocka_unit_test(a_resize_of_a_free_block_of_pages_ends_the_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
