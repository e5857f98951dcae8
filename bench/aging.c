/* aging: a long-running process whose requests slowly become others: most blocks are short-lived,
 * some stay, and the sizes asked for drift up and down. */
#include "lanes.h"
#include "pieces.h"

#define SHORT_LIVED 256u /* of these at a time, replaced in turn */
#define STAYING_SHARE 16u
#define DRIFT_STEPS 8u
#define STEP_LENGTH 16384u /* requests from one step of the drift to the next */

struct worker {
    struct pieces staying;
    struct piece passing[SHORT_LIVED];
    uint64_t bytes; /* of what stays */
    uint64_t requests;
    uint64_t served;
    uint64_t random;
};

/* Around a power of two that wanders from 16 to 2048 and back: from 1 to 8 times that. */
static uint32_t draw_size(uint64_t served, uint64_t bits)
{
    uint64_t step = served / STEP_LENGTH % (2 * DRIFT_STEPS - 2);
    uint64_t shift = step < DRIFT_STEPS ? step : 2 * DRIFT_STEPS - 2 - step;
    return (uint32_t)((16 + (bits & 15)) << (shift + ((bits >> 4) & 3) * ((bits >> 6) & 1)));
}

static void replace_passing(struct worker *w, uint32_t size)
{
    struct piece *place = &w->passing[w->served % SHORT_LIVED];
    if (place->block != NULL) {
        give_back_sized(place->block, place->size, place->owner);
    }
    uint32_t owner = (uint32_t)w->served;
    *place = (struct piece){take(size, owner), size, owner};
}

static void add_staying(struct worker *w, uint32_t size)
{
    pieces_add(&w->staying, size);
    while (w->staying.bytes > w->bytes) {
        pieces_remove_any(&w->staying, &w->random);
    }
}

static void serve(struct worker *w)
{
    uint64_t bits = next_random(&w->random);
    uint32_t size = draw_size(w->served, bits >> 16);
    if ((bits & (STAYING_SHARE - 1)) == 0) {
        add_staying(w, size);
    } else {
        replace_passing(w, size);
    }
    w->served++;
}

/* Until memory is full once. */
static void prepare(void *lane)
{
    struct worker *w = lane;
    uint64_t before = 0;
    while (w->staying.bytes >= before) {
        before = w->staying.bytes;
        serve(w);
    }
}

static void work(void *lane)
{
    struct worker *w = lane;
    for (uint64_t i = 0; i < w->requests; i++) {
        serve(w);
    }
}

static void end(struct worker *w)
{
    pieces_remove_all(&w->staying);
    for (unsigned i = 0; i < SHORT_LIVED; i++) {
        if (w->passing[i].block != NULL) {
            give_back_sized(w->passing[i].block, w->passing[i].size, w->passing[i].owner);
        }
    }
}

enum { MIB, REQUESTS, THREADS, SEED, PARAMETERS };

static struct parameter parameters[PARAMETERS] = {
    [MIB] = {"MIB", "live in all", 1, 16384, NULL, 0, 0},
    [REQUESTS] = {"REQUESTS", "in all, once memory is full", 1, UINT64_C(10000000000), NULL, 0, 0},
    [THREADS] = {"THREADS", "each with blocks of its own", 1, MOST_LANES, NULL, 1, 1},
    [SEED] = {"SEED", "of sizes and lifetimes", 0, UINT32_MAX, NULL, 1, 1},
};

int main(int argc, char **argv)
{
    static struct worker workers[MOST_LANES];
    parse_arguments("Short-lived and long-lived blocks whose sizes drift for a long time.",
                    parameters, PARAMETERS, argc, argv);
    unsigned threads = (unsigned)parameters[THREADS].value;
    uint64_t bytes = (parameters[MIB].value << 20) / threads;
    for (unsigned i = 0; i < threads; i++) {
        struct worker *w = &workers[i];
        pieces_init(&w->staying, bytes / 128 + 32768);
        w->bytes = bytes;
        w->requests = parameters[REQUESTS].value / threads;
        w->random = seeded(parameters[SEED].value, i);
    }
    uint64_t elapsed = run_lanes(&(struct lanes){.count = threads,
                                                 .state = workers,
                                                 .size = sizeof *workers,
                                                 .prepare = prepare,
                                                 .body = work});
    report(workers[0].requests * threads, elapsed);
    report_value("live_kib", (double)(parameters[MIB].value << 10));
    for (unsigned i = 0; i < threads; i++) {
        end(&workers[i]);
    }
    report_value("rss_end_kib", (double)rss_now_kib());
    return 0;
}
