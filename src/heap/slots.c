/* Arrays of slots for magazines (struct slot_arena). Small ones share pages, so a heap with few blocks has
 * few pages of them. */
#include "heap/heap.h"
#include "os/os.h"
#include "purge/show.h"
#include "super/super.h"

/* free looks at the slot behind the last one of an empty magazine: these bytes keep it in the unit. */
enum { MARGIN = 64 };
_Static_assert(SLOTS_MOST * sizeof(void *) + MARGIN <= UNIT_SIZE, "the longest array fits a unit");

/* In the build `secure` a heap's units lie between units that nobody may access, so that what runs out of a slab does not
 * run into them. Each pair costs mappings, so there are only so many. */
enum { GUARD_UNITS = HAK_SECURE ? 1 : 0, GUARDED_MOST = 1024 };

static void guard_unit(size_t unit)
{
    static _Atomic uint32_t guarded;
    if (add_relaxed(&guarded, 1) < GUARDED_MOST)
        (void)os_guard(unit_address(unit), UNIT_SIZE);
}

ptrdiff_t own_unit_take(bool *zeroed)
{
    ptrdiff_t first = units_take(1 + 2 * GUARD_UNITS, zeroed);
    if (first < 0)
        return REGION_NONE;
    size_t unit = (size_t)first + GUARD_UNITS;
    for (size_t i = 1; i <= GUARD_UNITS; i++) {
        guard_unit(unit - i);
        guard_unit(unit + i);
    }
    unit_set_word(unit, WORD_HEAP);
    unit_show(unit);
    return (ptrdiff_t)unit;
}

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

/* What the heap's own unit has first. */
static bool extend(struct heap *h)
{
    struct slot_arena *a = &h->slots;
    void **first_end = h->first_slots + FIRST_SLOTS;
    keep_rest(h);
    bool is_first = a->next == NULL;
    if (is_first || a->limit == first_end) {
        a->next = is_first ? h->first_slots : (void **)(h + 1);
        a->limit = is_first ? first_end : end_of_unit(h);
        return true;
    }
    bool zeroed;
    ptrdiff_t unit = own_unit_take(&zeroed);
    if (unit < 0)
        return false;
    purge_show_units();
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
