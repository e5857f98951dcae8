/* Rows: blocks of one slab of one unit that come back together (slab.h). With the lock of the slab's heap held. */
#include "slab/slab.h"

/* What the slab's blocks have in common. */
struct row {
    const char *base;
    size_t end; /* offset of the frontier */
    uint64_t reciprocal;
    void *const *blocks;
};

/* Index of the last of n blocks; ROW_ENDS: there is none, or it does not start below the frontier. As class_block_place, in 64
 * bits: the loop is shorter. */
#define ROW_ENDS UINT64_MAX
HAK_INLINE uint64_t last_index(const struct row *r, size_t n)
{
    if (n == 0)
        return ROW_ENDS;
    size_t offset = (size_t)((const char *)r->blocks[n - 1] - r->base);
    uint64_t product = offset * r->reciprocal;
    bool starts = (uint32_t)product < (uint32_t)r->reciprocal;
    return offset < r->end && starts ? product >> 32 : ROW_ENDS;
}

/* The last of n blocks and those before it, as long as they move the frontier. Returns how many are left. */
static size_t put_at_frontier(struct slab *s, const uint64_t *map, void *const *blocks, size_t n)
{
    size_t size = hak_classes[s->class].size;
    const char *last = slab_frontier(s) - size;
    uint32_t index = s->carved - 1;
    for (; n > 0 && s->carved > 0 && blocks[n - 1] == last; n--, last -= size, index--) {
        if (s->freed != 0 && (map[index / 64] >> (index % 64) & 1) != 0)
            break;
        s->carved = index;
    }
    return n;
}

/* The last of n blocks, of that index, and those before it whose bits are in the same word of the map: that stays in a register, so
 * that none waits for what the one before it has stored. Stops before one that is free already. Returns how many are left. */
static size_t put_in_word(const struct row *r, uint64_t *map, size_t n, uint64_t index)
{
    uint64_t at = index / 64, word = map[at];
    do {
        uint64_t bit = (uint64_t)1 << (index % 64);
        if ((word & bit) != 0)
            break;
        word |= bit;
        index = last_index(r, --n);
    } while (index / 64 == at);
    map[at] = word;
    return n;
}

/* The last of n blocks and those before it, as long as they lie below the frontier; those at it as well. Returns how many are left. */
static size_t put_in_map(struct slab *s, uint64_t *map, void *const *blocks, size_t n)
{
    const struct class_info *c = &hak_classes[s->class];
    const struct row r = {unit_address(slab_unit(s)), (size_t)s->carved * c->size, c->reciprocal,
                          blocks};
    uint64_t index;
    while ((index = last_index(&r, n)) != ROW_ENDS) {
        size_t left = put_in_word(&r, map, n, index);
        if (left == n)
            break;
        if (s->lowest > index / 64)
            s->lowest = (uint32_t)(index / 64);
        s->freed += (uint32_t)(n - left);
        n = left;
    }
    return n;
}

size_t slab_put_row(struct slab *s, void *const *blocks, size_t n)
{
    uint64_t *map = slab_map(s);
    return n - put_in_map(s, map, blocks, put_at_frontier(s, map, blocks, n));
}
