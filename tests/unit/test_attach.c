/* Where a thread must not use its heap, and how it leaves it. */
#include "unit.h"

#include "front/front.h"
#include "heap/registry.h"

static void a_handler_works_beside_the_heap(void **state)
{
    (void)state;
    static const size_t sizes[] = {3000, 100 * KIB, 3 * MIB};
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        front_free(front_alloc(sizes[i]));
        front_trim(); /* so that the magazine is empty */
        thread_enter();
        void *p = front_alloc(sizes[i]), *q = front_alloc(sizes[i]);
        assert_non_null(p);
        assert_non_null(q);
        assert_ptr_not_equal(p, q);
        memset(p, 'x', sizes[i]);
        if (sizes[i] <= SLAB_MAX)
            assert_ptr_not_equal(heap_of_word(unit_word(unit_of(p))), hak_thread.heap);
        front_free(p);
        thread_leave();
        front_free(q); /* by the thread itself, later */
    }
}

/* Without a heap nothing draws anew, and each of these counts for so much that a few would make the countdown wrap. */
static void refuse_without_a_heap(_Atomic size_t *wrong)
{
    static const size_t sizes[] = {(size_t)PTRDIFF_MAX, SIZE_MAX - 8};
    const int64_t left_most = HAK_INSIGHT ? LEFT_MOST : INT64_MAX; /* without it nothing counts */
    for (size_t i = 0; i < 40; i++) {
        size_t size = sizes[i % 2];
        void *p = i % 4 < 2   ? front_alloc(size)
                  : i % 8 < 6 ? front_alloc_zeroed(size)
                              : front_alloc_aligned(64, size);
        if (p != NULL || hak_thread.left < INT64_MIN / 2 || hak_thread.left > left_most)
            add_relaxed(wrong, 1);
    }
}

static void *work_after_the_exit_hook(void *wrong)
{
    static const size_t sizes[] = {16, 3000, 100 * KIB, 3 * MIB};
    void *own = front_alloc(16);
    struct heap *h = hak_thread.heap;
    hak_thread.heap = &hak_empty_heap; /* as the hook leaves it */
    hak_thread.stage = THREAD_EXITED;
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        void *p = front_alloc(sizes[i]);
        if (p == NULL || hak_thread.heap != &hak_empty_heap)
            add_relaxed((_Atomic size_t *)wrong, 1);
        memset(p, 'x', sizes[i]);
        p = front_realloc(p, 2 * sizes[i]);
        if (!is_filled(p, sizes[i], 'x'))
            add_relaxed((_Atomic size_t *)wrong, 1);
        front_free(p);
    }
    refuse_without_a_heap(wrong);
    front_free(own);
    hak_thread.stage = THREAD_RUNS;
    hak_thread.heap = h;
    return NULL;
}

static pthread_key_t later_key;
static struct heap *heap_at_the_end;

static void free_at_the_end(void *block)
{
    heap_at_the_end = hak_thread.heap;
    front_free(block);
}

static void *end_with_a_block(void *wrong)
{
    (void)wrong;
    (void)pthread_setspecific(later_key, front_alloc(48));
    return hak_thread.heap;
}

static void destructors_of_later_keys_have_the_heap(void **state)
{
    (void)state;
    front_free(front_alloc(48)); /* the library has its key */
    assert_int_equal(pthread_key_create(&later_key, free_at_the_end), 0);
    pthread_t thread;
    void *heap;
    assert_int_equal(pthread_create(&thread, NULL, end_with_a_block, NULL), 0);
    assert_int_equal(pthread_join(thread, &heap), 0);
    pthread_key_delete(later_key);
    assert_ptr_equal(heap_at_the_end, heap);
    /* And left it in the next round. */
    assert_int_not_equal(load_relaxed(&heap_at_the_end->state), HEAP_LIVE);
}

static void a_thread_works_on_after_its_exit_hook(void **state)
{
    (void)state;
    _Atomic size_t wrong = 0;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, work_after_the_exit_hook, &wrong), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(wrong, 0);
}

static struct heap *heap_of_thread;

static void *allocate_once(void *unused)
{
    front_free(front_alloc(16));
    heap_of_thread = hak_thread.heap;
    return unused;
}

static void an_ended_thread_leaves_an_orphan(void **state)
{
    (void)state;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, allocate_once, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    struct heap *first = heap_of_thread;
    assert_int_equal(load_relaxed(&first->state), HEAP_ORPHAN);
    assert_int_equal(pthread_create(&thread, NULL, allocate_once, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_ptr_equal(heap_of_thread, first); /* the next thread got it */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_handler_works_beside_the_heap),
        cmocka_unit_test(a_thread_works_on_after_its_exit_hook),
        cmocka_unit_test(destructors_of_later_keys_have_the_heap),
        cmocka_unit_test(an_ended_thread_leaves_an_orphan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
