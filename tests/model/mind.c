/* Rows of decisions (mind/log.c): a reader takes a row if its number was the same before and after it read the
 * rest, and then the rest is of that decision. */
#include "heaps.h"

/* With its static functions. */
#include "mind/log.c"

static struct live_area *area;

static void setup(void)
{
    hak_options.live = 1;
    heaps_ignore_settings();
    store_relaxed(&hak_live.due, true);
    area = live_make();
    struct live_decisions *d = &area->decisions[0];
    (void)load_relaxed(&d->number);
    (void)load_relaxed(&d->ms);
    (void)load_relaxed(&d->to);
    model_hooks->ignore(&d->key, sizeof d->key);
    model_hooks->ignore(&d->from, sizeof d->from);
    model_hooks->ignore(&d->policy, sizeof d->policy);
    model_hooks->ignore(&d->episodes, sizeof d->episodes);
    model_hooks->ignore(&d->seen_kib, sizeof d->seen_kib);
    model_hooks->ignore(&d->reused_kib, sizeof d->reused_kib);
    model_hooks->ignore(&d->gap_ms, sizeof d->gap_ms);
    model_hooks->ignore(&d->is_shadow, sizeof d->is_shadow);
    (void)load_relaxed(&area->header.tables[LIVE_TABLE_decisions].used);
    (void)live_area();
    log_decision(&(struct decision){.to = 1}, 1001);
    decisions = LIVE_ROWS_decisions; /* the next one goes into the same row */
}

static void decide_and_read(int index)
{
    if (index == 0) {
        log_decision(&(struct decision){.to = 2}, 1002);
        return;
    }
    struct live_decisions *d = &area->decisions[0];
    uint64_t before = load_acquire(&d->number);
    uint64_t ms = load_relaxed(&d->ms);
    uint32_t to = load_relaxed(&d->to);
    atomic_thread_fence(memory_order_acquire);
    uint64_t after = load_relaxed(&d->number);
    if (before == 0 || before != after)
        return;
    bool is_first = before == 1;
    model_assert(ms == (is_first ? 1001 : 1002) && to == (is_first ? 1U : 2U));
}

static void check(void)
{
    model_assert(load_relaxed(&area->decisions[0].number) == LIVE_ROWS_decisions + 1);
}

const struct model_scenario mind_decisions = {"mind.decisions", 2,    0, 256, setup,
                                              decide_and_read,  check};
