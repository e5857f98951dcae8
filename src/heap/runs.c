#include "heap/runs.h"

#include "purge/purge.h"
#include "super/super.h"

enum { CACHE_UNITS = 8 /* 512 KiB per thread at most */ };

static struct {
    _Atomic size_t bytes;
    _Atomic size_t count;
} live;

static uint32_t units_for(size_t size)
{
    return (uint32_t)((size + UNIT_SIZE - 1) >> UNIT_SHIFT);
}

/* ---- the thread's cache ---- */

static void cache_remove(struct run_cache *c, uint32_t i)
{
    c->units -= c->length[i];
    c->count--;
    for (; i < c->count; i++) {
        c->unit[i] = c->unit[i + 1];
        c->length[i] = c->length[i + 1];
    }
}

static ptrdiff_t cache_take(struct heap *h, uint32_t units)
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

static void cache_drop_oldest(struct run_cache *c)
{
    uint32_t unit = c->unit[0], units = c->length[0];
    cache_remove(c, 0);
    units_give(unit, units, units);
}

static void cache_put(struct heap *h, size_t unit, uint32_t units)
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

static void set_size(struct slab *s, size_t size)
{
    size_t usable = round_up(size, hak_region.page_size);
    add_relaxed(&live.bytes, usable - s->size);
    s->size = usable;
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
    s->size = 0;
    set_size(s, size);
    add_relaxed(&live.count, 1);
    unit_set_word((size_t)unit, WORD_RUN);
    return unit_address((size_t)unit);
}

bool run_free(struct heap *h, size_t unit)
{
    uintptr_t expected = WORD_RUN;
    /* acquire: of two threads that free it, one alone goes on. */
    if (!cas_acquire(&hak_region.words[unit], &expected, (uintptr_t)WORD_FREED))
        return false;
    struct slab *s = slab_at(unit);
    sub_relaxed(&live.bytes, s->size);
    sub_relaxed(&live.count, 1);
    if (h != NULL)
        cache_put(h, unit, s->units);
    else
        units_give(unit, s->units, s->units);
    return true;
}

bool run_resize(size_t unit, size_t size)
{
    struct slab *s = slab_at(unit);
    uint32_t units = units_for(size);
    bool zeroed;
    if (units > s->units && !units_extend(unit + s->units, units - s->units, &zeroed))
        return false;
    if (units < s->units)
        units_give(unit + units, s->units - units, s->units - units);
    s->units = (uint8_t)units;
    set_size(s, size);
    return true;
}

size_t run_live_bytes(void)
{
    return load_relaxed(&live.bytes);
}

size_t run_live_count(void)
{
    return load_relaxed(&live.count);
}
