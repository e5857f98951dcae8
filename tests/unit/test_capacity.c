/* How long magazines become by what swings, and when they lose what they have. Budgets and settings: test_capacity_bounds.c. */
#include "swings.h"

#include "control/options.h"
#include "heap/capacity.h"
#include "os/os.h"

enum { SWING_MIXED = 9000 };

/* What comes back in such numbers that it is spilled and then wanted again should be kept. */
static void a_magazine_grows_until_a_swing_fits(void **state)
{
    (void)state;
    enum { SWING = 900, TURNS = 40 };
    uint32_t class = class_for(80);
    forget_slots();
    for (int i = 0; i < TURNS; i++)
        swing(class, SWING);
    assert_true(capacity(class) >= SWING);
    uint64_t refills = counted(heap, COUNTER_refill), flushes = counted(heap, COUNTER_flush);
    for (int i = 0; i < TURNS; i++)
        swing(class, SWING);
    assert_int_equal(counted(heap, COUNTER_refill), refills);
    assert_int_equal(counted(heap, COUNTER_flush), flushes);
    give_all_back(class);
}

/* The same, slab by slab mixed: all slabs stay until the last blocks. */
static void swing_mixed(uint32_t class)
{
    enum { STEP = 4001 }; /* has no divisor in common with SWING_MIXED */
    static void *blocks[SWING_MIXED];
    for (size_t i = 0; i < SWING_MIXED; i++)
        blocks[i] = alloc(class);
    for (size_t i = 0; i < SWING_MIXED; i++)
        release(blocks[i * STEP % SWING_MIXED]);
}

/* Where few blocks of many slabs are left, all go back before the magazine runs dry. */
static void what_falls_and_grows_again_swings(void **state)
{
    (void)state;
    enum { TURNS = 40 };
    uint32_t class = class_for(80);
    forget_slots();
    uint64_t sparse = counted(heap, COUNTER_flush_sparse);
    for (int i = 0; i < TURNS; i++)
        swing_mixed(class);
    assert_true(counted(heap, COUNTER_flush_sparse) >= sparse + TURNS);
    assert_int_equal(capacity(class), 1024);
    give_all_back(class);
}

/* A class has few blocks left in many slabs: every `step`th of those in `blocks`; the others, which went, are NULL. */
static void leave_few(uint32_t class, void **blocks, size_t n, size_t step)
{
    for (size_t i = 0; i < n; i++)
        blocks[i] = alloc(class);
    for (size_t i = 0; i < n; i++) {
        if (i % step != 0) {
            release(blocks[i]);
            blocks[i] = NULL;
        }
    }
}

static void release_all(void **blocks, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (blocks[i] != NULL)
            release(blocks[i]);
    }
}

/* As many blocks as a walk at random comes to, within bounds wide enough for falls. */
static void a_mix_of_few_blocks_makes_no_long_magazine(void **state)
{
    (void)state;
    enum { FEW = 200, TURNS = 200000, FALLS = 20 };
    static void *left[SWING_MIXED], *mixed[FEW];
    uint32_t class = class_for(80), random = 1, n = 0;
    forget_slots();
    leave_few(class, left, SWING_MIXED, 30);
    uint64_t sparse = counted(heap, COUNTER_flush_sparse);
    for (int i = 0; i < TURNS; i++) {
        random = random * 1664525 + 1013904223;
        if ((random >> 31 != 0 && n < FEW) || n == 0) {
            mixed[n++] = alloc(class);
        } else {
            uint32_t one = (random >> 8) % n--;
            release(mixed[one]);
            mixed[one] = mixed[n];
        }
    }
    assert_true(counted(heap, COUNTER_flush_sparse) >= sparse + FALLS);
    assert_int_equal(capacity(class), hak_classes[class].slots);
    release_all(mixed, n);
    release_all(left, SWING_MIXED);
    give_all_back(class);
}

/* It falls again and again, and never rises by what a refill brings in the end. */
static void falls_alone_make_no_long_magazine(void **state)
{
    (void)state;
    enum { RISE = 10, FALL = 80, TURNS = 12, LEFT = 20 * FALL };
    static void *blocks[2 * SWING_MIXED], *left[LEFT], *risen[RISE];
    uint32_t class = class_for(80);
    forget_slots();
    leave_few(class, blocks, ARRAY_LENGTH(blocks), ARRAY_LENGTH(blocks) / LEFT);
    for (size_t i = 0, n = 0; i < ARRAY_LENGTH(blocks) && n < LEFT; i++) {
        if (blocks[i] != NULL) {
            left[n++] = blocks[i];
            blocks[i] = NULL;
        }
    }
    for (size_t turn = 0; turn < TURNS; turn++) {
        uint64_t sparse = counted(heap, COUNTER_flush_sparse);
        for (size_t i = 0; i < RISE; i++)
            risen[i] = alloc(class);
        release_all(risen, RISE);
        release_all(left + turn * FALL, FALL);
        assert_at(counted(heap, COUNTER_flush_sparse) > sparse, turn);
        assert_at(magazine_of(heap, class)->swings == 0, turn);
    }
    release_all(left + TURNS * FALL, LEFT - TURNS * FALL);
    release_all(blocks, ARRAY_LENGTH(blocks));
    give_all_back(class);
}

/* Blocks that come and go in another order while the magazine is half full or more, as in a queue, do not hide what
 * swings beside them. */
static void a_queue_beside_a_swing_does_not_hide_it(void **state)
{
    (void)state;
    enum { SWING = 900, TURNS = 60, MESSAGES = 16, STEPS = 30 };
    uint32_t class = class_for(80);
    void *waiting[MESSAGES], *sent[MESSAGES];
    forget_slots();
    for (size_t k = 0; k < MESSAGES; k++)
        waiting[k] = alloc(class);
    for (int i = 0; i < TURNS; i++) {
        swing(class, SWING);
        for (int step = 0; step < STEPS; step++) {
            for (size_t k = 0; k < MESSAGES; k++)
                sent[k] = alloc(class);
            for (size_t k = 0; k < MESSAGES; k++)
                release(waiting[k]);
            memcpy(waiting, sent, sizeof waiting);
        }
    }
    assert_true(capacity(class) >= SWING);
    for (size_t k = 0; k < MESSAGES; k++)
        release(waiting[k]);
    give_all_back(class);
}

/* How long they became is for a demand that is gone. One whose demand goes up and down at once keeps them. */
static void a_heap_that_has_shrunk_loses_its_slots(void **state)
{
    (void)state;
    enum { TURNS = 8, MANY = 64 };
    uint32_t class = class_for(UNIT_SIZE);
    forget_slots();
    heap->emptied_ms = 0;
    heap->peak_bytes = heap->used_bytes;
    swing(class, MANY);
    assert_int_equal(capacity(class), 0);
    assert_int_equal(heap->magazine_bytes, 0);
    for (int i = 0; i < TURNS; i++)
        swing(class, MANY);
    if (heap_swings(heap)) /* else the machine was busy */
        assert_int_equal(capacity(class), hak_classes[class].slots);
    forget_slots();
}

/* As n refills do. Slots then. */
static uint32_t slots_after(uint32_t class, int n)
{
    lock_take(&heap->lock);
    empty_magazine(heap, class);
    while (n-- > 0)
        adjust_slots(heap, class);
    lock_release(&heap->lock);
    return capacity(class);
}

static void lose_all_slots(void)
{
    lock_take(&heap->lock);
    magazines_lose_slots(heap);
    lock_release(&heap->lock);
}

/* As where the heap has shrunk. */
static void learn_and_lose(uint32_t class)
{
    enum { SWING = 900, TURNS = 40 };
    forget_slots();
    for (int i = 0; i < TURNS; i++)
        swing(class, SWING);
    assert_int_equal(capacity(class), 1024);
    lose_all_slots();
    assert_int_equal(capacity(class), 0);
}

static void what_a_magazine_has_learnt_outlives_its_slots(void **state)
{
    (void)state;
    enum { FIRST = 1, DOUBLINGS = 7 /* from 8 to 1,024 */ };
    uint32_t class = class_for(80);
    learn_and_lose(class);
    assert_int_equal(slots_after(class, FIRST), 8);
    assert_int_equal(slots_after(class, DOUBLINGS - 1), 512);
    assert_int_equal(slots_after(class, 10), 1024);
    lose_all_slots();
    assert_int_equal(slots_after(class, FIRST), 8);
    lose_all_slots(); /* it was a short one meanwhile */
    assert_int_equal(slots_after(class, FIRST + DOUBLINGS), hak_classes[class].slots);
    forget_slots();
}

static void without_learning_what_was_learnt_does_not_count(void **state)
{
    (void)state;
    uint32_t class = class_for(80), plain = hak_classes[class].slots;
    struct options before = hak_options;
    learn_and_lose(class);
    hak_options.learn = 0;
    assert_int_equal(slots_after(class, 10), plain);
    hak_options.learn = 1;
    hak_options.magazines = 0;
    assert_int_equal(slots_after(class, 1), plain);
    hak_options.magazines = 2;
    assert_int_equal(slots_after(class, 1), 2 * plain);
    hak_options = before;
    forget_slots();
}

/* To more than twice what it had. */
static void only_what_has_grown_anew_swings(void **state)
{
    (void)state;
    size_t peak = heap->peak_bytes, emptied = heap->emptied_bytes;
    heap->emptied_ms = os_now_ms();
    heap->emptied_bytes = 1000;
    heap->peak_bytes = 2000;
    assert_false(heap_swings(heap));
    assert_true(heap->emptied_ms != 0);
    heap->peak_bytes = 2001;
    uint64_t then = heap->emptied_ms = os_now_ms();
    bool swings = heap_swings(heap);
    assert_true(swings || os_now_ms() - then >= 1000);
    heap->emptied_ms = os_now_ms() - 1000;
    assert_false(heap_swings(heap));
    heap->emptied_ms = 0;
    assert_false(heap_swings(heap));
    heap->peak_bytes = peak;
    heap->emptied_bytes = emptied;
}

/* A magazine that runs full and dry now and then, with frees and requests mixed, stays as it is. */
static void drifting_makes_no_long_magazine(void **state)
{
    (void)state;
    enum { LIVE = 2000, TURNS = 400000 };
    static void *blocks[LIVE];
    uint32_t class = class_for(176);
    uint64_t random = 88172645463325252U;
    forget_slots();
    for (int i = 0; i < TURNS; i++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        void **at = &blocks[random % LIVE];
        if (*at != NULL)
            release(*at);
        *at = *at == NULL ? alloc(class) : NULL;
    }
    assert_true(counted(heap, COUNTER_flush) > 0);
    assert_true(capacity(class) <= 64);
    for (size_t i = 0; i < LIVE; i++)
        release(blocks[i]);
    give_all_back(class);
}

static void growing_alone_makes_no_long_magazine(void **state)
{
    (void)state;
    uint32_t class = class_for(112);
    forget_slots();
    static void *blocks[4096];
    for (size_t i = 0; i < 4096; i++)
        blocks[i] = alloc(class);
    assert_int_equal(capacity(class), 64);
    for (size_t i = 0; i < 4096; i++)
        release(blocks[i]);
    assert_int_equal(capacity(class), 64);
    give_all_back(class);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_magazine_grows_until_a_swing_fits),
        cmocka_unit_test(what_falls_and_grows_again_swings),
        cmocka_unit_test(a_mix_of_few_blocks_makes_no_long_magazine),
        cmocka_unit_test(falls_alone_make_no_long_magazine),
        cmocka_unit_test(a_queue_beside_a_swing_does_not_hide_it),
        cmocka_unit_test(a_heap_that_has_shrunk_loses_its_slots),
        cmocka_unit_test(what_a_magazine_has_learnt_outlives_its_slots),
        cmocka_unit_test(without_learning_what_was_learnt_does_not_count),
        cmocka_unit_test(only_what_has_grown_anew_swings),
        cmocka_unit_test(drifting_makes_no_long_magazine),
        cmocka_unit_test(growing_alone_makes_no_long_magazine),
    };
    return cmocka_run_group_tests(tests, make_heap, abandon_heap);
}
