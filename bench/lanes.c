/* Threads side by side, and one after another. */
#include "lanes.h"

#include <semaphore.h>
#include <stdbool.h>

#include "common.h"

struct crew {
    const struct lanes *lanes;
    pthread_barrier_t ready;
    sem_t ended;
};

struct lane {
    struct crew *crew;
    void *own;
    unsigned generation;
    pthread_t before; /* the thread that started this one, which joins it */
    uint64_t start_ns;
    uint64_t end_ns;
};

static void prepare(const struct lanes *lanes, void *own)
{
    if (lanes->prepare != NULL) {
        lanes->prepare(own);
    }
}

static void *lane_thread(void *argument);

static void start(struct lane *lane, pthread_t *thread)
{
    if (pthread_create(thread, NULL, lane_thread, lane) != 0) {
        die("cannot create a thread");
    }
}

static void *lane_thread(void *argument)
{
    struct lane *lane = argument;
    const struct lanes *lanes = lane->crew->lanes;
    if (lane->generation > 0) {
        pthread_join(lane->before, NULL);
    } else {
        prepare(lanes, lane->own);
        pthread_barrier_wait(&lane->crew->ready);
        lane->start_ns = now_ns();
    }
    lanes->body(lane->own);
    lane->before = pthread_self();
    if (++lane->generation < lanes->generations) {
        pthread_t successor;
        start(lane, &successor);
    } else {
        lane->end_ns = now_ns();
        sem_post(&lane->crew->ended);
    }
    return NULL;
}

static uint64_t run_here(const struct lanes *lanes)
{
    prepare(lanes, lanes->state);
    uint64_t start_ns = now_ns();
    lanes->body(lanes->state);
    return now_ns() - start_ns;
}

static uint64_t join_all(struct lane *lane, unsigned count)
{
    uint64_t first_start = UINT64_MAX;
    uint64_t last_end = 0;
    for (unsigned i = 0; i < count; i++) {
        pthread_join(lane[i].before, NULL);
        first_start = lane[i].start_ns < first_start ? lane[i].start_ns : first_start;
        last_end = lane[i].end_ns > last_end ? lane[i].end_ns : last_end;
    }
    return last_end - first_start;
}

uint64_t run_lanes(const struct lanes *lanes)
{
    if (lanes->count == 1 && lanes->generations <= 1) {
        return run_here(lanes);
    }
    struct crew crew = {.lanes = lanes};
    struct lane lane[MOST_LANES];
    if (lanes->count > MOST_LANES || pthread_barrier_init(&crew.ready, NULL, lanes->count) != 0 ||
        sem_init(&crew.ended, 0, 0) != 0) {
        die("cannot prepare the threads");
    }
    for (unsigned i = 0; i < lanes->count; i++) {
        lane[i] = (struct lane){.crew = &crew, .own = (char *)lanes->state + i * lanes->size};
        pthread_t first;
        start(&lane[i], &first);
    }
    for (unsigned i = 0; i < lanes->count; i++) {
        while (sem_wait(&crew.ended) != 0) {
        }
    }
    uint64_t elapsed = join_all(lane, lanes->count);
    pthread_barrier_destroy(&crew.ready);
    sem_destroy(&crew.ended);
    return elapsed;
}

void start_small_thread(pthread_t *thread, void *(*body)(void *), void *argument)
{
    enum { STACK = 128 << 10 };
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) != 0 || pthread_attr_setstacksize(&attributes, STACK) != 0 ||
        pthread_create(thread, &attributes, body, argument) != 0) {
        die("cannot start a thread");
    }
    pthread_attr_destroy(&attributes);
}
