/* The live area (live/live.c): what a reader of another process sees of an area that is being made, and who
 * shows what while it is. A reader is the model's thread 1, and reads as format.h says. */
#include "heaps.h"

#include <string.h>

#include "super/super.h"

static struct live_area *made;
static bool seen;

static void setup(void)
{
    hak_options.live = 1;
    heaps_ignore_settings();
    store_relaxed(&hak_live.due, true);
    (void)live_area();
    made = NULL;
    seen = false;
}

/* Where the arena's next piece will be: the area's words exist before the area does. */
static struct live_area *area_to_come(void)
{
    struct live_area *a = model_next_reserved();
    (void)__atomic_load_n((uint64_t *)(void *)a->header.magic, __ATOMIC_RELAXED);
    for (int i = 0; i < LIVE_TABLE_COUNT; i++)
        (void)load_relaxed(&a->header.tables[i].used);
    return a;
}

static void touch_row(struct live_area *a)
{
    model_hooks->ignore(&a->process[0], sizeof a->process);
    model_hooks->ignore(&a->settings[0], sizeof a->settings);
    (void)load_relaxed(&a->units[0].what);
}

static struct live_area *coming;

static void setup_made(void)
{
    setup();
    coming = area_to_come();
    touch_row(coming);
}

/* Maker and reader in another process, for whom the area is simply there. */
static void make_and_read(int index)
{
    if (index == 0) {
        made = live_make();
        model_assert(made == coming);
        made->text[sizeof made->text - 1] = 1;
        live_complete(made);
        return;
    }
    uint64_t magic = __atomic_load_n((uint64_t *)(void *)coming->header.magic, __ATOMIC_ACQUIRE);
    if (memcmp(&magic, LIVE_MAGIC, sizeof magic) != 0)
        return;
    seen = true;
    model_assert(coming->header.table_count == LIVE_TABLE_COUNT);
    model_assert(coming->text[sizeof coming->text - 1] == 1);
    model_assert(coming->header.tables[LIVE_TABLE_units].rows == LIVE_ROWS_units);
}

static void check_made(void)
{
    model_assert(live_area() == coming);
}

/* Two threads want an area: one makes it. Who finds it finds its tables. */
static struct live_area *by[2];

static void make_twice(int index)
{
    by[index] = live_make();
    struct live_area *a = live_area();
    if (a != NULL)
        model_assert(a->header.tables[LIVE_TABLE_heaps].rows == LIVE_ROWS_heaps);
}

static void check_once(void)
{
    model_assert((by[0] != NULL) != (by[1] != NULL));
}

/* A unit gets an owner while the area is made: it is shown in the end. */
static size_t unit;

static void setup_unit(void)
{
    setup();
    bool zeroed;
    unit = (size_t)units_take(1, &zeroed);
    model_assert(unit == 0);
    heaps_touch_unit(unit);
    (void)region_top();
    for (size_t i = 1; i < GRANULE_UNITS; i++)
        model_hooks->ignore(&slab_at(i)->shown, sizeof(uint32_t));
    coming = area_to_come();
    touch_row(coming);
}

static void own_and_make(int index)
{
    if (index == 0) {
        unit_set_word(unit, WORD_HEAP);
        unit_show(unit);
        unit_set_word(unit, WORD_NONE);
        unit_show(unit);
        unit_set_word(unit, WORD_SAMPLED);
        unit_show(unit);
        return;
    }
    model_assert(live_make() == coming);
    units_show(live_area());
}

static void check_shown(void)
{
    model_assert((load_relaxed(&coming->units[unit].what) & 15) == UNIT_SAMPLED);
    model_assert(load_relaxed(&coming->header.tables[LIVE_TABLE_units].used) >= 1);
}

/* Rows are given once, and the table's end only rises. */
static struct live_area *area;
static ptrdiff_t row[3];

static void setup_rows(void)
{
    setup_made();
    area = live_make();
    store_relaxed(&area->header.tables[LIVE_TABLE_heaps].used, LIVE_ROWS_heaps - 2);
}

static void new_row(int index)
{
    row[index] = live_new_row(area, LIVE_TABLE_heaps);
    live_raise_used(area, LIVE_TABLE_units, 10 + (uint32_t)index);
}

static void check_rows(void)
{
    model_assert(row[0] != row[1] && row[1] != row[2] && row[0] != row[2]);
    model_assert(load_relaxed(&area->header.tables[LIVE_TABLE_heaps].used) == LIVE_ROWS_heaps);
    model_assert(load_relaxed(&area->header.tables[LIVE_TABLE_units].used) == 12);
}

/* A heap gets its row while its thread counts and another sends to it: who finds the row writes after what stood
 * there at first. */
enum { SENT = 8 << 10 };
static struct heap *counting;
static void *block;
static bool found_row, found_inbox;

static void setup_heap(void)
{
    setup();
    counting = heaps_attach(0);
    block = heaps_block(counting);
    heaps_attach(1);
    coming = model_next_reserved();
    area = live_make();
    struct live_heaps *r = &area->heaps[0];
    model_hooks->ignore(r, sizeof *r);
    model_hooks->watch(&r->inbox_bytes, sizeof r->inbox_bytes);
    model_hooks->watch(&r->refill, sizeof r->refill);
    model_hooks->watch(&counting->counters[COUNTER_refill], sizeof(uint64_t));
    (void)load_relaxed(&r->inbox_bytes);
    (void)load_relaxed(&r->refill);
    (void)load_relaxed(&counting->counters[COUNTER_refill]);
    (void)load_relaxed(&counting->live_runs.bytes);
    (void)load_relaxed(&counting->live_runs.count);
    (void)load_relaxed(&area->header.tables[LIVE_TABLE_heaps].used);
}

static void count_and_send(int index)
{
    if (index == 0) {
        found_row = load_relaxed(&counting->row) != NULL;
        count(counting, COUNTER_refill, 1);
    } else if (index == 1) {
        heap_show(counting);
    } else {
        found_inbox = load_relaxed(&counting->inbox_shown) != NULL;
        inbox_push(counting, block, SENT);
    }
}

static void check_heap(void)
{
    if (found_row)
        model_assert(load_relaxed(&area->heaps[0].refill) ==
                     load_relaxed(&counting->counters[COUNTER_refill]));
    if (found_inbox)
        model_assert(load_relaxed(&area->heaps[0].inbox_bytes) == SENT);
}

const struct model_scenario live_heap = {"live.heap",    3,         2, 1024, setup_heap,
                                         count_and_send, check_heap};
const struct model_scenario live_made = {"live.made",   2,         0, 4096, setup_made,
                                         make_and_read, check_made};
const struct model_scenario live_once = {"live.once", 2,          0,         4096,
                                         setup_made,  make_twice, check_once};
const struct model_scenario live_unit = {"live.unit",  2,          3, 4096, setup_unit,
                                         own_and_make, check_shown};
const struct model_scenario live_rows = {"live.rows", 3, 3, 1024, setup_rows, new_row, check_rows};
