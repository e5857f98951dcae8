#include "mind/touch.h"

#include "control/options.h"
#include "mind/keys.h"
#include "os/os.h"

/* Values of the setting `huge_blocks`, in the order of its words. */
enum { BLOCKS_OFF, BLOCKS_ALWAYS, BLOCKS_SHADOW, BLOCKS_LEARNT, BLOCKS_SHUFFLED };

enum {
    LOOKED_ENOUGH = 4,  /* blocks after which there is a decision */
    LOOK_EVERY = 64,    /* then one of so many is looked at */
    WHOLE = 256,        /* share of a block's pages: */
    WHOLE_FROM = 240,   /* from here on it is touched as a whole, */
    WHOLE_BELOW = 224,  /* and below this not any more */
    NEW_SHARE = 4,      /* of what is known: a new look or price counts for one part of so many */
    FAR_ABOVE = 4,      /* times the price so far */
    OTHER_EVERY = 32,   /* of one of so many blocks the first 2 MiB have the dearer pages, */
    OTHER_TURN = 1,     /* in this turn */
    CHEAPER_SHARE = 8,  /* huge pages are chosen if they are cheaper by a part in so many */
    GRANULES_LOOKED = 4 /* of a block, evenly spread */
};

/* What is known of a size, in one word so that it changes as a whole: the share of pages touched, looks, and
 * whether it is touched as a whole. */
enum { SHARE_BITS = 9, LOOKS_BITS = 8 };
#define IS_WHOLE ((uint32_t)1 << (SHARE_BITS + LOOKS_BITS))

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

/* ---- what the first touch costs ---- */

/* Of 2 MiB, in ns; 0: not known. Relaxed, as above. */
static _Atomic uint64_t small_price, huge_price;
static _Atomic bool huge_is_cheaper;

static bool is_huge_cheaper(uint64_t small, uint64_t huge, bool before)
{
    if (small == 0 || huge == 0)
        return before;
    return before ? huge <= small : huge + small / CHEAPER_SHARE < small;
}

/* One that is far above the others counts as that: the kernel had something else to do. */
static uint64_t new_price(uint64_t before, uint64_t ns)
{
    if (before == 0)
        return ns;
    return (before * (NEW_SHARE - 1) + least_of(ns, before * FAR_ABOVE)) / NEW_SHARE;
}

bool touch_note_price(enum big_pages pages, uint64_t ns, struct decision *d)
{
    _Atomic uint64_t *price = pages == BIG_HUGE ? &huge_price : &small_price;
    store_relaxed(price, new_price(load_relaxed(price), ns));
    uint64_t small = load_relaxed(&small_price), huge = load_relaxed(&huge_price);
    bool was = load_relaxed(&huge_is_cheaper), is = is_huge_cheaper(small, huge, was);
    store_relaxed(&huge_is_cheaper, is);
    *d = (struct decision){
        .policy = POLICY_HUGE, .from = was, .to = is, .reused_kib = huge, .seen_kib = small};
    return was != is;
}

bool touch_try(void *block, enum big_pages pages, struct decision *d)
{
    static _Atomic uint32_t turn;
    if (option(huge_blocks) < BLOCKS_LEARNT || (pages != BIG_HUGE && pages != BIG_SMALL))
        return false;
    if (add_relaxed(&turn, 1) % OTHER_EVERY == OTHER_TURN) {
        pages = pages == BIG_HUGE ? BIG_SMALL : BIG_HUGE;
        os_advise_huge(block, GRANULE_SIZE, pages == BIG_HUGE);
    }
    uint64_t before = os_thread_ns();
    return os_prefault(block, GRANULE_SIZE) && touch_note_price(pages, os_thread_ns() - before, d);
}

/* ---- plans ---- */

static bool is_whole(uint16_t key)
{
    return (load_relaxed(&sizes[key].known) & IS_WHOLE) != 0;
}

/* Of a fresh block, whether it is one that is looked at when it is freed. */
static bool is_to_be_looked_at(uint16_t key)
{
    uint32_t turn = add_relaxed(&sizes[key].fresh, 1);
    return looks_of(load_relaxed(&sizes[key].known)) < LOOKED_ENOUGH || turn % LOOK_EVERY == 0;
}

static enum big_pages learnt_plan(uint16_t key, bool grows)
{
    if (!grows && is_to_be_looked_at(key))
        return BIG_LOOKED_AT;
    if (option(huge_blocks) == BLOCKS_SHUFFLED)
        key = shuffled(key);
    if (!is_whole(key) || option(huge_blocks) == BLOCKS_SHADOW)
        return BIG_PLAIN;
    return load_relaxed(&huge_is_cheaper) ? BIG_HUGE : BIG_SMALL;
}

enum big_pages touch_plan(size_t size, bool grows)
{
    if (size < GRANULE_SIZE || !option(huge_pages) || option(huge_blocks) == BLOCKS_OFF)
        return BIG_PLAIN;
    if (option(huge_blocks) == BLOCKS_ALWAYS)
        return BIG_HUGE;
    return option(learn) ? learnt_plan(keep_key_of_size(size), grows) : BIG_PLAIN;
}

uint32_t touch_cost(uint16_t key)
{
    uint64_t small = load_relaxed(&small_price), huge = load_relaxed(&huge_price);
    if (!is_whole(key) || !load_relaxed(&huge_is_cheaper) || huge >= small)
        return TOUCH_COST_SMALL;
    return (uint32_t)(huge * TOUCH_COST_SMALL / small);
}

/* ---- which share is touched ---- */

/* Of WHOLE, in the granules looked at. */
static uint32_t touched_share(char *block, size_t size)
{
    size_t granules = size / GRANULE_SIZE, looked = least_of(granules, GRANULES_LOOKED), pages = 0;
    if (looked == 0)
        return 0; /* there are no plans for any so small */
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
    bool whole = (known & IS_WHOLE) != 0;
    looks += looks < LOOKED_ENOUGH;
    if (looks == LOOKED_ENOUGH)
        whole = mean >= (whole ? WHOLE_BELOW : WHOLE_FROM);
    return mean | looks << SHARE_BITS | (whole ? IS_WHOLE : 0);
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
                           .from = (before & IS_WHOLE) != 0,
                           .to = (after & IS_WHOLE) != 0,
                           .episodes = looks_of(after),
                           .reused_kib = share_of(after),
                           .seen_kib = WHOLE,
                           .is_shadow = option(huge_blocks) == BLOCKS_SHADOW};
    return d->from != d->to;
}
