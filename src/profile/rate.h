/* How often: the interval between samples, longer where they would come too fast or their tables fill up.
 * Each sample is weighed by the interval its thread's countdown was drawn of, so a change spoils nothing.
 *
 * Under the sampler's lock, but that any thread draws. Calls: os. Called by: sampler, heap, front. */
#ifndef HAK_RATE_H
#define HAK_RATE_H

#include "profile/sampler.h"

/* Bytes between two samples, on average, of countdowns that are drawn now. */
uint64_t rate_interval(void);

/* Draws the thread's next countdown. */
void rate_draw(struct sampler *s);

/* A sample was taken. */
void rate_count(uint64_t now_ms);

/* Doublings of the interval because of tables that fill up. */
void rate_set_fullness(uint32_t doublings);

#endif
