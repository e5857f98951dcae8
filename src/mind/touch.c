#include "mind/touch.h"

#include "control/options.h"
#include "mind/keep.h"
#include "os/os.h"

/* Values of the setting `huge_blocks`, in the order of its words. */
enum { BLOCKS_OFF, BLOCKS_ALWAYS, BLOCKS_SHADOW, BLOCKS_LEARNT, BLOCKS_SHUFFLED };

enum {
    LOOKED_ENOUGH = 4,  /* blocks after which there is a decision */
    LOOK_EVERY = 16,    /* then one of so many is looked at */
    WHOLE = 256,        /* share of a block's pages: */
    HUGE_FROM = 240,    /* from here on they are to be huge, */
    HUGE_BELOW = 224,   /* and below this not any more */
    NEW_SHARE = 4,      /* of what is known: a new look counts for one part of so many */
    GRANULES_LOOKED = 4 /* of a block, evenly spread */
};

/* What is known of a size, in one word so that it changes as a whole: the share of pages touched, looks, and
 * what was decided. */
enum { SHARE_BITS = 9, LOOKS_BITS = 8 };
#define IS_HUGE ((uint32_t)1 << (SHARE_BITS + LOOKS_BITS))

/* Relaxed: each is a guess, and publishes nothing else. */
static struct {
    _Atomic uint32_t known;
    _Atomic uint32_t fresh; /* blocks planned */
} sizes[KEEP_KEYS];

static uint32_t share_of(uint32_t known)
{
    return known & ((1U << SHARE_BITS) - 1);
}

static uint32_t looks_of(uint32_t known)
{
    return known >> SHARE_BITS & ((1U << LOOKS_BITS) - 1);
}

/* The size that the block before had. */
static uint16_t shuffled(uint16_t key)
{
    static _Atomic uint16_t last;
    uint16_t other = load_relaxed(&last);
    store_relaxed(&last, key);
    return other != 0 ? other : key;
}

static enum big_pages learnt_plan(uint16_t key)
{
    uint32_t turn = add_relaxed(&sizes[key].fresh, 1);
    if (looks_of(load_relaxed(&sizes[key].known)) < LOOKED_ENOUGH || turn % LOOK_EVERY == 0)
        return BIG_LOOKED_AT;
    if (hak_options.huge_blocks == BLOCKS_SHUFFLED)
        key = shuffled(key);
    bool huge = (load_relaxed(&sizes[key].known) & IS_HUGE) != 0;
    return huge && hak_options.huge_blocks != BLOCKS_SHADOW ? BIG_HUGE : BIG_PLAIN;
}

enum big_pages touch_plan(size_t size)
{
    if (size < GRANULE_SIZE || !hak_options.huge_pages || hak_options.huge_blocks == BLOCKS_OFF)
        return BIG_PLAIN;
    if (hak_options.huge_blocks == BLOCKS_ALWAYS)
        return BIG_HUGE;
    return hak_options.learn ? learnt_plan(keep_key_of_size(size)) : BIG_PLAIN;
}

/* Of WHOLE, in the granules looked at. */
static uint32_t touched_share(char *block, size_t size)
{
    size_t granules = size / GRANULE_SIZE, looked = least_of(granules, GRANULES_LOOKED), pages = 0;
    for (size_t i = 0; i < looked; i++) {
        size_t granule = looked > 1 ? i * (granules - 1) / (looked - 1) : 0;
        pages += os_resident_pages(block + granule * GRANULE_SIZE, GRANULE_SIZE);
    }
    return (uint32_t)(pages * hak_region.page_size * WHOLE / (looked * GRANULE_SIZE));
}

static uint32_t learnt(uint32_t known, uint32_t share)
{
    uint32_t looks = looks_of(known), before = share_of(known);
    uint32_t mean = looks == 0 ? share : (before * (NEW_SHARE - 1) + share) / NEW_SHARE;
    bool huge = (known & IS_HUGE) != 0;
    looks += looks < LOOKED_ENOUGH;
    if (looks == LOOKED_ENOUGH)
        huge = mean >= (huge ? HUGE_BELOW : HUGE_FROM);
    return mean | looks << SHARE_BITS | (huge ? IS_HUGE : 0);
}

bool touch_look(void *block, size_t size, struct decision *d)
{
    uint16_t key = keep_key_of_size(size);
    uint32_t share = touched_share(block, size), before = load_relaxed(&sizes[key].known), after;
    do {
        after = learnt(before, share);
    } while (!cas_relaxed(&sizes[key].known, &before, after));
    *d = (struct decision){.policy = POLICY_HUGE,
                           .key = key,
                           .from = (before & IS_HUGE) != 0,
                           .to = (after & IS_HUGE) != 0,
                           .episodes = looks_of(after),
                           .reused_kib = share_of(after),
                           .seen_kib = WHOLE,
                           .is_shadow = hak_options.huge_blocks == BLOCKS_SHADOW};
    return d->from != d->to;
}
