#include "profile/arena.h"

#include "os/os.h"
#include "slab/slab.h"
#include "super/super.h"

enum {
    PIECE = 16,
    PIECES = UNIT_SIZE / PIECE,
    WORD_PIECES = 64,
    WORDS = PIECES / WORD_PIECES,
};

_Static_assert(FIRST_PAGED < UINT8_MAX, "a class fits");

/* A unit of the arena, at the index that the unit's line names as `next`. */
struct arena_unit {
    uint32_t unit;        /* index + 1; 0: none */
    uint32_t used;        /* pieces */
    uint32_t tight;       /* no room for so many pieces was found since the last block was freed */
    uint32_t high;        /* pieces below it may have been written to */
    bool zeroed;          /* the others read as zeros */
    uint64_t bits[WORDS]; /* pieces in use */
};

/* Of a unit's pieces: the class + 1 of the block that starts there, 0 if none does. Changed under the lock, read by
 * who has the block. */
struct starts {
    _Alignas(PIECES) _Atomic uint8_t class_at[PIECES];
};

/* Downwards from the end: the first one shares a page with the sampler's small tables (cmake/layout.ld). */
__attribute__((section(".bss.sampler_units"))) static struct arena_unit units[ARENA_UNITS_MOST];
__attribute__((section(".bss.sampler_starts"))) static struct starts starts[ARENA_UNITS_MOST];
static uint32_t unit_count;    /* that there are */
static uint32_t first_unknown; /* entries from here on have never been used */

static struct arena_unit *unit_number(uint32_t i)
{
    return &units[ARENA_UNITS_MOST - 1 - i];
}

static struct starts *starts_of(const struct arena_unit *u)
{
    return &starts[ARENA_UNITS_MOST - 1 - (u - units)];
}

uint32_t arena_units(void)
{
    return unit_count;
}

/* Bits [from, from + n) of one word. */
static uint64_t mask_of(uint32_t from, uint32_t n)
{
    return (n == WORD_PIECES ? ~(uint64_t)0 : ((uint64_t)1 << n) - 1) << from;
}

enum change { SET, CLEAR };

static void mark(struct arena_unit *u, uint32_t first, uint32_t n, enum change to)
{
    u->used += to == SET ? n : 0 - n;
    while (n > 0) {
        uint32_t from = first % WORD_PIECES, here = WORD_PIECES - from < n ? WORD_PIECES - from : n;
        if (to == SET)
            u->bits[first / WORD_PIECES] |= mask_of(from, here);
        else
            u->bits[first / WORD_PIECES] &= ~mask_of(from, here);
        first += here;
        n -= here;
    }
}

/* What is looked for, as what is exclusive-or'd with a word of bits so that it shows. */
#define USED ((uint64_t)0)
#define FREE (~(uint64_t)0)

/* The first such piece of [first, end), or -1. */
static int32_t next_piece(const struct arena_unit *u, uint32_t first, uint32_t end, uint64_t kind)
{
    for (uint32_t at = first, here; at < end; at += here) {
        uint32_t from = at % WORD_PIECES;
        here = WORD_PIECES - from < end - at ? WORD_PIECES - from : end - at;
        uint64_t bits = (u->bits[at / WORD_PIECES] ^ kind) & mask_of(from, here);
        if (bits != 0)
            return (int32_t)(at - from + lowest_bit(bits));
    }
    return -1;
}

/* n free pieces from a multiple of `step` on, the lowest; -1: there are none. */
static int32_t find_pieces(const struct arena_unit *u, uint32_t n, uint32_t step)
{
    int32_t free, used;
    for (uint32_t first = 0; (free = next_piece(u, first, PIECES, FREE)) >= 0;
         first = (uint32_t)used) {
        uint32_t from = (uint32_t)round_up((size_t)free, step);
        if (from + n > PIECES)
            break;
        used = next_piece(u, from, from + n, USED);
        if (used < 0)
            return (int32_t)from;
    }
    return -1;
}

static uint32_t pieces_of(uint32_t class)
{
    return (hak_classes[class].size + PIECE - 1) / PIECE;
}

static void *take_from(struct arena_unit *u, uint32_t class, bool *zeroed)
{
    uint32_t n = pieces_of(class), step = n & (0 - n);
    int32_t first = n < u->tight ? find_pieces(u, n, step) : -1;
    if (first < 0) {
        u->tight = n < u->tight ? n : u->tight;
        return NULL;
    }
    mark(u, (uint32_t)first, n, SET);
    store_relaxed(&starts_of(u)->class_at[first], (uint8_t)(class + 1));
    *zeroed = u->zeroed && (uint32_t)first >= u->high;
    if (u->high < (uint32_t)first + n)
        u->high = (uint32_t)first + n;
    return (char *)unit_address(u->unit - 1) + (size_t)first * PIECE;
}

static struct arena_unit *add_unit(void)
{
    uint32_t i = 0;
    while (i < first_unknown && unit_number(i)->unit != 0)
        i++;
    if (i == ARENA_UNITS_MOST)
        return NULL;
    bool zeroed;
    ptrdiff_t unit = units_take(1, &zeroed);
    if (unit < 0)
        return NULL;
    struct arena_unit *u = unit_number(i);
    u->unit = (uint32_t)unit + 1;
    u->zeroed = zeroed;
    u->high = 0;
    u->tight = PIECES + 1;
    slab_at((size_t)unit)->next = i;
    unit_set_word((size_t)unit, WORD_SAMPLED);
    unit_show((size_t)unit);
    if (i == first_unknown)
        first_unknown++;
    unit_count++;
    return u;
}

void *arena_take(uint32_t class, bool *zeroed)
{
    for (uint32_t i = 0; i < first_unknown; i++) {
        struct arena_unit *u = unit_number(i);
        void *p = u->unit != 0 ? take_from(u, class, zeroed) : NULL;
        if (p != NULL)
            return p;
    }
    struct arena_unit *u = add_unit();
    return u != NULL ? take_from(u, class, zeroed) : NULL;
}

static uint32_t piece_of(const void *p)
{
    return (uint32_t)(((uintptr_t)p & (UNIT_SIZE - 1)) / PIECE);
}

static struct arena_unit *unit_with(const void *p)
{
    return unit_number(slab_at(unit_of(p))->next);
}

size_t arena_usable(const void *p)
{
    const struct starts *here = starts_of(unit_with(p));
    uint8_t start = (uintptr_t)p % PIECE == 0 ? load_relaxed(&here->class_at[piece_of(p)]) : 0;
    return start != 0 ? hak_classes[start - 1].size : 0;
}

uintptr_t arena_block_around(uintptr_t at, size_t *size)
{
    uint32_t i = slab_at(unit_of((void *)at))->next;
    if (i >= ARENA_UNITS_MOST)
        return 0;
    for (uint32_t piece = piece_of((void *)at) + 1; piece-- > 0;) {
        uint8_t start = load_relaxed(&starts[i].class_at[piece]);
        if (start == 0)
            continue;
        uintptr_t block = (at & ~(uintptr_t)(UNIT_SIZE - 1)) + (uintptr_t)piece * PIECE;
        *size = hak_classes[start - 1].size;
        return at - block < *size ? block : 0;
    }
    return 0;
}

/* A sample of 16 KiB and more has a unit for itself, which comes and goes with it. The lowest ones are taken first: their starts stay,
 * without a call of the kernel and a fault for each. */
enum { EARLY_UNITS = 16 };

static void give_unit(struct arena_unit *u)
{
    size_t unit = u->unit - 1;
    u->unit = 0;
    unit_count--;
    unit_set_word(unit, WORD_NONE);
    unit_show(unit);
    bool is_early = u >= unit_number(EARLY_UNITS - 1);
    if (!is_early && hak_region.page_size == sizeof *starts) /* it is all zeros */
        (void)os_purge(starts_of(u), sizeof *starts);
    units_give(unit, 1, 1);
}

void arena_give(void *p)
{
    struct arena_unit *u = unit_with(p);
    _Atomic uint8_t *start = &starts_of(u)->class_at[piece_of(p)];
    uint32_t n = pieces_of(load_relaxed(start) - 1U);
    store_relaxed(start, (uint8_t)0);
    mark(u, piece_of(p), n, CLEAR);
    u->tight = PIECES + 1;
    if (u->used == 0 && unit_count > 1) /* the last one stays: samples come and go */
        give_unit(u);
}
