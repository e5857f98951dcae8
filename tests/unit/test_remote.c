/* Blocks on their way home, and heaps whose threads have ended. */
#include "heaps.h"

#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "control/options.h"
#include "control/stats.h"
#include "heap/verify.h"
#include "super/super.h"

enum { BATCH = 100 /* several times what is sent in one */, SIZE = 40 };

/* Three heaps, used by this one thread in turns. The thread's own is a fourth. */
static struct heap *owner, *sender, *third;
static uint32_t class;

static int set_up(void **state)
{
    (void)state;
    class = class_for(SIZE);
    owner = new_heap();
    sender = new_heap();
    third = new_heap();
    return owner != NULL && sender != NULL && third != NULL ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    registry_abandon(third);
    registry_abandon(sender);
    registry_abandon(owner);
    return 0;
}

/* And nothing stays in the outbox. */
static void send_all(void **blocks, size_t n)
{
    free_each_as(sender, blocks, n);
    trim_as(sender);
}

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

/* The largest: a batch may be few blocks. */
static void batches_are_bounded_in_bytes(void **state)
{
    (void)state;
    free_as(sender, alloc_as(owner, SLAB_MAX));
    assert_false(inbox_is_empty(owner));
    receive_all_as(owner, class);
    assert_int_equal(owner->classes[class_for(SLAB_MAX)].used, 0);
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
    assert_true(drained > 0 && drained <= m->cap / 2U + PARCEL_BLOCKS);
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

enum { MANY_OWNERS = 100, OF_EACH = 2 * PARCEL_BLOCKS };

/* More than there are outboxes: one of each in turn. */
static void many_owners_get_full_parcels(void **state)
{
    (void)state;
    struct heap *owners[MANY_OWNERS];
    void *blocks[MANY_OWNERS][OF_EACH];
    for (size_t i = 0; i < MANY_OWNERS; i++) {
        owners[i] = new_heap();
        alloc_each_as(owners[i], SIZE, blocks[i], OF_EACH);
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

/* What is set aside is bounded in bytes. */
static void large_blocks_do_not_wait_aside(void **state)
{
    (void)state;
    enum { LARGE = 4096, OWNERS = 100, EACH = 4 };
    struct heap *owners[OWNERS];
    void *blocks[OWNERS][EACH];
    for (size_t i = 0; i < OWNERS; i++) {
        owners[i] = new_heap();
        alloc_each_as(owners[i], LARGE, blocks[i], EACH);
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

/* As if others had used up what may wait warm: abandoning empties everything. */
/* ---- ended threads ---- */

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

static void a_batch_for_an_orphan_is_drained_by_its_sender(void **state)
{
    (void)state;
    void *blocks[3];
    alloc_each_as(owner, SIZE, blocks, 3);
    for (int i = 0; i < 3; i++)
        free_as(sender, blocks[i]);
    registry_abandon(owner);
    trim_as(sender);
    assert_true(inbox_is_empty(owner));
    assert_int_equal(owner->classes[class].used, 0);
    assert_ptr_equal(registry_attach(), owner);
}

static void blocks_follow_their_slab(void **state)
{
    (void)state;
    void *blocks[3];
    alloc_each_as(owner, SIZE, blocks, 3);
    for (int i = 0; i < 3; i++)
        free_as(sender, blocks[i]);
    registry_abandon(owner);
    void *p = alloc_as(third, SIZE); /* adopts the slab of the three on their way */
    assert_int_equal(unit_of(p), unit_of(blocks[0]));
    trim_as(sender);
    free_as(third, p);
    assert_int_equal(receive_all_as(third, class), 3);
    assert_int_equal(third->classes[class].used, 0);
    assert_ptr_equal(registry_attach(), owner);
}

/* hak_free_sized_inline puts a sampled block into a magazine, and what comes out of it may carry others. */
static void a_parcel_may_be_a_sampled_block(void **state)
{
    (void)state;
    uint32_t parcel = class_for(sizeof(struct parcel));
    void *blocks[BATCH];
    hak_options.profile = 1;
    store_relaxed(&hak_live.due, live_area() == NULL);
    alloc_each_as(owner, SIZE, blocks, BATCH);
    struct sampler every = {.interval = 1, .random = 1};
    bool zeroed;
    void *p = sampled_alloc(&every, sizeof(struct parcel), parcel, &zeroed);
    hak_options.profile = 0;
    assert_non_null(p);
    assert_int_equal(unit_word(unit_of(p)), WORD_SAMPLED);
    free_as(sender, alloc_as(sender, sizeof(struct parcel)));
    assert_true(magazine_push(magazine_of(sender, parcel), p));
    send_all(blocks, BATCH);
    receive_all_as(owner, class);
    assert_int_equal(sampled_usable(p), 0);
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
        cmocka_unit_test(batches_are_bounded_in_bytes),
        cmocka_unit_test(the_owner_gets_its_blocks_back_into_use),
        cmocka_unit_test(the_owner_opens_what_it_has_use_for),
        cmocka_unit_test(each_owner_gets_its_own),
        cmocka_unit_test(an_owner_that_does_not_look_is_helped),
        cmocka_unit_test(orphans_lose_slabs_to_the_living),
        cmocka_unit_test(an_orphan_that_was_full_is_asked_again),
        cmocka_unit_test(abandoning_empties_everything),
        cmocka_unit_test(a_small_orphan_waits_warm),
        cmocka_unit_test(a_heap_of_an_ended_thread_can_be_borrowed),
        cmocka_unit_test(what_two_ended_threads_freed_is_noticed),
        cmocka_unit_test(what_is_no_block_is_noticed_at_home),
        cmocka_unit_test(what_another_thread_sent_is_looked_through_at_the_end),
        cmocka_unit_test(a_batch_for_an_orphan_is_drained_by_its_sender),
        cmocka_unit_test(blocks_follow_their_slab),
        cmocka_unit_test(a_parcel_may_be_a_sampled_block),
        cmocka_unit_test(a_thread_inherits_what_another_left),
        cmocka_unit_test(all_blocks_come_home),
        /* These leave many orphans. */
        cmocka_unit_test(many_owners_get_full_parcels),
        cmocka_unit_test(large_blocks_do_not_wait_aside),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
