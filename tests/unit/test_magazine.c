/* Magazines: the stack and its slots. */
#include "one_class.h"

static void tags_name_magazines_without_room(void **state)
{
    (void)state;
    static const uintptr_t tags[] = {WORD_NONE, WORD_RUN, WORD_BIG, WORD_HEAP, WORD_FREED};
    for (size_t i = 0; i < sizeof tags / sizeof tags[0]; i++) {
        struct magazine *m = magazine_for_word(heap, tags[i]);
        assert_true((uintptr_t)(m + 1) <= (uintptr_t)magazine_of(heap, 0));
        int block;
        assert_false(magazine_push(m, &block));
        assert_null(magazine_pop(m));
    }
}

/* ---- a magazine ---- */

static void a_zeroed_magazine_is_empty_and_full(void **state)
{
    (void)state;
    struct magazine *m = magazine_of(&hak_empty_heap, 3);
    int block;
    assert_null(magazine_pop(m));
    assert_false(magazine_push(m, &block));
    assert_int_equal(magazine_kept(m), 0);
}

/* A magazine of slots that are the test's, closed and empty. */
static struct magazine with_slots(void **slots, uint32_t cap)
{
    struct magazine m = {0};
    magazine_init(&m, sizeof(int));
    magazine_exchange(&m, slots, cap);
    return m;
}

static void a_magazine_is_a_stack(void **state)
{
    (void)state;
    enum { CAP = 4 };
    void *slots[CAP + 1] = {0};
    int blocks[CAP + 1];
    struct magazine m = with_slots(slots, CAP);
    magazine_open(&m, slots + CAP);
    for (uint32_t i = 0; i < CAP; i++) {
        assert_int_equal(magazine_kept(&m), i);
        assert_true(magazine_push(&m, &blocks[i]));
        assert_true(magazine_newest_is(&m, &blocks[i]));
    }
    assert_false(magazine_push(&m, &blocks[CAP]));
    assert_int_equal(magazine_kept(&m), CAP);
    for (size_t i = CAP; i-- > 0;)
        assert_ptr_equal(magazine_pop(&m), &blocks[i]);
    assert_null(magazine_pop(&m));
    assert_int_equal(magazine_kept(&m), 0);
    assert_false(magazine_newest_is(&m, &blocks[0])); /* it still stands in its slot */
}

static void a_closed_magazine_looks_empty_and_full_and_keeps_its_blocks(void **state)
{
    (void)state;
    enum { CAP = 4 };
    void *slots[CAP + 1] = {0};
    int blocks[2];
    struct magazine m = with_slots(slots, CAP);
    assert_false(magazine_is_open(&m));
    magazine_open(&m, slots + CAP);
    assert_true(magazine_is_open(&m));
    assert_true(magazine_push(&m, &blocks[0]));
    magazine_close(&m);
    magazine_close(&m); /* twice is once */
    assert_false(magazine_is_open(&m));
    assert_ptr_equal(magazine_slots(&m), slots);
    assert_null(magazine_pop(&m));
    assert_false(magazine_push(&m, &blocks[1]));
    assert_int_equal(magazine_kept(&m), 0);
    magazine_open(&m, m.top);
    assert_int_equal(magazine_kept(&m), 1);
    assert_ptr_equal(magazine_pop(&m), &blocks[0]);
    magazine_close(&m);
    magazine_exchange(&m, NULL, 0);
    assert_null(magazine_pop(&m));
    assert_false(magazine_push(&m, &blocks[1]));
    assert_int_equal(m.cap, 0);
}

static void a_magazine_that_gives_looks_full(void **state)
{
    (void)state;
    enum { CAP = 4 };
    void *slots[CAP] = {0};
    int blocks[2];
    struct magazine m = with_slots(slots, CAP);
    slots[CAP - 1] = &blocks[0];
    m.gives = true;
    magazine_open(&m, slots + CAP - 1);
    assert_true(magazine_is_open(&m));
    assert_false(magazine_takes(&m));
    assert_int_equal(magazine_kept(&m), 1);
    assert_false(magazine_push(&m, &blocks[1]));
    m.gives = false; /* for the next time that it is opened */
    assert_false(magazine_takes(&m));
    assert_ptr_equal(magazine_pop(&m), &blocks[0]);
    assert_false(magazine_push(&m, &blocks[0]));
    magazine_close(&m);
    assert_ptr_equal(magazine_slots(&m), slots);
    magazine_open(&m, m.top);
    assert_true(magazine_takes(&m));
    assert_true(magazine_push(&m, &blocks[1]));
    assert_ptr_equal(magazine_pop(&m), &blocks[1]);
}

/* ---- slots ---- */

static void slots_are_disjoint_and_come_again(void **state)
{
    (void)state;
    enum { ARRAYS = 200 };
    void **arrays[ARRAYS];
    lock_take(&heap->lock);
    for (uint32_t i = 0; i < ARRAYS; i++) {
        uint32_t length = 1U << (i % SLOT_LENGTHS);
        arrays[i] = slots_take(heap, length);
        assert_non_null(arrays[i]);
        assert_int_equal(unit_word(unit_of(arrays[i])), WORD_HEAP);
        /* free reads one slot beyond. */
        assert_int_equal(unit_of(arrays[i]), unit_of(arrays[i] + length));
        for (uint32_t k = 0; k < length; k++)
            arrays[i][k] = &arrays[i];
    }
    for (uint32_t i = 0; i < ARRAYS; i++) {
        for (uint32_t k = 0; k < 1U << (i % SLOT_LENGTHS); k++)
            assert_ptr_equal(arrays[i][k], &arrays[i]);
    }
    slots_give(heap, arrays[7], 1U << 7);
    assert_ptr_equal(slots_take(heap, 1U << 7), arrays[7]);
    for (uint32_t i = 0; i < ARRAYS; i++)
        slots_give(heap, arrays[i], 1U << (i % SLOT_LENGTHS));
    lock_release(&heap->lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tags_name_magazines_without_room),
        cmocka_unit_test(a_zeroed_magazine_is_empty_and_full),
        cmocka_unit_test(a_magazine_is_a_stack),
        cmocka_unit_test(a_magazine_that_gives_looks_full),
        cmocka_unit_test(a_closed_magazine_looks_empty_and_full_and_keeps_its_blocks),
        cmocka_unit_test(slots_are_disjoint_and_come_again),
    };
    return cmocka_run_group_tests(tests, make_heap, abandon_heap);
}
