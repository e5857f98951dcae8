/* What a fork takes, and what the child has. */
#include "heaps.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "heap/fork.h"

enum { BATCH = 100 /* several times what is sent in one */, SIZE = 40 };

/* Two heaps, used by this one thread in turns. The thread's own is a third. */
static struct heap *owner, *sender;
static uint32_t class;

static int set_up(void **state)
{
    (void)state;
    class = class_for(SIZE);
    owner = new_heap();
    sender = new_heap();
    return owner != NULL && sender != NULL ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    registry_abandon(sender);
    registry_abandon(owner);
    return 0;
}

static void fork_closes_the_inboxes_for_a_while(void **state)
{
    (void)state;
    void *blocks[BATCH];
    alloc_each_as(owner, SIZE, blocks, BATCH);
    free_each_as(sender, blocks, BATCH);
    trim_as(sender);
    struct block *head = load_relaxed(&owner->inbox);
    assert_true(fork_before());
    struct block *during = load_relaxed(&owner->inbox);
    fork_after(false);
    assert_ptr_equal(during, INBOX_CLOSED);
    assert_ptr_equal(load_relaxed(&owner->inbox), head);
    assert_int_equal(load_relaxed(&owner->lock.state), 0);
    assert_false(hak_thread.holds_all);
    assert_int_equal(receive_all_as(owner, class), BATCH);
    assert_int_equal(owner->classes[class].used, 0);
}

/* The second time as the first. */
static void each_fork_holds_every_heap(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_true(fork_before());
        uint32_t during = load_relaxed(&owner->lock.state);
        fork_after(false);
        assert_int_equal(during, 1);
        assert_int_equal(load_relaxed(&owner->lock.state), 0);
    }
}

/* What the child must see; the number says which of it was wrong. */
static int look_in_the_child(const void *kept)
{
    if (load_relaxed(&owner->state) != HEAP_ORPHAN || load_relaxed(&owner->lock.state) != 0)
        return 1;
    if (inbox_is_empty(owner))
        return 2;
    if (magazine_kept(magazine_of(owner, class)) != 0)
        return 3;
    struct heap *mine = hak_thread.heap;
    if (load_relaxed(&mine->state) != HEAP_LIVE)
        return 4;
    if (unit_word(unit_of(kept)) != (uintptr_t)magazine_of(owner, class))
        return 5;
    /* Every orphan serves again: one heap per attach, none twice. */
    struct heap *a = registry_attach(), *b = registry_attach(), *c = registry_attach();
    if (a == b || b == c || a == c || a == mine || b == mine || c == mine)
        return 6;
    return receive_all_as(owner, class) == BATCH ? 0 : 7;
}

static void the_child_keeps_the_inbox(void **state)
{
    (void)state;
    void *blocks[BATCH], *kept[BATCH];
    alloc_each_as(owner, SIZE, blocks, BATCH);
    alloc_each_as(owner, SIZE, kept, BATCH);
    free_each_as(sender, blocks, BATCH);
    trim_as(sender);
    pid_t child = fork();
    if (child == 0)
        _exit(look_in_the_child(kept[0]));
    assert_true(child > 0);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(load_relaxed(&owner->state), HEAP_LIVE); /* the parent's is as it was */
    free_each_as(owner, kept, BATCH);
    assert_int_equal(receive_all_as(owner, class), BATCH);
    assert_int_equal(owner->classes[class].used, 0);
}

static _Atomic bool is_visited;

static void *visit_for_good(void *heap)
{
    struct heap *h = heap;
    lock_take(&h->lock);
    store_release(&is_visited, true);
    pause();
    return NULL;
}

/* In the child of a handler that has interrupted a slow path, while another thread looked after its heap; the number says what
 * was wrong. What was interrupted ends without blocks, and the thread has another heap. */
static int go_on_without(struct heap *lost, void *block)
{
    if (heap_refill(lost, class, NULL) != NULL)
        return 1;
    struct magazine *m = magazine_of(lost, class);
    while (magazine_push(m, block)) { /* nothing asks what is in there */
    }
    heap_flush(lost, (uintptr_t)m, NULL);
    thread_leave();
    if (load_relaxed(&lost->state) != HEAP_LOST || hak_thread.heap == lost)
        return 2;
    void *p = front_alloc(SIZE);
    if (p == NULL || hak_thread.heap == lost || hak_thread.heap == &hak_empty_heap)
        return 3;
    front_free(p);
    front_free(block);
    registry_abandon(lost); /* as the thread's exit does */
    return 0;
}

static int fork_while_visited(void)
{
    void *block = front_alloc(SIZE);
    struct heap *mine = hak_thread.heap;
    pthread_t visitor;
    if (pthread_create(&visitor, NULL, visit_for_good, mine) != 0)
        return 10;
    while (!load_acquire(&is_visited))
        sched_yield();
    thread_enter();
    pid_t child = fork();
    if (child == 0) {
        alarm(20);
        _exit(go_on_without(mine, block));
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child)
        return 11;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 12;
}

static void the_child_does_without_a_heap_another_had(void **state)
{
    (void)state;
    pid_t child = fork(); /* where the visitor stays */
    if (child == 0)
        _exit(fork_while_visited());
    assert_true(child > 0);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* How often a new thread would get the heap. */
static int times_attached(const struct heap *h)
{
    int times = 0;
    for (int i = 0; i < 8; i++)
        times += registry_attach() == h;
    return times;
}

static int exit_code_of(pid_t child)
{
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child)
        return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* As a thread that attaches it, interrupted by a handler that forks. */
static void the_child_leaves_a_heap_to_who_attaches_it(void **state)
{
    (void)state;
    thread_enter();
    struct heap *h = registry_attach();
    pid_t child = fork();
    if (child == 0)
        _exit(times_attached(h) + (load_relaxed(&h->state) != HEAP_LIVE));
    store_relaxed(&h->passing, NULL);
    thread_leave();
    assert_int_equal(exit_code_of(child), 0);
    registry_abandon(h);
}

static struct ending {
    _Atomic(struct heap *) heap; /* of the thread that ends */
    _Atomic bool interrupted;
    bool is_child;
    int code; /* of the child */
} ending;

static void fork_in_handler(int number)
{
    (void)number;
    store_release(&ending.interrupted, true);
    pid_t child = fork();
    ending.is_child = child == 0;
    if (ending.is_child)
        alarm(20);
    else
        ending.code = exit_code_of(child);
}

/* The destructor of a key made after the library's: in the second round the thread's heap has been left before it. */
static void look_at_the_end(void *key)
{
    if (ending.is_child)
        _exit(times_attached(load_relaxed(&ending.heap)));
    if (hak_thread.stage != THREAD_EXITED)
        (void)pthread_setspecific(*(pthread_key_t *)key, key);
}

static void *end_soon(void *key)
{
    front_free(front_alloc(SIZE));
    (void)pthread_setspecific(*(pthread_key_t *)key, key);
    store_release(&ending.heap, hak_thread.heap);
    while (load_relaxed(&registry_lock()->state) == 0)
        sched_yield();
    return NULL;
}

/* The thread ends up waiting to put its heap on the list when the handler comes, whose child has it there once. */
static void the_child_lists_a_heap_that_is_left_once(void **state)
{
    (void)state;
    pthread_key_t key;
    pthread_t thread;
    signal(SIGUSR1, fork_in_handler);
    assert_int_equal(pthread_key_create(&key, look_at_the_end), 0);
    assert_int_equal(pthread_create(&thread, NULL, end_soon, &key), 0);
    while (load_acquire(&ending.heap) == NULL)
        sched_yield();
    thread_enter();
    lock_take(registry_lock());
    while (load_relaxed(&load_relaxed(&ending.heap)->state) != HEAP_ORPHAN)
        sched_yield();
    pthread_kill(thread, SIGUSR1);
    while (!load_acquire(&ending.interrupted))
        sched_yield();
    lock_release(registry_lock());
    thread_leave();
    pthread_join(thread, NULL);
    pthread_key_delete(key);
    assert_int_equal(ending.code, 1);
}

int main(void)
{
    no_warm_orphans();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fork_closes_the_inboxes_for_a_while),
        cmocka_unit_test(each_fork_holds_every_heap),
        cmocka_unit_test(the_child_keeps_the_inbox),
        cmocka_unit_test(the_child_does_without_a_heap_another_had),
        cmocka_unit_test(the_child_leaves_a_heap_to_who_attaches_it),
        cmocka_unit_test(the_child_lists_a_heap_that_is_left_once),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
