#include "mind/log.h"

#include "live/live.h"

static uint64_t decisions;

/* A reader takes a row for what it says if its number is not 0 and the same before and after. */
void log_decision(const struct decision *d, uint64_t now_ms)
{
    struct live_area *a = live_area();
    uint64_t number = decisions++;
    if (a == NULL)
        return;
    struct live_decisions *row = &a->decisions[number % LIVE_ROWS_decisions];
    store_relaxed(&row->number, (uint64_t)0);
    atomic_thread_fence(memory_order_release); /* it is not complete from here on */
    store_relaxed(&row->ms, now_ms);
    store_relaxed(&row->policy, (uint32_t)d->policy);
    store_relaxed(&row->key, d->key);
    store_relaxed(&row->from, d->from);
    store_relaxed(&row->to, d->to);
    store_relaxed(&row->is_shadow, (uint32_t)d->is_shadow);
    store_relaxed(&row->episodes, d->episodes);
    store_relaxed(&row->gap_ms, d->gap_ms);
    store_relaxed(&row->reused_kib, d->reused_kib);
    store_relaxed(&row->seen_kib, d->seen_kib);
    store_release(&row->number, number + 1);
    uint64_t rows = number + 1 < LIVE_ROWS_decisions ? number + 1 : LIVE_ROWS_decisions;
    live_raise_used(a, LIVE_TABLE_decisions, (uint32_t)rows);
}
