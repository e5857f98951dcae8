/* Hollow heaps whose threads sleep: when others purge them, and how much of their time that takes. */
#include "hollow_heap.h"

static void tend_after(uint64_t ms)
{
    clock_ms += ms;
    while (hollow_tend(NULL))
        ;
}

/* As another thread does it. */
static void a_heap_whose_thread_sleeps_is_purged(void **state)
{
    (void)state;
    uint64_t times = counted(heap, COUNTER_hollow);
    look_after(100);
    hollow_out();
    tend_after(PATIENCE_MS - 1);
    tend_after(100); /* now it sleeps */
    tend_after(PATIENCE_MS - 1);
    assert_int_equal(slabs()->purged, 0);
    tend_after(100);
    assert_true(slabs()->purged > slabs()->touched / 3);
    assert_int_equal(counted(heap, COUNTER_hollow), times + 1);
    assert_false(gives());
    check_books(class_at_hand);
    for (size_t i = 0; i < BLOCKS; i += SURVIVES)
        assert_at(((char *)blocks[i])[SIZE - 1] == 'x', i);
}

static void a_heap_whose_thread_is_awake_is_left_to_it(void **state)
{
    (void)state;
    hollow_out();
    for (int i = 0; i < 8; i++) {
        tend_after(PATIENCE_MS - 100);
        assert_false(gives());
        heap->hollow.since_ms = 0; /* its own looks begin anew */
        look_after(100);
    }
    assert_int_equal(slabs()->purged, 0);
}

/* It fell asleep while it gathered. */
static void what_a_sleeping_thread_gathered_is_gone_on_with(void **state)
{
    (void)state;
    hollow_out();
    look_after(100);
    look_after(PATIENCE_MS);
    assert_true(gives());
    tend_after(PATIENCE_MS);
    assert_true(slabs()->purged != 0 && !gives());
    check_books(class_at_hand);
}

/* The clock is read when its lock is there to be had, and the owner may have looked until then. */
static void a_heap_looked_at_later_than_now_is_awake(void **state)
{
    (void)state;
    hollow_out();
    heap->hollow.looked_ms = heap->hollow.since_ms = clock_ms + PATIENCE_MS / 2;
    tend_after(PATIENCE_MS / 4);
    tend_after(100);
    assert_int_equal(slabs()->purged, 0);
}

/* A program's thread has other things to do; the worker has not. */
static void purging_by_threads_of_the_program_takes_its_time(void **state)
{
    (void)state;
    hollow_out();
    tend_after(PATIENCE_MS);
    clock_ms += PATIENCE_MS;
    struct heap other = {0};
    int steps = 0;
    while (hollow_tend(&other))
        steps++;
    assert_in_range(steps, 2, 16);
    assert_true(heap->hollow.purges != 0);
    for (uint64_t begun = clock_ms; heap->hollow.purges != 0; clock_ms++) {
        (void)hollow_tend(&other);
        assert_true(clock_ms - begun < 60000);
    }
    assert_true(slabs()->purged > slabs()->touched / 3);
    check_books(class_at_hand);
}

static void purging_waits_for_longer_where_it_changes_little(void **state)
{
    (void)state;
    hollow_out_but(SURVIVES / 4); /* a block in every page */
    tend_after(PATIENCE_MS);      /* now it sleeps */
    for (uint32_t patience = PATIENCE_MS; patience <= 4 * PATIENCE_MS; patience *= 2) {
        uint64_t times = counted(heap, COUNTER_hollow);
        tend_after(patience - 100);
        assert_int_equal(counted(heap, COUNTER_hollow), times);
        tend_after(100);
        assert_int_equal(counted(heap, COUNTER_hollow), times + 1);
    }
}

enum { OTHERS = 20 };

static void a_heap_behind_many_others_has_its_turn(void **state)
{
    (void)state;
    struct heap *others[OTHERS]; /* the newest come first */
    for (int i = 0; i < OTHERS; i++)
        assert_non_null(others[i] = registry_attach());
    hollow_out();
    for (int i = 0; i < 4 * PATIENCE_MS / 100; i++)
        tend_after(100);
    for (int i = 0; i < OTHERS; i++)
        registry_abandon(others[i]);
    assert_true(slabs()->purged != 0);
}

/* Somebody works on it. */
static void a_heap_that_is_locked_is_passed_over(void **state)
{
    (void)state;
    hollow_out();
    tend_after(PATIENCE_MS);
    lock_take(&heap->lock);
    tend_after(2 * PATIENCE_MS);
    lock_release(&heap->lock);
    assert_int_equal(slabs()->purged, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_heap_whose_thread_sleeps_is_purged, full_heap, no_heap),
        cmocka_unit_test_setup_teardown(a_heap_whose_thread_is_awake_is_left_to_it, full_heap,
                                        no_heap),
        cmocka_unit_test_setup_teardown(what_a_sleeping_thread_gathered_is_gone_on_with, full_heap,
                                        no_heap),
        cmocka_unit_test_setup_teardown(a_heap_looked_at_later_than_now_is_awake, full_heap,
                                        no_heap),
        cmocka_unit_test_setup_teardown(purging_by_threads_of_the_program_takes_its_time, full_heap,
                                        no_heap),
        cmocka_unit_test_setup_teardown(purging_waits_for_longer_where_it_changes_little, full_heap,
                                        no_heap),
        cmocka_unit_test_setup_teardown(a_heap_behind_many_others_has_its_turn, full_heap, no_heap),
        cmocka_unit_test_setup_teardown(a_heap_that_is_locked_is_passed_over, full_heap, no_heap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
