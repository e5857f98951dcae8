/* Slabs: one or more units cut into blocks of one size class. All that is known about a slab stands
 * in the 64-byte line of its first unit, out of reach of the blocks' users.
 *
 * Everything here is called with the owning heap's lock held, except where it says otherwise.
 * Calls: region (addresses), live, os. Called by: heap, profile, and for a unit's line pages, big, region. */
#ifndef HAK_SLAB_H
#define HAK_SLAB_H

#include "region/region.h"

struct heap;

enum size_class {
#define CLASS(index, from, size, units, slots) CLASS_##index = index,
#include "slab/size_classes.def"
#undef CLASS
    CLASS_COUNT
};

struct class_info {
    uint32_t size;
    uint32_t reciprocal; /* ceil(2^32 / size): offset -> block index without a division */
    uint16_t capacity;   /* blocks per slab */
    uint8_t units;
    uint8_t slots; /* of its magazine at first */
};

extern const struct class_info hak_classes[CLASS_COUNT] __attribute__((visibility("hidden")));

/* A free block on its way, linked through its first word: how, is who links it to say. */
struct block {
    struct block *next;
};

/* What is known of a slab's freed blocks: a bit for each, in the region's side array, so that none of them is touched
 * while it is free (it may have been for long, or in another thread's cache), and a second free of one is known. A
 * unit has a wide map for blocks of less than 64 bytes, and a narrow one for all others. */
enum { FIRST_NARROW = CLASS_4, NARROW_WORDS = 16, WIDE_WORDS = 64 };

/* From here on a slab is several units. */
enum { FIRST_OF_UNITS = CLASS_57 };

/* From here on a slab is one block, of pages and not of units, and starts at any page. At most one starts in a
 * unit. */
enum { FIRST_PAGED = CLASS_81 };

struct slab {
    /* Owner, under its heap's lock. */
    _Alignas(64) uint32_t freed; /* bits of its map that are set */
    uint32_t lowest;             /* no bit is set in words before this one */
    /* Owner; NULL: neither a slab nor an explicit heap's block. Changed under the old owner's lock, read by
     * anyone who has a live block of the slab. */
    _Atomic(struct heap *) heap;
    union {
        uint32_t used;  /* blocks handed out: in the program's hands or in a magazine */
        uint32_t dirty; /* of a new big block: granules from its start that may not be zero */
    };
    union {
        uint32_t carved;     /* blocks below this one have been cut; the frontier */
        uint32_t large_next; /* of an explicit heap's larger block: neighbours among those, ... */
    };
    union {
        uint32_t high;       /* highest frontier so far: what lies above has never been touched */
        uint32_t large_prev; /* ... unit index + 1, 0 ends the list */
    };
    /* Neighbours among the heap's slabs of the class with free blocks, or an explicit heap's full ones. Likewise. */
    uint32_t next;
    union {
        uint32_t prev;
        uint32_t touched; /* of a big block: pages that may have been, also behind its bytes */
    };
    uint8_t class;
    uint8_t back; /* units back to the slab's first unit */
    union {
        bool listed;   /* in that list: true unless no block is free */
        uint8_t pages; /* of a big block: big.h, enum big_pages; 0 if it is not fresh */
    };
    bool zeroed;    /* blocks not carved yet read as zeros */
    uint8_t run_at; /* page of the unit at which a run or paged slab starts; else 0 */
    /* Whether the sampler knows a run or big block: its owner's, or who has the block's. Or of how many blocks of an explicit
     * heap's slab it does: changed under the heap's lock. */
    _Atomic uint8_t sampled;
    uint16_t key; /* of a run or big block: mind/keep.h, if keys depend on the call stack */
    /* What the live area says of the unit. Stored by whom the unit belongs to, read by who makes an area. */
    _Atomic uint32_t shown;
    size_t size; /* of a run or big block, or of a slab of pages that is free: usable bytes */
    union {
        size_t granules; /* of a big block */
        struct { /* of a slab, at its last slab_purge: pages without a block, blocks in use + 1 */
            uint16_t purged, used_then;
        };
    };
};

_Static_assert(sizeof(struct slab) == 64, "one line per unit");

/* FIRST_DOUBLING: of the class behind that of STEPWISE_MAX, whose highest bit is DOUBLED_BIT. */
enum { STEPWISE_MAX = 256, DOUBLED_BIT = 8, FIRST_DOUBLING = 17, STEP_BITS = 3 };

/* Class for a request above STEPWISE_MAX: doubling k spans (256 << k, 512 << k] in eight steps. Those of one begin where the last
 * one's would go on: the bits of the step, with the highest bit before them, add up to that. */
HAK_INLINE uint32_t class_in_doublings(size_t size)
{
    uint32_t highest = 63 ^ (uint32_t)__builtin_clzll(size - 1);
    uint32_t steps = (uint32_t)((size - 1) >> (highest - STEP_BITS));
    return (highest << STEP_BITS) + steps + FIRST_DOUBLING - ((DOUBLED_BIT + 1) << STEP_BITS);
}

/* Class for a request of up to SLAB_MAX bytes. */
HAK_INLINE uint32_t class_for(size_t size)
{
    if (size <= 8)
        return 0;
    return size <= STEPWISE_MAX ? (uint32_t)((size + 15) / 16) : class_in_doublings(size);
}

/* Class whose blocks of `size` are all aligned to `alignment`, CLASS_COUNT if there is none. */
uint32_t class_for_aligned(size_t size, size_t alignment);

HAK_INLINE struct slab *slab_at(size_t unit)
{
    return hak_region.slabs - unit;
}

/* First unit of the slab a unit belongs to. Safe to call without the lock for a unit that holds a live block. */
HAK_INLINE size_t slab_first_unit(size_t unit)
{
    return unit - slab_at(unit)->back;
}

/* The slab itself. Likewise. */
HAK_INLINE struct slab *slab_of_unit(size_t unit)
{
    return slab_at(slab_first_unit(unit));
}

HAK_INLINE uint32_t class_map_words(uint32_t class)
{
    return class < FIRST_NARROW ? WIDE_WORDS : NARROW_WORDS;
}

/* The unit's map for blocks of the class: all zeros if it is no slab of such blocks, and it has none of pages. */
HAK_INLINE uint64_t *unit_map(size_t unit, uint32_t class)
{
    return class < FIRST_NARROW ? hak_region.maps - (unit + 1) * WIDE_WORDS
                                : hak_region.maps + unit * NARROW_WORDS;
}

HAK_INLINE size_t slab_unit(const struct slab *s)
{
    return (size_t)(hak_region.slabs - s);
}

HAK_INLINE uint64_t *slab_map(const struct slab *s)
{
    return unit_map(slab_unit(s), s->class);
}

HAK_INLINE char *slab_base(const struct slab *s)
{
    return (char *)unit_address(slab_unit(s)) + s->run_at * hak_region.page_size;
}

/* What a slab of the class occupies. */
HAK_INLINE size_t class_slab_bytes(uint32_t class)
{
    const struct class_info *c = &hak_classes[class];
    return class < FIRST_PAGED ? c->units * UNIT_SIZE : round_up(c->size, hak_region.page_size);
}

/* What its blocks take of that: half of it where the map has no more bits. */
HAK_INLINE size_t class_block_bytes(uint32_t class)
{
    return (size_t)hak_classes[class].capacity * hak_classes[class].size;
}

/* Kinds of what the live area's table `units` says. */
enum unit_kind { UNIT_SLAB = 1, UNIT_HEAP, UNIT_SAMPLED, UNIT_RUN, UNIT_BIG };

/* Shows in the live area, and in the line for areas to come, what lies in a unit, by its word and its line. Its
 * owner, after a change of either. */
void unit_show(size_t unit);

/* The same for all units there are, in a new area. */
void units_show(struct live_area *a);

/* Makes unused units a slab of the class, and an empty slab unused. */
void slab_init(size_t unit, uint32_t class, struct heap *owner, bool zeroed);
void slab_clear(struct slab *s);

/* Makes an empty slab as it was at first, but that its pages are there. */
void slab_restart(struct slab *s);

/* Index of the block that starts at an offset. Exact for multiples of the size; for others it may be one
 * too high, which multiplying back shows. */
HAK_INLINE uint32_t class_block_index(const struct class_info *c, size_t offset)
{
    return (uint32_t)(((uint64_t)offset * c->reciprocal) >> 32);
}

/* Index of the block that an offset in a slab of one unit lies in, and whether it starts there: if and only if the fraction is below
 * the reciprocal (Lemire, Kaser and Kurz, Faster remainder by direct computation, 2019; 32 bits of it are enough for 16 of offset and
 * 16 of size). */
struct block_place {
    uint32_t index;
    bool starts;
};
HAK_INLINE struct block_place class_block_place(const struct class_info *c, size_t offset)
{
    uint64_t product = (uint64_t)offset * c->reciprocal;
    return (struct block_place){(uint32_t)(product >> 32), (uint32_t)product < c->reciprocal};
}

/* Whether a block starts at an offset from the start of any slab of the class. */
HAK_INLINE bool class_block_starts_at(uint32_t class, size_t offset)
{
    const struct class_info *c = &hak_classes[class];
    uint32_t index = class_block_index(c, offset);
    return index < c->capacity && (size_t)index * c->size == offset;
}

/* Whether a block of the slab's class starts at p. Safe to call without the lock for a slab that
 * holds a live block. */
HAK_INLINE bool slab_block_starts_at(const struct slab *s, const void *p)
{
    return class_block_starts_at(s->class, (size_t)((const char *)p - slab_base(s)));
}

/* Takes up to n blocks: freed ones by address, then untouched ones by address. They are put at out[0..]; returns how
 * many. */
uint32_t slab_take(struct slab *s, void **out, uint32_t n);

/* Address of the first block that is not cut. */
HAK_INLINE char *slab_frontier(const struct slab *s)
{
    return slab_base(s) + (size_t)s->carved * hak_classes[s->class].size;
}

/* The word of the slab's map with the block's bit, found once for both that follow. The slab starts at the unit and is
 * of the class. */
HAK_INLINE uint64_t *slab_word_of(size_t unit, uint32_t class, uint32_t index)
{
    return unit_map(unit, class) + index / 64;
}

/* Whether the block, which has been cut, is back in its slab. The only block of a slab of pages never is: it takes the slab
 * along. */
HAK_INLINE bool slab_knows_free(uint32_t class, const uint64_t *word, uint32_t index)
{
    return class < FIRST_PAGED && (*word >> (index % 64) & 1) != 0;
}

/* A block that is not known to be free becomes so, and is to be taken off `used`: below the frontier by moving that,
 * any other by its bit. */
HAK_INLINE void slab_put(struct slab *s, uint64_t *word, uint32_t index)
{
    if (index + 1 == s->carved) {
        s->carved = index;
        return;
    }
    *word |= (uint64_t)1 << (index % 64);
    s->freed++;
    if (s->lowest > index / 64)
        s->lowest = index / 64;
}

/* Of n blocks that come back to a slab of one unit: puts the last one, and of those before it as many as lie in the slab in
 * a row. What they have in common is looked up once. Stops before one that is none in use, which is for the caller to look
 * at. Returns how many, which are to be taken off `used`. */
size_t slab_put_row(struct slab *s, void *const *blocks, size_t n);

/* Whether the next block taken is untouched memory of a slab that came zeroed. */
HAK_INLINE bool slab_next_is_zeroed(const struct slab *s)
{
    return s->zeroed && s->freed == 0 && s->carved == s->high;
}

HAK_INLINE bool slab_is_full(const struct slab *s)
{
    return s->freed == 0 && s->carved == hak_classes[s->class].capacity;
}

/* Pages of the slab that its first n blocks lie in. */
HAK_INLINE uint32_t slab_touched_pages(const struct slab *s, uint32_t n)
{
    size_t bytes = (size_t)n * hak_classes[s->class].size;
    return (uint32_t)((bytes + hak_region.page_size - 1) >> __builtin_ctzl(hak_region.page_size));
}

/* Purges the pages of a slab of units on which no block lives and one may have, unless as many blocks are in
 * use as the last time. Returns by how many bytes that is more than then. */
size_t slab_purge(struct slab *s);

/* Units of the slab that blocks were carved from. */
uint32_t slab_touched_units(const struct slab *s);

#endif
