/* Arrays of slots for magazines (struct slot_arena). Small ones share pages, so a heap with few blocks has
 * few pages of them. */
#include "heap/heap.h"
#include "purge/show.h"
#include "super/super.h"

/* free looks at the slot behind the last one of an empty magazine: these bytes keep it in the unit. */
enum { MARGIN = 64 };

static void **end_of_unit(void *in)
{
    return (void **)(((uintptr_t)in | (UNIT_SIZE - 1)) + 1 - MARGIN);
}

static uint32_t log2_of(uint32_t length)
{
    return lowest_bit(length);
}

/* What is left of a unit that is too little for the request at hand. */
static void keep_rest(struct heap *h)
{
    struct slot_arena *a = &h->slots;
    while (a->next < a->limit) {
        uint32_t rest = (uint32_t)(a->limit - a->next);
        uint32_t length =
            rest < SLOTS_MOST ? 1U << (31 - (uint32_t)__builtin_clz(rest)) : SLOTS_MOST;
        slots_give(h, a->next, length);
        a->next += length;
    }
}

/* The rest of the heap's own unit first. */
static bool extend(struct heap *h)
{
    struct slot_arena *a = &h->slots;
    keep_rest(h);
    if (a->next == NULL) {
        a->next = (void **)(uintptr_t)round_up((uintptr_t)(h + 1), MARGIN);
        a->limit = end_of_unit(h);
        return true;
    }
    bool zeroed;
    ptrdiff_t unit = units_take(1, &zeroed);
    if (unit < 0)
        return false;
    unit_set_word((size_t)unit, WORD_HEAP);
    unit_show((size_t)unit);
    purge_show();
    a->next = unit_address((size_t)unit);
    a->limit = end_of_unit(a->next);
    return true;
}

void **slots_take(struct heap *h, uint32_t length)
{
    struct slot_arena *a = &h->slots;
    void **slots = a->given[log2_of(length)];
    if (slots != NULL) {
        a->given[log2_of(length)] = (void **)*slots;
        return slots;
    }
    while ((size_t)(a->limit - a->next) < length) {
        if (!extend(h))
            return NULL;
    }
    slots = a->next;
    a->next += length;
    return slots;
}

void slots_give(struct heap *h, void **slots, uint32_t length)
{
    struct slot_arena *a = &h->slots;
    *slots = (void *)a->given[log2_of(length)];
    a->given[log2_of(length)] = slots;
}
