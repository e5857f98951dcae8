/* A block returns to its slab: inlined where many do, one after the other. With the lock of the slab's heap
 * held. Called by: heap, remote. */
#ifndef HAK_PUT_H
#define HAK_PUT_H

#include "heap/heap.h"

_Noreturn void die_bad_block(const struct slab *s, void *p);

/* The slab has got its first free block or its last one. */
void slab_put_first_or_last(struct heap *h, struct slab *s);

/* `starts`: the block of that index starts at p. */
HAK_INLINE void slab_put_checked(struct slab *s, uint32_t class, uint64_t *word, void *p,
                                 uint32_t index, bool starts)
{
    if (HAK_UNLIKELY(index >= s->carved || slab_knows_free(class, word, index)))
        die_double_free(p);
    if (HAK_UNLIKELY(!starts))
        die_bad_block(s, p);
    slab_put(s, word, index);
}

/* n of its blocks have come back. */
HAK_INLINE void slab_unuse(struct heap *h, struct slab *s, uint32_t n)
{
    s->used -= n;
    if (HAK_UNLIKELY(s->used == 0 || !s->listed))
        slab_put_first_or_last(h, s);
}

/* To the slab of units of the class that starts at the unit. The heap's sums are the caller's business. What is the same for all
 * blocks of a class is asked of the class and not of the slab: the compiler need not look again then. */
HAK_INLINE void put_block(struct heap *h, uint32_t class, size_t unit, void *p)
{
    const struct class_info *c = &hak_classes[class];
    struct slab *s = slab_at(unit);
    size_t offset = (size_t)((char *)p - (char *)unit_address(unit));
    uint32_t index = class_block_index(c, offset);
    slab_put_checked(s, class, slab_word_of(unit, class, index), p, index,
                     (size_t)index * c->size == offset);
    slab_unuse(h, s, 1);
}

/* The same for a slab of one unit. */
HAK_INLINE void put_block_of_unit(struct heap *h, uint32_t class, size_t unit, void *p)
{
    struct slab *s = slab_at(unit);
    struct block_place place =
        class_block_place(&hak_classes[class], (uintptr_t)p & (UNIT_SIZE - 1));
    slab_put_checked(s, class, slab_word_of(unit, class, place.index), p, place.index,
                     place.starts);
    slab_unuse(h, s, 1);
}

/* Whether the last of n blocks, which lies in the unit, seems to end a long row of such blocks. */
enum { ROW_LONG = 8 };
HAK_INLINE bool is_row(size_t unit, void *const *blocks, size_t n)
{
    return n >= ROW_LONG && unit_of(blocks[n - 2]) == unit &&
           unit_of(blocks[n - ROW_LONG / 2]) == unit && unit_of(blocks[n - ROW_LONG]) == unit;
}

/* Where none was found the next look is so many blocks further on: where blocks of few slabs are mixed, each is one that the processor
 * guesses wrong. */
enum { ROW_NEXT = 32 };

/* To a slab of one unit, the heap's: the last of n blocks, which lies there, and of those before it as many as lie there in a
 * row; and off the heap's sums. Returns how many. */
size_t put_row(struct heap *h, size_t unit, void *const *blocks, size_t n);

/* Of the class' blocks in use there are n more. */
HAK_INLINE void class_gain(struct heap *h, uint32_t class, size_t n)
{
    heap_changed(h, class);
    h->classes[class].used += n;
    h->used_bytes += n * hak_classes[class].size;
    if (h->peak_bytes < h->used_bytes)
        h->peak_bytes = h->used_bytes;
}

/* n blocks have been taken from its slabs. */
HAK_INLINE void class_note_taken(struct heap *h, uint32_t class, size_t n)
{
    h->classes[class].taken = true;
    h->taken_bytes += n * hak_classes[class].size;
    count(h, COUNTER_ss_taken, n);
}

HAK_INLINE void class_use(struct heap *h, uint32_t class, size_t n)
{
    class_gain(h, class, n);
    class_note_taken(h, class, n);
}

/* Of those in use there are n fewer. */
HAK_INLINE void class_unuse(struct heap *h, uint32_t class, size_t n)
{
    heap_changed(h, class);
    h->classes[class].used -= n;
    h->used_bytes -= n * hak_classes[class].size;
}

HAK_INLINE void put_counted(struct heap *h, uint32_t class, size_t unit, void *p)
{
    class_unuse(h, class, 1);
    put_block(h, class, unit, p);
}

#endif
