/* Heaps from which threads take that need little of a class, where heaps are many. */
#include "heaps.h"

#include <sys/wait.h>
#include <unistd.h>

#include "front/secure.h"
#include "heap/capacity.h"
#include "heap/shared.h"
#include "os/os.h"

enum {
    SIZE = 200,
    LARGE = 3000, /* of which a refill takes one */
    ZEROS = 20000,
    PAGED = 100000, /* a slab of its own */
    PAGED_MOST = SLAB_MAX,
    PAGED_BUSY = BUSY_FROM / PAGED_WEIGHT + 1, /* refills of pages */
    HEAPS = MANY_HEAPS + 2,
    PERIOD_MS = 1000,
    LARGEST = FIRST_PAGED - 1, /* class of a slab that has several blocks */
    CROWD = 40,                /* heaps beside which few magazines of larger blocks have slots */
    MANY = 300                 /* more than a magazine takes */
};

static struct heap *heaps[HEAPS], *crowd[CROWD], *with_slots;
static uint64_t now_ms = 1;

uint64_t __wrap_os_now_ms(void);
uint64_t __wrap_os_now_ms(void)
{
    return now_ms;
}

static struct heap *owner_of(const void *p)
{
    return heap_of_word(unit_word(unit_of(p)));
}

static bool is_shared(const void *p)
{
    return load_relaxed(&owner_of(p)->state) == HEAP_SHARED;
}

static void few_heaps_share_nothing(void **state)
{
    (void)state;
    struct heap *h = new_heap();
    void *p = alloc_as(h, SIZE);
    assert_false(heaps_are_many());
    assert_ptr_equal(owner_of(p), h);
    free_as(h, p);
    free_as(h, alloc_as(h, PAGED_MOST));
    trim_as(h);
    with_slots = h;
}

static void make_heaps(struct heap **made, int n)
{
    for (int i = 0; i < n; i++) {
        made[i] = new_heap();
        assert_non_null(made[i]);
    }
    now_ms += PERIOD_MS;
}

static void end_heaps(struct heap **made, int n)
{
    for (int i = 0; i < n; i++)
        registry_abandon(made[i]);
}

static int make_many(void **state)
{
    (void)state;
    make_heaps(heaps, HEAPS);
    return 0;
}

/* In the child of a fork, of whose threads one is left, which has its heap. */
static void make_many_again(void)
{
    if (load_relaxed(&hak_live_heaps) != 1)
        _exit(3);
    (void)make_many(NULL);
}

static void threads_take_from_one_slab(void **state)
{
    (void)state;
    uint32_t class = class_for(SIZE);
    void *blocks[HEAPS];
    trim_as(heaps[0]);
    for (int i = 1; i < HEAPS; i++) {
        uint64_t before = counted(heaps[i], COUNTER_refill_shared);
        heaps[i]->classes[class].taken = false;
        blocks[i] = alloc_as(heaps[i], SIZE);
        assert_true(is_shared(blocks[i]));
        assert_int_equal(unit_of(blocks[i]), unit_of(blocks[1]));
        assert_int_equal(heaps[i]->classes[class].slabs, 0);
        assert_int_equal(counted(heaps[i], COUNTER_refill_shared), before + 1);
        assert_true(heaps[i]->classes[class].taken); /* the next sweep leaves it */
        for (int j = 1; j < i; j++)
            assert_ptr_not_equal(blocks[i], blocks[j]);
    }
    struct heap *shared = owner_of(blocks[1]);
    assert_true(shared->classes[class].used >= HEAPS - 1);
    for (int i = 1; i < HEAPS; i++) {
        free_as(heaps[i], blocks[HEAPS - i]); /* another's */
        trim_as(heaps[i]);
    }
    assert_true(inbox_is_empty(shared));
    assert_int_equal(shared->classes[class].used, 0);
}

/* Blocks that a refill takes at a time: holds them all, so that each finds its magazine empty. */
static size_t taken_by_refill(struct heap *h, size_t size, void **blocks, size_t *held)
{
    const struct magazine *m = magazine_of(h, class_for(size));
    assert_int_equal(magazine_kept(m), 0);
    blocks[(*held)++] = alloc_as(h, size);
    assert_true(is_shared(blocks[*held - 1]));
    size_t taken = 1 + magazine_kept(m);
    while (magazine_kept(m) != 0)
        blocks[(*held)++] = alloc_as(h, size);
    return taken;
}

/* Who asks once takes one, who asks again more of what others could use as well; but not part of a line. */
static void a_refill_takes_as_many_as_there_were(void **state)
{
    (void)state;
    static const struct {
        size_t size, taken[4];
    } cases[] = {{8, {4, 8, 8, 8}},   {16, {4, 4, 4, 4}},  {100, {1, 2, 3, 4}},
                 {500, {1, 2, 3, 4}}, {900, {1, 2, 2, 2}}, {LARGE, {1, 1, 1, 1}}};
    void *blocks[64];
    now_ms += PERIOD_MS;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t held = 0;
        trim_as(heaps[2]);
        for (size_t refill = 0; refill < 4; refill++)
            assert_int_equal(taken_by_refill(heaps[2], cases[i].size, blocks, &held),
                             cases[i].taken[refill]);
        free_each_as(heaps[2], blocks, held);
    }
    trim_as(heaps[2]);
}

/* Allocates until a block is the heap's own; returns how many were not. */
static size_t shared_before_own(struct heap *h, size_t size, void **blocks, size_t most)
{
    size_t n = 0;
    while (n < most && is_shared(blocks[n] = alloc_as(h, size)))
        n++;
    assert_true(n < most);
    assert_ptr_equal(owner_of(blocks[n]), h);
    return n;
}

static void a_class_that_is_needed_often_gets_its_own(void **state)
{
    (void)state;
    static void *blocks[2 * FEW_REFILLS + 2];
    struct heap *h = heaps[3];
    now_ms += PERIOD_MS;
    size_t n = shared_before_own(h, LARGE, blocks, FEW_REFILLS + 1);
    assert_int_equal(n, FEW_REFILLS);
    assert_true(is_shared(blocks[n + 1] = alloc_as(h, 2 * (size_t)LARGE))); /* another class */
    free_each_as(h, blocks, n + 2);
    trim_as(h);
    assert_int_equal(h->classes[class_for(LARGE)].slabs, 0);
    now_ms += PERIOD_MS - 1;
    assert_false(is_shared(blocks[0] = alloc_as(h, LARGE)));
    free_as(h, blocks[0]);
    trim_as(h);
    now_ms++;
    assert_true(is_shared(blocks[0] = alloc_as(h, LARGE)));
    free_as(h, blocks[0]);
    trim_as(h);
}

/* One of each class of more than SMALL_MAX but LARGEST, into `blocks`. */
static void alloc_of_each(struct heap *h, void **blocks)
{
    for (uint32_t class = class_for(SMALL_MAX) + 1; class < LARGEST; class ++)
        blocks[class] = alloc_as(h, hak_classes[class].size);
}

static void free_of_each(struct heap *h, void **blocks)
{
    for (uint32_t class = class_for(SMALL_MAX) + 1; class < LARGEST; class ++)
        free_as(h, blocks[class]);
}

/* So often that its magazine has slots; returns the blocks asked for. */
static size_t shared_before_slots(struct heap *h, uint32_t class, void **blocks)
{
    size_t n = 0;
    while (n < FEW_REFILLS && magazine_of(h, class)->cap == 0) {
        blocks[n] = alloc_as(h, hak_classes[class].size);
        assert_true(is_shared(blocks[n++]));
    }
    return n;
}

static void end_beside_crowd(struct heap *h, void **first, void **blocks, size_t n)
{
    free_each_as(h, blocks, n);
    free_of_each(h, first);
    trim_as(h);
    end_heaps(crowd, CROWD);
}

/* The hand takes the slots of idle ones for classes that have none. */
static void miss_slots_until_lost(struct heap *h, uint32_t class)
{
    for (int i = 0; i < BUSY_FROM && magazine_of(h, class)->cap != 0; i++) {
        for (uint32_t other = class + 1; other < LARGEST; other++) {
            if (magazine_of(h, other)->cap == 0)
                free_as(h, alloc_as(h, hak_classes[other].size));
        }
    }
    assert_int_equal(magazine_of(h, class)->cap, 0);
}

/* Where there is no room for the slots of another. They are not taken for idle later, although they serve all by themselves. */
static void a_busy_class_gets_slots_before_slabs(void **state)
{
    (void)state;
    struct heap *h = heaps[2];
    void *blocks[FEW_REFILLS], *first[LARGEST];
    uint32_t idle = class_for(LARGE);
    make_heaps(crowd, CROWD);
    alloc_of_each(h, first);
    assert_int_not_equal(magazine_of(h, idle)->cap, 0);
    size_t n = shared_before_slots(h, LARGEST, blocks);
    assert_in_range(n, BUSY_FROM, BUSY_FROM + 1);
    uint32_t cap = magazine_of(h, LARGEST)->cap;
    trim_as(h);
    free_as(h, alloc_as(h, LARGE));
    h->budget_hand = LARGEST; /* where it comes by before it finds the other idle */
    miss_slots_until_lost(h, idle);
    assert_int_equal(magazine_of(h, LARGEST)->cap, cap);
    end_beside_crowd(h, first, blocks, n);
}

/* What it had is gone with the demand, but one that is needed within the same second is busy again at once. */
static void a_busy_class_gets_lost_slots_back(void **state)
{
    (void)state;
    struct heap *h = heaps[1];
    void *blocks[FEW_REFILLS + 2], *first[LARGEST];
    make_heaps(crowd, CROWD);
    alloc_of_each(h, first);
    size_t n = shared_before_slots(h, LARGEST, blocks);
    free_of_each(h, first);
    assert_true(lock_take(&h->lock));
    magazines_lose_slots(h);
    heap_unlock(h);
    assert_false(is_busy(h, LARGEST));
    alloc_of_each(h, first); /* and these are in the way again */
    assert_int_equal(magazine_of(h, LARGEST)->cap, 0);
    blocks[n++] = alloc_as(h, hak_classes[LARGEST].size);
    assert_int_not_equal(magazine_of(h, LARGEST)->cap, 0);
    end_beside_crowd(h, first, blocks, n);
}

/* Its own free blocks come first. */
static void own_blocks_are_used_up(void **state)
{
    (void)state;
    void *blocks[FEW_REFILLS + 2], *p;
    struct heap *h = heaps[4];
    now_ms += PERIOD_MS;
    size_t n = shared_before_own(h, LARGE, blocks, FEW_REFILLS + 1);
    now_ms += PERIOD_MS;
    trim_as(h);
    p = alloc_as(h, LARGE);
    assert_ptr_equal(owner_of(p), h);
    free_as(h, p);
    free_each_as(h, blocks, n + 1);
    trim_as(h);
}

/* Who finds one busy takes the next, and does not wait. */
static void busy_ones_are_passed_over(void **state)
{
    (void)state;
    struct heap *h = heaps[5], *busy[SHARED_HEAPS];
    void *blocks[SHARED_HEAPS + 1];
    now_ms += PERIOD_MS;
    for (int i = 0; i < SHARED_HEAPS; i++) {
        blocks[i] = alloc_as(h, LARGE);
        assert_true(is_shared(blocks[i]));
        busy[i] = owner_of(blocks[i]);
        for (int j = 0; j < i; j++)
            assert_ptr_not_equal(busy[i], busy[j]);
        assert_true(lock_try(&busy[i]->lock));
    }
    blocks[SHARED_HEAPS] = alloc_as(h, LARGE);
    assert_ptr_equal(owner_of(blocks[SHARED_HEAPS]), h);
    /* What is sent to one meanwhile is taken in by whoever has it. */
    free_each_as(h, blocks, SHARED_HEAPS + 1);
    trim_as(h);
    for (int i = 0; i < SHARED_HEAPS; i++) {
        assert_false(inbox_is_empty(busy[i]));
        heap_unlock_visited(busy[i]);
        assert_true(inbox_is_empty(busy[i]));
    }
}

/* Blocks of pages have no slab to share: they go back to where all threads take them from. */
static void blocks_of_pages_are_not_kept(void **state)
{
    (void)state;
    struct heap *h = heaps[6];
    uint32_t class = class_for(PAGED);
    now_ms += PERIOD_MS;
    for (int i = 0; i < 3; i++)
        free_as(h, alloc_as(h, PAGED));
    assert_int_equal(magazine_of(h, class)->cap, 0);
    assert_int_equal(h->classes[class].used, 0);
    for (int i = 0; i < FEW_REFILLS && magazine_of(h, class)->cap == 0; i++)
        free_as(h, alloc_as(h, PAGED));
    assert_true(magazine_of(h, class)->cap != 0);
    assert_int_equal(h->classes[class].used, 1);
    trim_as(h);
}

/* Which is more than the share of many heaps has room for. */
static void busy_blocks_of_pages_get_slots(void **state)
{
    (void)state;
    struct heap *h = heaps[1];
    const struct magazine *m = magazine_of(h, class_for(PAGED_MOST));
    make_heaps(crowd, CROWD);
    for (int i = 0; i < FEW_REFILLS && m->cap == 0; i++)
        free_as(h, alloc_as(h, PAGED_MOST));
    assert_int_not_equal(m->cap, 0);
    trim_as(h);
    end_heaps(crowd, CROWD);
}

/* From when there were few heaps. */
static void blocks_of_pages_that_have_slots_become_busy(void **state)
{
    (void)state;
    void *blocks[PAGED_BUSY];
    uint32_t class = class_for(PAGED_MOST);
    make_heaps(crowd, CROWD);
    assert_int_not_equal(magazine_of(with_slots, class)->cap, 0);
    alloc_each_as(with_slots, PAGED_MOST, blocks, PAGED_BUSY - 1);
    assert_false(is_busy(with_slots, class));
    blocks[PAGED_BUSY - 1] = alloc_as(with_slots, PAGED_MOST);
    assert_true(is_busy(with_slots, class));
    free_each_as(with_slots, blocks, PAGED_BUSY);
    registry_abandon(with_slots);
    end_heaps(crowd, CROWD);
}

static void what_is_to_be_zeros_is(void **state)
{
    (void)state;
    struct heap *own = hak_thread.heap;
    now_ms += PERIOD_MS;
    hak_thread.heap = heaps[7];
    unsigned char *p = front_alloc_zeroed(secure_request((size_t)ZEROS));
    memset(p, 1, ZEROS);
    front_free(p);
    front_trim();
    unsigned char *q = front_alloc_zeroed(secure_request((size_t)ZEROS));
    hak_thread.heap = own;
    assert_true(is_shared(q));
    for (int i = 0; i < ZEROS; i++)
        assert_int_equal(q[i], 0);
    free_as(heaps[7], q);
}

static void they_are_shared_in_a_forks_child_as_well(void **state)
{
    (void)state;
    now_ms += PERIOD_MS;
    void *p = alloc_as(heaps[8], LARGE);
    struct heap *shared = owner_of(p);
    assert_true(is_shared(p));
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        make_many_again();
        free_as(hak_thread.heap, p);
        trim_as(hak_thread.heap);
        void *q = alloc_as(hak_thread.heap, LARGE);
        _exit(owner_of(q) != shared || load_relaxed(&shared->state) != HEAP_SHARED);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    free_as(heaps[8], p);
}

/* In the child of a fork, which it ends: `free` twice, or not at its start, a block that a thread has of a shared heap. With the
 * magazine full or not. */
static _Noreturn void misuse_and_exit(size_t more, bool twice)
{
    void *blocks[MANY], *p;
    make_many_again();
    p = front_alloc(SIZE);
    if (!is_shared(p))
        _exit(1);
    alloc_each_as(hak_thread.heap, SIZE, blocks, more);
    free_each_as(hak_thread.heap, blocks, more);
    front_free(p);
    char *other = front_alloc(LARGE);
    front_free(twice ? p : other);
    if (!twice)
        front_free(other + 64);
    front_verify();
    _exit(2);
}

static void misuse_is_noticed_at_exit(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        int status;
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            misuse_and_exit(i < 2 ? 0 : MANY, i % 2 == 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    }
}

/* As many end as leave few, and begin again. */
static void ended_threads_count_no_more(void **state)
{
    (void)state;
    uint32_t live = load_relaxed(&hak_live_heaps);
    while (heaps_are_many())
        registry_abandon(heaps[--live - 1]);
    struct heap *h = hak_thread.heap;
    now_ms += PERIOD_MS;
    trim_as(h);
    void *p = alloc_as(h, LARGE);
    assert_ptr_equal(owner_of(p), h);
    free_as(h, p);
    trim_as(h);
    for (; live <= HEAPS; live++)
        heaps[live - 1] = new_heap();
    assert_true(heaps_are_many());
    assert_true(is_shared(p = alloc_as(h, LARGE)));
    free_as(h, p);
}

static int end_all(void **state)
{
    (void)state;
    end_heaps(heaps, HEAPS);
    return 0;
}

int main(void)
{
    const struct CMUnitTest alone[] = {cmocka_unit_test(few_heaps_share_nothing)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_take_from_one_slab),
        cmocka_unit_test(a_refill_takes_as_many_as_there_were),
        cmocka_unit_test(a_class_that_is_needed_often_gets_its_own),
        cmocka_unit_test(a_busy_class_gets_slots_before_slabs),
        cmocka_unit_test(a_busy_class_gets_lost_slots_back),
        cmocka_unit_test(own_blocks_are_used_up),
        cmocka_unit_test(busy_ones_are_passed_over),
        cmocka_unit_test(blocks_of_pages_are_not_kept),
        cmocka_unit_test(busy_blocks_of_pages_get_slots),
        cmocka_unit_test(blocks_of_pages_that_have_slots_become_busy),
        cmocka_unit_test(what_is_to_be_zeros_is),
        cmocka_unit_test(they_are_shared_in_a_forks_child_as_well),
        cmocka_unit_test(misuse_is_noticed_at_exit),
        cmocka_unit_test(ended_threads_count_no_more),
    };
    int failed = cmocka_run_group_tests(alone, NULL, NULL);
    return failed != 0 ? failed : cmocka_run_group_tests(tests, make_many, end_all);
}
