/* The log of what the mind decides: the latest decisions, in the live area.
 *
 * Under the purge's lock. Calls: live. Called by: keep, touch, purge. */
#ifndef HAK_LOG_H
#define HAK_LOG_H

#include "base/base.h"

/* In the order of python/hakmem/insight/mind.py. */
enum policy {
    POLICY_KEEP,     /* key: row of rules; from, to: milliseconds */
    POLICY_MAGAZINE, /* key: size class; from, to: slots */
    POLICY_HUGE /* key: as for keep by size; from, to: whether big blocks are touched as a whole.
                      * 0: whether huge pages are cheaper */
};

struct decision {
    enum policy policy;
    uint32_t key, from, to;
    uint32_t episodes;             /* how often that was seen which speaks for it */
    uint32_t gap_ms;               /* POLICY_KEEP: mean time to use again, of: */
    uint64_t reused_kib, seen_kib; /* POLICY_HUGE: share touched; ns of huge and of small pages */
    bool is_shadow;                /* it has no effect */
};

void log_decision(const struct decision *d, uint64_t now_ms);

#endif
