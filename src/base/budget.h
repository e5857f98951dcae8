/* A budget of time, by the generic cell rate algorithm (ITU-T I.371): what is paid for takes its time, and may be so much
 * ahead of the clock. Calls: nothing. Called by: super, big, purge, heap, front. */
#ifndef HAK_BUDGET_H
#define HAK_BUDGET_H

#include "base/atomic.h"
#include "base/base.h"

/* False: there is no time for it now. `until_ms` is zero at first; a race costs a payment that is not counted. */
HAK_INLINE bool budget_pay(_Atomic uint64_t *until_ms, uint64_t now_ms, uint64_t cost_ms,
                           uint64_t ahead_ms)
{
    uint64_t until = load_relaxed(until_ms);
    if (until > now_ms + ahead_ms)
        return false;
    store_relaxed(until_ms, (until > now_ms ? until : now_ms) + cost_ms);
    return true;
}

#endif
