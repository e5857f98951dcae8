/* Blocks on their way home. */
#include "three_heaps.h"

#include "aborts.h"

#include <pthread.h>
#include <sched.h>

#include "control/options.h"
#include "control/stats.h"
#include "heap/hollow.h"
#include "heap/verify.h"
#include "super/super.h"

static void the_owner_gets_its_blocks_back_into_use(void **state)
{
    (void)state;
    void *blocks[BATCH], *got[4 * BATCH];
    alloc_each_as(owner, SIZE, blocks, BATCH);
    send_all(blocks, BATCH);
    uint64_t drained = counted(owner, COUNTER_remote_drained);
    /* Whatever its magazine still holds, the inbox is looked at when it is dry. */
    alloc_each_as(owner, SIZE, got, ARRAY_LENGTH(got));
    size_t back = 0;
    for (size_t i = 0; i < ARRAY_LENGTH(got); i++) {
        for (size_t j = 0; j < BATCH; j++)
            back += got[i] == blocks[j];
    }
    assert_int_equal(counted(owner, COUNTER_remote_drained), drained + BATCH);
    assert_int_equal(back, BATCH);
    free_each_as(owner, got, ARRAY_LENGTH(got));
    receive_all_as(owner, class);
    assert_int_equal(owner->classes[class].used, 0);
}

/* What is sent by the thousand waits until it is needed. */
static void the_owner_opens_what_it_has_use_for(void **state)
{
    (void)state;
    enum { MANY = 20 * BATCH };
    static void *blocks[MANY], *more[MANY];
    struct magazine *m = magazine_of(owner, class);
    alloc_each_as(owner, SIZE, blocks, MANY);
    send_all(blocks, MANY);
    uint64_t drained = counted(owner, COUNTER_remote_drained);
    uint64_t to_magazine = counted(owner, COUNTER_remote_to_magazine);
    size_t sent = load_relaxed(&owner->inbox_bytes), kept = magazine_kept(m) + 1;
    alloc_each_as(owner, SIZE, more, kept);
    drained = counted(owner, COUNTER_remote_drained) - drained;
    assert_true(drained > 0 && drained <= m->cap / 2U + LONG_PARCEL_BLOCKS);
    assert_int_equal(counted(owner, COUNTER_remote_to_magazine), to_magazine + drained);
    assert_true(inbox_is_empty(owner) && owner->arrived != NULL);
    size_t waits = load_relaxed(&owner->inbox_bytes);
    assert_true(waits < sent && waits >= (MANY - drained) * hak_classes[class].size);
    free_each_as(owner, more, kept);
    receive_all_as(owner, class);
    assert_int_equal(load_relaxed(&owner->inbox_bytes), 0);
    assert_null(owner->arrived);
    assert_int_equal(owner->classes[class].used, 0);
}

/* The rest of a parcel waits, too. */
static void the_magazine_gets_what_it_has_room_for(void **state)
{
    (void)state;
    enum { OTHER_SIZE = 200, ROOM = 8 };
    uint32_t other = class_for(OTHER_SIZE);
    void *blocks[PARCEL_BLOCKS], *last = NULL;
    struct magazine *m = magazine_of(owner, other);
    size_t most = hak_options.magazine_max;
    hak_options.magazine_max = ROOM;
    alloc_each_as(owner, OTHER_SIZE, blocks, PARCEL_BLOCKS);
    while (magazine_kept(m) != 0) {
        free_as(sender, last);
        last = alloc_as(owner, OTHER_SIZE);
    }
    send_all(blocks, PARCEL_BLOCKS);
    uint64_t drained = counted(owner, COUNTER_remote_drained);
    uint64_t to_magazine = counted(owner, COUNTER_remote_to_magazine);
    lock_take(&owner->lock);
    inbox_open(owner, true, m);
    lock_release(&owner->lock);
    assert_int_equal(magazine_kept(m), ROOM);
    assert_int_equal(counted(owner, COUNTER_remote_to_magazine), to_magazine + ROOM);
    assert_int_equal(counted(owner, COUNTER_remote_drained), drained + ROOM);
    assert_non_null(owner->arrived);
    free_as(owner, last);
    receive_all_as(owner, other);
    hak_options.magazine_max = most;
    assert_null(owner->arrived);
    assert_int_equal(owner->classes[other].used, 0);
}

static void each_owner_gets_its_own(void **state)
{
    (void)state;
    void *a[3], *b[3];
    alloc_each_as(owner, SIZE, a, 3);
    alloc_each_as(third, SIZE, b, 3);
    for (int i = 0; i < 3; i++) {
        free_as(sender, a[i]);
        free_as(sender, b[i]);
    }
    trim_as(sender);
    assert_int_equal(receive_all_as(owner, class), 3);
    assert_int_equal(receive_all_as(third, class), 3);
    assert_int_equal(owner->classes[class].used + third->classes[class].used, 0);
}

static void an_owner_that_does_not_look_is_helped(void **state)
{
    (void)state;
    enum { MANY = 300, LARGE = 32 << 10 };
    static void *blocks[MANY];
    uint64_t helped = counted(sender, COUNTER_remote_help);
    for (int i = 0; i < MANY; i++)
        blocks[i] = alloc_as(owner, LARGE);
    for (int i = 0; i < MANY; i++) {
        free_as(sender, blocks[i]);
        assert_at(load_relaxed(&owner->inbox_bytes) <= 2 * MIB, i);
    }
    assert_true(counted(sender, COUNTER_remote_help) > helped);
    trim_as(sender);
    receive_all_as(owner, class);
    assert_int_equal(owner->classes[class_for(LARGE)].used, 0);
}

/* In the child of a fork, which it ends: the third one is none that came from malloc. */
static _Noreturn void send_three(size_t at)
{
    enum { PLAIN = 96 };
    char *blocks[] = {alloc_as(owner, PLAIN), alloc_as(owner, PLAIN), alloc_as(owner, PLAIN)};
    blocks[2] = at == 0 ? blocks[0] : blocks[2] + at;
    for (size_t i = 0; i < ARRAY_LENGTH(blocks); i++)
        free_as(sender, blocks[i]);
    trim_as(sender);
    trim_as(owner);
    _exit(1);
}

/* Where they come home side by side. */
static void what_is_no_block_is_noticed_at_home(void **state)
{
    (void)state;
    for (size_t at = 0; at <= 16; at += 16) {
        pid_t child = fork();
        if (child == 0)
            send_three(at);
        assert_true(was_aborted(child));
    }
}

/* In the child of a fork, which it ends: two blocks travel, alone or in a parcel, and a word of what is linked is written to. */
static _Noreturn void write_to_what_travels(bool alone, size_t word)
{
    void *blocks[2];
    store_relaxed(&owner->state, HEAP_LIVE); /* else the sender would open its inbox */
    alloc_each_as(owner, SIZE, blocks, ARRAY_LENGTH(blocks));
    for (size_t i = 0; i < ARRAY_LENGTH(blocks); i++) {
        if (alone)
            inbox_push(owner, blocks[i], SIZE);
        else
            free_as(sender, blocks[i]);
    }
    trim_as(sender);
    uintptr_t node = (uintptr_t)load_relaxed(&owner->inbox) & ~(uintptr_t)3;
    memset((void *)(node + word * sizeof(uintptr_t)), 0x41,
           sizeof(uintptr_t)); /* NOLINT: an address it is */
    trim_as(owner);
    _exit(1);
}

static void what_was_written_to_on_its_way_ends_the_program(void **state)
{
    static const struct {
        bool alone;
        size_t word; /* 1: how many blocks a parcel has */
    } writes[] = {{true, 0}, {false, 0}, {false, 1}};
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(writes); i++) {
        pid_t child = fork();
        if (child == 0)
            write_to_what_travels(writes[i].alone, writes[i].word);
        assert_true(was_aborted(child));
    }
}

/* In the child of a fork, which it ends: the block is in its owner's magazine, and on its way there. */
static _Noreturn void free_there_and_here(void)
{
    store_relaxed(&owner->state,
                  HEAP_LIVE); /* the fork has made orphans of all that are not this thread's */
    void *p = alloc_as(owner, SIZE);
    free_as(sender, p);
    trim_as(sender);
    free_as(owner, p);
    if (inbox_is_empty(owner) || magazine_kept(magazine_of(owner, class)) == 0)
        _exit(1);
    heaps_verify(owner);
    _exit(2);
}

static void what_another_thread_sent_is_looked_through_at_the_end(void **state)
{
    (void)state;
    pid_t child = fork();
    if (child == 0)
        free_there_and_here();
    assert_true(was_aborted(child));
}

/* ---- threads ---- */

enum { ROUND = 64, ROUNDS = 400, TRAVELLERS = 296 /* bytes: a class nobody else here uses */ };

static _Atomic(void *) posts[THREADS][ROUND];
static _Atomic size_t spoilt;

/* Each thread fills the next one's post box and frees what it finds in its own. */
static void *pass_on(void *number)
{
    uintptr_t me = (uintptr_t)number - 1, next = (me + 1) % THREADS;
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < ROUND; i++) {
            void **p = front_alloc(TRAVELLERS);
            p[2] = p;
            p = exchange_acq_rel(&posts[next][i], p);
            if (p != NULL && p[2] != p)
                add_relaxed(&spoilt, 1);
            if (p != NULL)
                front_free(p);
            p = exchange_acq_rel(&posts[me][i], NULL);
            if (p != NULL && p[2] != p)
                add_relaxed(&spoilt, 1);
            if (p != NULL)
                front_free(p);
        }
    }
    return NULL;
}

static void count_travellers(struct heap *h, void *context)
{
    lock_take(&h->lock);
    inbox_drain(h, false); /* for its owner, which has ended or waits */
    lock_release(&h->lock);
    *(size_t *)context += h->classes[class_for(TRAVELLERS)].used;
}

static void all_blocks_come_home(void **state)
{
    (void)state;
    run_threads(pass_on);
    for (size_t i = 0; i < THREADS * ROUND; i++) {
        void *p = exchange_acq_rel(&posts[i / ROUND][i % ROUND], NULL);
        if (p != NULL)
            front_free(p);
    }
    front_trim();
    size_t left = 0;
    for (int i = 0; i < THREADS + 1; i++) { /* a forwarded block may have to be sent on again */
        left = 0;
        registry_each(count_travellers, &left);
    }
    assert_int_equal(spoilt, 0);
    assert_int_equal(left, 0);
}

int main(void)
{
    no_warm_orphans();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_owner_gets_its_blocks_back_into_use),
        cmocka_unit_test(the_owner_opens_what_it_has_use_for),
        cmocka_unit_test(the_magazine_gets_what_it_has_room_for),
        cmocka_unit_test(each_owner_gets_its_own),
        cmocka_unit_test(an_owner_that_does_not_look_is_helped),
        cmocka_unit_test(what_is_no_block_is_noticed_at_home),
        cmocka_unit_test(what_was_written_to_on_its_way_ends_the_program),
        cmocka_unit_test(what_another_thread_sent_is_looked_through_at_the_end),
        cmocka_unit_test(all_blocks_come_home),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
