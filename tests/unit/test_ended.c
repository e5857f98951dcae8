/* Heaps whose threads have ended. */
#include "three_heaps.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "control/stats.h"

static void orphans_lose_slabs_to_the_living(void **state)
{
    (void)state;
    void *blocks[BATCH];
    alloc_each_as(owner, SIZE, blocks, BATCH);
    registry_abandon(owner);
    assert_int_equal(load_relaxed(&owner->state), HEAP_ORPHAN);
    assert_int_equal(owner->classes[class].used, BATCH); /* its magazines are empty */
    uint64_t adopted = counted(third, COUNTER_pool_stage1);
    void *p = alloc_as(third, SIZE);
    assert_int_equal(counted(third, COUNTER_pool_stage1), adopted + 1);
    assert_ptr_equal(heap_of_word(unit_word(unit_of(blocks[0]))), third);
    assert_ptr_equal(load_relaxed(&slab_of_unit(unit_of(blocks[0]))->heap), third);
    assert_int_equal(unit_of(p), unit_of(blocks[0]));
    assert_int_equal(owner->classes[class].slabs, 0);
    assert_int_equal(owner->classes[class].used, 0);
    for (size_t i = 0; i < BATCH; i++)
        assert_ptr_not_equal(p, blocks[i]);
    free_each_as(third, blocks, BATCH);
    free_as(third, p);
    receive_all_as(third, class);
    assert_int_equal(third->classes[class].used, 0);
    assert_ptr_equal(registry_attach(), owner); /* and the heap serves the next thread */
}

/* Who has found nothing among the orphans does not look again until one of them has something. */
static void an_orphan_that_was_full_is_asked_again(void **state)
{
    enum { FEW_SIZE = 50000, FEW_MOST = 64 };
    (void)state;
    uint32_t few = class_for(FEW_SIZE), n = hak_classes[few].capacity;
    void *full[FEW_MOST], *own[2 * FEW_MOST];
    assert_in_range(n, 2, FEW_MOST);
    for (uint32_t i = 0; i < n; i++)
        full[i] = alloc_as(owner, FEW_SIZE);
    registry_abandon(owner);
    front_trim(); /* also the slab that the orphan keeps */
    assert_int_equal(owner->classes[few].slabs, 1);
    assert_int_equal(owner->classes[few].listed, 0);
    uint64_t adopted = counted(third, COUNTER_pool_stage1);
    size_t owned = 0;
    own[owned++] = alloc_as(third, FEW_SIZE);
    assert_int_equal(counted(third, COUNTER_pool_stage1), adopted);
    free_as(third, full[0]);
    trim_as(third);
    assert_int_equal(owner->classes[few].listed, 1);
    while (owned < 2 * n && counted(third, COUNTER_pool_stage1) == adopted)
        own[owned++] = alloc_as(third, FEW_SIZE);
    assert_int_equal(counted(third, COUNTER_pool_stage1), adopted + 1);
    assert_int_equal(owner->classes[few].slabs, 0);
    free_each_as(third, own, owned);
    free_each_as(third, full + 1, n - 1);
    trim_as(third);
    assert_int_equal(third->classes[few].used, 0);
    assert_ptr_equal(registry_attach(), owner);
}

static void abandoning_empties_everything(void **state)
{
    (void)state;
    void *mine[BATCH], *others[3];
    alloc_each_as(owner, SIZE, mine, BATCH);
    alloc_each_as(third, SIZE, others, 3);
    for (int i = 0; i < 3; i++)
        free_as(owner, others[i]); /* in owner's outbox */
    send_all(mine, BATCH);         /* in owner's inbox */
    registry_abandon(owner);
    assert_true(inbox_is_empty(owner));
    assert_int_equal(owner->classes[class].used, 0);
    assert_int_equal(receive_all_as(third, class), 3);
    assert_int_equal(third->classes[class].used, 0);
    assert_ptr_equal(registry_attach(), owner);
}

/* What a short thread leaves is there for the next one, magazines included. */
static void a_small_orphan_waits_warm(void **state)
{
    (void)state;
    void *blocks[BATCH];
    owner->peak_bytes = 0; /* else it has shrunk since the tests before, and keeps nothing */
    alloc_each_as(owner, SIZE, blocks, BATCH);
    free_each_as(owner, blocks, BATCH);
    size_t kept = magazine_kept(magazine_of(owner, class));
    assert_true(kept > 0);
    store_relaxed(&hak_kept.warm, (size_t)0);
    registry_abandon(owner);
    assert_int_equal(magazine_kept(magazine_of(owner, class)), kept);
    assert_int_equal(load_relaxed(&hak_kept.warm), kept * hak_classes[class].size);
    assert_ptr_equal(registry_attach(), owner);
    assert_int_equal(magazine_kept(magazine_of(owner, class)), kept);
    assert_int_equal(load_relaxed(&hak_kept.warm), 0);
    /* There is one bound for all that wait. */
    no_warm_orphans();
    registry_abandon(owner);
    assert_int_equal(magazine_kept(magazine_of(owner, class)), 0);
    assert_int_equal(owner->classes[class].used, 0);
    assert_int_equal(load_relaxed(&hak_kept.warm), WARM_MOST);
    assert_ptr_equal(registry_attach(), owner);
}

/* Where a thread without a heap of its own frees. */
static void a_heap_of_an_ended_thread_can_be_borrowed(void **state)
{
    (void)state;
    registry_abandon(owner);
    struct heap *h = registry_borrow();
    assert_ptr_equal(h, owner);
    assert_int_equal(load_relaxed(&h->state), HEAP_ORPHAN);
    assert_int_equal(load_relaxed(&h->lock.state), 1);
    heap_unlock_visited(h);
    assert_ptr_equal(registry_attach(), owner);
}

/* In the child of a fork, which it ends: two threads that have ended both have the block in their magazines. */
static _Noreturn void free_in_two_threads(void)
{
    void *blocks[2], *p = alloc_as(owner, SIZE);
    owner->peak_bytes = third->peak_bytes = 0; /* see a_small_orphan_waits_warm */
    alloc_each_as(third, SIZE, blocks, 2);     /* its magazine takes a block then */
    free_as(owner, p);
    free_as(third, p);
    store_relaxed(&hak_kept.warm, (size_t)0);
    registry_abandon(owner);
    registry_abandon(third);
    if (magazine_kept(magazine_of(owner, class)) == 0 ||
        magazine_kept(magazine_of(third, class)) == 0)
        _exit(1);
    front_verify();
    _exit(2);
}

static void what_two_ended_threads_freed_is_noticed(void **state)
{
    (void)state;
    int status;
    pid_t child = fork();
    if (child == 0)
        free_in_two_threads();
    assert_int_equal(waitpid(child, &status, 0), child);
#if HAK_CHECKED
    assert_true(WIFSIGNALED(status)); /* by the second free */
#else
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
#endif
}

/* Three of the owner's, which the sender has freed and not sent when the owner ends. */
static void leave_on_their_way(void *blocks[3])
{
    alloc_each_as(owner, SIZE, blocks, 3);
    for (int i = 0; i < 3; i++)
        free_as(sender, blocks[i]);
    registry_abandon(owner);
}

static void a_batch_for_an_orphan_is_drained_by_its_sender(void **state)
{
    (void)state;
    void *blocks[3];
    leave_on_their_way(blocks);
    trim_as(sender);
    assert_true(inbox_is_empty(owner));
    assert_int_equal(owner->classes[class].used, 0);
    assert_ptr_equal(registry_attach(), owner);
}

static void blocks_follow_their_slab(void **state)
{
    (void)state;
    void *blocks[3];
    leave_on_their_way(blocks);
    void *p = alloc_as(third, SIZE); /* adopts the slab of the three on their way */
    assert_int_equal(unit_of(p), unit_of(blocks[0]));
    trim_as(sender);
    free_as(third, p);
    assert_int_equal(receive_all_as(third, class), 3);
    assert_int_equal(third->classes[class].used, 0);
    assert_ptr_equal(registry_attach(), owner);
}

static void *end_with_half_used_slabs(void *kept)
{
    enum { MANY = 400, LARGE = 3000 };
    void *blocks[MANY], **out = kept;
    for (int i = 0; i < MANY; i++)
        blocks[i] = front_alloc(LARGE);
    for (int i = 0; i < MANY; i++) {
        if (i % 2 == 0)
            front_free(blocks[i]);
        else
            *out++ = blocks[i];
    }
    return NULL;
}

static void a_thread_inherits_what_another_left(void **state)
{
    (void)state;
    enum { KEPT = 200, LARGE = 3000 };
    static void *kept[KEPT], *mine[KEPT];
    static struct numbers before, after;
    numbers_read(&before);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, end_with_half_used_slabs, kept), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    for (int i = 0; i < KEPT; i++)
        mine[i] = front_alloc(LARGE);
    numbers_read(&after);
    assert_true(after.counters[COUNTER_pool_stage1] > before.counters[COUNTER_pool_stage1]);
    for (int i = 0; i < KEPT; i++) {
        front_free(kept[i]);
        front_free(mine[i]);
    }
    front_trim();
    numbers_read(&after);
    uint32_t large = class_for(LARGE);
    assert_int_equal(after.classes[large].blocks, before.classes[large].blocks);
    assert_int_equal(after.classes[large].magazine, 0);
}

/* More of them than are looked at in one call have nothing, and lie in front of one that has. */
static void the_newest_orphans_hide_no_others(void **state)
{
    enum { NEWER = 40, CALLS = 4 };
    (void)state;
    void *blocks[BATCH];
    struct heap *newer[NEWER];
    struct slab *s = NULL;
    alloc_each_as(owner, SIZE, blocks, BATCH);
    for (int i = 0; i < NEWER; i++)
        newer[i] = new_heap();
    registry_abandon(owner);
    for (int i = 0; i < NEWER; i++)
        registry_abandon(newer[i]);
    lock_take(&third->lock);
    for (int i = 0; i < CALLS && s == NULL; i++)
        s = registry_adopt_slab(third, class);
    if (s != NULL)
        slab_list(third, s);
    heap_unlock(third);
    assert_ptr_equal(s, slab_of_unit(unit_of(blocks[0])));
    for (int i = NEWER - 1; i >= 0; i--)
        assert_ptr_equal(registry_attach(), newer[i]);
    assert_ptr_equal(registry_attach(), owner);
    free_each_as(third, blocks, BATCH);
    for (int i = 0; i < NEWER; i++)
        registry_abandon(newer[i]);
}

static void count_one(struct heap *h, void *heaps)
{
    (void)h;
    ++*(size_t *)heaps;
}

static size_t heaps_there(void)
{
    size_t heaps = 0;
    registry_each(count_one, &heaps);
    return heaps;
}

/* As a handler that has interrupted who works on the registry. */
static void attach_in_vain(size_t n)
{
    thread_enter();
    thread_enter();
    assert_true(lock_take(registry_lock()));
    for (size_t i = 0; i < n; i++)
        assert_null(registry_attach());
    lock_release(registry_lock());
    thread_leave();
    thread_leave();
}

/* The next one who tries takes it, and no other is made. */
static void a_heap_that_could_not_join_serves_later(void **state)
{
    enum { TRIES = 11, MOST = 64 };
    (void)state;
    struct heap *attached[MOST];
    size_t n = 0, heaps = heaps_there();
    attach_in_vain(TRIES);
    assert_int_equal(heaps_there(), heaps);
    size_t units = units_in_use();
    while (units_in_use() == units) {
        assert_true(n < MOST);
        attached[n] = registry_attach();
        assert_non_null(attached[n]);
        store_relaxed(&attached[n++]->passing, NULL);
    }
    assert_int_equal(heaps_there(), heaps + 2);
    while (n > 0)
        registry_abandon(attached[--n]);
}

int main(void)
{
    no_warm_orphans();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(orphans_lose_slabs_to_the_living),
        cmocka_unit_test(an_orphan_that_was_full_is_asked_again),
        cmocka_unit_test(abandoning_empties_everything),
        cmocka_unit_test(a_small_orphan_waits_warm),
        cmocka_unit_test(a_heap_of_an_ended_thread_can_be_borrowed),
        cmocka_unit_test(what_two_ended_threads_freed_is_noticed),
        cmocka_unit_test(a_batch_for_an_orphan_is_drained_by_its_sender),
        cmocka_unit_test(blocks_follow_their_slab),
        cmocka_unit_test(a_thread_inherits_what_another_left),
        cmocka_unit_test(the_newest_orphans_hide_no_others),
        cmocka_unit_test(a_heap_that_could_not_join_serves_later),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
