/* Slabs of which a thread's heap has more than it needs. */
#include "heap/surplus.h" /* whose arguments are called as a variable of these */

#include "three_heaps.h"

#include "aborts.h"
#include "control/stats.h"

enum {
    SLABS = 4,
    OTHER_SIZE = 320, /* parcels are of others */
    IN_LINES = 32,
    FEW_OF_EACH = 8192,
    ALL = 4096,
};

static void *blocks[ALL];
static uint32_t other;

static struct slab *slab_of(void *p)
{
    return slab_of_unit(unit_of(p));
}

/* Whole slabs of a class that nobody else here uses, none of whose blocks are in a magazine. */
static size_t fill_slabs_of(struct heap *h, size_t size, uint32_t slabs)
{
    other = class_for(size);
    size_t n = (size_t)slabs * hak_classes[other].capacity;
    assert_true(n <= ALL);
    lock_take(&h->lock);
    for (size_t i = 0; i < n; i++)
        blocks[i] = heap_take_one(h, other);
    heap_unlock(h);
    assert_int_equal(h->classes[other].slabs, slabs);
    return n;
}

static size_t fill_slabs(struct heap *h)
{
    return fill_slabs_of(h, OTHER_SIZE, SLABS);
}

static void put_as(struct heap *h, void *const *some, size_t n)
{
    lock_take(&h->lock);
    heap_put_all(h, other, some, n);
    surplus_note(h, other);
    heap_unlock(h);
}

static struct slab *take_as(struct heap *h)
{
    lock_take(&h->lock);
    struct slab *s = surplus_take(h, other);
    if (s != NULL)
        slab_list(h, s);
    heap_unlock(h);
    return s;
}

static void put_home(size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        put_as(load_relaxed(&slab_of(blocks[i])->heap), &blocks[i], 1);
}

/* All that is left, wherever it is. */
static void put_rest(size_t from, size_t to)
{
    put_home(from, to);
    for (int i = 0; i < 2; i++) {
        trim_as(owner);
        trim_as(third);
    }
    assert_int_equal(owner->classes[other].used + third->classes[other].used, 0);
    assert_int_equal(owner->classes[other].slabs + third->classes[other].slabs, 0);
}

/* The first half of each slab's. */
static void put_halves_as(struct heap *h, size_t n)
{
    for (size_t at = 0; at < n; at += n / SLABS)
        put_as(h, &blocks[at], n / SLABS / 2);
}

static void put_other_halves(size_t n)
{
    for (size_t at = n / SLABS / 2; at < n; at += n / SLABS)
        put_home(at, at + n / SLABS / 2);
    put_rest(0, 0);
}

static void the_emptiest_goes_to_who_needs_one(void **state)
{
    (void)state;
    size_t n = fill_slabs(owner), each = n / SLABS, used = owner->used_bytes;
    put_as(owner, blocks, each / 2);        /* half of the first */
    put_as(owner, &blocks[each], each - 1); /* nearly all of the second */
    uint64_t counter = counted(third, COUNTER_pool_stage1);
    void *kept = blocks[2 * each - 1];
    struct slab *s = take_as(third);
    assert_ptr_equal(s, slab_of(kept));
    assert_ptr_equal(load_relaxed(&s->heap), third);
    assert_ptr_equal(heap_of_word(unit_word(unit_of(kept))), third);
    assert_int_equal(counted(third, COUNTER_pool_stage1), counter + 1);
    assert_int_equal(owner->classes[other].slabs, SLABS - 1);
    assert_int_equal(third->classes[other].slabs, 1);
    assert_int_equal(third->classes[other].used, 1);
    assert_int_equal(owner->classes[other].used, n - each / 2 - each);
    assert_true(owner->used_bytes < used);
    assert_null(take_as(third)); /* what is left is more than three quarters in use */
    put_home(each / 2, each);
    put_rest(2 * each - 1, n);
}

static void who_needs_a_slab_asks_for_one(void **state)
{
    (void)state;
    size_t n = fill_slabs(owner);
    put_halves_as(owner, n);
    uint64_t fresh = counted(third, COUNTER_pool_stage2);
    uint32_t slabs = owner->classes[other].slabs;
    void *p = alloc_as(third, OTHER_SIZE);
    assert_ptr_equal(load_relaxed(&slab_of(p)->heap), third);
    assert_int_equal(counted(third, COUNTER_pool_stage2), fresh);
    assert_int_equal(owner->classes[other].slabs + third->classes[other].slabs, slabs);
    free_as(third, p);
    put_other_halves(n);
}

static void the_last_slab_stays(void **state)
{
    (void)state;
    other = class_for(OTHER_SIZE);
    void *p = alloc_as(owner, OTHER_SIZE);
    lock_take(&owner->lock);
    surplus_note(owner, other);
    heap_unlock(owner);
    assert_null(take_as(third));
    free_as(owner, p);
    put_rest(0, 0);
}

static void what_is_in_use_stays(void **state)
{
    (void)state;
    size_t n = fill_slabs(owner);
    put_as(owner, blocks, n / 8);
    assert_null(take_as(third));
    put_rest(n / 8, n);
}

/* Whoever takes a slab is to get many blocks with it: the first ones on the list, where those lie that were full, have none to spare. */
static void slabs_in_use_stay(void **state)
{
    (void)state;
    enum { EMPTY = 8, FULL = 16 };
    size_t n = fill_slabs_of(owner, FEW_OF_EACH, EMPTY + FULL), each = n / (EMPTY + FULL);
    for (size_t at = 0; at < EMPTY * each; at += each)
        put_as(owner, &blocks[at], each - 1);
    for (size_t at = EMPTY * each; at < n; at += each)
        put_as(owner, &blocks[at], 1);
    assert_null(take_as(third));
    put_as(owner, &blocks[EMPTY * each + 1], each / 2);
    assert_ptr_equal(take_as(third), slab_of(blocks[EMPTY * each + each - 1]));
    for (size_t at = each - 1; at < EMPTY * each; at += each)
        put_home(at, at + 1);
    put_home(EMPTY * each + 1 + each / 2, (EMPTY + 1) * each);
    for (size_t at = (EMPTY + 1) * each; at < n; at += each)
        put_home(at + 1, at + each);
    put_rest(0, 0);
}

/* Blocks of both heaps would lie in one line. */
static void slabs_of_small_blocks_stay_until_few_are_in_use(void **state)
{
    (void)state;
    size_t n = fill_slabs_of(owner, IN_LINES, 2), each = n / 2;
    put_as(owner, blocks, each / 2);
    put_as(owner, &blocks[each], each / 2);
    assert_null(take_as(third));
    put_as(owner, &blocks[each / 2], each / 2 - each / 8);
    assert_ptr_equal(take_as(third), slab_of(blocks[each - 1]));
    put_home(each - each / 8, each);
    put_rest(each + each / 2, n);
}

/* The heap itself finds its own. */
static void nobody_takes_from_himself(void **state)
{
    (void)state;
    size_t n = fill_slabs(owner);
    put_halves_as(owner, n);
    assert_null(take_as(owner));
    put_other_halves(n);
}

static void nothing_is_taken_from_who_is_at_work(void **state)
{
    (void)state;
    size_t n = fill_slabs(owner);
    put_halves_as(owner, n);
    lock_take(&owner->lock);
    assert_null(take_as(third));
    heap_unlock(owner);
    put_as(owner, blocks, 0); /* but it says so again */
    assert_non_null(take_as(third));
    put_other_halves(n);
}

/* What a thread has read of the block's unit is no longer so when it has its lock. `left`: blocks that are in use of each slab whose
 * blocks may be. */
static void flush_what_has_gone(size_t left)
{
    size_t n = fill_slabs(owner), each = n / SLABS;
    struct magazine *m = magazine_of(owner, other);
    put_as(owner, blocks, each - 2);
    put_as(owner, &blocks[each], each - left);
    put_as(owner, &blocks[2 * each], each - 4);
    put_as(owner, &blocks[3 * each], each - left);
    void *p = blocks[each - 1];
    uintptr_t word = unit_word(unit_of(p));
    assert_ptr_equal(heap_of_word(word), owner);
    struct slab *s = take_as(third);
    assert_ptr_equal(s, slab_of(p));
    assert_false(magazine_is_open(m)); /* nothing was taken by way of it: the block goes home */
    struct heap *own = hak_thread.heap;
    hak_thread.heap = owner;
    heap_flush(owner, word, p);
    hak_thread.heap = own;
    trim_as(owner);
    assert_int_equal(s->used, 2);
    assert_false(inbox_is_empty(third));
    trim_as(third);
    assert_int_equal(s->used, 1);
    put_home(each - 2, each - 1);
    put_home(2 * each - left, 2 * each);
    put_home(3 * each - 4, 3 * each);
    put_rest(n - left, n);
}

/* Few are put at once, many are gathered first. */
static void a_block_that_was_its_own_goes_where_its_slab_went(void **state)
{
    (void)state;
    flush_what_has_gone(10);
    flush_what_has_gone(60);
}

/* Of one that is in its old owner's inbox, too. */
static void a_block_on_its_way_follows_its_slab(void **state)
{
    (void)state;
    size_t n = fill_slabs(owner), each = n / SLABS;
    put_as(owner, blocks, each - 1);
    put_as(owner, &blocks[2 * each], each - 4);
    inbox_push(owner, blocks[each - 1], OTHER_SIZE);
    struct slab *s = take_as(third);
    assert_ptr_equal(s, slab_of(blocks[each - 1]));
    uint64_t forwarded = counted(owner, COUNTER_remote_forwarded);
    trim_as(owner);
    assert_int_equal(counted(owner, COUNTER_remote_forwarded), forwarded + 1);
    put_home(each, 2 * each);
    put_rest(3 * each - 4, n);
}

static _Noreturn void free_twice_across(void)
{
    size_t n = fill_slabs(owner), each = n / SLABS;
    put_as(owner, blocks, each - 1);
    put_as(owner, &blocks[2 * each], each - 4);
    if (take_as(third) == NULL)
        _exit(1);
    put_as(owner, blocks, 1); /* was freed before its slab went */
    trim_as(owner);
    trim_as(third);
    _exit(2);
}

static void a_second_free_is_told_where_its_slab_went(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0) {
        store_relaxed(&owner->state, HEAP_LIVE); /* the fork has made orphans of all others */
        store_relaxed(&third->state, HEAP_LIVE);
        store_relaxed(&hak_live_heaps, 3U);
        free_twice_across();
    }
    assert_true(was_aborted(child));
}

/* A shared heap has no thread that could say so. */
static void shared_heaps_give(void **state)
{
    (void)state;
    struct heap *shared = registry_take_shared();
    assert_non_null(shared);
    heap_unlock_visited(shared);
    size_t n = fill_slabs(shared);
    lock_take(&shared->lock);
    heap_put_all(shared, other, blocks, n / 2);
    heap_unlock_visited(shared);
    struct slab *s = take_as(third);
    assert_non_null(s);
    assert_ptr_equal(load_relaxed(&s->heap), third);
    for (size_t i = n / 2; i < n; i++) {
        struct heap *h = load_relaxed(&slab_of(blocks[i])->heap);
        lock_take(&h->lock);
        heap_put_all(h, other, &blocks[i], 1);
        heap_unlock_visited(h);
    }
    trim_as(third);
    assert_int_equal(shared->classes[other].used + third->classes[other].used, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_emptiest_goes_to_who_needs_one),
        cmocka_unit_test(who_needs_a_slab_asks_for_one),
        cmocka_unit_test(the_last_slab_stays),
        cmocka_unit_test(what_is_in_use_stays),
        cmocka_unit_test(slabs_in_use_stay),
        cmocka_unit_test(slabs_of_small_blocks_stay_until_few_are_in_use),
        cmocka_unit_test(nobody_takes_from_himself),
        cmocka_unit_test(nothing_is_taken_from_who_is_at_work),
        cmocka_unit_test(a_block_that_was_its_own_goes_where_its_slab_went),
        cmocka_unit_test(a_block_on_its_way_follows_its_slab),
        cmocka_unit_test(a_second_free_is_told_where_its_slab_went),
        cmocka_unit_test(shared_heaps_give),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
