#include "super/super.h"

#include "base/probe.h"
#include "control/options.h"
#include "os/os.h"
#include "pressure/pressure.h"
#include "region/arrays.h"
#include "super/huge.h"

enum {
    ALL_FREE = -1,
    BITS = 64,
    PURGE_RUN = 4,                   /* units: 256 KiB */
    WHOLE_LEAST = GRANULE_UNITS / 2, /* dirty units, for a whole SuperSlab to be looked for */
    LOOKS = 32,                      /* at SuperSlabs that may be full, at once */
    MISSING_SHARE = 16               /* of its pages, one part in so many may be missing */
};

#define GROUPS (((size_t)1 << 42) / GRANULE_SIZE / BITS)

/* SuperSlabs of single units, of those in a large heap that are going to be filled, and of longer stretches. Those of the
 * second kind may have huge pages. */
enum kind { SINGLES, DENSE, STRETCHES, KINDS };

/* One bit per granule. `available`: has a free unit. `purgeable`: may have free dirty units. Both
 * are hints that err on the side of a look too many: a bit is set after the mask it stands for, and
 * whoever clears one looks at the mask again afterwards, unless all units are its own (release to set, acquire to
 * clear: either the clearer sees the new mask or the setter's bit comes later). Whoever reads one to take or to
 * purge claims the units before it does anything with them, and that acquires what counts. */
static struct group {
    _Atomic uint64_t available[KINDS];
    _Atomic uint64_t purgeable;
} super_groups[GROUPS];

struct super_counts hak_supers;
struct kept_counts hak_kept;
struct super hak_early_supers[EARLY_SUPERS];

static _Atomic uint64_t *purgeable_bits(size_t granule)
{
    return &super_groups[granule / BITS].purgeable;
}

HAK_INLINE void bit_set(_Atomic uint64_t *bits, size_t granule)
{
    or_release(bits, (uint64_t)1 << (granule % BITS));
}

HAK_INLINE void bit_clear(_Atomic uint64_t *bits, size_t granule)
{
    and_acquire(bits, ~((uint64_t)1 << (granule % BITS)));
}

HAK_INLINE _Atomic uint64_t *available_bits(size_t granule)
{
    return &super_groups[granule / BITS].available[load_relaxed(&super_at(granule)->kind)];
}

static uint32_t run_mask(uint32_t first, uint32_t n)
{
    return (uint32_t)((((uint64_t)1 << n) - 1) << first);
}

/* Bits at which n set bits in a row start. */
static uint32_t runs_in(uint32_t mask, uint32_t n)
{
    for (uint32_t have = 1; have < n && mask != 0;) {
        uint32_t step = n - have < have ? n - have : have;
        mask &= mask >> step;
        have += step;
    }
    return mask;
}

static void clear_available_if_full(size_t granule)
{
    struct super *s = super_at(granule);
    bit_clear(available_bits(granule), granule);
    /* model: relaxed would do, the clearing has acquired what the mask's setter released. */
    if (load_acquire(&s->free) != 0)
        bit_set(available_bits(granule), granule);
}

/* Takes exactly these units if all are free. acquire: whoever gave them has finished with them. */
static bool claim(size_t granule, uint32_t mask)
{
    struct super *s = super_at(granule);
    uint32_t free = load_relaxed(&s->free);
    do {
        if ((free & mask) != mask)
            return false;
    } while (!cas_weak_acquire(&s->free, &free, free & ~mask));
    if (free == mask)
        clear_available_if_full(granule);
    return true;
}

/* How many bits are set: their number in pairs, in fours and in bytes, which a product adds up (Warren, Hacker's Delight, 2nd edition, 5-1). The
 * compiler's own would come from a library of its, with a table. */
static HAK_NOINLINE uint32_t count_of(uint32_t mask)
{
    mask -= mask >> 1 & 0x55555555;
    mask = (mask & 0x33333333) + (mask >> 2 & 0x33333333);
    return ((mask + (mask >> 4)) & 0x0f0f0f0f) * 0x01010101 >> 24;
}

static void release(size_t granule, uint32_t mask)
{
    /* The word first: once its units are free the SuperSlab may become another kind's. */
    _Atomic uint64_t *bits = available_bits(granule);
    /* release: the last owner's accesses come before the next one's. */
    or_release(&super_at(granule)->free, mask);
    bit_set(bits, granule);
}

/* After a claim: accounts for it and says whether the units read as zeros. */
static bool taken_zeroed(size_t granule, uint32_t mask)
{
    uint32_t n = count_of(mask);
    uint32_t dirty = load_relaxed(&super_at(granule)->dirty) & mask;
    add_relaxed(&hak_supers.in_use, n);
    if (dirty != 0)
        sub_relaxed(&hak_supers.dirty, (size_t)count_of(dirty));
    return (load_relaxed(&super_at(granule)->written) & mask) == 0;
}

/* What is wanted of units: for which kind of use, how many in a row. */
struct want {
    enum kind kind;
    uint32_t n;
};

/* Units whose pages are there. Those of a huge page that nobody has written to are for who fills them. */
static uint32_t have_pages(struct super *s, enum kind kind)
{
    return load_relaxed(kind == DENSE ? &s->dirty : &s->written);
}

/* The lowest of these units; in the build `secure` chance decides where a slab lies, by half of SplitMix64 (Steele, Lea, Flood: Fast
 * Splittable Pseudorandom Number Generators, OOPSLA 2014). Of stretches it would leave room for fewer. */
static uint32_t choose(uint32_t units)
{
#if HAK_SECURE
    static _Atomic uint64_t turn;
    uint64_t random = hak_region.key ^ add_relaxed(&turn, 1) * UINT64_C(0x9e3779b97f4a7c15);
    random = (random ^ random >> 32) * UINT64_C(0xbf58476d1ce4e5b9);
    uint32_t skipped = (uint32_t)((random >> 32) * (uint64_t)count_of(units) >> 32);
    while (skipped-- != 0)
        units &= units - 1;
#endif
    return lowest_bit(units);
}

/* Units of a SuperSlab that all have pages, or failing that any if `clean` ones will do. */
static ptrdiff_t take_in(size_t granule, struct want want, bool clean, bool *zeroed)
{
    struct super *s = super_at(granule);
    uint32_t n = want.n;
    for (;;) {
        uint32_t free = load_relaxed(&s->free);
        uint32_t starts = runs_in(free & have_pages(s, want.kind), n);
        if (starts == 0 && clean)
            starts = runs_in(free, n);
        if (starts == 0)
            return REGION_NONE;
        uint32_t first = n == 1 ? choose(starts) : lowest_bit(starts);
        if (!claim(granule, run_mask(first, n)))
            continue;
        *zeroed = taken_zeroed(granule, run_mask(first, n));
        return (ptrdiff_t)(granule * GRANULE_UNITS + first);
    }
}

static ptrdiff_t take_of_kind(enum kind kind, struct want want, bool clean, bool *zeroed)
{
    size_t words = (region_top() + BITS - 1) / BITS;
    for (size_t w = 0; w < words; w++) {
        /* acquire: a granule that has come since the top was read is described by then.
         * model: its words are atomic and say that nothing is free, a miss like that of a bit not set yet. */
        uint64_t bits = load_acquire(&super_groups[w].available[kind]);
        if (!clean)
            bits &= load_relaxed(&super_groups[w].purgeable);
        for (; bits != 0; bits &= bits - 1) {
            ptrdiff_t got = take_in(w * BITS + lowest_bit(bits), want, clean, zeroed);
            if (got >= 0)
                return got;
        }
    }
    return REGION_NONE;
}

/* Units whose pages are there. A single one out of a SuperSlab of another kind is better than a page fault for each of its
 * pages. */
static ptrdiff_t take_dirty(struct want want, bool *zeroed)
{
    if (units_dirty() < want.n)
        return REGION_NONE;
    ptrdiff_t got = take_of_kind(want.kind, want, false, zeroed);
    for (enum kind other = SINGLES; got < 0 && want.n == 1 && other < KINDS; other++)
        if (other != want.kind)
            got = take_of_kind(other, want, false, zeroed);
    return got;
}

/* Which pages it is to have. A young heap has small ones: the first touch of a huge page would be a good part of all that
 * it does. */
static bool advise(size_t granule, enum kind kind, bool fresh)
{
    if (!option(huge_pages))
        return false;
    if (kind == DENSE && !pressure_is(PRESSURE_NEAR))
        return huge_advise(granule, fresh);
    os_advise_huge(granule_address(granule), GRANULE_SIZE, false);
    return false;
}

HAK_COLD void super_huge_to_small(size_t granule)
{
    struct super *s = super_at(granule);
    if (load_relaxed(&s->pages) != SUPER_HUGE)
        return;
    /* Who does so at the same time advises the same once more. */
    store_relaxed(&s->pages, SUPER_SMALL);
    os_advise_huge(granule_address(granule), GRANULE_SIZE, false);
}

HAK_COLD void super_set_pages(size_t granule, enum super_pages pages)
{
    if (exchange_relaxed(&super_at(granule)->pages, (uint8_t)pages) == SUPER_HUGE)
        os_advise_huge(granule_address(granule), GRANULE_SIZE, false);
}

/* ---- SuperSlabs of which every unit is free ---- */

/* Claimed as a whole it is nobody's SuperSlab any more. */
static void super_to_granule(size_t granule)
{
    struct super *s = super_at(granule);
    bit_clear(purgeable_bits(granule), granule);
    sub_relaxed(&hak_supers.dirty, (size_t)count_of(load_relaxed(&s->dirty)));
    sub_relaxed(&hak_supers.mapped, 1);
    store_relaxed(&s->dirty, 0);
    store_relaxed(&s->written, 0);
    super_set_pages(granule, SUPER_NONE);
}

static bool take_whole_in(size_t granule)
{
    const struct super *s = super_at(granule);
    if (load_relaxed(&s->free) != (uint32_t)ALL_FREE || load_relaxed(&s->dirty) == 0 ||
        !claim(granule, (uint32_t)ALL_FREE))
        return false;
    super_to_granule(granule);
    return true;
}

ptrdiff_t supers_take_whole(void)
{
    if (units_dirty() < WHOLE_LEAST)
        return REGION_NONE;
    for (size_t w = (region_top() + BITS - 1) / BITS; w-- > 0;) {
        /* relaxed: what is found is claimed, which acquires. */
        uint64_t bits = load_relaxed(&super_groups[w].purgeable);
        for (; bits != 0; bits &= bits - 1) {
            size_t granule = w * BITS + lowest_bit(bits);
            if (take_whole_in(granule))
                return (ptrdiff_t)granule;
        }
    }
    return REGION_NONE;
}

/* Its content is unknown if not `*zeroed`, which then is what is true of the units that are taken with it. */
static ptrdiff_t granule_to_super(size_t granule, struct want want, bool *zeroed)
{
    add_relaxed(&hak_supers.mapped, 1);
    add_relaxed(&hak_supers.made, 1);
    probe_super_new();
    struct super *s = super_at(granule);
    store_relaxed(&s->kind, (uint8_t)want.kind);
    /* The first touch of a huge page brings the pages of all units. */
    bool is_huge = advise(granule, want.kind, *zeroed), has_pages = is_huge || !*zeroed;
    store_relaxed(&s->pages, (uint8_t)(SUPER_SMALL + is_huge));
    store_relaxed(&s->written, *zeroed ? 0 : (uint32_t)ALL_FREE);
    store_relaxed(&s->dirty, has_pages ? (uint32_t)ALL_FREE : 0);
    if (has_pages)
        add_relaxed(&hak_supers.dirty, GRANULE_UNITS);
    uint32_t mine = run_mask(0, want.n);
    taken_zeroed(granule, mine);
    uint32_t rest = (uint32_t)ALL_FREE & ~mine;
    if (rest != 0)
        release(granule, rest);
    if (has_pages)
        bit_set(purgeable_bits(granule), granule);
    return (ptrdiff_t)(granule * GRANULE_UNITS);
}

/* Before a stretch has its pages touched anew, a SuperSlab of another kind serves of which nothing is in use. */
static ptrdiff_t take_from_whole(struct want want, bool *zeroed)
{
    ptrdiff_t granule = want.kind == STRETCHES ? supers_take_whole() : REGION_NONE;
    *zeroed = false;
    return granule >= 0 ? granule_to_super((size_t)granule, want, zeroed) : REGION_NONE;
}

/* Stage 2, those units first whose pages are there. */
static ptrdiff_t take_existing(struct want want, bool *zeroed)
{
    ptrdiff_t got = take_dirty(want, zeroed);
    if (got < 0)
        got = take_from_whole(want, zeroed);
    return got >= 0 ? got : take_of_kind(want.kind, want, true, zeroed);
}

/* Stage 3. */
static ptrdiff_t take_new(struct want want, bool *zeroed)
{
    ptrdiff_t granule = region_take(1, GRANULE_SIZE, zeroed);
    return granule >= 0 ? granule_to_super((size_t)granule, want, zeroed) : REGION_NONE;
}

static ptrdiff_t take(struct want want, bool *zeroed)
{
    ptrdiff_t got = take_existing(want, zeroed);
    return got >= 0 ? got : take_new(want, zeroed);
}

ptrdiff_t units_take(uint32_t n, bool *zeroed)
{
    return take((struct want){n == 1 ? SINGLES : STRETCHES, n}, zeroed);
}

ptrdiff_t units_take_dense(bool *zeroed)
{
    bool large = load_relaxed(&hak_supers.mapped) << GRANULE_SHIFT >= option(huge_min);
    return take((struct want){large && option(huge_pages) ? DENSE : SINGLES, 1}, zeroed);
}

HAK_COLD void units_add(size_t granule)
{
    bool zeroed = false;
    (void)granule_to_super(granule, (struct want){SINGLES, 0}, &zeroed);
}

void units_give(size_t first, uint32_t n, uint32_t touched)
{
    size_t granule = first / GRANULE_UNITS;
    uint32_t mask = run_mask((uint32_t)(first % GRANULE_UNITS), n);
    uint32_t wrote = run_mask((uint32_t)(first % GRANULE_UNITS), touched);
    struct super *s = super_at(granule);
    or_relaxed(&s->written, wrote); /* before the release below, with which it becomes visible */
    or_relaxed(&s->dirty, wrote);
    uint32_t dirty = load_relaxed(&s->dirty) & mask;
    sub_relaxed(&hak_supers.in_use, n);
    add_relaxed(&hak_supers.dirty, (size_t)count_of(dirty));
    release(granule, mask);
    if (dirty != 0)
        bit_set(purgeable_bits(granule), granule);
}

/* ---- purge ---- */

/* The units are ours (claimed). Drops their pages and gives them back, or the whole SuperSlab to
 * the region. */
static size_t purge_claimed(size_t granule, uint32_t mask)
{
    struct super *s = super_at(granule);
    uint32_t n = count_of(mask);
    size_t unit = granule * GRANULE_UNITS + lowest_bit(mask);
    size_t dirty = (size_t)count_of(load_relaxed(&s->dirty) & mask);
    if (mask != (uint32_t)ALL_FREE)
        super_huge_to_small(granule);
    bool purged = os_purge(unit_address(unit), (size_t)n * UNIT_SIZE);
    if (purged) {
        and_relaxed(&s->dirty, ~mask);
        and_relaxed(&s->written, ~mask);
        sub_relaxed(&hak_supers.dirty, dirty);
    }
    if (purged && mask == (uint32_t)ALL_FREE) {
        super_to_granule(granule);
        arrays_purge_maps(granule);
        region_give(granule, 1, true);
    } else {
        release(granule, mask);
    }
    return purged ? dirty : 0;
}

/* Purges runs of at least `shortest` units that are free and dirty; a SuperSlab that is free as a whole goes as a whole. */
static size_t purge_super(size_t granule, uint32_t shortest)
{
    struct super *s = super_at(granule);
    uint32_t free = load_relaxed(&s->free);
    if (free == (uint32_t)ALL_FREE)
        return claim(granule, free) ? purge_claimed(granule, free) : 0;
    size_t purged = 0;
    uint32_t rest = free & load_relaxed(&s->dirty);
    while (rest != 0) {
        uint32_t first = lowest_bit(rest);
        uint32_t n = lowest_bit(~(uint64_t)(rest >> first));
        uint32_t mask = run_mask(first, n);
        rest &= ~mask;
        if (n >= shortest && claim(granule, mask))
            purged += purge_claimed(granule, mask);
    }
    return purged;
}

HAK_COLD bool units_give_purged(size_t first, uint32_t n)
{
    size_t granule = first / GRANULE_UNITS;
    uint32_t mask = run_mask((uint32_t)(first % GRANULE_UNITS), n);
    struct super *s = super_at(granule);
    or_relaxed(&s->written, mask);
    or_relaxed(&s->dirty, mask);
    sub_relaxed(&hak_supers.in_use, n);
    add_relaxed(&hak_supers.dirty, n);
    bool purged = purge_claimed(granule, mask) != 0;
    if (purged)
        (void)purge_super(granule, GRANULE_UNITS); /* no purge looks at one of which all is clean */
    else
        bit_set(purgeable_bits(granule), granule);
    return purged;
}

static bool still_purgeable(size_t granule)
{
    struct super *s = super_at(granule);
    /* model: relaxed would do, the clearing before it has acquired what a setter released. */
    return (load_acquire(&s->free) & load_relaxed(&s->dirty)) != 0;
}

static size_t purge_pass(size_t keep, uint32_t shortest)
{
    size_t purged = 0;
    for (size_t w = (region_top() + BITS - 1) / BITS; w-- > 0;) {
        /* model: relaxed would do, who finds nothing clears the bit, which acquires, and looks again. */
        uint64_t bits = load_acquire(&super_groups[w].purgeable);
        while (bits != 0) {
            if (units_dirty() <= keep)
                return purged;
            uint32_t top = 63 - (uint32_t)__builtin_clzll(bits);
            size_t granule = w * BITS + top;
            bits &= ~((uint64_t)1 << top);
            purged += purge_super(granule, shortest);
            bit_clear(purgeable_bits(granule), granule);
            if (still_purgeable(granule))
                bit_set(purgeable_bits(granule), granule);
        }
    }
    return purged;
}

size_t supers_purge(size_t keep)
{
    size_t purged = purge_pass(keep, PURGE_RUN);
    if (units_dirty() > keep)
        purged += purge_pass(keep, 1);
    return purged;
}

/* ---- huge pages for what has turned out to be full ---- */

static bool is_full(size_t granule)
{
    const struct super *s = super_at(granule);
    size_t pages = GRANULE_SIZE / hak_region.page_size;
    return load_relaxed(&s->pages) == SUPER_SMALL && load_relaxed(&s->free) == 0 &&
           os_resident_pages(granule_address(granule), GRANULE_SIZE) >=
               pages - pages / MISSING_SHARE;
}

/* Nobody is kept from giving pages of it back meanwhile, who then tells the kernel that they are to stay small, perhaps before it is told
 * otherwise here: so the pages are counted once more afterwards. What was missing is there now, and is known as missing, until
 * it is used: a page in MISSING_SHARE, or up to a granule of what went as the kernel joined them.
 * Relaxed: the kernel is told by one thread at a time, which orders what the others see (tests/model, super.collapsed). */
static bool super_small_to_huge(size_t granule)
{
    struct super *s = super_at(granule);
    uint8_t small = SUPER_SMALL, huge = SUPER_HUGE;
    if (!cas_relaxed(&s->pages, &small, SUPER_HUGE))
        return false;
    bool done = huge_collapse(granule);
    if (!done)
        (void)cas_relaxed(&s->pages, &huge, SUPER_SMALL);
    if (load_relaxed(&s->pages) != SUPER_HUGE)
        os_advise_huge(granule_address(granule), GRANULE_SIZE, false);
    return done;
}

HAK_COLD void supers_collapse(void)
{
    static size_t next;
    size_t top = region_top(), looks = least_of(top, LOOKS), collapsed = 0;
    if (!option(huge_pages) || pressure_is(PRESSURE_NEAR))
        return;
    for (; looks > 0 && huge_may_collapse(); looks--) {
        next = next + 1 < top ? next + 1 : 0;
        collapsed += is_full(next) && super_small_to_huge(next);
    }
    add_relaxed(&hak_supers.collapsed, collapsed);
}
