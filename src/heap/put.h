/* A block returns to its slab: inlined where many do, one after the other. With the lock of the slab's heap
 * held. Called by: heap, remote. */
#ifndef HAK_PUT_H
#define HAK_PUT_H

#include "heap/heap.h"

_Noreturn void die_bad_block(const struct slab *s, void *p);

/* The slab has got its first free block or its last one. */
void slab_put_first_or_last(struct heap *h, struct slab *s);

/* The heap's sums are the caller's business. */
HAK_INLINE void put_block(struct heap *h, const struct class_info *c, struct slab *s, void *p)
{
    size_t offset = (size_t)((char *)p - slab_base(s));
    uint32_t index = class_block_index(c, offset);
    if (HAK_UNLIKELY(index >= s->carved || slab_knows_free(s, p, index)))
        die_double_free(p);
    if (HAK_UNLIKELY((size_t)index * c->size != offset))
        die_bad_block(s, p);
    slab_put(s, p, index);
    if (HAK_UNLIKELY(s->used == 0 || !s->listed))
        slab_put_first_or_last(h, s);
}

/* Without telling that the class has changed (heap_changed). */
HAK_INLINE void put_counted(struct heap *h, uint32_t class, struct slab *s, void *p)
{
    const struct class_info *c = &hak_classes[class];
    h->classes[class].used--;
    h->used_bytes -= c->size;
    put_block(h, c, s, p);
}

#endif
