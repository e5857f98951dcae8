#include "control/place.h"

#include "big/big.h"
#include "front/check.h"
#include "front/secure.h"
#include "heap/lease.h"
#include "heap/registry.h"
#include "heap/runs.h"
#include "os/os.h"
#include "profile/arena.h"
#include "profile/guarded.h"
#include "region/arrays.h"
#include "super/super.h"

/* ---- whether a block of a slab is free ---- */

/* Who has been found to hold a block. */
struct search {
    uintptr_t block;
    uint32_t class;
    const struct heap *in; /* NULL: nobody yet */
};

/* Arrays of slots do not cross units, and theirs stay mapped: what fails this has just been exchanged. */
static bool are_slots(void **from, void **to)
{
    size_t unit = unit_of(from);
    return from < to && unit < hak_region.units && unit == unit_of(to - 1) &&
           unit_word(unit) == WORD_HEAP;
}

static void search_magazine(struct heap *h, void *context)
{
    struct search *s = context;
    const struct magazine *m = magazine_of(h, s->class);
    void **top = plain_load_relaxed(&m->top);
    void **end = plain_load_relaxed(&m->end);
    if (plain_load_relaxed(&m->start) == MAGAZINE_CLOSED && end != NULL)
        end += m->cap;
    if (s->in != NULL || !are_slots(top, end))
        return;
    for (; top < end; top++) {
        if (plain_load_relaxed((uintptr_t *)top) == s->block)
            s->in = h;
    }
}

/* As a magazine, for whoever reads of it. */
static void search_leases(struct heap *h, void *context)
{
    struct search *s = context;
    for (int i = 0; i < LEASES && s->class < LEASED_CLASSES; i++) {
        const struct lease *l = load_acquire(&h->leases[i]); /* pairs with lease_make */
        size_t kept = l != NULL ? load_relaxed(&l->of_class[s->class].kept) : 0;
        for (size_t k = 0; k < least_of(kept, LEASED_MOST); k++) {
            if ((uintptr_t)l->of_class[s->class].blocks[k] == s->block)
                s->in = h;
        }
    }
}

static bool is_in_outboxes(const struct outbox *o, size_t n, uintptr_t block)
{
    for (const struct outbox *end = o + n; o < end; o++) {
        const struct parcel *c = outbox_parcel(o);
        for (uint32_t k = 0; c != NULL && k < o->places && &c->blocks[k] < o->next; k++) {
            if ((uintptr_t)c->blocks[k] == block)
                return true;
        }
    }
    return false;
}

/* Parcels that this thread is filling: other threads' may go at any time. */
static bool is_in_parcel(uintptr_t block)
{
    const struct heap *h = hak_thread.heap;
    return is_in_outboxes(h->outbox, OUTBOXES, block) ||
           (h->aside != NULL && is_in_outboxes(h->aside, ASIDE_PLACES, block));
}

/* A block that has been cut. */
static void find_state(struct place *p, const struct slab *s, uint32_t index)
{
    struct search search = {p->block, p->class, NULL};
    p->kind = PLACE_FREE;
    registry_each(unit_word(unit_of((void *)p->block)) == WORD_EXPLICIT ? search_leases
                                                                        : search_magazine,
                  &search);
    p->magazine = search.in;
    if (search.in != NULL)
        return;
    const uint64_t *word = slab_word_of(slab_unit(s), s->class, index);
    if (slab_knows_free(s->class, word, index))
        p->state = ", back in its slab";
    else if (is_in_parcel(p->block))
        p->state = ", freed by this thread, on its way to its heap";
#if HAK_CHECKED
    else if (!check_is_live((void *)p->block))
        p->state = ", on its way to its heap";
#endif
    else
        p->kind = PLACE_LIVE;
}

/* ---- what covers an address ---- */

static void in_slab(struct place *p, const struct slab *s)
{
    const struct class_info *c = &hak_classes[s->class];
    size_t offset = p->at - (uintptr_t)slab_base(s), index = offset / c->size;
    p->class = s->class;
    p->slab = (uintptr_t)slab_base(s);
    p->heap = load_relaxed(&s->heap);
    p->size = c->size;
    if (index >= c->capacity) { /* what is left of the slab behind its last block */
        p->kind = PLACE_VACANT;
        return;
    }
    p->block = p->slab + index * c->size;
    if (index < s->carved) {
        find_state(p, s, (uint32_t)index);
    } else {
        p->kind = index < s->high ? PLACE_FREE : PLACE_FRESH;
        p->state = p->kind == PLACE_FREE ? ", back in its slab" : "";
    }
}

/* The word names a slab that is one block of pages. */
static bool is_paged(uintptr_t word)
{
    return word > WORD_TAG_MAX && class_of_word(word) >= FIRST_PAGED;
}

/* A run or paged slab that starts in the unit: its bytes; 0: none does. */
static size_t starting_in(size_t unit)
{
    uintptr_t word = unit_word(unit);
    if (word == WORD_RUN)
        return slab_at(unit)->size;
    return is_paged(word) ? hak_classes[class_of_word(word)].size : 0;
}

static void of_block(struct place *p, uintptr_t block, size_t size, enum place_kind kind)
{
    p->kind = kind;
    p->block = block;
    p->size = size;
}

/* The unit of the granule in which the last live block of pages starts that starts no higher than the address;
 * REGION_NONE: none does. They do not overlap, so no other can hold it. */
static ptrdiff_t nearest_pages(size_t unit, uintptr_t at)
{
    size_t first = unit & ~(size_t)(GRANULE_UNITS - 1);
    for (size_t u = unit + 1; u-- > first;) {
        if (starting_in(u) != 0 && (uintptr_t)run_address(u) <= at)
            return (ptrdiff_t)u;
    }
    return REGION_NONE;
}

static bool in_live_pages(struct place *p, ptrdiff_t nearest)
{
    if (nearest < 0)
        return false;
    size_t unit = (size_t)nearest, size = starting_in(unit);
    uintptr_t start = (uintptr_t)run_address(unit);
    if (p->at - start >= size)
        return false;
    if (unit_word(unit) == WORD_RUN)
        of_block(p, start, size, PLACE_LIVE);
    else
        in_slab(p, slab_at(unit));
    return true;
}

/* Farther away nobody means the block any more. */
enum { BEHIND_MOST = UNIT_SIZE };

static void behind_live_pages(struct place *p, ptrdiff_t nearest)
{
    if (nearest < 0)
        return;
    size_t size = starting_in((size_t)nearest);
    uintptr_t start = (uintptr_t)run_address((size_t)nearest);
    if (p->at - start - size < BEHIND_MOST)
        of_block(p, start, size, PLACE_BEHIND);
}

/* What was freed keeps its size in the unit where it started until another block starts there. */
static bool in_freed_run(struct place *p, size_t unit)
{
    size_t first = unit & ~(size_t)(GRANULE_UNITS - 1);
    for (size_t u = unit + 1; u-- > first;) {
        uintptr_t start = (uintptr_t)run_address(u);
        size_t size = slab_at(u)->size;
        if (unit_word(u) != WORD_FREED || size > RUN_MAX || start > p->at || p->at - start >= size)
            continue;
        of_block(p, start, size, PLACE_FREE);
        p->state = "";
        return true;
    }
    return false;
}

/* The granule in which a big block starts, live or freed, that covers this one; REGION_NONE: there is none. */
static ptrdiff_t big_start(size_t granule, uintptr_t word)
{
    for (size_t g = granule + 1; g-- > 0;) {
        const struct slab *s = slab_at(g * GRANULE_UNITS);
        if (unit_word(g * GRANULE_UNITS) == word && (word == WORD_BIG || s->size > RUN_MAX) &&
            granule - g < s->granules)
            return (ptrdiff_t)g;
    }
    return REGION_NONE;
}

static bool in_live_big(struct place *p, size_t granule)
{
    ptrdiff_t g = big_start(granule, WORD_BIG);
    if (g < 0)
        return false;
    uintptr_t start = (uintptr_t)granule_address((size_t)g);
    size_t size = slab_at((size_t)g * GRANULE_UNITS)->size;
    of_block(p, start, size, p->at - start < size ? PLACE_LIVE : PLACE_BEHIND);
    return true;
}

static bool in_freed_big(struct place *p, size_t granule)
{
    ptrdiff_t g = big_start(granule, WORD_FREED);
    if (g < 0)
        return false;
    of_block(p, (uintptr_t)granule_address((size_t)g), slab_at((size_t)g * GRANULE_UNITS)->size,
             PLACE_FREE);
    p->state = big_is_cached(granule)    ? ", kept for the next large block"
               : region_is_free(granule) ? ", given back to the kernel"
                                         : "";
    return true;
}

/* Whether the unit is a free one of a SuperSlab, whatever its granule was before. */
static bool is_free_unit(size_t unit)
{
    uint32_t free = load_relaxed(&super_at(unit / GRANULE_UNITS)->free);
    return (free >> (unit % GRANULE_UNITS) & 1) != 0;
}

/* A granule may have been cut into runs and been part of a big block, each after the other, and both are
 * still known. Nobody's granule is more likely to come from a big block. */
static bool in_freed_pages(struct place *p, size_t unit)
{
    size_t granule = unit / GRANULE_UNITS;
    if (big_is_cached(granule) || region_is_free(granule))
        return in_freed_big(p, granule) || in_freed_run(p, unit);
    return in_freed_run(p, unit) || in_freed_big(p, granule);
}

static void in_pages(struct place *p, size_t unit)
{
    size_t granule = unit / GRANULE_UNITS;
    ptrdiff_t nearest = REGION_NONE;
    if (!region_is_free(granule)) {
        nearest = nearest_pages(unit, p->at);
        if (in_live_pages(p, nearest) || in_live_big(p, granule))
            return;
    }
    if (!in_freed_pages(p, unit))
        behind_live_pages(p, nearest);
}

static bool is_inside(const struct place *p)
{
    return p->at - p->block < p->size;
}

/* Of a live one the size as it was asked for, if that can be told: what lies behind it faults, but for the rest of
 * the class' size. */
static void in_guarded(struct place *p)
{
    struct block_story story;
    struct guarded_block b = guarded_near(p->at);
    if (b.address == 0)
        return;
    of_block(p, b.address, b.usable, b.is_live ? PLACE_LIVE : PLACE_FREE);
    if (sampled_story(p->at, &story) && story.address == b.address)
        p->size = story.size;
    if (b.is_live && !is_inside(p))
        p->kind = p->at < p->block ? PLACE_BEFORE : PLACE_BEHIND;
    p->is_guarded = true;
    p->state = ", a guarded one";
}

static void in_sampled(struct place *p)
{
    size_t size;
    struct block_story story;
    uintptr_t block = arena_block_around(p->at, &size);
    if (block != 0)
        of_block(p, block, size, PLACE_LIVE);
    else if (sampled_story(p->at, &story) && story.is_freed)
        of_block(p, story.address, story.size, PLACE_FREE);
    if (p->block != 0)
        p->state = ", a sampled one";
}

static void in_window(struct place *p, size_t unit)
{
    uintptr_t word = unit_word(unit);
    p->kind = PLACE_VACANT;
    if (unit / GRANULE_UNITS >= region_top())
        p->kind = PLACE_UNTOUCHED;
    else if (word == WORD_HEAP)
        p->kind = PLACE_HEAP;
    else if (guarded_owns((void *)p->at))
        in_guarded(p);
    else if (word == WORD_SAMPLED)
        in_sampled(p);
    else if (word_is_of_slab(word) && !is_paged(word))
        in_slab(p, slab_of_unit(unit));
    else if (!is_free_unit(unit))
        in_pages(p, unit);
}

#if HAK_SECURE
/* The heaps know of the program's blocks what surrounds them, and nothing of those that wait. */
static void find_in_surrounded(struct place *p)
{
    bool is_beside = p->is_guarded && (p->kind == PLACE_BEHIND || p->kind == PLACE_BEFORE);
    if (p->kind != PLACE_LIVE && !is_beside)
        return;
    size_t size;
    if (!secure_is_live((void *)p->block, &size)) {
        p->kind = PLACE_FREE;
        if (p->state[0] == '\0')
            p->state = ", waiting to be used again";
        return;
    }
    if (p->at - p->block >= size)
        of_block(p, p->block, size, p->at < p->block ? PLACE_BEFORE : PLACE_BEHIND);
}
#endif

void place_find(struct place *p, uintptr_t at)
{
    size_t unit = unit_of((void *)at);
    *p = (struct place){.kind = PLACE_FOREIGN, .at = at, .class = CLASS_COUNT, .state = ""};
    if (unit < hak_region.units)
        in_window(p, unit);
    else if (arrays_hold(at))
        p->kind = PLACE_ARRAYS;
#if HAK_SECURE
    find_in_surrounded(p);
#endif
}

bool place_is_block(const struct place *p)
{
    return p->block != 0;
}

bool place_is_freed(const struct place *p)
{
    return p->kind == PLACE_FREE || p->kind == PLACE_FRESH;
}

const char *place_misuse(const struct place *p)
{
    if (!p->is_guarded || (p->kind == PLACE_FREE && !is_inside(p)))
        return NULL;
    switch (p->kind) {
    case PLACE_FREE:
        return "use after free";
    case PLACE_BEHIND:
        return "past the end of a block";
    case PLACE_BEFORE:
        return "before the start of a block";
    default:
        return NULL;
    }
}

/* ---- in words ---- */

static size_t owner_text(const struct heap *h, const char *what, char *out, size_t room)
{
    if (h == hak_thread.heap)
        return os_format(out, room, "this thread's %s", what);
    if (load_relaxed(&h->state) == HEAP_EXPLICIT)
        return os_format(out, room, "a %s that the program made", what);
    if (load_relaxed(&h->state) == HEAP_SHARED)
        return os_format(out, room, "a %s that threads share", what);
    const char *ended = load_relaxed(&h->state) == HEAP_ORPHAN ? ", which has ended" : "";
    return os_format(out, room, "the %s of thread %u%s", what, (size_t)h->tid, ended);
}

static size_t slab_text(const struct place *p, char *out, size_t room)
{
    size_t n = os_format(out, room, " (class %u, slab %p", (size_t)p->class, p->slab);
    if (p->heap != NULL) {
        n += os_format(out + n, room - n, ", ");
        n += owner_text(p->heap, "heap", out + n, room - n);
        n += os_format(out + n, room - n, " %p", (uintptr_t)p->heap);
    }
    return n + os_format(out + n, room - n, ")");
}

static size_t state_text(const struct place *p, char *out, size_t room)
{
    if (p->magazine == NULL)
        return os_format(out, room, "%s", p->state);
    size_t n = os_format(out, room, ", in ");
    return n + owner_text(p->magazine, "magazine", out + n, room - n);
}

static size_t block_text(const struct place *p, char *out, size_t room)
{
    static const char names[][16] = {[PLACE_FREE] = "a free",
                                     [PLACE_FRESH] = "a never used",
                                     [PLACE_LIVE] = "a live",
                                     [PLACE_BEHIND] = "a live",
                                     [PLACE_BEFORE] = "a live"};
    size_t offset = p->at - p->block, n;
    if (p->at < p->block)
        n = os_format(out, room, "%u bytes before the start of ", p->block - p->at);
    else if (offset == 0)
        n = os_format(out, room, "the start of ");
    else if (offset >= p->size)
        n = os_format(out, room, "%u bytes past the end of ", offset - p->size);
    else
        n = os_format(out, room, "%u bytes into ", offset);
    n += os_format(out + n, room - n, "%s block of %u bytes at %p", names[p->kind], p->size,
                   p->block);
    n += state_text(p, out + n, room - n);
    return p->class < CLASS_COUNT ? n + slab_text(p, out + n, room - n) : n;
}

size_t place_text(const struct place *p, char *out, size_t room)
{
    static const char names[][72] = {
        [PLACE_FOREIGN] = "not hakmem's memory",
        [PLACE_ARRAYS] = "in hakmem's own tables",
        [PLACE_HEAP] = "in hakmem's own data of a thread",
        [PLACE_UNTOUCHED] = "in hakmem's range of addresses, where nothing has been allocated yet",
        [PLACE_VACANT] = "in hakmem's memory, in no block now: freed, or not handed out yet",
    };
    return place_is_block(p) ? block_text(p, out, room)
                             : os_format(out, room, "%s", names[p->kind]);
}
