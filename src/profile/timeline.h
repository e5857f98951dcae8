/* The live area's time line: how much lived and was held, now and then, as long as the process runs. Under
 * the sampler's lock. Calls: live. Called by: sampler. */
#ifndef HAK_TIMELINE_H
#define HAK_TIMELINE_H

#include "live/live.h"

/* Adds a row if the last one is old enough. */
void timeline_note(struct live_area *a, uint64_t now, uint64_t live_bytes);

#endif
