/* What the tests of one heap's classes share: blocks by class, and whether the heap's books agree. */
#ifndef HAK_TESTS_UNIT_ONE_CLASS_H
#define HAK_TESTS_UNIT_ONE_CLASS_H

#include "one_heap.h"

static inline void *alloc(uint32_t class)
{
    return alloc_as(heap, hak_classes[class].size);
}

static inline void release(void *p)
{
    free_as(heap, p);
}

/* Sums over the class's listed slabs and compares with what the heap has counted. */
static inline void check_books(uint32_t class)
{
    const struct class_slabs *c = &heap->classes[class];
    uint32_t listed = 0, before = 0, purged = 0;
    size_t used = 0;
    for (uint32_t link = c->list; link != 0; link = slab_at(link - 1)->next) {
        const struct slab *s = slab_at(link - 1);
        assert_at(s->listed && !slab_is_full(s), link);
        assert_at(s->prev == before && s->class == class, link);
        assert_at(load_relaxed(&s->heap) == heap, link);
        used += s->used;
        purged += s->purged;
        listed++;
        before = link;
    }
    assert_int_equal(listed, c->listed);
    used += (size_t)(c->slabs - listed) * hak_classes[class].capacity;
    assert_int_equal(used, c->used);
    assert_int_equal(purged, c->purged);
    assert_true(magazine_kept(magazine_of(heap, class)) <= c->used);
}

static inline void give_all_back(uint32_t class)
{
    lock_take(&heap->lock);
    heap_empty_magazines(heap, HAND_ALL);
    outbox_flush_all(heap);
    heap_release_kept(heap);
    lock_release(&heap->lock);
    check_books(class);
}

#endif
