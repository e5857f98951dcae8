/* A fast path stands between what it has read of a magazine and its last store, while the same thread's heap goes on: a signal
 * handler that allocates and frees has come in between. What the heap does now and then leaves that magazine as it is. */
#include "one_class.h"

#include "heap/capacity.h"

enum { SIZE = 48, ENOUGH = 300 };

static uint32_t class;

/* The class is in use: there are blocks in its magazine, which is open, and nothing was taken from its slabs since the last sweep. */
static int use_by_fast_paths(void **state)
{
    (void)state;
    class = class_for(SIZE);
    void *blocks[4];
    for (size_t i = 0; i < ARRAY_LENGTH(blocks); i++)
        blocks[i] = alloc(class);
    for (size_t i = 0; i < ARRAY_LENGTH(blocks); i++)
        release(blocks[i]);
    lock_take(&heap->lock);
    heap_sweep(heap);
    lock_release(&heap->lock);
    release(alloc(class));
    assert_true(magazine_is_open(magazine_of(heap, class)));
    assert_false(heap->classes[class].taken);
    return 0;
}

static int give_back(void **state)
{
    (void)state;
    give_all_back(class);
    return 0;
}

static void sweep(void)
{
    lock_take(&heap->lock);
    heap_sweep(heap);
    lock_release(&heap->lock);
}

/* Another class asks for a longer magazine, for which there is no budget, until each has been looked at. */
static void move_the_hand_around(void)
{
    static void *blocks[64 * CLASS_COUNT];
    uint32_t other = class_for(200), seen = heap->budget_hand, moves = 0;
    size_t n = 0;
    heap->magazine_bytes += SIZE_MAX / 2;
    while (moves < CLASS_COUNT) {
        assert_true(n < ARRAY_LENGTH(blocks));
        blocks[n++] = alloc(other);
        moves += heap->budget_hand != seen;
        seen = heap->budget_hand;
    }
    heap->magazine_bytes -= SIZE_MAX / 2;
    while (n > 0)
        release(blocks[--n]);
}

/* malloc, with what a handler does before the top moves. */
static void *pop_halted(void (*handler)(void))
{
    struct magazine *m = magazine_of(heap, class);
    void **top = m->top, *p = *top;
    assert_true(magazine_newest_is(m, p));
    handler();
    magazine_set_top(m, top + 1);
    return p;
}

static void push_halted(void *p, void (*handler)(void))
{
    struct magazine *m = magazine_of(heap, class);
    void **top = m->top;
    assert_true(top > m->start);
    handler();
    top[-1] = p;
    magazine_set_top(m, top - 1);
}

/* How often it is handed out. */
static size_t found(const void *p)
{
    void *blocks[ENOUGH];
    size_t times = 0;
    for (size_t i = 0; i < ENOUGH; i++) {
        blocks[i] = alloc(class);
        times += blocks[i] == p;
    }
    for (size_t i = 0; i < ENOUGH; i++)
        release(blocks[i]);
    return times;
}

static void check_beside(void (*handler)(void))
{
    void *p = pop_halted(handler);
    assert_int_equal(found(p), 0);
    release(alloc(class));
    push_halted(p, handler);
    assert_int_equal(found(p), 1);
}

static void a_sweep_leaves_what_is_in_use(void **state)
{
    (void)state;
    check_beside(sweep);
}

static void the_budgets_hand_leaves_what_is_in_use(void **state)
{
    (void)state;
    move_the_hand_around(); /* so that it has not been refilled since the last round */
    release(alloc(class));
    check_beside(move_the_hand_around);
}

/* But what nobody has used since then goes. */
static void what_is_not_used_is_emptied(void **state)
{
    (void)state;
    size_t used = heap->classes[class].used;
    assert_true(used != 0);
    sweep();
    assert_int_equal(heap->classes[class].used, used);
    assert_int_equal(magazine_kept(magazine_of(heap, class)), used);
    sweep();
    assert_int_equal(heap->classes[class].used, 0);
    assert_true(magazine_of(heap, class)->cap != 0);
    move_the_hand_around(); /* it was refilled before that */
    move_the_hand_around();
    assert_int_equal(magazine_of(heap, class)->cap, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_sweep_leaves_what_is_in_use, use_by_fast_paths,
                                        give_back),
        cmocka_unit_test_setup_teardown(the_budgets_hand_leaves_what_is_in_use, use_by_fast_paths,
                                        give_back),
        cmocka_unit_test_setup_teardown(what_is_not_used_is_emptied, use_by_fast_paths, give_back),
    };
    return cmocka_run_group_tests(tests, make_heap, abandon_heap);
}
