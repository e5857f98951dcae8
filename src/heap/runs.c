#include "heap/runs.h"

#include "heap/registry.h"
#include "purge/purge.h"
#include "super/super.h"

enum { CACHE_UNITS = 16 /* 1 MiB per thread at most */ };

/* What lives, less what each heap's thread keeps in its own books (struct heap, live_runs). */
static struct live_runs detached;

static uint32_t units_for(size_t size)
{
    return (uint32_t)((size + UNIT_SIZE - 1) >> UNIT_SHIFT);
}

/* ---- the thread's cache ---- */

HAK_INLINE void cache_remove(struct run_cache *c, uint32_t i)
{
    c->units -= c->length[i];
    c->count--;
    for (; i < c->count; i++) {
        c->unit[i] = c->unit[i + 1];
        c->length[i] = c->length[i + 1];
    }
}

HAK_INLINE ptrdiff_t cache_take(struct heap *h, uint32_t units)
{
    struct run_cache *c = &h->runs;
    for (uint32_t i = c->count; i-- > 0;) {
        if (c->length[i] != units)
            continue;
        ptrdiff_t unit = (ptrdiff_t)c->unit[i];
        cache_remove(c, i);
        count(h, COUNTER_run_hit, 1);
        return unit;
    }
    count(h, COUNTER_run_miss, 1);
    return REGION_NONE;
}

static HAK_NOINLINE void cache_drop_oldest(struct run_cache *c)
{
    uint32_t unit = c->unit[0], units = c->length[0];
    cache_remove(c, 0);
    units_give(unit, units, units);
}

HAK_INLINE void cache_put(struct heap *h, size_t unit, uint32_t units)
{
    struct run_cache *c = &h->runs;
    while (c->count == RUN_CACHE_SLOTS || (c->count > 0 && c->units + units > CACHE_UNITS))
        cache_drop_oldest(c);
    c->unit[c->count] = (uint32_t)unit;
    c->length[c->count] = (uint8_t)units;
    c->count++;
    c->units += units;
}

void runs_empty(struct heap *h)
{
    while (h->runs.count > 0)
        cache_drop_oldest(&h->runs);
}

/* ---- runs ---- */

/* A heap's books have one writer, so its additions are plain; the others share theirs. */
HAK_INLINE void account(struct heap *h, size_t bytes, size_t blocks)
{
    if (h != NULL) {
        store_relaxed(&h->live_runs.bytes, load_relaxed(&h->live_runs.bytes) + bytes);
        store_relaxed(&h->live_runs.count, load_relaxed(&h->live_runs.count) + blocks);
    } else {
        add_relaxed(&detached.bytes, bytes);
        add_relaxed(&detached.count, blocks);
    }
}

void *run_alloc(struct heap *h, size_t size, bool *zeroed)
{
    uint32_t units = units_for(size);
    ptrdiff_t unit = h != NULL ? cache_take(h, units) : REGION_NONE;
    *zeroed = false;
    if (unit < 0) {
        unit = units_take(units, zeroed);
        if (unit < 0)
            return NULL;
        if (*zeroed)
            purge_note_fresh((size_t)units * UNIT_SIZE);
    }
    struct slab *s = slab_at((size_t)unit);
    s->back = 0;
    s->units = (uint8_t)units;
    store_relaxed(&s->heap, NULL);
    s->size = round_up(size, hak_region.page_size);
    account(h, s->size, 1);
    unit_set_word((size_t)unit, WORD_RUN);
    return unit_address((size_t)unit);
}

bool run_free(struct heap *h, size_t unit)
{
    if (unit_word(unit) != WORD_RUN)
        return false;
    unit_set_word(unit, WORD_FREED);
    struct slab *s = slab_at(unit);
    account(h, (size_t)0 - s->size, (size_t)0 - 1);
    if (h != NULL)
        cache_put(h, unit, s->units);
    else
        units_give(unit, s->units, s->units);
    return true;
}

bool run_resize(struct heap *h, size_t unit, size_t size)
{
    struct slab *s = slab_at(unit);
    uint32_t units = units_for(size);
    bool zeroed;
    if (units > s->units && !units_extend(unit + s->units, units - s->units, &zeroed))
        return false;
    if (units < s->units)
        units_give(unit + units, s->units - units, s->units - units);
    s->units = (uint8_t)units;
    size_t before = s->size;
    s->size = round_up(size, hak_region.page_size);
    account(h, s->size - before, 0);
    return true;
}

static void add_live(struct heap *h, void *context)
{
    struct live_runs *sum = context;
    add_relaxed(&sum->bytes, load_relaxed(&h->live_runs.bytes));
    add_relaxed(&sum->count, load_relaxed(&h->live_runs.count));
}

void runs_live(size_t *bytes, size_t *blocks)
{
    struct live_runs sum;
    store_relaxed(&sum.bytes, load_relaxed(&detached.bytes));
    store_relaxed(&sum.count, load_relaxed(&detached.count));
    registry_each(add_live, &sum);
    *bytes = load_relaxed(&sum.bytes);
    *blocks = load_relaxed(&sum.count);
}
