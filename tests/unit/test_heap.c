/* A heap's slabs: blocks leave them and return, and slabs come and go. */
#include "one_class.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "control/options.h"
#include "heap/verify.h"
#include "os/os.h"
#include "pressure/pressure.h"
#include "purge/purge.h"

/* ---- tables ---- */

static void small_offsets_agree_with_class_for(void **state)
{
    (void)state;
    for (size_t size = 0; size <= SMALL_MAX; size++)
        assert_at(hak_small_offset[(size + 7) / 8] == magazine_offset(class_for(size)), size);
}

static void words_name_heap_and_class(void **state)
{
    (void)state;
    for (uint32_t class = 0; class < CLASS_COUNT; class ++) {
        uintptr_t word = (uintptr_t)magazine_of(heap, class);
        assert_at(word > WORD_TAG_MAX, class);
        assert_at(heap_of_word(word) == heap, class);
        assert_at(class_of_word(word) == class, class);
        assert_at((word ^ (uintptr_t)heap) < UNIT_SIZE, class);
    }
}

/* The kernel says which memory can be read. */
static bool can_be_read(const void *at)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    bool can = write(ends[1], at, 1) == 1;
    assert_true(can || errno == EFAULT);
    close(ends[0]);
    close(ends[1]);
    return can;
}

static void what_runs_out_of_a_slab_does_not_run_into_a_heap(void **state)
{
    (void)state;
    if (!HAK_SECURE)
        skip();
    assert_true(can_be_read(heap));
    assert_false(can_be_read((char *)heap - 1));
    assert_false(can_be_read((char *)heap + UNIT_SIZE));
}

/* ---- refill and flush ---- */

enum { BLOCKS = 600 };

static int by_address(const void *a, const void *b)
{
    uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;
    return (x > y) - (x < y);
}

static void every_class_gives_distinct_blocks(void **state)
{
    (void)state;
    for (uint32_t class = 0; class < CLASS_COUNT; class ++) {
        uintptr_t blocks[BLOCKS];
        size_t n = class < 60 ? BLOCKS : 40, size = hak_classes[class].size;
        for (size_t i = 0; i < n; i++) {
            blocks[i] = (uintptr_t)alloc(class);
            size_t unit = unit_of((void *)blocks[i]);
            assert_at(unit_word(unit) == (uintptr_t)magazine_of(heap, class), class);
            assert_at(slab_block_starts_at(slab_of_unit(unit), (void *)blocks[i]), class);
        }
        check_books(class);
        assert_at(heap->classes[class].used == n + magazine_kept(magazine_of(heap, class)), class);
        qsort(blocks, n, sizeof blocks[0], by_address);
        for (size_t i = 1; i < n; i++)
            assert_at(blocks[i] - blocks[i - 1] >= size, class);
        for (size_t i = 0; i < n; i++)
            release((void *)blocks[i]);
        check_books(class);
        give_all_back(class);
        assert_at(heap->classes[class].slabs == 0 && heap->classes[class].used == 0, class);
    }
    assert_int_equal(heap->used_bytes, 0);
}

static void the_block_freed_last_comes_first(void **state)
{
    (void)state;
    uint32_t class = class_for(100);
    void *a = alloc(class), *b = alloc(class);
    release(a);
    release(b);
    assert_ptr_equal(alloc(class), b);
    assert_ptr_equal(alloc(class), a);
    release(a);
    release(b);
    give_all_back(class);
}

static void empty_slabs_lose_their_units(void **state)
{
    (void)state;
    uint32_t class = class_for(4096);
    void *blocks[BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = alloc(class);
    uint32_t slabs = heap->classes[class].slabs;
    assert_true(slabs >= BLOCKS / hak_classes[class].capacity);
    uint64_t released = counted(heap, COUNTER_slab_release);
    for (size_t i = 0; i < BLOCKS; i++)
        release(blocks[i]);
    give_all_back(class);
    assert_int_equal(heap->classes[class].slabs, 0);
    assert_true(counted(heap, COUNTER_slab_release) - released >= slabs);
    for (size_t i = 0; i < BLOCKS; i++)
        assert_at(unit_word(unit_of(blocks[i])) != (uintptr_t)magazine_of(heap, class), i);
}

/* From a signal handler, say, between the fast path's look and the refill. */
static void a_block_that_came_meanwhile_is_not_lost(void **state)
{
    (void)state;
    uint32_t class = class_for(130);
    void *p = alloc(class);
    release(p);
    size_t used = heap->classes[class].used, kept = magazine_kept(magazine_of(heap, class));
    thread_enter();
    assert_ptr_equal(heap_refill(heap, class, NULL), p);
    thread_leave();
    assert_int_equal(magazine_kept(magazine_of(heap, class)), kept - 1);
    assert_int_equal(heap->classes[class].used, used);
    release(p);
    give_all_back(class);
}

static void empty_magazines(void)
{
    lock_take(&heap->lock);
    heap_empty_magazines(heap, HAND_ALL);
    lock_release(&heap->lock);
}

static void take_blocks(uint32_t class, void **blocks, size_t n)
{
    for (size_t i = 0; i < n; i++)
        blocks[i] = alloc(class);
    empty_magazines();
}

static void release_blocks(void **blocks, size_t n)
{
    for (size_t i = 0; i < n; i++)
        release(blocks[i]);
}

/* Each by itself would take the lock, and keep the processor from what comes next. */
static void blocks_without_room_go_home_together(void **state)
{
    (void)state;
    enum { WAITING = 25, PARCELS = 8, ALL = PARCELS * PARCEL_BLOCKS, LAST = 2 * PARCEL_BLOCKS };
    uint32_t class = class_for(72);
    void *blocks[ALL], *others[ALL];
    take_blocks(class, blocks, ALL);
    size_t used = heap->classes[class].used;
    uint64_t flushes = counted(heap, COUNTER_flush);
    release_blocks(blocks, WAITING);
    assert_int_equal(heap->classes[class].used, used);
    assert_int_equal(counted(heap, COUNTER_flush), flushes + 1);
    void *p = alloc(class_for(1500)); /* a refill, of whichever class */
    assert_int_equal(heap->classes[class].used, used - WAITING);
    release_blocks(blocks + WAITING, ALL - WAITING);
    assert_true(counted(heap, COUNTER_flush) <= flushes + PARCELS + 1 + LAST);
    assert_int_equal(heap->classes[class].used, used - ALL); /* none of the last ones waits */
    take_blocks(class, others, ALL);                         /* and are all to be had again */
    assert_int_equal(heap->classes[class].used, used);
    release_blocks(others, ALL);
    release(p);
    give_all_back(class);
}

static void free_twice_and_end(uint32_t class)
{
    void *p;
    take_blocks(class, &p, 1);
    release(p);
    release(p);
    heaps_verify(heap);
    _exit(0);
}

static void what_waits_to_go_home_is_looked_through_at_the_end(void **state)
{
    (void)state;
    static const size_t sizes[] = {40, 72, 4000};
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        int status;
        fflush(NULL);
        pid_t child = fork();
        if (child == 0) {
            dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO);
            signal(SIGABRT, SIG_DFL); /* cmocka has a handler */
            free_twice_and_end(class_for(sizes[i]));
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_at(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, sizes[i]);
    }
}

/* Of large blocks few would wait, and much memory. */
static void large_blocks_go_home_at_once(void **state)
{
    (void)state;
    enum { FEW = 12, MANY = 3 * PARCEL_BLOCKS };
    uint32_t class = class_for(14000);
    void *blocks[FEW];
    take_blocks(class, blocks, FEW);
    void *small[MANY];
    take_blocks(class_for(72), small, MANY);
    size_t used = heap->classes[class].used;
    release(small[0]); /* opens a parcel */
    assert_non_null(outbox_parcel(outbox_for(heap, heap)));
    for (size_t i = 0; i < FEW; i++) {
        release(blocks[i]);
        assert_int_equal(heap->classes[class].used, used - i - 1);
    }
    release_blocks(small + 1, MANY - 1);
    give_all_back(class);
}

/* The last slab of a class stays for a while, as it was when it was new but for its pages. */
static void a_class_keeps_one_empty_slab(void **state)
{
    (void)state;
    uint32_t class = class_for(200);
    give_all_back(class);
    size_t kept = load_relaxed(&hak_kept.slabs);
    uint64_t released = counted(heap, COUNTER_slab_release);
    void *first = alloc(class), *p = first;
    for (int turn = 0; turn < 20; turn++) {
        assert_int_equal(load_relaxed(&hak_kept.slabs), kept);
        release(p);
        empty_magazines();
        assert_int_equal(heap->classes[class].slabs, 1);
        assert_int_equal(heap->classes[class].used, 0);
        assert_true(load_relaxed(&hak_kept.slabs) > kept);
        check_books(class);
        p = alloc(class);
        assert_ptr_equal(p, first);
    }
    assert_int_equal(counted(heap, COUNTER_slab_release), released);
    release(p);
    give_all_back(class);
    assert_int_equal(heap->classes[class].slabs, 0);
    assert_int_equal(load_relaxed(&hak_kept.slabs), kept);
}

/* So that a process which has freed everything does not keep a slab for each class it ever used. */
static void few_bytes_of_empty_slabs_are_kept(void **state)
{
    (void)state;
    enum { EACH = 64 };
    uint64_t released = counted(heap, COUNTER_slab_release);
    for (uint32_t class = class_for(512); class <= class_for(8192); class ++) {
        void *blocks[EACH];
        for (size_t i = 0; i < EACH; i++)
            blocks[i] = alloc(class);
        for (size_t i = 0; i < EACH; i++)
            release(blocks[i]);
    }
    empty_magazines();
    assert_true(counted(heap, COUNTER_slab_release) > released);
    assert_true(load_relaxed(&hak_kept.slabs) <= 1 << 20);
    assert_true(purge_dirty_bytes() >= load_relaxed(&hak_kept.slabs));
    give_all_back(class_for(512));
}

static size_t resident_after_trim(void **blocks, size_t n, size_t size, enum pressure_level level)
{
    size_t pages = 0;
    store_relaxed(&hak_pressure.level, (uint32_t)level);
    lock_take(&heap->lock);
    heap_trim(heap, true);
    heap_unlock(heap);
    store_relaxed(&hak_pressure.level, (uint32_t)PRESSURE_NONE);
    for (size_t i = 0; i < n; i++)
        pages += os_resident_pages(blocks[i], size);
    return pages;
}

/* Of a slab on which a block lives. */
static void free_pages_of_a_used_slab_go_when_memory_is_tight(void **state)
{
    (void)state;
    enum { SOME = 4 };
    size_t size = hak_region.page_size, pages = SOME - 1;
    uint32_t class = class_for(size);
    void *blocks[SOME];
    for (size_t i = 0; i < SOME; i++)
        memset(blocks[i] = alloc(class), 'x', size);
    for (size_t i = 1; i < SOME; i++)
        release(blocks[i]);
    assert_int_equal(resident_after_trim(blocks + 1, SOME - 1, size, PRESSURE_NEAR), pages);
    assert_int_equal(resident_after_trim(blocks + 1, SOME - 1, size, PRESSURE_TIGHT), 0);
    assert_int_equal(os_resident_pages(blocks[0], size), 1);
    release(blocks[0]);
    give_all_back(class);
}

static uint8_t super_kind(const void *p)
{
    return load_relaxed(&super_at(unit_of(p) / GRANULE_UNITS)->kind);
}

/* Of many heaps with few blocks each no slab is filled, and none is where a huge page may be. */
static void a_class_shows_that_it_fills_slabs(void **state)
{
    (void)state;
    enum { MANY = 800 };
    void *blocks[MANY];
    uint32_t class = class_for(1024);
    size_t huge_min = hak_options.huge_min;
    give_all_back(class);
    purge_everything();
    hak_options.huge_min = 0;
    for (size_t i = 0; i < MANY; i++)
        blocks[i] = alloc(class);
    size_t of_first_kind = 0;
    for (size_t i = 0; i < MANY; i++)
        of_first_kind += super_kind(blocks[i]) == super_kind(blocks[0]);
    assert_true(of_first_kind <= 4 * (size_t)hak_classes[class].capacity);
    assert_true(of_first_kind < MANY);
    for (size_t i = 0; i < MANY; i++)
        release(blocks[i]);
    hak_options.huge_min = huge_min;
    give_all_back(class);
}

/* One live block per slab would keep all of them; the magazine must not do the same. */
static void a_sparse_class_keeps_no_magazine(void **state)
{
    (void)state;
    enum { MANY = 12000 };
    static void *blocks[MANY];
    uint32_t class = class_for(64);
    for (size_t i = 0; i < MANY; i++)
        blocks[i] = alloc(class);
    uint64_t sparse = counted(heap, COUNTER_flush_sparse);
    for (size_t i = 0; i < MANY; i++) {
        if (i % 1000 != 0)
            release(blocks[i]);
    }
    assert_true(counted(heap, COUNTER_flush_sparse) > sparse);
    for (size_t i = 0; i < MANY; i += 1000)
        release(blocks[i]);
    give_all_back(class);
}

/* A block of `other` is in its magazine while those of `class` go. Returns how often all magazines had been emptied before. */
static uint64_t grow_and_shrink(uint32_t class, uint32_t other, size_t many)
{
    static void *blocks[4000];
    assert_true(many <= sizeof blocks / sizeof *blocks);
    for (size_t i = 0; i < many; i++)
        blocks[i] = alloc(class);
    release(alloc(other)); /* after what a growing heap empties */
    assert_true(magazine_kept(magazine_of(heap, other)) > 0);
    uint64_t all = counted(heap, COUNTER_flush_all);
    for (size_t i = 0; i < many; i++)
        release(blocks[i]);
    return all;
}

static void a_heap_that_shrank_keeps_no_magazines(void **state)
{
    (void)state;
    enum { MANY = 4000 };
    uint32_t class = class_for(2048), other = class_for(1536);
    heap->emptied_ms = 0; /* long ago */
    uint64_t all = grow_and_shrink(class, other, MANY);
    assert_true(counted(heap, COUNTER_flush_all) > all);
    assert_int_equal(magazine_kept(magazine_of(heap, other)), 0);
    assert_int_equal(heap->classes[other].slabs, 0);
    give_all_back(class);
}

/* It will soon be as large once more, and shrinking empties the magazines once in a second. */
static void a_heap_that_swings_keeps_its_magazines(void **state)
{
    (void)state;
    enum { MANY = 4000 };
    uint32_t class = class_for(2048), other = class_for(1536);
    heap->emptied_ms = 0;
    (void)grow_and_shrink(class, other, MANY);
    assert_true(heap->emptied_ms != 0);
    uint64_t all = grow_and_shrink(class, other, MANY);
    if (os_now_ms() - heap->emptied_ms < 1000) { /* else the machine was busy */
        assert_int_equal(counted(heap, COUNTER_flush_all), all);
        assert_true(magazine_kept(magazine_of(heap, other)) > 0);
    }
    heap->emptied_ms -= 1000;
    all = grow_and_shrink(class, other, MANY);
    assert_true(counted(heap, COUNTER_flush_all) > all);
    give_all_back(class);
}

/* ---- sweeps ---- */

enum { GROWTH = 4000, SWING = 1024 };

static void a_heap_that_grows_empties_idle_magazines(void **state)
{
    (void)state;
    static void *blocks[GROWTH];
    uint32_t idle = class_for(32768), busy = class_for(256), growing = class_for(2048);
    (void)purge_everything(); /* so that growing takes fresh pages */
    release(alloc(idle));
    assert_true(magazine_kept(magazine_of(heap, idle)) > 0);
    assert_int_equal(heap->classes[idle].slabs, 1);
    uint64_t sweeps = counted(heap, COUNTER_sweep);
    for (size_t i = 0; i < GROWTH; i++)
        blocks[i] = alloc(growing);
    assert_true(counted(heap, COUNTER_sweep) > sweeps);
    assert_int_equal(magazine_kept(magazine_of(heap, idle)), 0);
    assert_int_equal(heap->classes[idle].slabs, 0);
    void *p = alloc(busy);
    release(p);
    assert_ptr_equal(alloc(busy), p);
    release(p);
    for (size_t i = 0; i < GROWTH; i++)
        release(blocks[i]);
    give_all_back(growing);
    give_all_back(busy);
    give_all_back(idle);
}

static void a_heap_that_does_not_grow_is_not_swept(void **state)
{
    (void)state;
    static void *blocks[SWING];
    uint32_t class = class_for(512);
    for (int round = 0; round < 20; round++) {
        uint64_t sweeps = counted(heap, COUNTER_sweep);
        for (size_t i = 0; i < SWING; i++)
            blocks[i] = alloc(class);
        for (size_t i = 0; i < SWING; i++)
            release(blocks[i]);
        assert_at(round == 0 || counted(heap, COUNTER_sweep) == sweeps, round);
    }
    give_all_back(class);
}

/* ---- detached ---- */

static void detached_blocks_belong_to_an_orphan(void **state)
{
    (void)state;
    uint32_t class = class_for(200);
    void *p = heap_alloc_detached(class), *q = heap_alloc_detached(class);
    assert_non_null(p);
    assert_non_null(q);
    assert_ptr_not_equal(p, q);
    struct heap *owner = heap_of_word(unit_word(unit_of(p)));
    assert_ptr_not_equal(owner, heap);
    assert_int_equal(load_relaxed(&owner->state), HEAP_ORPHAN);
    assert_int_equal(load_relaxed(&owner->lock.state), 0);
    size_t used = owner->classes[class].used;
    heap_free_detached(owner, q);
    heap_free_detached(owner, p);
    assert_int_equal(owner->classes[class].used, used - 2);
}

static void a_handler_frees_into_the_inbox(void **state)
{
    (void)state;
    uint32_t class = class_for(200);
    void *p = alloc(class);
    thread_enter();
    thread_enter(); /* as a signal handler that interrupted a slow path */
    lock_take(&heap->lock);
    heap_free_detached(heap, p);
    lock_release(&heap->lock);
    thread_leave();
    thread_leave();
    assert_ptr_equal(load_relaxed(&heap->inbox), p);
    lock_take(&heap->lock);
    inbox_drain(heap, false);
    lock_release(&heap->lock);
    assert_null(load_relaxed(&heap->inbox));
    give_all_back(class);
    assert_int_equal(heap->classes[class].used, 0);
}

/* Which is what its waits are counted as (test_os). */
static void the_lock_of_a_heap_is_known_as_one(void **state)
{
    (void)state;
    assert_int_equal(heap->lock.kind, LOCK_HEAP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_offsets_agree_with_class_for),
        cmocka_unit_test(words_name_heap_and_class),
        cmocka_unit_test(what_runs_out_of_a_slab_does_not_run_into_a_heap),
        cmocka_unit_test(every_class_gives_distinct_blocks),
        cmocka_unit_test(the_block_freed_last_comes_first),
        cmocka_unit_test(empty_slabs_lose_their_units),
        cmocka_unit_test(a_block_that_came_meanwhile_is_not_lost),
        cmocka_unit_test(blocks_without_room_go_home_together),
        cmocka_unit_test(what_waits_to_go_home_is_looked_through_at_the_end),
        cmocka_unit_test(large_blocks_go_home_at_once),
        cmocka_unit_test(a_class_keeps_one_empty_slab),
        cmocka_unit_test(few_bytes_of_empty_slabs_are_kept),
        cmocka_unit_test(free_pages_of_a_used_slab_go_when_memory_is_tight),
        cmocka_unit_test(a_class_shows_that_it_fills_slabs),
        cmocka_unit_test(a_sparse_class_keeps_no_magazine),
        cmocka_unit_test(a_heap_that_shrank_keeps_no_magazines),
        cmocka_unit_test(a_heap_that_swings_keeps_its_magazines),
        cmocka_unit_test(the_lock_of_a_heap_is_known_as_one),
        cmocka_unit_test(a_heap_that_grows_empties_idle_magazines),
        cmocka_unit_test(a_heap_that_does_not_grow_is_not_swept),
        cmocka_unit_test(detached_blocks_belong_to_an_orphan),
        cmocka_unit_test(a_handler_frees_into_the_inbox),
    };
    return cmocka_run_group_tests(tests, make_heap, abandon_heap);
}
