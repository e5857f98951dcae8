/* Blocks on their way home. */
#include "three_heaps.h"

#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "control/options.h"
#include "control/stats.h"
#include "heap/hollow.h"
#include "heap/verify.h"
#include "super/super.h"

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

/* Of a forked child. */
static void assert_aborted(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
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
        assert_aborted(child);
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
        assert_aborted(child);
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
    assert_aborted(child);
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
        cmocka_unit_test(batches_are_gathered_and_sent),
        cmocka_unit_test(a_parcel_that_nothing_is_added_to_goes_in_time),
        cmocka_unit_test(parcels_are_long_where_many_wait),
        cmocka_unit_test(parcels_are_short_where_few_blocks_come),
        cmocka_unit_test(a_parcel_stays_with_who_opens_it),
        cmocka_unit_test(batches_are_bounded_in_bytes),
        cmocka_unit_test(the_owner_gets_its_blocks_back_into_use),
        cmocka_unit_test(the_owner_opens_what_it_has_use_for),
        cmocka_unit_test(the_magazine_gets_what_it_has_room_for),
        cmocka_unit_test(each_owner_gets_its_own),
        cmocka_unit_test(an_owner_that_does_not_look_is_helped),
        cmocka_unit_test(what_is_no_block_is_noticed_at_home),
        cmocka_unit_test(what_was_written_to_on_its_way_ends_the_program),
        cmocka_unit_test(what_another_thread_sent_is_looked_through_at_the_end),
        cmocka_unit_test(a_parcel_may_be_a_sampled_block),
        cmocka_unit_test(all_blocks_come_home),
        /* These leave many orphans. */
        cmocka_unit_test(many_owners_get_full_parcels),
        cmocka_unit_test(few_parcels_are_long),
        cmocka_unit_test(large_blocks_do_not_wait_aside),
        cmocka_unit_test(where_places_are_taken_the_fullest_goes),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
