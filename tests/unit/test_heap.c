/* Magazines, and a heap's slabs behind them. */
#include "one_heap.h"

#include <stdlib.h>

#include "control/options.h"

static const size_t slots_of_class[] = {
#define CLASS(index, from, size, units, slots) slots,
#include "slab/size_classes.def"
#undef CLASS
};

/* ---- tables ---- */

static void small_offsets_agree_with_class_for(void **state)
{
    (void)state;
    for (size_t size = 0; size <= SMALL_MAX; size++)
        assert_at(hak_small_offset[(size + 7) / 8] == hak_magazine_offset[class_for(size)], size);
}

static void magazines_do_not_overlap(void **state)
{
    (void)state;
    for (uint32_t class = 0; class < CLASS_COUNT; class ++) {
        size_t end = hak_magazine_offset[class] + sizeof(struct magazine) +
                     slots_of_class[class] * sizeof(void *);
        size_t next = class + 1 < CLASS_COUNT ? hak_magazine_offset[class + 1]
                                              : offsetof(struct magazines, end);
        assert_at(hak_magazine_slots[class] == slots_of_class[class], class);
        assert_at(end <= next, class);
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

static void a_magazine_is_a_stack(void **state)
{
    (void)state;
    enum { CAP = 4 };
    struct magazine *m = calloc(1, sizeof *m + CAP * sizeof(void *));
    assert_non_null(m);
    int blocks[CAP + 1];
    magazine_open(m, CAP, CAP);
    for (uint32_t i = 0; i < CAP; i++) {
        assert_int_equal(magazine_kept(m), i);
        assert_true(magazine_push(m, &blocks[i]));
    }
    assert_false(magazine_push(m, &blocks[CAP]));
    assert_int_equal(magazine_kept(m), CAP);
    for (size_t i = CAP; i-- > 0;)
        assert_ptr_equal(magazine_pop(m), &blocks[i]);
    assert_null(magazine_pop(m));
    assert_int_equal(magazine_kept(m), 0);
    free(m);
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

static void magazines_grow_to_their_bound(void **state)
{
    (void)state;
    uint32_t class = class_for(48), most = 0;
    void *blocks[BLOCKS];
    hak_options.magazine_max = 20;
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = alloc(class);
        uint32_t cap = magazine_of(heap, class)->cap;
        assert_at(cap <= 20, i);
        most = most < cap ? cap : most;
    }
    assert_int_equal(most, 20);
    for (size_t i = 0; i < BLOCKS; i++)
        release(blocks[i]);
    hak_options.magazine_max = 128;
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
    assert_int_equal(counted(heap, COUNTER_slab_release) - released, slabs);
    for (size_t i = 0; i < BLOCKS; i++)
        assert_at(unit_word(unit_of(blocks[i])) != (uintptr_t)magazine_of(heap, class), i);
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
        cmocka_unit_test(magazines_do_not_overlap),
        cmocka_unit_test(words_name_heap_and_class),
        cmocka_unit_test(a_zeroed_magazine_is_empty_and_full),
        cmocka_unit_test(a_magazine_is_a_stack),
        cmocka_unit_test(every_class_gives_distinct_blocks),
        cmocka_unit_test(the_block_freed_last_comes_first),
        cmocka_unit_test(magazines_grow_to_their_bound),
        cmocka_unit_test(empty_slabs_lose_their_units),
        cmocka_unit_test(a_sparse_class_keeps_no_magazine),
        cmocka_unit_test(a_heap_that_shrank_keeps_no_magazines),
        cmocka_unit_test(detached_blocks_belong_to_an_orphan),
        cmocka_unit_test(a_handler_frees_into_the_inbox),
    };
    return cmocka_run_group_tests(tests, make_heap, abandon_heap);
}
