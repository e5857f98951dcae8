/* The scenes of footprint.c, and what they share. */
#ifndef HAK_TESTS_FOOTPRINT_H
#define HAK_TESTS_FOOTPRINT_H

#include "support.h"

enum {
    IDLE_SLACK_KIB = 4096,
    WORKER_PATIENCE_MS = 60000,
    GUARDED_PAGES = 15 /* of a guarded sample, at most */
};

long page_faults(void);
/* Those that guarded samples of so many pages at most may have taken since then. */
long guard_faults(uint64_t started_ms, long pages);

/* The worker alone does something meanwhile. */
size_t rss_when_at_most(size_t most);

/* slabs.c */
void check_scattered(void);
void check_asleep(void);
void check_asleep_worker(void);
void check_emptied(void);
void check_emptied_heap(void);

/* demand.c */
void check_swing(void);
void check_trickle(void);
void check_growing(void);
void check_worker(void);

/* huge.c */
void check_collapsed(void);

#endif
