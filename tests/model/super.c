/* The shared pool's stage 2 (super/super.c): a unit has one owner at a time, who sees the end of the last one's
 * writes; what is free is found. */
#include "model.h"

/* With its static functions. */
#include "super/super.c"

static size_t last; /* the only unit that is free */

static void touch(void)
{
    (void)load_relaxed(&super_groups[0].available[SINGLES]);
    (void)load_relaxed(&super_groups[0].available[DENSE]);
    (void)load_relaxed(&super_groups[0].available[STRETCHES]);
    (void)load_relaxed(&super_groups[0].purgeable);
    struct super *s = super_at(0);
    (void)load_relaxed(&s->free);
    (void)load_relaxed(&s->dirty);
    (void)load_relaxed(&s->written);
    (void)load_relaxed(&s->kind);
    (void)load_relaxed(&s->pages);
    model_touch_kernel();
    (void)units_in_use();
    (void)units_dirty();
    (void)supers_mapped();
    (void)load_relaxed(&hak_supers.made);
    (void)region_top();
}

static void setup(void)
{
    bool zeroed;
    for (uint32_t i = 0; i < GRANULE_UNITS; i++)
        last = (size_t)units_take(1, &zeroed);
    model_assert(last == GRANULE_UNITS - 1);
    *(uint64_t *)unit_address(last) = 7;
    units_give(last, 1, 1);
    touch();
}

static bool take_unless_new(uint64_t **out)
{
    /* A second SuperSlab would be right, and is not the matter here. */
    bool zeroed;
    ptrdiff_t unit = take_existing((struct want){SINGLES, 1}, &zeroed);
    if (unit < 0)
        return false;
    *out = unit_address((size_t)unit);
    if (zeroed)
        model_assert(**out == 0);
    return true;
}

static void use(int index)
{
    uint64_t *p;
    if (!take_unless_new(&p))
        return;
    *p = (uint64_t)index + 1;
    units_give(unit_of(p), 1, 1);
}

static void use_or_purge(int index)
{
    if (index == 0)
        (void)supers_purge(0);
    else
        use(index);
}

/* It is free now, and must be found. */
static void check(void)
{
    uint64_t *p;
    model_assert(load_relaxed(&super_at(0)->free) == (uint32_t)1 << last);
    model_assert(units_in_use() == GRANULE_UNITS - 1);
    model_assert(take_unless_new(&p));
}

static void check_purged(void)
{
    bool dirty = load_relaxed(&super_at(0)->dirty) != 0;
    model_assert(units_dirty() == (dirty ? 1 : 0));
    if (dirty)
        model_assert(supers_purge(0) == 1); /* still found */
    check();
}

/* Two are free, so that taking one leaves the hints alone: then only the mask orders owner after owner. */
static void setup_room(void)
{
    setup();
    units_give(last - 1, 1, 1);
}

static void check_room(void)
{
    model_assert(units_in_use() == GRANULE_UNITS - 2);
}

/* All are free but one, whose owner gives it back while another thread wants the SuperSlab as a whole. */
static bool was_taken;

static void setup_whole(void)
{
    setup();
    bool zeroed;
    model_assert(units_take(1, &zeroed) == (ptrdiff_t)last);
    for (size_t unit = 0; unit < last; unit++)
        units_give(unit, 1, 1);
    was_taken = false;
    touch();
}

static bool take_whole(void)
{
    if (supers_take_whole() != 0)
        return false;
    *(uint64_t *)unit_address(last) = 9;
    return true;
}

static void give_or_take_whole(int index)
{
    if (index == 0) {
        *(uint64_t *)unit_address(last) = 8;
        units_give(last, 1, 1);
    } else {
        was_taken = take_whole();
    }
}

static void check_whole(void)
{
    model_assert(units_in_use() == 0);
    model_assert(was_taken || take_whole());
    model_assert(units_dirty() == 0 && supers_mapped() == 0);
    model_assert(*(uint64_t *)unit_address(last) == 9);
}

/* All are free. A stretch takes them over while another thread wants a single unit, which it gives back. */
static bool has_stretch;

static void setup_stretch(void)
{
    setup_whole();
    units_give(last, 1, 1);
    has_stretch = false;
    touch();
}

static void use_or_stretch(int index)
{
    bool zeroed;
    if (index == 0) {
        use(index);
        return;
    }
    ptrdiff_t unit = take_from_whole((struct want){STRETCHES, 2}, &zeroed);
    if (unit < 0)
        return;
    model_assert(!zeroed);
    for (size_t i = 0; i < 2; i++)
        *(uint64_t *)unit_address((size_t)unit + i) = 9;
    has_stretch = true;
}

static void check_stretch(void)
{
    uint64_t *p;
    model_assert(units_in_use() == (has_stretch ? 2 : 0) && supers_mapped() == 1);
    model_assert(load_relaxed(&super_at(0)->kind) == (has_stretch ? STRETCHES : SINGLES));
    model_assert(units_dirty() == GRANULE_UNITS - units_in_use());
    model_assert(take_unless_new(&p) && *p != 9);
}

/* All are in use. Its pages become huge while one unit is given back and purged: if the rest is to have small pages, the kernel
 * has been told so last. */
static void setup_collapsed(void)
{
    bool zeroed;
    setup();
    model_assert(units_take(1, &zeroed) == (ptrdiff_t)last);
    os_advise_huge(granule_address(0), GRANULE_SIZE, false);
    model_refuses_huge = false;
    touch();
}

static void setup_refused(void)
{
    setup_collapsed();
    model_refuses_huge = true;
}

static void collapse_or_purge(int index)
{
    if (index == 0) {
        (void)super_small_to_huge(0);
    } else {
        units_give(last, 1, 1);
        (void)supers_purge(0);
    }
}

static void check_collapsed(void)
{
    const struct super *s = super_at(0);
    model_assert(units_in_use() == GRANULE_UNITS - 1);
    model_assert(units_dirty() == (load_relaxed(&s->free) & load_relaxed(&s->dirty) ? 1 : 0));
    if (load_relaxed(&s->pages) == SUPER_SMALL)
        model_assert(!load_relaxed(&model_told_huge));
}

/* All are free but one. Its pages become huge while that is given back and the whole of it goes: nothing of it is left for who
 * has the granule next. */
static void setup_gone(void)
{
    setup_whole();
    os_advise_huge(granule_address(0), GRANULE_SIZE, false);
    model_refuses_huge = false;
    touch();
}

static void collapse_or_take_whole(int index)
{
    if (index == 0) {
        (void)super_small_to_huge(0);
    } else {
        units_give(last, 1, 1);
        was_taken = take_whole();
    }
}

static void check_gone(void)
{
    model_assert(was_taken && load_relaxed(&super_at(0)->pages) == SUPER_NONE);
    model_assert(!load_relaxed(&model_told_huge));
}

const struct model_scenario super_room = {"super.room", 2, 1, 128, setup_room, use, check_room};
const struct model_scenario super_two = {"super.two", 2, 2, 128, setup, use, check};
const struct model_scenario super_purged = {"super.purged", 2,           2, 128, setup,
                                            use_or_purge,   check_purged};
const struct model_scenario super_whole = {"super.whole",      2,          3, 128, setup_whole,
                                           give_or_take_whole, check_whole};
const struct model_scenario super_collapsed = {
    "super.collapsed", 2, 3, 128, setup_collapsed, collapse_or_purge, check_collapsed};
const struct model_scenario super_refused = {
    "super.refused", 2, 3, 128, setup_refused, collapse_or_purge, check_collapsed};
const struct model_scenario super_gone = {"super.gone",           2,         3, 128, setup_gone,
                                          collapse_or_take_whole, check_gone};
const struct model_scenario super_stretch = {
    "super.stretch", 2, 3, 128, setup_stretch, use_or_stretch, check_stretch};
