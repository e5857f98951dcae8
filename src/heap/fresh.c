#include "heap/fresh.h"

#include "big/big.h"
#include "control/options.h"
#include "os/os.h"
#include "pages/pages.h"
#include "pressure/pressure.h"
#include "purge/purge.h"
#include "purge/show.h"
#include "super/super.h"

enum {
    PREFAULT_FROM = 64, /* slabs of a class from which on the next one will be filled, too */
    DENSE_FROM = 4,     /* from which on it is little, beside them, what is lost if it is not */
    WITNESS_EVERY = 16,
    WITNESS_AT = WITNESS_EVERY / 2,
    ROOM_FROM = 4,      /* SuperSlabs from which on other kinds of memory become some */
    UNTOUCHED_SHARE = 8 /* one page in so many of a witness may be: its class is filled */
};

enum arrival { AS_TOUCHED, AT_ONCE, AS_WITNESS };

static enum arrival class_arrival(const struct class_slabs *c, uint32_t class)
{
    if (hak_classes[class].units > 1)
        return AS_TOUCHED;
    if (hak_classes[class].size <= hak_region.page_size)
        return AT_ONCE;
    if (HAK_UNLIKELY(c->slabs % WITNESS_EVERY == WITNESS_AT))
        return AS_WITNESS;
    return c->filled ? AT_ONCE : AS_TOUCHED;
}

/* ---- witnesses ---- */

static HAK_COLD size_t touched_pages(size_t unit)
{
    return os_resident_pages(unit_address(unit), UNIT_SIZE);
}

static HAK_COLD void witness_look(struct heap *h, uint32_t class)
{
    struct class_slabs *c = &h->classes[class];
    const struct slab *s = slab_if_of(h, class, c->witness);
    if (s == NULL)
        return;
    uint32_t pages = slab_touched_pages(s, s->high) - s->purged;
    c->filled = touched_pages(slab_unit(s)) >= pages - pages / UNTOUCHED_SHARE;
}

/* Unless its pages are there already, as a huge page's are. */
static HAK_COLD void witness_set(struct class_slabs *c, size_t unit)
{
    if (touched_pages(unit) == 0)
        c->witness = (uint32_t)unit + 1;
}

/* ---- units ---- */

static HAK_NOINLINE void prefault(struct heap *h, uint32_t class, size_t unit)
{
    if (!option(prefault) || pressure_is(PRESSURE_TIGHT))
        return;
    (void)os_prefault(unit_address(unit), class_block_bytes(class));
    count(h, COUNTER_prefault, 1);
}

/* What runs or big blocks have freed as a whole, with its pages or most of them. Else it would pay for the growth of slabs (purge_pay), and
 * as many pages be touched anew. docs/decisions/0109 */
static HAK_NOINLINE void make_room(void)
{
    size_t touched;
    ptrdiff_t granule = pages_take_whole();
    if (granule < 0)
        granule = big_take_cached(GRANULE_SIZE - GRANULE_SIZE / 4, &touched);
    if (granule < 0)
        return;
    units_add((size_t)granule);
    purge_show_pages();
    purge_show_big();
}

/* In a process of some size, where no free units have pages; those of a stretch come from a SuperSlab that is free as a whole. */
HAK_INLINE bool wants_room(uint32_t units)
{
    return units_dirty() < (units == 1 ? 1 : GRANULE_UNITS) && supers_mapped() >= ROOM_FROM;
}

ptrdiff_t fresh_units_take(struct heap *h, uint32_t class, bool *zeroed)
{
    struct class_slabs *c = &h->classes[class];
    uint32_t units = hak_classes[class].units;
    enum arrival arrival = class_arrival(c, class);
    if (arrival == AS_WITNESS)
        witness_look(h, class);
    bool is_dense =
        arrival == AT_ONCE && c->slabs >= DENSE_FROM && class_block_bytes(class) > UNIT_SIZE / 2;
    if (wants_room(units))
        make_room();
    ptrdiff_t unit = is_dense ? units_take_dense(zeroed) : units_take(units, zeroed);
    if (unit < 0 || !*zeroed)
        return unit;
    h->grown_bytes += units * UNIT_SIZE;
    purge_note_fresh(units * UNIT_SIZE, units > 1 ? MEMORY_STRETCHES : MEMORY_UNITS);
    if (arrival == AS_WITNESS)
        witness_set(c, (size_t)unit);
    else if (arrival == AT_ONCE && c->slabs >= PREFAULT_FROM)
        prefault(h, class, (size_t)unit);
    return unit;
}
