/* Sites: the call stacks that allocated sampled blocks, in the live area's tables `sites` and `stacks`. All
 * under the sampler's lock. Calls: live. Called by: sampler. */
#ifndef HAK_SITES_H
#define HAK_SITES_H

#include "live/live.h"

/* The site of a stack, made if it is new. Site 0 stands for those for which there was no room. */
uint32_t site_for(struct live_area *a, const uintptr_t *stack, uint32_t depth, uint64_t now);

/* What a block stands for: bytes, objects in 1/1024, rounding; and when it was allocated. */
struct site_change {
    uint32_t site;
    uint64_t bytes, objects, rounding, born_ms;
};

/* Its return addresses, innermost first, no more than `most`; how many. */
uint32_t site_stack(const struct live_area *a, uint32_t site, uintptr_t *out, uint32_t most);

void site_allocated(struct live_area *a, struct site_change c);
/* Allocated, and never to be heard of again. */
void site_passed(struct live_area *a, struct site_change c);
void site_freed(struct live_area *a, struct site_change c, uint64_t now);

/* Every site remembers what lives now as its share of the process' peak, or of what there was when memory became
 * tight. */
void sites_keep_peak(struct live_area *a);
void sites_keep_tight(struct live_area *a);

/* Copies the stacks of the area before, in the child of a fork: those do not change once they stand there. */
void sites_carry_over(struct live_area *a, const struct live_area *before);

#endif
