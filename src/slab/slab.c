#include "slab/slab.h"

#include <string.h>

#include "live/live.h"
#include "os/os.h"

#define CAPACITY(size, units) ((size) > UNIT_SIZE ? 1 : (uint16_t)((units)*UNIT_SIZE / (size)))
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
                       ((index) < FIRST_MAPPED || CAPACITY(size, units) <= MAP_WORDS * 64) &&      \
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

/* The salt lies above the bits in which two addresses of a unit differ. */
static void begin_list(struct slab *s)
{
    static _Atomic uint64_t begun;
    s->free = NULL; /* or no bit set, and none before word 0 */
    if (s->class < FIRST_MAPPED)
        s->salt = add_relaxed(&begun, 1) << UNIT_SHIFT;
}

void slab_init(size_t unit, uint32_t class, struct heap *owner, bool zeroed)
{
    uint32_t units = hak_classes[class].units;
    for (uint32_t i = 0; i < units; i++)
        slab_at(unit + i)->back = (uint8_t)i;
    struct slab *s = slab_at(unit);
    s->class = (uint8_t) class;
    begin_list(s);
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
    if (slab_is_mapped(s) && s->freed != 0)
        memset(slab_map(s), 0, MAP_WORDS * sizeof(uint64_t));
}

void slab_restart(struct slab *s)
{
    slab_clear(s);
    begin_list(s);
    s->carved = 0;
}

/* The links are the program's to destroy: none is followed that leaves the slab, and never more than there are blocks. */
HAK_COLD bool slab_lists(const struct slab *s, const void *p, bool *damaged)
{
    const struct block *b = s->free;
    *damaged = false;
    for (uint32_t n = 0; b != NULL && n < hak_classes[s->class].capacity; n++) {
        if (!slab_block_starts_at(s, b)) {
            *damaged = true;
            return false;
        }
        if (b == p) {
            *damaged = !block_looks_linked(s, b);
            return true;
        }
        b = link_code(s, b, __atomic_load_n(&b->next, __ATOMIC_RELAXED));
    }
    return false;
}

bool slab_has_listed(const struct slab *s, const void *p)
{
    bool damaged;
    return s->free != NULL && HAK_UNLIKELY(block_looks_linked(s, p)) && slab_lists(s, p, &damaged);
}

/* Index of the block that starts at an offset, if it is below `carved`; else that. */
HAK_INLINE uint32_t index_below(const struct class_info *c, size_t offset, uint32_t carved)
{
    uint32_t index = class_block_index(c, offset);
    return index < carved && (size_t)index * c->size == offset ? index : carved;
}

/* The loops have what they change of the slab in variables: the compiler cannot know that blocks are none of it. */
HAK_INLINE size_t put_listed(struct slab *s, void *const *blocks, size_t n)
{
    const struct class_info c = hak_classes[s->class];
    const char *base = unit_address(slab_unit(s));
    const struct slab codes = {.salt = s->salt};
    struct block *free = s->free;
    uint32_t carved = s->carved, index;
    size_t left = n, offset;
    for (; left > 0; left--) {
        struct block *b = blocks[left - 1];
        if ((offset = (size_t)((char *)b - base)) >= UNIT_SIZE ||
            (index = index_below(&c, offset, carved)) == carved ||
            (free != NULL && block_looks_linked(&codes, b)))
            break;
        if (index + 1 == carved) {
            carved = index;
        } else {
            b->next = link_code(&codes, b, free);
            free = b;
        }
    }
    s->free = free;
    s->carved = carved;
    return n - left;
}

HAK_INLINE size_t put_mapped(struct slab *s, void *const *blocks, size_t n)
{
    const struct class_info c = hak_classes[s->class];
    const char *base = unit_address(slab_unit(s));
    uint64_t *map = slab_map(s);
    uint32_t carved = s->carved, lowest = s->lowest, freed = 0, index;
    size_t left = n, offset;
    for (; left > 0; left--) {
        if ((offset = (size_t)((char *)blocks[left - 1] - base)) >= UNIT_SIZE ||
            (index = index_below(&c, offset, carved)) == carved)
            break;
        uint64_t bit = (uint64_t)1 << (index % 64), *word = &map[index / 64];
        if ((*word & bit) != 0)
            break;
        if (index + 1 == carved) {
            carved = index;
            continue;
        }
        *word |= bit;
        freed++;
        if (lowest > index / 64)
            lowest = index / 64;
    }
    s->carved = carved;
    s->lowest = lowest;
    s->freed += freed;
    return n - left;
}

size_t slab_put_row(struct slab *s, void *const *blocks, size_t n)
{
    return slab_is_mapped(s) ? put_mapped(s, blocks, n) : put_listed(s, blocks, n);
}

HAK_COLD void die_overwritten(const struct block *b)
{
    os_fatal(
        "malloc: the free block %p has been overwritten: written to after it was freed, or from "
        "beside it",
        (uintptr_t)b);
}

/* The word is cleared, so that the block does not look as if it were free when it comes back. */
static uint32_t take_listed(struct slab *s, void **out, uint32_t n)
{
    uint32_t taken = 0, most = s->carved - s->used;
    struct block *b = s->free;
    for (; taken < n && b != NULL; taken++) {
        if (HAK_UNLIKELY(!block_looks_linked(s, b) || taken == most))
            die_overwritten(b);
        struct block *next = link_code(s, b, b->next);
        b->next = NULL;
        out[taken] = b;
        b = next;
    }
    s->free = b;
    return taken;
}

static uint32_t take_mapped(struct slab *s, void **out, uint32_t n)
{
    uint64_t *map = slab_map(s);
    char *base = slab_base(s);
    size_t size = hak_classes[s->class].size;
    uint32_t taken = 0, wanted = n < s->freed ? n : s->freed, word = s->lowest;
    for (; taken < wanted; word++) {
        uint64_t bits = map[word];
        for (; bits != 0 && taken < wanted; bits &= bits - 1)
            out[taken++] = base + (word * 64 + lowest_bit(bits)) * size;
        map[word] = bits;
        s->lowest = word;
    }
    s->freed -= taken;
    return taken;
}

uint32_t slab_take(struct slab *s, void **out, uint32_t n)
{
    uint32_t taken = slab_is_mapped(s) ? take_mapped(s, out, n) : take_listed(s, out, n);
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

static bool is_free(const struct slab *s, const uint64_t *map, uint32_t index)
{
    return index >= s->carved || (map[index / 64] >> (index % 64) & 1) != 0;
}

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

_Static_assert(MAP_WORDS * 64 < UINT16_MAX, "used_then holds every number of blocks");

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
    if (word > WORD_TAG_MAX) {
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
