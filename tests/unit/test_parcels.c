/* Parcels: what gathers for whom, how much of it, and when it goes. */
#include "three_heaps.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "control/options.h"
#include "control/stats.h"
#include "heap/hollow.h"

static void batches_are_gathered_and_sent(void **state)
{
    (void)state;
    void *blocks[BATCH];
    alloc_each_as(owner, SIZE, blocks, BATCH);
    free_as(sender, blocks[0]);
    assert_true(inbox_is_empty(owner)); /* nothing is sent one by one */
    uint64_t batches = counted(sender, COUNTER_remote_batch);
    uint64_t sent = counted(sender, COUNTER_ss_remote);
    for (size_t i = 1; i < BATCH; i++)
        free_as(sender, blocks[i]);
    assert_false(inbox_is_empty(owner)); /* nor are they gathered for ever */
    trim_as(sender);
    assert_int_equal(counted(sender, COUNTER_ss_remote), sent + BATCH);
    assert_true(counted(sender, COUNTER_remote_batch) - batches <= BATCH / 20);
    assert_true(load_relaxed(&owner->inbox_bytes) >= BATCH * hak_classes[class].size);
    assert_int_equal(receive_all_as(owner, class), BATCH);
    assert_true(inbox_is_empty(owner));
    assert_int_equal(load_relaxed(&owner->inbox_bytes), 0);
    assert_int_equal(owner->classes[class].used, 0);
    assert_int_equal(owner->classes[class].slabs, 0);
}

/* Its owner's slabs would stay, with all their pages. */
static void a_parcel_that_nothing_is_added_to_goes_in_time(void **state)
{
    (void)state;
    void *blocks[2];
    alloc_each_as(owner, SIZE, blocks, ARRAY_LENGTH(blocks));
    uint64_t sent = counted(sender, COUNTER_ss_remote);
    for (size_t i = 0; i < ARRAY_LENGTH(blocks); i++)
        free_as(sender, blocks[i]);
    assert_int_equal(counted(sender, COUNTER_ss_remote), sent);
    lock_take(&sender->lock);
    sender->hollow.idle_ms = 0; /* long ago */
    hollow_look(sender);
    heap_unlock(sender);
    assert_int_equal(counted(sender, COUNTER_ss_remote), sent + ARRAY_LENGTH(blocks));
    receive_all_as(owner, class);
    assert_int_equal(owner->classes[class].used, 0);
}

static size_t parcels_sent(void **blocks, size_t n)
{
    uint64_t parcels = counted(sender, COUNTER_remote_batch);
    send_all(blocks, n);
    return counted(sender, COUNTER_remote_batch) - parcels;
}

/* Short ones that have to wait before one is long: the first of them that finds enough. */
static size_t short_parcels(void)
{
    size_t bytes = parcel_size(PARCEL_BLOCKS) + (size_t)PARCEL_BLOCKS * hak_classes[class].size;
    return (LONG_PARCELS_FROM + bytes - 1) / bytes + 1;
}

static void parcels_are_long_where_many_wait(void **state)
{
    (void)state;
    enum { MOST = 20 * PARCEL_BLOCKS, LONG = 3 };
    static void *blocks[MOST + LONG * LONG_PARCEL_BLOCKS + 1];
    struct outbox *o = outbox_for(sender, owner);
    size_t few = short_parcels() * PARCEL_BLOCKS, all = few + LONG * LONG_PARCEL_BLOCKS;
    assert_true(few <= MOST);
    alloc_each_as(owner, SIZE, blocks, all + 1);
    assert_int_equal(parcels_sent(blocks, few), short_parcels());
    assert_int_equal(o->places, PARCEL_BLOCKS);
    assert_int_equal(parcels_sent(&blocks[few], all - few), LONG);
    assert_int_equal(o->places, LONG_PARCEL_BLOCKS);
    assert_int_equal(parcels_sent(&blocks[all], 1), 1);
    assert_int_equal(o->places, 0); /* it was not full */
    assert_int_equal(sender->long_parcels, 0);
    assert_int_equal(receive_all_as(owner, class), all + 1);
    assert_int_equal(owner->classes[class].used, 0);
}

/* Nobody waits for more of them, or the owner has opened what waited. */
static void parcels_are_short_where_few_blocks_come(void **state)
{
    (void)state;
    enum { MOST = 20 * PARCEL_BLOCKS };
    static void *blocks[MOST];
    struct outbox *o = outbox_for(sender, owner);
    size_t few = short_parcels() * PARCEL_BLOCKS;
    alloc_each_as(owner, SIZE, blocks, MOST);
    send_all(blocks, few);
    assert_int_equal(o->places, PARCEL_BLOCKS);
    send_all(&blocks[few], PARCEL_BLOCKS); /* in a long one */
    assert_int_equal(o->places, 0);
    receive_all_as(owner, class);
    send_all(&blocks[few + PARCEL_BLOCKS], PARCEL_BLOCKS);
    assert_int_equal(o->places, 0);
    send_all(&blocks[few + 2 * PARCEL_BLOCKS], MOST - few - 2 * PARCEL_BLOCKS);
    receive_all_as(owner, class);
    assert_int_equal(owner->classes[class].used, 0);
}

/* As any block that is freed. */
static void a_parcel_stays_with_who_opens_it(void **state)
{
    (void)state;
    struct magazine *m = magazine_of(owner, class_for(parcel_size(PARCEL_BLOCKS)));
    void *blocks[BATCH], *p = alloc_as(owner, parcel_size(PARCEL_BLOCKS));
    free_as(owner, p); /* now the magazine is open */
    size_t kept = magazine_kept(m);
    alloc_each_as(owner, SIZE, blocks, BATCH);
    send_all(blocks, BATCH);
    void *first =
        (void *)((uintptr_t)load_relaxed(&owner->inbox) &
                 ~(uintptr_t)3); /* NOLINT: an address it is, below two bits of its kind */
    lock_take(&owner->lock);
    inbox_drain(owner, true);
    heap_unlock(owner);
    assert_true(magazine_kept(m) > kept);
    assert_true(magazine_has(m, first));
    trim_as(owner);
    receive_all_as(owner, class);
    assert_int_equal(owner->classes[class].used, 0);
}

/* A batch may be few blocks. */
static void batches_are_bounded_in_bytes(void **state)
{
    (void)state;
    size_t large = SLAB_MAX / 4;
    free_as(sender, alloc_as(owner, large));
    assert_false(inbox_is_empty(owner));
    receive_all_as(owner, class);
    assert_int_equal(owner->classes[class_for(large)].used, 0);
}

/* hak_free_sized_inline puts a sampled block into a magazine, and what comes out of it may carry others. */
static void a_parcel_may_be_a_sampled_block(void **state)
{
    (void)state;
    uint32_t parcel = class_for(parcel_size(PARCEL_BLOCKS));
    void *blocks[BATCH];
    hak_options.profile = 1;
    store_relaxed(&hak_live.due, live_area() == NULL);
    alloc_each_as(owner, SIZE, blocks, BATCH);
    struct sampler every = {.interval = 1, .random = 1};
    bool zeroed;
    void *p = sampled_alloc(&every, parcel_size(PARCEL_BLOCKS), parcel, &zeroed);
    hak_options.profile = 0;
    assert_non_null(p);
    assert_int_equal(unit_word(unit_of(p)), WORD_SAMPLED);
    free_as(sender, alloc_as(sender, parcel_size(PARCEL_BLOCKS)));
    assert_true(magazine_push(magazine_of(sender, parcel), p));
    send_all(blocks, BATCH);
    receive_all_as(owner, class);
    assert_int_equal(sampled_usable(p), 0);
}

/* As if there were few heaps, which share nothing. */
static void alloc_own_as(struct heap *h, size_t size, void **blocks, size_t n)
{
    uint32_t heaps = load_relaxed(&hak_live_heaps);
    store_relaxed(&hak_live_heaps, 1U);
    alloc_each_as(h, size, blocks, n);
    store_relaxed(&hak_live_heaps, heaps);
    assert_ptr_equal(heap_of_word(unit_word(unit_of(blocks[0]))), h);
}

enum { MANY_OWNERS = 100, OF_EACH = 2 * PARCEL_BLOCKS };

/* More than there are outboxes: one of each in turn. */
static void many_owners_get_full_parcels(void **state)
{
    (void)state;
    struct heap *owners[MANY_OWNERS];
    void *blocks[MANY_OWNERS][OF_EACH];
    for (size_t i = 0; i < MANY_OWNERS; i++) {
        owners[i] = new_heap();
        alloc_own_as(owners[i], SIZE, blocks[i], OF_EACH);
    }
    uint64_t sent = counted(sender, COUNTER_ss_remote);
    uint64_t parcels = counted(sender, COUNTER_remote_batch);
    for (size_t k = 0; k < OF_EACH; k++) {
        for (size_t i = 0; i < MANY_OWNERS; i++) {
            free_as(sender, blocks[i][k]);
            assert_at(sender->aside_bytes <= ASIDE_BYTES_MOST, k);
        }
    }
    trim_as(sender);
    sent = counted(sender, COUNTER_ss_remote) - sent;
    parcels = counted(sender, COUNTER_remote_batch) - parcels;
    assert_true(sent >= (OF_EACH - 1) * MANY_OWNERS); /* the rest is in magazines */
    assert_true(parcels <= 4 * MANY_OWNERS);
    assert_int_equal(sender->aside_bytes, 0);
    for (size_t i = 0; i < MANY_OWNERS; i++) {
        (void)receive_all_as(owners[i], class);
        assert_int_equal(owners[i]->classes[class].used, 0);
        registry_abandon(owners[i]);
    }
}

/* The thread that filled them is not there, and what was in them stays there. */
static int long_parcels_in_child(void)
{
    int status;
    assert_true(sender->long_parcels > 0);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0)
        _exit((int)sender->long_parcels);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WEXITSTATUS(status);
}

/* Where there are many owners, few parcels are long. */
static void few_parcels_are_long(void **state)
{
    (void)state;
    enum { OWNERS = 2 * LONG_PARCELS_MOST, EACH = 20 * PARCEL_BLOCKS };
    struct heap *owners[OWNERS];
    static void *blocks[OWNERS][EACH];
    uint32_t most = 0;
    for (size_t i = 0; i < OWNERS; i++) {
        owners[i] = new_heap();
        alloc_own_as(owners[i], SIZE, blocks[i], EACH);
    }
    for (size_t k = 0; k < EACH; k++) {
        for (size_t i = 0; i < OWNERS; i++)
            free_as(sender, blocks[i][k]);
        most = sender->long_parcels > most ? sender->long_parcels : most;
    }
    assert_int_equal(most, LONG_PARCELS_MOST);
    assert_int_equal(long_parcels_in_child(), 0);
    trim_as(sender);
    assert_int_equal(sender->long_parcels, 0);
    for (size_t i = 0; i < OWNERS; i++) {
        (void)receive_all_as(owners[i], class);
        assert_int_equal(owners[i]->classes[class].used, 0);
        registry_abandon(owners[i]);
    }
}

/* What is set aside is bounded in bytes. */
static void large_blocks_do_not_wait_aside(void **state)
{
    (void)state;
    enum { LARGE = 4096, OWNERS = 100, EACH = 4 };
    struct heap *owners[OWNERS];
    void *blocks[OWNERS][EACH];
    for (size_t i = 0; i < OWNERS; i++) {
        owners[i] = new_heap();
        alloc_own_as(owners[i], LARGE, blocks[i], EACH);
    }
    for (size_t k = 0; k < EACH; k++) {
        for (size_t i = 0; i < OWNERS; i++) {
            free_as(sender, blocks[i][k]);
            assert_at(sender->aside_bytes <= ASIDE_BYTES_MOST, i);
        }
    }
    trim_as(sender);
    for (size_t i = 0; i < OWNERS; i++) {
        (void)receive_all_as(owners[i], class_for(LARGE));
        assert_int_equal(owners[i]->classes[class_for(LARGE)].used, 0);
        registry_abandon(owners[i]);
    }
}

/* Heaps whose outboxes are set aside into the same places. */
static void make_neighbours(struct heap **owners, size_t n)
{
    enum { LOOKS = 4096 };
    const size_t sets = ASIDE_PLACES / ASIDE_WAYS;
    size_t found = 0;
    for (size_t i = 0; i < LOOKS && found < n; i++) {
        struct heap *h = new_heap();
        if (found == 0 || (owner_number(h) - owner_number(owners[0])) % sets == 0)
            owners[found++] = h;
    }
    assert_int_equal(found, n);
}

static void where_places_are_taken_the_fullest_goes(void **state)
{
    (void)state;
    enum {
        WIDE = 1320 /* bytes: the sender has no magazine for them */,
        OWNERS = ASIDE_WAYS + 2,
        MOST = 4
    };
    static const size_t blocks_of[OWNERS] = {1, 2, MOST, 1, 3, 1};
    const size_t size = hak_classes[class_for(WIDE)].size;
    struct heap *owners[OWNERS];
    void *blocks[OWNERS][MOST];
    make_neighbours(owners, OWNERS);
    uint64_t parcels = counted(sender, COUNTER_remote_batch);
    size_t aside = 0;
    for (size_t i = 0; i < OWNERS; i++) {
        alloc_own_as(owners[i], WIDE, blocks[i], MOST);
        assert_int_equal(counted(sender, COUNTER_remote_batch), parcels);
        for (size_t k = 0; k < blocks_of[i]; k++)
            free_as(sender, blocks[i][k]);
        aside += i + 1 < OWNERS && i != 2 ? blocks_of[i] * size : 0;
    }
    assert_int_equal(counted(sender, COUNTER_remote_batch), parcels + 1);
    assert_int_equal(sender->aside_bytes, aside);
    for (size_t i = 0; i < OWNERS; i++)
        assert_at(inbox_is_empty(owners[i]) == (i != 2), i);
    trim_as(sender);
    for (size_t i = 0; i < OWNERS; i++) {
        for (size_t k = blocks_of[i]; k < MOST; k++)
            free_as(owners[i], blocks[i][k]);
        (void)receive_all_as(owners[i], class_for(WIDE));
        assert_int_equal(owners[i]->classes[class_for(WIDE)].used, 0);
        registry_abandon(owners[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(batches_are_gathered_and_sent),
        cmocka_unit_test(a_parcel_that_nothing_is_added_to_goes_in_time),
        cmocka_unit_test(parcels_are_long_where_many_wait),
        cmocka_unit_test(parcels_are_short_where_few_blocks_come),
        cmocka_unit_test(a_parcel_stays_with_who_opens_it),
        cmocka_unit_test(batches_are_bounded_in_bytes),
        cmocka_unit_test(a_parcel_may_be_a_sampled_block),
        /* These leave many orphans. */
        cmocka_unit_test(many_owners_get_full_parcels),
        cmocka_unit_test(few_parcels_are_long),
        cmocka_unit_test(large_blocks_do_not_wait_aside),
        cmocka_unit_test(where_places_are_taken_the_fullest_goes),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
