/* Records: what is known of each sampled block that lives, found by its address, and its row in the live area. All under
 * the sampler's lock.
 *
 * Calls: live. Called by: sampler, story. */
#ifndef HAK_RECORDS_H
#define HAK_RECORDS_H

#include "live/live.h"

struct record {
    uintptr_t address; /* 0: none */
    uint64_t size, usable;
    uint64_t weight_bytes, weight_objects;
    uint64_t born_ms;
    uint32_t site, tid;
    uint32_t next; /* in its bucket or among the free: number */
};

/* Where they are shown. NULL also before sampler_carry_over: nothing of what was sampled stands in the new area yet. */
HAK_INLINE struct live_area *records_area(void)
{
    return hak_live.inherited == NULL ? live_area() : NULL;
}

/* One that is in no bucket yet; NULL: there are as many as there can be. */
struct record *record_take(void);
/* Is in no bucket any more; its row shows none. `a`: NULL if there is no row. */
void record_release(struct live_area *a, struct record *r);

/* How many are taken. */
uint32_t records_live(void);

/* Into the bucket of its address, and out of it. */
void record_link(struct record *r);
void record_unlink(struct record *r);

/* NULL: there is none in the address' bucket. */
struct record *record_find(uintptr_t address);

/* The live ones one by one, those in no bucket included; NULL: before the first, after the last. */
const struct record *records_next(const struct record *r);

/* From 1 on, for whoever keeps it over a time in which the record is in no bucket. */
uint32_t record_number(const struct record *r);
struct record *record_at(uint32_t number);

void record_show(struct live_area *a, const struct record *r);

#endif
