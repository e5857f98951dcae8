/* Shared by the unit tests of big blocks: blocks with a stamp on each page, and an empty cache to begin with. */
#ifndef HAK_TESTS_UNIT_BIG_BLOCKS_H
#define HAK_TESTS_UNIT_BIG_BLOCKS_H

#include "unit.h"

#include "big/big.h"
#include "control/options.h"

static inline int set_up(void **state)
{
    (void)state;
    return region_init() ? 0 : -1;
}

/* Each test starts with an empty cache and the usual settings. */
static inline int empty_cache(void **state)
{
    (void)state;
    big_purge(0);
    hak_options.whale_capacity = 512;
    hak_options.retain = 2 * MIB;
    hak_options.retain_max = 32 * MIB;
    return big_cached_bytes() == 0 ? 0 : -1;
}

static inline void *alloc(size_t size)
{
    bool zeroed;
    void *p = big_alloc(size, 1, BIG_PLAIN, &zeroed);
    assert_non_null(p);
    return p;
}

static inline void release(void *p)
{
    assert_true(big_free(unit_of(p)));
}

/* In each 4 KiB where in the block they are. */
static inline void stamp(void *p, size_t size)
{
    for (size_t at = 0; at < size; at += 4096)
        *(size_t *)(void *)((char *)p + at) = at + 1;
}

static inline bool has_stamp(void *p, size_t size)
{
    for (size_t at = 0; at < size; at += 4096) {
        if (*(size_t *)(void *)((char *)p + at) != at + 1)
            return false;
    }
    return true;
}

/* Blocks that are no neighbours: each is followed by one that stays. */
static inline void alloc_apart(void **blocks, void **between, size_t n, size_t size)
{
    for (size_t i = 0; i < n; i++) {
        blocks[i] = alloc(size);
        between[i] = alloc(2 * MIB);
    }
}

static inline void release_all(void **blocks, size_t n)
{
    for (size_t i = 0; i < n; i++)
        release(blocks[i]);
}

#endif
