/* Threads side by side, and one after another. */
#ifndef BENCH_LANES_H
#define BENCH_LANES_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define MOST_LANES 64u

typedef void lane_fn(void *lane);

struct lanes {
    unsigned count;       /* side by side */
    unsigned generations; /* threads one after another in each, a thread starting the next; 0: 1 */
    void *state;          /* an array; each lane's body gets its own element */
    size_t size;          /* of an element */
    lane_fn *prepare;     /* or NULL: by the first thread of each lane, before time counts */
    lane_fn *body;
};

/* Returns the wall time from the moment at which the first thread of every lane stood ready until
 * the last body returned. A single thread is the calling one. */
uint64_t run_lanes(const struct lanes *);

/* A thread with a small stack, of which there may be thousands; the caller joins it. */
void start_small_thread(pthread_t *thread, void *(*body)(void *), void *argument);

#ifdef __cplusplus
}
#endif

#endif
