/* A block returns to its slab: inlined where many do, one after the other. With the lock of the slab's heap
 * held. Called by: heap, remote. */
#ifndef HAK_PUT_H
#define HAK_PUT_H

#include "heap/heap.h"

_Noreturn void die_bad_block(const struct slab *s, void *p);

/* The slab has got its first free block or its last one. */
void slab_put_first_or_last(struct heap *h, struct slab *s);

/* To the slab of the class that starts at the unit. The heap's sums are the caller's business. What is the same for all
 * blocks of a class is asked of the class and not of the slab: the compiler need not look again then. */
HAK_INLINE void put_block(struct heap *h, uint32_t class, size_t unit, void *p)
{
    const struct class_info *c = &hak_classes[class];
    struct slab *s = slab_at(unit);
    size_t offset = (size_t)((char *)p - (char *)unit_address(unit));
    if (class >= FIRST_PAGED)
        offset -= s->run_at * hak_region.page_size;
    uint32_t index = class_block_index(c, offset);
    uint64_t *word = slab_word_of(unit, class, index);
    if (HAK_UNLIKELY(index >= s->carved || slab_knows_free(s, word, p, index)))
        die_double_free(p);
    if (HAK_UNLIKELY((size_t)index * c->size != offset))
        die_bad_block(s, p);
    slab_put(s, word, p, index);
    if (HAK_UNLIKELY(s->used == 0 || !s->listed))
        slab_put_first_or_last(h, s);
}

HAK_INLINE void put_counted(struct heap *h, uint32_t class, size_t unit, void *p)
{
    heap_changed(h, class);
    h->classes[class].used--;
    h->used_bytes -= hak_classes[class].size;
    put_block(h, class, unit, p);
}

#endif
