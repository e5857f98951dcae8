#include "slab/slab.h"

#include <string.h>

#include "live/live.h"
#include "os/os.h"

/* What fits, and not more than a map has bits: of blocks of 8 bytes half a unit. */
#define FITTING(size, units) ((size) > UNIT_SIZE ? 1 : (units)*UNIT_SIZE / (size))
#define CAPACITY(size, units)                                                                      \
    (uint16_t)(FITTING(size, units) < WIDE_WORDS * 64 ? FITTING(size, units) : WIDE_WORDS * 64)
#define RECIPROCAL(size) ((uint32_t)((((uint64_t)1 << 32) + (size)-1) / (size)))

const struct class_info hak_classes[CLASS_COUNT] = {
#define CLASS(index, from, size, units, slots)                                                     \
    [index] = {size, RECIPROCAL(size), CAPACITY(size, units), units, slots},
#include "slab/size_classes.def"
#undef CLASS
};

#define CLASS(index, from, size, units, slots)                                                     \
    _Static_assert((units) <= 8 && (CAPACITY(size, units) >= 2) == ((index) < FIRST_PAGED) &&      \
                       (size) % 8 == 0 &&                                                          \
                       ((index) < FIRST_NARROW || CAPACITY(size, units) <= NARROW_WORDS * 64) &&   \
                       ((index) < FIRST_OF_UNITS || (index) >= FIRST_PAGED) == ((units) == 1),     \
                   "class " #index);
#include "slab/size_classes.def"
#undef CLASS

uint32_t class_for_aligned(size_t size, size_t alignment)
{
    if (size < alignment)
        size = alignment;
    if (size > SLAB_MAX)
        return CLASS_COUNT;
    uint32_t class = class_for(size);
    /* Slabs start at unit boundaries, so a block is as aligned as its size is. */
    while (class < CLASS_COUNT && (hak_classes[class].size & (alignment - 1)) != 0)
        class ++;
    /* A paged one starts at any page. */
    return class < FIRST_PAGED || alignment <= hak_region.page_size ? class : CLASS_COUNT;
}

void slab_init(size_t unit, uint32_t class, struct heap *owner, bool zeroed)
{
    uint32_t units = hak_classes[class].units;
    for (uint32_t i = 0; i < units; i++)
        slab_at(unit + i)->back = (uint8_t)i;
    struct slab *s = slab_at(unit);
    s->class = (uint8_t) class;
    s->freed = 0;
    s->lowest = UINT32_MAX;
    store_relaxed(&s->heap, owner);
    s->used = 0;
    s->carved = s->high = 0;
    s->next = s->prev = 0;
    if (class < FIRST_PAGED)
        s->run_at = 0;
    s->listed = false;
    s->zeroed = zeroed;
    s->purged = s->used_then = 0;
}

void slab_clear(struct slab *s)
{
    if (s->freed != 0)
        memset(slab_map(s), 0, class_map_words(s->class) * sizeof(uint64_t));
    s->freed = 0;
    s->lowest = UINT32_MAX;
}

void slab_restart(struct slab *s)
{
    slab_clear(s);
    s->carved = 0;
}

static bool is_free(const struct slab *s, const uint64_t *map, uint32_t index)
{
    return index >= s->carved || (map[index / 64] >> (index % 64) & 1) != 0;
}

static uint32_t take_freed(struct slab *s, void **out, uint32_t n)
{
    if (s->freed == 0)
        return 0;
    uint64_t *map = slab_map(s);
    size_t size = hak_classes[s->class].size;
    uint32_t wanted = n < s->freed ? n : s->freed, word = s->lowest;
    char *base = slab_base(s) + (size_t)word * 64 * size;
    void **end = out + wanted;
    for (; out != end; word++, base += 64 * size) {
        uint64_t bits = map[word];
        for (; bits != 0 && out != end; bits &= bits - 1)
            *out++ = base + lowest_bit(bits) * size;
        map[word] = bits;
        s->lowest = word;
    }
    s->freed -= wanted;
    if (s->freed == 0)
        s->lowest = UINT32_MAX;
    return wanted;
}

uint32_t slab_take(struct slab *s, void **out, uint32_t n)
{
    uint32_t taken = take_freed(s, out, n);
    const struct class_info *c = &hak_classes[s->class];
    char *next = slab_frontier(s);
    uint32_t carve = c->capacity - s->carved;
    if (carve > n - taken)
        carve = n - taken;
    for (uint32_t i = 0; i < carve; i++, next += c->size) {
        out[taken + i] = next;
        if (HAK_SECURE && !s->zeroed) /* says nothing yet: front/secure.h */
            memset(next + c->size - sizeof(uint64_t), 0, sizeof(uint64_t));
    }
    s->carved += carve;
    if (s->high < s->carved)
        s->high = s->carved;
    taken += carve;
    s->used += taken;
    return taken;
}

uint32_t slab_touched_units(const struct slab *s)
{
    size_t bytes = (size_t)s->high * hak_classes[s->class].size;
    return (uint32_t)((bytes + UNIT_SIZE - 1) >> UNIT_SHIFT);
}

/* ---- purge ---- */

/* Of the free blocks from one to another, the pages that lie in no other block. */
static size_t purge_blocks(const struct slab *s, uint32_t from, uint32_t to)
{
    size_t size = hak_classes[s->class].size, page = hak_region.page_size;
    size_t first = round_up(from * size, page), end = to * size & ~(page - 1);
    return end > first && os_purge(slab_base(s) + first, end - first) ? end - first : 0;
}

static size_t purge_free_blocks(const struct slab *s)
{
    const uint64_t *map = slab_map(s);
    size_t bytes = 0;
    for (uint32_t i = 0, from; i < s->high; i++) {
        for (from = i; i < s->high && is_free(s, map, i); i++)
            ;
        bytes += purge_blocks(s, from, i);
    }
    return bytes;
}

_Static_assert(WIDE_WORDS * 64 < UINT16_MAX, "used_then holds every number of blocks");

HAK_COLD size_t slab_purge(struct slab *s)
{
    size_t page = hak_region.page_size, before = s->purged;
    size_t free = (size_t)(s->freed + s->high - s->carved) * hak_classes[s->class].size;
    if (free < page || s->used_then == s->used + 1)
        return 0;
    s->used_then = (uint16_t)(s->used + 1);
    s->purged = (uint16_t)(purge_free_blocks(s) / page);
    return s->purged > before ? (s->purged - before) * page : 0;
}

/* ---- what the live area shows ---- */

enum { KIND_BITS = 4, AT_BITS = 4 };

static uint32_t shown_as(enum unit_kind kind, uint32_t at, size_t number)
{
    return (uint32_t)kind | at << KIND_BITS | (uint32_t)number << (KIND_BITS + AT_BITS);
}

static uint32_t what_lies_in(size_t unit)
{
    const struct slab *s = slab_at(unit);
    uintptr_t word = unit_word(unit);
    if (word_is_of_slab(word)) {
        s = slab_of_unit(unit); /* the line of a further unit has no class */
        return shown_as(UNIT_SLAB, s->class >= FIRST_PAGED ? s->run_at : 0, s->class);
    }
    switch (word) {
    case WORD_HEAP:
        return shown_as(UNIT_HEAP, 0, 0);
    case WORD_SAMPLED:
        return shown_as(UNIT_SAMPLED, 0, 0);
    case WORD_RUN:
        return shown_as(UNIT_RUN, s->run_at, s->size / hak_region.page_size);
    case WORD_BIG:
        return shown_as(UNIT_BIG, 0, s->granules);
    default:
        return 0;
    }
}

static void show_in(struct live_area *a, size_t unit, uint32_t what)
{
    store_relaxed(&a->units[unit].what, what);
    live_raise_used(a, LIVE_TABLE_units, (uint32_t)unit + 1);
}

/* Whoever makes an area writes the same row from the line, and has a fence as well. If the maker's is the later one,
 * the line is read after it; if it is the earlier one there is an area here, and this row is stored after the
 * maker's. Without a fence between line and row both could be too old. */
void unit_show(size_t unit)
{
    if (!HAK_INSIGHT)
        return;
    uint32_t what = what_lies_in(unit);
    store_relaxed(&slab_at(unit)->shown, what);
    atomic_thread_fence(memory_order_seq_cst);
    struct live_area *a = live_area();
    if (a != NULL && unit < LIVE_ROWS_units)
        show_in(a, unit, what);
}

/* Its owner, who changes it meanwhile, shows it itself; what was read before and stored after that is found out by
 * looking again. */
static void show_in_new_area(struct live_area *a, size_t unit)
{
    const struct slab *s = slab_at(unit);
    uint32_t what = load_relaxed(&s->shown);
    for (uint32_t shown = 0; what != shown; what = load_relaxed(&s->shown)) {
        show_in(a, unit, shown = what);
        atomic_thread_fence(memory_order_seq_cst);
    }
}

void units_show(struct live_area *a)
{
    atomic_thread_fence(memory_order_seq_cst); /* see unit_show */
    for (size_t unit = 0; unit < region_top() * GRANULE_UNITS && unit < LIVE_ROWS_units; unit++)
        show_in_new_area(a, unit);
}
