/* What a pointer is that a program gives back. Called by: front, resize, secure. */
#ifndef HAK_POINTER_H
#define HAK_POINTER_H

#include "heap/heap.h"
#include "heap/runs.h"

/* Usable bytes of a live block, whose unit's word is given. */
size_t usable_of(const void *p, uintptr_t word);

/* Ends the program: no block can start at p, whose unit's word is given. */
_Noreturn void die_not_a_block(const void *p, const char *what, uintptr_t word);

/* Whether one does there, in a unit whose word is a tag. */
bool is_tagged_start(const void *p, size_t unit, uintptr_t word);

HAK_INLINE bool is_block_start(const void *p, size_t unit, uintptr_t word)
{
    if (HAK_UNLIKELY(word <= WORD_TAG_MAX))
        return is_tagged_start(p, unit, word);
    uint32_t class = class_of_word(word);
    if (class >= FIRST_PAGED)
        return p == run_address(unit);
    size_t offset = (uintptr_t)p & (UNIT_SIZE - 1);
    if (hak_classes[class].units > 1)
        offset += (size_t)slab_at(unit)->back << UNIT_SHIFT;
    return class_block_starts_at(class, offset);
}

/* WORD_NONE: the unit, of any pointer, is none of ours. */
HAK_INLINE uintptr_t word_if_ours(size_t unit)
{
    return HAK_LIKELY(unit < hak_region.units) ? unit_word(unit) : WORD_NONE;
}

/* The word of the unit a block starts in; ends the program if none can start at p. */
HAK_INLINE uintptr_t word_of(const void *p, const char *what)
{
    size_t unit = unit_of(p);
    uintptr_t word = word_if_ours(unit);
    if (HAK_UNLIKELY(!is_block_start(p, unit, word)))
        die_not_a_block(p, what, word);
    return word;
}

#endif
