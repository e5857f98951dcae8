/* Heaps of which most is free: when they gather their blocks, what that brings, and when free pages go back. Those whose threads
 * sleep: test_hollow_asleep.c. */
#include "hollow_heap.h"

#include "os/os.h"
#include "pressure/pressure.h"
#include "purge/purge.h"

enum { LEFT = BLOCKS / SURVIVES };

static void replace_each(size_t times)
{
    for (size_t i = 0; i < times * BLOCKS; i += SURVIVES) {
        release(blocks[i % BLOCKS]);
        blocks[i % BLOCKS] = alloc(class_at_hand);
    }
}

static void only_what_has_been_hollow_for_long_gathers(void **state)
{
    (void)state;
    uint64_t times = counted(heap, COUNTER_hollow);
    look_after(10 * PATIENCE_MS);
    assert_false(gives());
    hollow_out();
    look_after(1000);
    look_after(PATIENCE_MS - 1);
    assert_false(gives());
    fill(); /* in between it is not */
    look_after(100);
    hollow_out();
    look_after(100);
    look_after(PATIENCE_MS - 1);
    assert_false(gives());
    look_after(100);
    assert_true(gives());
    assert_int_equal(counted(heap, COUNTER_hollow), times + 1);
    fill();
    look_after(100);
    assert_false(gives());
}

/* Until its magazine has been refilled, and holds something. */
static size_t take_until_refill(uint32_t class, void **taken)
{
    size_t n = 0;
    uint64_t refills = counted(heap, COUNTER_refill);
    while (counted(heap, COUNTER_refill) == refills)
        taken[n++] = alloc(class);
    assert_true(magazine_kept(magazine_of(heap, class)) != 0);
    return n;
}

static void what_is_kept_of_an_idle_class_goes_back(void **state)
{
    (void)state;
    enum { IDLE_SIZE = 4096, BUSY_SIZE = 1024, TAKEN = 256 };
    uint32_t idle = class_for(IDLE_SIZE), busy = class_for(BUSY_SIZE);
    void *taken[TAKEN];
    look_after(PATIENCE_MS);
    size_t n = take_until_refill(busy, taken);
    release(alloc(idle));
    size_t kept = magazine_kept(magazine_of(heap, idle));
    assert_true(kept != 0);
    look_after(PATIENCE_MS); /* both have been refilled since the last time */
    n += take_until_refill(busy, taken + n);
    look_after(PATIENCE_MS - 1);
    assert_int_equal(magazine_kept(magazine_of(heap, idle)), kept);
    look_after(1);
    assert_int_equal(magazine_kept(magazine_of(heap, idle)), 0);
    assert_int_equal(heap->classes[idle].slabs, 0);
    assert_true(magazine_kept(magazine_of(heap, busy)) != 0);
    while (n-- > 0)
        release(taken[n]);
}

/* Served by the magazine alone, which is neither refilled nor flushed. */
static void what_fast_paths_use_is_not_idle(void **state)
{
    (void)state;
    enum { SIZE_IN_USE = 4096 };
    uint32_t class = class_for(SIZE_IN_USE);
    void *taken[2] = {alloc(class), NULL};
    size_t kept = magazine_kept(magazine_of(heap, class));
    assert_true(kept > 1);
    look_after(PATIENCE_MS);
    for (int i = 0; i < 4; i++) {
        if (i % 2 == 0)
            taken[1] = alloc(class);
        else
            release(taken[1]);
        look_after(PATIENCE_MS);
        assert_at(magazine_kept(magazine_of(heap, class)) == kept - (i % 2 == 0), (size_t)i);
    }
    look_after(PATIENCE_MS);
    assert_int_equal(magazine_kept(magazine_of(heap, class)), 0);
    release(taken[0]);
}

static void a_little_free_memory_is_left_alone(void **state)
{
    (void)state;
    uint64_t times = counted(heap, COUNTER_hollow);
    for (size_t i = HOLLOW_MIN / SIZE; i < BLOCKS;
         i++) { /* a heap of less than that, most of it free */
        release(blocks[i]);
        blocks[i] = NULL;
    }
    give_all_back(class_at_hand);
    hollow_out();
    look_after(100);
    look_after(10 * PATIENCE_MS);
    assert_int_equal(counted(heap, COUNTER_hollow), times);
}

static void what_is_replaced_ends_up_in_few_slabs(void **state)
{
    (void)state;
    uint32_t before = slabs()->slabs, needed = LEFT / hak_classes[class_at_hand].capacity;
    hollow_out();
    replace_each(4); /* the magazine alone leaves them where they are */
    assert_true(slabs()->slabs > before * 3 / 4);
    look_after(100);
    look_after(PATIENCE_MS);
    assert_true(gives());
    replace_each(4);
    look_after(PATIENCE_MS);
    check_books(class_at_hand);
    assert_in_range(slabs()->slabs, needed, 2 * needed);
}

static void a_magazine_that_gives_takes_nothing(void **state)
{
    (void)state;
    struct magazine *m = magazine_of(heap, class_at_hand);
    hollow_out();
    look_after(100);
    look_after(PATIENCE_MS);
    assert_true(gives() && magazine_kept(m) == 0);
    release(
        alloc(class_at_hand)); /* the first flush in a heap that has shrunk empties all magazines */
    void *p = alloc(class_at_hand);
    size_t kept = magazine_kept(m);
    assert_true(magazine_is_open(m) && !magazine_takes(m) && kept != 0);
    release(p);
    assert_int_equal(magazine_kept(m), kept);
    trim_as(heap);
    check_books(class_at_hand);
}

static void gathering_goes_on_until_little_is_free(void **state)
{
    (void)state;
    enum { TWO_THIRDS = BLOCKS * 2 / 3 };
    hollow_out();
    fill_first(TWO_THIRDS); /* a third is free, with which it does not begin */
    uint64_t times = counted(heap, COUNTER_hollow);
    look_after(100);
    look_after(PATIENCE_MS);
    assert_int_equal(counted(heap, COUNTER_hollow), times);
    hollow_out();
    look_after(100);
    look_after(PATIENCE_MS);
    assert_true(gives());
    fill_first(TWO_THIRDS);
    look_after(100);
    assert_true(gives());
    fill();
    look_after(100);
    assert_false(gives());
}

/* Each second survivor stays for good, and its slab with it, however often the others are replaced. */
static void what_stays_for_good_ends_gathering(void **state)
{
    (void)state;
    hollow_out();
    look_after(100);
    look_after(PATIENCE_MS);
    assert_true(gives());
    int steps = 0;
    for (; gives() && steps < 100; steps++) {
        for (size_t i = 0; i < 2 * BLOCKS; i += 2 * SURVIVES) {
            release(blocks[i % BLOCKS]);
            blocks[i % BLOCKS] = alloc(class_at_hand);
        }
        look_after(PATIENCE_MS);
    }
    assert_in_range(steps, 4, 16);
    assert_true(slabs()->purged != 0);
    check_books(class_at_hand);
}

static size_t resident_pages(void)
{
    size_t pages = 0;
    for (uint32_t link = slabs()->list; link != 0; link = slab_at(link - 1)->next)
        pages += os_resident_pages(slab_base(slab_at(link - 1)), UNIT_SIZE);
    return pages;
}

/* Each survivor holds one page, of two that lie between it and the next one. */
static void pages_between_survivors_go_back(void **state)
{
    (void)state;
    hollow_out();
    struct super *super = super_at(unit_of(blocks[0]) / GRANULE_UNITS);
    store_relaxed(&super->pages, SUPER_HUGE);
    size_t before = resident_pages(), purged = purge_total();
    look_after(100);
    look_after(PATIENCE_MS);
    look_after(PATIENCE_MS); /* nothing was replaced, so gathering is over */
    assert_false(gives());
    check_books(class_at_hand);
    size_t went = before - resident_pages();
    assert_true(went > before / 3);
    assert_int_equal(load_relaxed(&super->pages),
                     SUPER_SMALL); /* or they would come back with one */
    assert_int_equal(slabs()->purged, went);
    assert_int_equal(purge_total() - purged, went * hak_region.page_size);
    for (size_t i = 0; i < BLOCKS; i += SURVIVES)
        assert_at(((char *)blocks[i])[SIZE - 1] == 'x', i);
    fill();
    assert_int_equal(slabs()->purged, 0);
    check_books(class_at_hand);
}

static void purge_holes(void)
{
    hollow_out();
    for (int i = 0; i < 3; i++)
        look_after(PATIENCE_MS);
    assert_true(slabs()->purged != 0);
}

/* Nothing else would tell of it near a memory limit. */
static void pages_that_are_wanted_again_are_growth(void **state)
{
    (void)state;
    purge_holes();
    size_t holes = slabs()->purged * hak_region.page_size, far = SIZE_MAX / 2;
    store_relaxed(&hak_pressure.look_at, far);
    fill();
    assert_int_equal(load_relaxed(&hak_pressure.look_at), far - holes);
}

/* So that whoever takes them grows. */
static void slabs_with_holes_go_back_without_pages(void **state)
{
    (void)state;
    purge_holes();
    size_t free_before = units_dirty(), in_use = units_in_use();
    size_t supers = load_relaxed(&hak_supers.mapped);
    for (size_t i = 0; i < BLOCKS; i += SURVIVES) {
        release(blocks[i]);
        blocks[i] = NULL;
    }
    give_all_back(class_at_hand);
    assert_true(units_in_use() < in_use);
    assert_true(load_relaxed(&hak_supers.mapped) < supers);
    assert_in_range(units_dirty(), 0, free_before + 1); /* the one that was being filled */
}

/* Its thread has ended, and others use its slabs. */
static void slabs_with_holes_are_adopted_with_them(void **state)
{
    (void)state;
    purge_holes();
    struct heap *ended = heap;
    size_t holes = slabs()->purged;
    struct heap *other = registry_attach();
    assert_non_null(other);
    registry_abandon(ended);
    heap = other;
    fill();
    assert_true(counted(heap, COUNTER_pool_stage1) > 0);
    check_books(class_at_hand);
    assert_int_equal(ended->classes[class_at_hand].purged + slabs()->purged, 0);
    hollow_out();
    for (int i = 0; i < 3; i++)
        look_after(PATIENCE_MS);
    assert_in_range(slabs()->purged, holes / 2, 2 * holes);
    check_books(class_at_hand);
    for (size_t i = 0; i < BLOCKS; i += SURVIVES)
        assert_at(((char *)blocks[i])[SIZE - 1] == 'x', i);
}

static void what_was_missed_is_purged_later(void **state)
{
    (void)state;
    for (uint64_t patience = PATIENCE_MS; patience <= 4 * PATIENCE_MS; patience *= 2) {
        hollow_out();
        look_after(100);
        look_after(patience - 1);
        assert_at(!gives(), patience);
        look_after(100);
        assert_at(gives(), patience);
        look_after(PATIENCE_MS);
        assert_at(slabs()->purged != 0, patience);
        fill();
        look_after(100);
    }
}

static void refills_and_flushes_look(void **state)
{
    (void)state;
    hollow_out();
    for (int i = 0; i < 40 && !gives(); i++) {
        clock_ms += 100;
        for (size_t j = 0; j < BLOCKS; j += 2 * SURVIVES)
            release(blocks[j]);
        for (size_t j = 0; j < BLOCKS; j += 2 * SURVIVES)
            blocks[j] = alloc(class_at_hand);
    }
    assert_true(gives());
}

static void samples_look(void **state)
{
    (void)state;
    hollow_out();
    for (int i = 0; i < 40 * HOLLOW_LOOK_EVERY && !gives(); i++) {
        clock_ms += 100;
        hollow_look_unlocked(heap);
    }
    assert_true(gives());
}

static void gather(void)
{
    hollow_out();
    look_after(100);
    look_after(PATIENCE_MS);
    assert_true(gives());
}

static void refill_again_and_again(void)
{
    lock_take(&heap->lock);
    for (int i = 0; i <= HOLLOW_LOOK_EVERY; i++)
        hollow_look_if_due(heap);
    lock_release(&heap->lock);
}

/* So little is taken then that nobody would begin to look. */
static void where_all_is_freed_gathering_ends(void **state)
{
    (void)state;
    if (HAK_SECURE)
        skip(); /* blocks that wait keep their slabs */
    gather();
    for (size_t i = 0; i < BLOCKS; i++) {
        if (blocks[i] != NULL)
            release(blocks[i]);
        blocks[i] = NULL;
    }
    lock_take(&heap->lock);
    outbox_flush_all(heap);
    inbox_drain(heap, false);
    lock_release(&heap->lock);
    assert_false(hollow_may_be());
    clock_ms += PATIENCE_MS;
    refill_again_and_again();
    assert_false(gives());
    assert_false(heap->hollow.gathers);
}

static void with_a_time_of_zero_gathering_ends(void **state)
{
    (void)state;
    gather();
    hak_options.hollow_time = 0;
    clock_ms += 100;
    refill_again_and_again();
    assert_false(gives());
    hak_options.hollow_time = PATIENCE_MS;
}

static void with_a_time_of_zero_nothing_is_done(void **state)
{
    (void)state;
    hak_options.hollow_time = 0;
    assert_false(hollow_may_be());
    hak_options.hollow_time = PATIENCE_MS;
    assert_true(hollow_may_be());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(only_what_has_been_hollow_for_long_gathers, full_heap,
                                        no_heap),
        cmocka_unit_test_setup_teardown(what_is_kept_of_an_idle_class_goes_back, full_heap,
                                        no_heap),
        cmocka_unit_test_setup_teardown(what_fast_paths_use_is_not_idle, full_heap, no_heap),
        cmocka_unit_test_setup_teardown(a_little_free_memory_is_left_alone, full_heap, no_heap),
        cmocka_unit_test_setup_teardown(what_is_replaced_ends_up_in_few_slabs, full_heap, no_heap),
        cmocka_unit_test_setup_teardown(a_magazine_that_gives_takes_nothing, full_heap, no_heap),
        cmocka_unit_test_setup_teardown(gathering_goes_on_until_little_is_free, full_heap, no_heap),
        cmocka_unit_test_setup_teardown(what_stays_for_good_ends_gathering, full_heap, no_heap),
        cmocka_unit_test_setup_teardown(pages_between_survivors_go_back, full_heap, no_heap),
        cmocka_unit_test_setup_teardown(pages_that_are_wanted_again_are_growth, full_heap, no_heap),
        cmocka_unit_test_setup_teardown(slabs_with_holes_go_back_without_pages, full_heap, no_heap),
        cmocka_unit_test_setup_teardown(slabs_with_holes_are_adopted_with_them, full_heap, no_heap),
        cmocka_unit_test_setup_teardown(what_was_missed_is_purged_later, full_heap, no_heap),
        cmocka_unit_test_setup_teardown(refills_and_flushes_look, full_heap, no_heap),
        cmocka_unit_test_setup_teardown(samples_look, full_heap, no_heap),
        cmocka_unit_test_setup_teardown(where_all_is_freed_gathering_ends, full_heap, no_heap),
        cmocka_unit_test_setup_teardown(with_a_time_of_zero_gathering_ends, full_heap, no_heap),
        cmocka_unit_test_setup_teardown(with_a_time_of_zero_nothing_is_done, full_heap, no_heap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
