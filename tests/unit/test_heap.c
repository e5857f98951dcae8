/* Magazines, and a heap's slabs behind them. */
#include "one_heap.h"

#include <stdlib.h>

#include "control/options.h"
#include "purge/purge.h"

/* ---- tables ---- */

static void small_offsets_agree_with_class_for(void **state)
{
    (void)state;
    for (size_t size = 0; size <= SMALL_MAX; size++)
        assert_at(hak_small_offset[(size + 7) / 8] == magazine_offset(class_for(size)), size);
}

static void tags_name_magazines_without_room(void **state)
{
    (void)state;
    static const uintptr_t tags[] = {WORD_NONE, WORD_RUN, WORD_BIG, WORD_HEAP, WORD_FREED};
    for (size_t i = 0; i < sizeof tags / sizeof tags[0]; i++) {
        struct magazine *m = magazine_for_word(heap, tags[i]);
        assert_true((uintptr_t)(m + 1) <= (uintptr_t)magazine_of(heap, 0));
        int block;
        assert_false(magazine_push(m, &block));
        assert_null(magazine_pop(m));
    }
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

/* ---- a magazine ---- */

static void a_zeroed_magazine_is_empty_and_full(void **state)
{
    (void)state;
    struct magazine *m = magazine_of(&hak_empty_heap, 3);
    int block;
    assert_null(magazine_pop(m));
    assert_false(magazine_push(m, &block));
    assert_int_equal(magazine_kept(m), 0);
}

/* A magazine of slots that are the test's, closed and empty. */
static struct magazine with_slots(void **slots, uint32_t cap)
{
    struct magazine m = {0};
    magazine_exchange(&m, slots, cap);
    return m;
}

static void a_magazine_is_a_stack(void **state)
{
    (void)state;
    enum { CAP = 4 };
    void *slots[CAP + 1] = {0};
    int blocks[CAP + 1];
    struct magazine m = with_slots(slots, CAP);
    magazine_open(&m, slots + CAP);
    for (uint32_t i = 0; i < CAP; i++) {
        assert_int_equal(magazine_kept(&m), i);
        assert_true(magazine_push(&m, &blocks[i]));
        assert_true(magazine_newest_is(&m, &blocks[i]));
    }
    assert_false(magazine_push(&m, &blocks[CAP]));
    assert_int_equal(magazine_kept(&m), CAP);
    for (size_t i = CAP; i-- > 0;)
        assert_ptr_equal(magazine_pop(&m), &blocks[i]);
    assert_null(magazine_pop(&m));
    assert_int_equal(magazine_kept(&m), 0);
    assert_false(magazine_newest_is(&m, &blocks[0])); /* it still stands in its slot */
}

static void a_closed_magazine_looks_empty_and_full_and_keeps_its_blocks(void **state)
{
    (void)state;
    enum { CAP = 4 };
    void *slots[CAP + 1] = {0};
    int blocks[2];
    struct magazine m = with_slots(slots, CAP);
    assert_false(magazine_is_open(&m));
    magazine_open(&m, slots + CAP);
    assert_true(magazine_is_open(&m));
    assert_true(magazine_push(&m, &blocks[0]));
    magazine_close(&m);
    magazine_close(&m); /* twice is once */
    assert_false(magazine_is_open(&m));
    assert_ptr_equal(magazine_slots(&m), slots);
    assert_null(magazine_pop(&m));
    assert_false(magazine_push(&m, &blocks[1]));
    assert_int_equal(magazine_kept(&m), 0);
    magazine_open(&m, m.top);
    assert_int_equal(magazine_kept(&m), 1);
    assert_ptr_equal(magazine_pop(&m), &blocks[0]);
    magazine_close(&m);
    magazine_exchange(&m, NULL, 0);
    assert_null(magazine_pop(&m));
    assert_false(magazine_push(&m, &blocks[1]));
    assert_int_equal(m.cap, 0);
}

/* ---- slots ---- */

static void slots_are_disjoint_and_come_again(void **state)
{
    (void)state;
    enum { ARRAYS = 200 };
    void **arrays[ARRAYS];
    lock_take(&heap->lock);
    for (uint32_t i = 0; i < ARRAYS; i++) {
        uint32_t length = 1U << (i % SLOT_LENGTHS);
        arrays[i] = slots_take(heap, length);
        assert_non_null(arrays[i]);
        assert_int_equal(unit_word(unit_of(arrays[i])), WORD_HEAP);
        /* free reads one slot beyond. */
        assert_int_equal(unit_of(arrays[i]), unit_of(arrays[i] + length));
        for (uint32_t k = 0; k < length; k++)
            arrays[i][k] = &arrays[i];
    }
    for (uint32_t i = 0; i < ARRAYS; i++) {
        for (uint32_t k = 0; k < 1U << (i % SLOT_LENGTHS); k++)
            assert_ptr_equal(arrays[i][k], &arrays[i]);
    }
    slots_give(heap, arrays[7], 1U << 7);
    assert_ptr_equal(slots_take(heap, 1U << 7), arrays[7]);
    for (uint32_t i = 0; i < ARRAYS; i++)
        slots_give(heap, arrays[i], 1U << (i % SLOT_LENGTHS));
    lock_release(&heap->lock);
}

/* ---- refill and flush ---- */

enum { BLOCKS = 600 };

static void *alloc(uint32_t class)
{
    return alloc_as(heap, hak_classes[class].size);
}

static void release(void *p)
{
    free_as(heap, p);
}

/* Sums over the class's listed slabs and compares with what the heap has counted. */
static void check_books(uint32_t class)
{
    const struct class_slabs *c = &heap->classes[class];
    uint32_t listed = 0, before = 0;
    size_t used = 0;
    for (uint32_t link = c->list; link != 0; link = slab_at(link - 1)->next) {
        const struct slab *s = slab_at(link - 1);
        assert_at(s->listed && !slab_is_full(s), link);
        assert_at(s->prev == before && s->class == class, link);
        assert_at(load_relaxed(&s->heap) == heap, link);
        used += s->used;
        listed++;
        before = link;
    }
    assert_int_equal(listed, c->listed);
    used += (size_t)(c->slabs - listed) * hak_classes[class].capacity;
    assert_int_equal(used, c->used);
    assert_true(magazine_kept(magazine_of(heap, class)) <= c->used);
}

static void give_all_back(uint32_t class)
{
    lock_take(&heap->lock);
    heap_empty_magazines(heap);
    heap_release_kept(heap);
    lock_release(&heap->lock);
    check_books(class);
}

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

static uint32_t capacity(uint32_t class)
{
    return magazine_of(heap, class)->cap;
}

/* All magazines as a new heap has them. */
static void forget_slots(void)
{
    lock_take(&heap->lock);
    heap_empty_magazines(heap);
    for (uint32_t class = 0; class < CLASS_COUNT; class ++) {
        struct magazine *m = magazine_of(heap, class);
        if (m->cap != 0)
            slots_give(heap, magazine_slots(m), m->cap);
        magazine_exchange(m, NULL, 0);
        heap->classes[class].spilled = 0;
    }
    heap->magazine_bytes = 0;
    lock_release(&heap->lock);
}

/* Takes n blocks and gives them back. */
static void swing(uint32_t class, size_t n)
{
    static void *blocks[4096];
    assert_true(n <= sizeof blocks / sizeof blocks[0]);
    for (size_t i = 0; i < n; i++)
        blocks[i] = alloc(class);
    for (size_t i = 0; i < n; i++)
        release(blocks[i]);
}

static void magazines_grow_to_their_bound(void **state)
{
    (void)state;
    uint32_t class = class_for(48), most = 0;
    void *blocks[BLOCKS];
    forget_slots();
    hak_options.magazine_max = 20; /* as 16: slots come in powers of two */
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = alloc(class);
        assert_at(capacity(class) <= 16, i);
        most = most < capacity(class) ? capacity(class) : most;
    }
    assert_int_equal(most, 16);
    for (size_t i = 0; i < BLOCKS; i++)
        release(blocks[i]);
    hak_options.magazine_max = SLOTS_MOST;
    give_all_back(class);
}

/* What comes back in such numbers that it is spilled and then wanted again should be kept. */
static void a_magazine_grows_until_a_swing_fits(void **state)
{
    (void)state;
    enum { SWING = 900, TURNS = 40 };
    uint32_t class = class_for(80);
    forget_slots();
    for (int i = 0; i < TURNS; i++)
        swing(class, SWING);
    assert_true(capacity(class) >= SWING);
    uint64_t refills = counted(heap, COUNTER_refill), flushes = counted(heap, COUNTER_flush);
    for (int i = 0; i < TURNS; i++)
        swing(class, SWING);
    assert_int_equal(counted(heap, COUNTER_refill), refills);
    assert_int_equal(counted(heap, COUNTER_flush), flushes);
    give_all_back(class);
}

/* What a spill left behind is no evidence once the slots have gone. */
static void a_magazine_without_slots_is_refilled_as_a_new_one(void **state)
{
    (void)state;
    uint32_t class = class_for(160);
    forget_slots();
    swing(class, 300);
    assert_int_not_equal(heap->classes[class].spilled, 0);
    uint32_t before = capacity(class);
    for (uint32_t other = class_for(1024); capacity(class) == before; other--) {
        assert_at(other > class, other);
        for (int i = 0; i < 40 && capacity(class) == before; i++)
            swing(other, 300);
    }
    assert_int_equal(capacity(class), 0);
    assert_int_equal(heap->classes[class].spilled, 0);
    swing(class, 1);
    assert_int_equal(capacity(class), 8);
    give_all_back(class);
}

/* A magazine that runs full and dry now and then, with frees and requests mixed, stays as it is. */
static void drifting_makes_no_long_magazine(void **state)
{
    (void)state;
    enum { LIVE = 2000, TURNS = 400000 };
    static void *blocks[LIVE];
    uint32_t class = class_for(176);
    uint64_t random = 88172645463325252U;
    forget_slots();
    for (int i = 0; i < TURNS; i++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        void **at = &blocks[random % LIVE];
        if (*at != NULL)
            release(*at);
        *at = *at == NULL ? alloc(class) : NULL;
    }
    assert_true(counted(heap, COUNTER_flush) > 0);
    assert_true(capacity(class) <= 64);
    for (size_t i = 0; i < LIVE; i++)
        release(blocks[i]);
    give_all_back(class);
}

static void growing_alone_makes_no_long_magazine(void **state)
{
    (void)state;
    uint32_t class = class_for(112);
    forget_slots();
    static void *blocks[4096];
    for (size_t i = 0; i < 4096; i++)
        blocks[i] = alloc(class);
    assert_int_equal(capacity(class), 64);
    for (size_t i = 0; i < 4096; i++)
        release(blocks[i]);
    assert_int_equal(capacity(class), 64);
    give_all_back(class);
}

static void idle_magazines_make_room_in_the_budget(void **state)
{
    (void)state;
    uint32_t idle = class_for(1024), busy = class_for(960);
    forget_slots();
    for (int i = 0; i < 40; i++)
        swing(idle, 250);
    size_t was = capacity(idle);
    assert_true(was >= 128);
    /* Other classes ask for more than all may have, and go on asking. */
    for (int turn = 0; turn < 40; turn++) {
        for (uint32_t class = busy; class > busy - 24; class --)
            swing(class, 300);
    }
    assert_int_equal(capacity(idle), 0);
    size_t bytes = 0;
    for (uint32_t class = 0; class < CLASS_COUNT; class ++)
        bytes += capacity(class) * (size_t)hak_classes[class].size;
    assert_int_equal(bytes, heap->magazine_bytes);
    assert_true(bytes <= (2 << 20) + heap->used_bytes / 32);
    give_all_back(busy);
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
    assert_int_equal(counted(heap, COUNTER_slab_release) - released, slabs);
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
    heap_empty_magazines(heap);
    lock_release(&heap->lock);
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

static void a_heap_that_shrank_keeps_no_magazines(void **state)
{
    (void)state;
    enum { MANY = 4000 };
    static void *blocks[MANY];
    uint32_t class = class_for(2048), other = class_for(1536);
    release(alloc(other));
    assert_true(magazine_kept(magazine_of(heap, other)) > 0);
    for (size_t i = 0; i < MANY; i++)
        blocks[i] = alloc(class);
    uint64_t all = counted(heap, COUNTER_flush_all);
    for (size_t i = 0; i < MANY; i++)
        release(blocks[i]);
    assert_true(counted(heap, COUNTER_flush_all) > all);
    assert_int_equal(magazine_kept(magazine_of(heap, other)), 0);
    assert_int_equal(heap->classes[other].slabs, 0);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_offsets_agree_with_class_for),
        cmocka_unit_test(tags_name_magazines_without_room),
        cmocka_unit_test(words_name_heap_and_class),
        cmocka_unit_test(a_zeroed_magazine_is_empty_and_full),
        cmocka_unit_test(a_magazine_is_a_stack),
        cmocka_unit_test(a_closed_magazine_looks_empty_and_full_and_keeps_its_blocks),
        cmocka_unit_test(slots_are_disjoint_and_come_again),
        cmocka_unit_test(every_class_gives_distinct_blocks),
        cmocka_unit_test(the_block_freed_last_comes_first),
        cmocka_unit_test(magazines_grow_to_their_bound),
        cmocka_unit_test(a_magazine_grows_until_a_swing_fits),
        cmocka_unit_test(a_magazine_without_slots_is_refilled_as_a_new_one),
        cmocka_unit_test(drifting_makes_no_long_magazine),
        cmocka_unit_test(growing_alone_makes_no_long_magazine),
        cmocka_unit_test(idle_magazines_make_room_in_the_budget),
        cmocka_unit_test(empty_slabs_lose_their_units),
        cmocka_unit_test(a_block_that_came_meanwhile_is_not_lost),
        cmocka_unit_test(a_class_keeps_one_empty_slab),
        cmocka_unit_test(few_bytes_of_empty_slabs_are_kept),
        cmocka_unit_test(a_sparse_class_keeps_no_magazine),
        cmocka_unit_test(a_heap_that_shrank_keeps_no_magazines),
        cmocka_unit_test(a_heap_that_grows_empties_idle_magazines),
        cmocka_unit_test(a_heap_that_does_not_grow_is_not_swept),
        cmocka_unit_test(detached_blocks_belong_to_an_orphan),
        cmocka_unit_test(a_handler_frees_into_the_inbox),
    };
    return cmocka_run_group_tests(tests, make_heap, abandon_heap);
}
