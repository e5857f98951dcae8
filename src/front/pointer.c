#include "front/pointer.h"

#include "os/os.h"

HAK_NOINLINE bool is_tagged_start(const void *p, size_t unit, uintptr_t word)
{
    if (word == WORD_SAMPLED)
        return sampled_usable(p) != 0;
    if (word == WORD_EXPLICIT)
        return slab_block_starts_at(slab_of_unit(unit), p);
    return (word == WORD_RUN || word == WORD_BIG) && p == run_address(unit);
}

HAK_COLD void die_not_a_block(const void *p, const char *what, uintptr_t word)
{
    uintptr_t at = (uintptr_t)p;
    struct block_story story;
    if (word == WORD_SAMPLED && sampled_story(at, &story) && story.is_freed && story.address == at)
        os_fatal("%s(%p): double free: the block is free already", what, at);
    if (word == WORD_FREED && p == run_address(unit_of(p)))
        os_fatal("%s(%p): double free or use after free: the block is free already", what, at);
    if (unit_of(p) < hak_region.units)
        os_fatal("%s(%p): invalid pointer: no block starts there", what, at);
    os_fatal("%s(%p): invalid pointer: it was not allocated by hakmem", what, at);
}

size_t usable_of(const void *p, uintptr_t word)
{
    size_t unit = unit_of(p);
    if (word > WORD_TAG_MAX)
        return hak_classes[class_of_word(word)].size;
    if (word == WORD_EXPLICIT)
        return hak_classes[slab_of_unit(unit)->class].size;
    return word == WORD_SAMPLED ? sampled_usable(p) : slab_at(unit)->size;
}
