/* server: threads answer requests; sessions lie in a table that all share, so that most objects are
 * freed by another thread than the one that made them. */
#include <stdatomic.h>

#include "common.h"
#include "lanes.h"

#define HEADERS 3u
#define PAIRS_PER_REQUEST (1 + HEADERS + 2)

struct session {
    uint64_t id;
    void *body;
    size_t body_size;
    uint64_t check; /* of the three above */
};

struct worker {
    struct session *_Atomic *table;
    uint32_t sessions;
    uint64_t requests;
    uint64_t random;
};

static uint64_t check_of(const struct session *s)
{
    return s->id ^ (uint64_t)(uintptr_t)s->body ^ s->body_size;
}

static struct session *open_session(uint64_t id, size_t body_size)
{
    struct session *s = allocate(sizeof *s);
    s->id = id;
    s->body = take(body_size, id);
    s->body_size = body_size;
    s->check = check_of(s);
    return s;
}

static void close_session(struct session *s)
{
    if (s->check != check_of(s)) {
        die_corrupt(s);
    }
    give_back_sized(s->body, s->body_size, s->id);
    free(s);
}

/* What lives no longer than a request: its text and the fields found in it. */
static void answer(struct worker *w, uint32_t slot)
{
    void *header[HEADERS];
    uint64_t bits = next_random(&w->random);
    void *text = take(size_between(bits, 512, 2048), slot);
    for (unsigned i = 0; i < HEADERS; i++) {
        header[i] = take(16 + (8 * i) + ((bits >> (40 + 4 * i)) & 63), i);
    }
    struct session *fresh = open_session(bits, size_between(bits >> 24, 16, 1040));
    struct session *old = atomic_exchange_explicit(&w->table[slot], fresh, memory_order_acq_rel);
    close_session(old);
    for (unsigned i = HEADERS; i-- > 0;) {
        give_back(header[i], i);
    }
    give_back(text, slot);
}

static void work(void *lane)
{
    struct worker *w = lane;
    for (uint64_t i = 0; i < w->requests; i++) {
        answer(w, below((uint32_t)(next_random(&w->random) >> 32), w->sessions));
    }
}

enum { THREADS, SESSIONS, REQUESTS, SEED, PARAMETERS };

static struct parameter parameters[PARAMETERS] = {
    [THREADS] = {"THREADS", "that answer", 1, MOST_LANES, NULL, 0, 0},
    [SESSIONS] = {"SESSIONS", "open at a time", 1, 10000000, NULL, 0, 0},
    [REQUESTS] = {"REQUESTS", "in all", 1, UINT64_C(10000000000), NULL, 0, 0},
    [SEED] = {"SEED", "of sizes and sessions", 0, UINT32_MAX, NULL, 1, 1},
};

int main(int argc, char **argv)
{
    static struct worker workers[MOST_LANES];
    parse_arguments("Threads answer requests and replace sessions in a table they share.",
                    parameters, PARAMETERS, argc, argv);
    unsigned threads = (unsigned)parameters[THREADS].value;
    uint32_t sessions = (uint32_t)parameters[SESSIONS].value;
    uint64_t seed = parameters[SEED].value;
    uint64_t random = seeded(seed, MOST_LANES);
    struct session *_Atomic *table = harness_table(sessions * sizeof *table);
    for (uint32_t slot = 0; slot < sessions; slot++) {
        uint64_t bits = next_random(&random);
        atomic_init(&table[slot], open_session(bits, size_between(bits, 16, 1040)));
    }
    uint64_t share = parameters[REQUESTS].value / threads;
    for (unsigned i = 0; i < threads; i++) {
        workers[i] = (struct worker){table, sessions, share, seeded(seed, i)};
    }
    uint64_t elapsed = run_lanes(
        &(struct lanes){.count = threads, .state = workers, .size = sizeof *workers, .body = work});
    report(share * threads * PAIRS_PER_REQUEST, elapsed);
    for (uint32_t slot = 0; slot < sessions; slot++) {
        close_session(atomic_load(&table[slot]));
    }
    return 0;
}
