#include "profile/guarded.h"

#include <string.h>

#include "control/options.h"
#include "os/os.h"
#include "profile/arena.h"
#include "slab/slab.h"

enum {
    GUARDS_MOST = 8192,      /* as options.def says */
    GUARDS_PER_GRANULE = 16, /* a granule's slots are for so many live blocks, and as many wait */
    SLOTS_PER_GRANULE = GRANULE_UNITS - 1,
    SLOTS_MOST = GUARDS_MOST / GUARDS_PER_GRANULE * SLOTS_PER_GRANULE + 1,
    FIRST_SLOT = ARENA_UNITS_MOST, /* slot 0 in a unit's line, where the arena's numbers end */
    WINDOW_MS = 128,
    SHARE = 8,       /* one of so many samples, where they come as fast as is allowed */
    PLACE_STEPS = 8, /* in which the setting's number of live blocks is allowed */
    FIRST_STEP_MS = 1000,
    STEP_FACTOR = 4,
    END_MASK = 3, /* chance without one of these bits: the block lies at the start */
    FILLING = 0xA5,
};

_Static_assert(SLOTS_MOST <= UINT16_MAX, "a slot's number fits");

/* Slot 0 is none: what is closed for good bears its number. */
struct slot {
    _Atomic uintptr_t block; /* that is or was there last; 0: none was */
    _Atomic uint32_t usable; /* its bytes */
    uint16_t next;           /* waits behind this one */
    _Atomic bool is_live;
    struct freed_block last;
};

/* Downwards from the end: the first ones share a page with the sampler's first records (cmake/layout.ld). */
__attribute__((section(".bss.sampler_slots"))) static struct slot slots[SLOTS_MOST];

static struct {
    uint32_t fresh;             /* next slot that was never used, if ... */
    uint32_t fresh_left;        /* ... so many are left of its granule */
    size_t fresh_unit;          /* where it lies */
    uint32_t granules;          /* that there are */
    uint16_t longest, shortest; /* ends of the queue of slots that wait; 0: there are none */
    uint32_t live;
    struct guarded_sums sums;
    uint64_t first_ms; /* when the first block was asked for */
    uint64_t window;   /* number of the current one */
    size_t in_window;  /* asked for in it */
} guarded;

static struct slot *slot_at(uint32_t i)
{
    return &slots[SLOTS_MOST - 1 - i];
}

static struct slot *slot_of_unit(size_t unit)
{
    return slot_at(slab_at(unit)->next - FIRST_SLOT);
}

/* Words and lines of a granule that is theirs never change again. Whoever has a block sees both; whoever only asks
 * might see a line too early, when it may say anything. */
static bool is_theirs(size_t unit)
{
    return unit < hak_region.units && unit_word(unit) == WORD_SAMPLED &&
           slab_at(unit)->next - FIRST_SLOT < SLOTS_MOST;
}

bool guarded_owns(const void *p)
{
    return is_theirs(unit_of(p));
}

struct guarded_sums guarded_sums(void)
{
    return guarded.sums;
}

/* ---- when ---- */

/* An eighth at first, and one more after 1 s, 4 s, 16 s and so on: so a small program pays for few, and what lives on
 * from a long one's start leaves places for what comes later. All of them after 68 minutes. */
uint32_t guarded_places(uint64_t age_ms, uint32_t most)
{
    uint32_t steps = 1;
    for (uint64_t t = FIRST_STEP_MS; steps < PLACE_STEPS && age_ms >= t; t *= STEP_FACTOR)
        steps++;
    return (most * steps + PLACE_STEPS - 1) / PLACE_STEPS;
}

static bool has_place(uint64_t now)
{
    if (guarded.first_ms == 0)
        guarded.first_ms = now;
    return guarded.live < guarded_places(now - guarded.first_ms, (uint32_t)option(guards));
}

/* Each costs a few system calls: so many in a window, also of those that the kernel refuses. */
static bool is_allowed(uint64_t now)
{
    size_t allowed = option(profile_rate) * WINDOW_MS / 1000 / SHARE + 1;
    if (guarded.window != now / WINDOW_MS) {
        guarded.window = now / WINDOW_MS;
        guarded.in_window = 0;
    }
    return guarded.in_window++ < allowed;
}

/* ---- slots ---- */

static void mark_granule(size_t first)
{
    for (size_t unit = first; unit < first + GRANULE_UNITS; unit++) {
        uint32_t slot = unit == first ? 0 : guarded.fresh + (uint32_t)(unit - first) - 1;
        slab_at(unit)->next = FIRST_SLOT + slot;
        unit_set_word(unit, WORD_SAMPLED);
        unit_show(unit);
    }
}

/* A process whose address space is limited needs that for itself. The system is not asked: this comes at any time, and where a
 * sandbox allows little that ends the process. */
static bool add_granule(void)
{
    bool zeroed;
    ptrdiff_t granule = region_is_limited() ? REGION_NONE : region_take(1, GRANULE_SIZE, &zeroed);
    if (granule < 0)
        return false;
    if (!os_close(granule_address((size_t)granule), GRANULE_SIZE)) {
        region_give((size_t)granule, 1, zeroed);
        return false;
    }
    guarded.fresh = 1 + guarded.granules++ * SLOTS_PER_GRANULE;
    guarded.fresh_left = SLOTS_PER_GRANULE;
    guarded.fresh_unit = (size_t)granule * GRANULE_UNITS + 1;
    mark_granule(guarded.fresh_unit - 1);
    return true;
}

static bool has_fresh(void)
{
    return guarded.fresh_left != 0 ||
           ((size_t)guarded.granules * GUARDS_PER_GRANULE < option(guards) && add_granule());
}

HAK_INLINE uintptr_t base_of(const struct slot *s)
{
    return load_relaxed(&s->block) & ~(UNIT_SIZE - 1);
}

static size_t pages_of(size_t usable)
{
    return round_up(usable, hak_region.page_size);
}

/* A fresh slot whose pages are open now. */
static struct slot *open_fresh(size_t pages)
{
    uintptr_t base = (uintptr_t)unit_address(guarded.fresh_unit);
    if (!os_commit((void *)base, pages))
        return NULL;
    struct slot *s = slot_at(guarded.fresh++);
    guarded.fresh_unit++;
    guarded.fresh_left--;
    store_relaxed(&s->block, base);
    return s;
}

static struct slot *open_waiting(size_t pages)
{
    struct slot *s = slot_at(guarded.longest);
    if (guarded.longest == 0 || !os_commit((void *)base_of(s), pages))
        return NULL;
    guarded.longest = s->next;
    if (s->next == 0)
        guarded.shortest = 0;
    return s;
}

static void append(struct slot *s)
{
    uint16_t i = (uint16_t)(SLOTS_MOST - 1 - (s - slots));
    s->next = 0;
    if (guarded.shortest != 0)
        slot_at(guarded.shortest)->next = i;
    else
        guarded.longest = i;
    guarded.shortest = i;
}

/* What a block leaves of its pages, in front of it or behind. */
struct rest {
    unsigned char *bytes;
    size_t size;
};

HAK_INLINE struct rest rest_before(const struct slot *s)
{
    return (struct rest){(void *)base_of(s), load_relaxed(&s->block) - base_of(s)};
}

static struct rest rest_behind(const struct slot *s)
{
    size_t usable = load_relaxed(&s->usable);
    uintptr_t end = load_relaxed(&s->block) + usable;
    return (struct rest){(void *)end, base_of(s) + pages_of(usable) - end};
}

static void fill(struct rest r)
{
    memset(r.bytes, FILLING, r.size);
}

static bool is_filled(struct rest r)
{
    return r.size == 0 || (r.bytes[0] == FILLING && memcmp(r.bytes, r.bytes + 1, r.size - 1) == 0);
}

const char *guarded_damage(const void *p)
{
    const struct slot *s = slot_of_unit(unit_of(p));
    if (!is_filled(rest_behind(s)))
        return "the block was written past its end";
    return is_filled(rest_before(s)) ? NULL : "something was written before the start of the block";
}

void *guarded_take(uint32_t class, uint64_t chance)
{
    size_t usable = hak_classes[class].size, pages = pages_of(usable);
    uint64_t now = os_now_ms();
    if (pages >= UNIT_SIZE || !has_place(now) || !is_allowed(now))
        return NULL;
    struct slot *s = has_fresh() ? open_fresh(pages) : open_waiting(pages);
    if (s == NULL)
        return NULL;
    /* Either way it is aligned as its class is: to a power of two that is a page's at most, or divides its size. */
    uintptr_t at = base_of(s) + ((chance & END_MASK) != 0 ? pages - usable : 0);
    store_relaxed(&s->block, at);
    store_relaxed(&s->usable, (uint32_t)usable);
    store_relaxed(&s->is_live, true);
    fill(rest_before(s));
    fill(rest_behind(s));
    guarded.live++;
    guarded.sums.taken++;
    guarded.sums.bytes += pages;
    return (void *)at;
}

size_t guarded_usable(const void *p)
{
    const struct slot *s = slot_of_unit(unit_of(p));
    bool is_block = load_relaxed(&s->block) == (uintptr_t)p && load_relaxed(&s->is_live);
    return is_block ? load_relaxed(&s->usable) : 0;
}

void guarded_give(void *p)
{
    struct slot *s = slot_of_unit(unit_of(p));
    void *base = (void *)base_of(s);
    size_t pages = pages_of(load_relaxed(&s->usable));
    store_relaxed(&s->is_live, false);
    s->last.address = 0;
    guarded.live--;
    guarded.sums.bytes -= pages;
    if (os_close(base, pages))
        append(s);
    else
        os_purge(base, pages);
}

/* ---- for the crash line ---- */

void guarded_remember(const struct freed_block *b)
{
    slot_of_unit(unit_of((void *)b->address))->last = *b;
}

const struct freed_block *guarded_past(uintptr_t address)
{
    const struct freed_block *b = &slot_of_unit(unit_of((void *)address))->last;
    return b->address == address ? b : NULL;
}

static struct guarded_block block_in(size_t unit)
{
    const struct slot *s = slot_of_unit(unit);
    return (struct guarded_block){load_relaxed(&s->block), load_relaxed(&s->usable),
                                  load_relaxed(&s->is_live)};
}

/* Bytes from the block to an address outside of it; 0: it is inside. */
static size_t distance(const struct guarded_block *b, uintptr_t at)
{
    if (at < b->address)
        return b->address - at;
    return at - b->address < b->usable ? 0 : at - b->address - b->usable + 1;
}

HAK_COLD struct guarded_block guarded_near(uintptr_t at)
{
    size_t unit = unit_of((void *)at);
    struct guarded_block own = block_in(unit), behind = {0};
    if (is_theirs(unit + 1))
        behind = block_in(unit + 1);
    bool is_own =
        behind.address == 0 || (own.address != 0 && distance(&own, at) <= distance(&behind, at));
    return is_own ? own : behind;
}
