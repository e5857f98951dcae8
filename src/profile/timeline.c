#include "profile/timeline.h"

enum { STEP_FIRST_MS = 10 };

/* Rows are at least this far apart. It doubles whenever the table is full. */
static uint64_t step_ms;

/* No more than there are, whatever stands there. */
static uint32_t used_rows(const struct live_area *a)
{
    uint32_t used = load_relaxed(&a->header.tables[LIVE_TABLE_timeline].used);
    return used < LIVE_ROWS_timeline ? used : LIVE_ROWS_timeline;
}

static void copy_row(struct live_area *a, uint32_t to, uint32_t from)
{
    struct live_timeline *t = &a->timeline[to];
    const struct live_timeline *f = &a->timeline[from];
    store_relaxed(&t->ms, load_relaxed(&f->ms));
    store_relaxed(&t->live_bytes, load_relaxed(&f->live_bytes));
    store_relaxed(&t->dirty_bytes, load_relaxed(&f->dirty_bytes));
    store_relaxed(&t->held_bytes, load_relaxed(&f->held_bytes));
}

static uint32_t thin_out(struct live_area *a)
{
    uint32_t half = LIVE_ROWS_timeline / 2;
    for (uint32_t i = 0; i < half; i++)
        copy_row(a, i, 2 * i);
    step_ms *= 2;
    return half;
}

void timeline_note(struct live_area *a, uint64_t now, uint64_t live_bytes)
{
    uint32_t used = used_rows(a);
    if (used == 0)
        step_ms = STEP_FIRST_MS;
    else if (now - load_relaxed(&a->timeline[used - 1].ms) < step_ms)
        return;
    if (used == LIVE_ROWS_timeline)
        used = thin_out(a);
    const struct live_process *p = a->process;
    struct live_timeline *t = &a->timeline[used];
    store_relaxed(&t->ms, now);
    store_relaxed(&t->live_bytes, live_bytes);
    uint64_t units = load_relaxed(&p->units_dirty) * UNIT_SIZE;
    uint64_t big = load_relaxed(&p->big_cached);
    store_relaxed(&t->dirty_bytes, units + big + load_relaxed(&p->pages_dirty));
    store_relaxed(&t->held_bytes,
                  load_relaxed(&p->super_bytes) + load_relaxed(&p->big_bytes) + big);
    store_release(&a->header.tables[LIVE_TABLE_timeline].used, used + 1);
}
