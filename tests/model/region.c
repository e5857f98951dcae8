/* The window (region/region.c): who sees that it is chosen sees it; who sees a granule below the top sees what
 * describes it. And unit words: whoever got a block finds its owner. */
#include "heaps.h"

#include "super/super.h"

/* With its static functions. */
#include "region/region.c"

static void touch(void)
{
    (void)load_relaxed(&region.ready);
    (void)load_relaxed(&region.top);
    (void)load_relaxed(&region.lock.state);
    (void)load_relaxed(&region.lock.holder);
    (void)load_relaxed(&region.lock.lost);
    for (size_t i = 0; i < 4; i++)
        (void)load_relaxed(&super_at(i)->free);
}

static void choose(int index)
{
    (void)index;
    model_assert(region_init());
    model_assert(hak_region.units != 0 && hak_region.words != NULL);
}

static void check_chosen(void)
{
    model_assert(hak_region.granules != 0);
}

/* Thread 0 and 1 take granules, 2 looks at all below the top, as the search for free units does. */
static void setup_chosen(void)
{
    model_assert(region_init());
    touch();
}

static ptrdiff_t granule[2];

static void take_and_look(int index)
{
    if (index < 2) {
        bool zeroed;
        granule[index] = region_take(1, GRANULE_SIZE, &zeroed);
        model_assert(granule[index] >= 0);
        return;
    }
    size_t top = region_top();
    if (top > 0)
        model_assert(arrays_described() >= top);
}

static void check_taken(void)
{
    model_assert(granule[0] != granule[1]);
    model_assert(region_top() == 2);
}

/* A block goes from its owner to another thread, which asks whose it is. */
static _Atomic(void *) handed;

static void setup_word(void)
{
    setup_chosen();
    (void)load_relaxed(&handed);
    (void)unit_word(3);
}

static void hand(int index)
{
    if (index == 0) {
        unit_set_word(3, WORD_RUN);
        store_release(&handed, unit_address(3)); /* the program's own synchronisation */
        return;
    }
    void *p = load_acquire(&handed);
    if (p != NULL)
        model_assert(unit_word(unit_of(p)) == WORD_RUN && unit_word_low(unit_of(p)) == WORD_RUN);
}

static void check_word(void) {}

const struct model_scenario region_chosen = {"region.chosen", 2,      0,           256,
                                             touch,           choose, check_chosen};
const struct model_scenario region_taken = {"region.taken", 3,          2, 256, setup_chosen,
                                            take_and_look,  check_taken};
const struct model_scenario region_word = {"region.word", 2, 0, 64, setup_word, hand, check_word};
