/* One thread changes every setting that a program may change, to values of all kinds, while others work. Nobody's bytes change.
 *
 *     settings [--threads 3] [--seconds 3] [--seed 1]
 */
#include <hakmem/hakmem.h>

#include <stdatomic.h>
#include <string.h>

#include "support.h"

enum { THREADS_MOST = 16, SLOTS = 128, VALUES_MOST = 6, EVERY_MS = 1 };

static const struct setting {
    const char *name;
    size_t count, values[VALUES_MOST];
} settings[] = {
    {"opt.retain", 3, {0, 1 << 20, 64 << 20}},
    {"opt.retain_max", 3, {0, 16 << 20, 256 << 20}},
    {"opt.magazine_max", 3, {2, 64, 4096}},
    {"opt.magazines", 5, {0, 1, 2, 3, 4}},
    {"opt.huge_pages", 2, {0, 1}},
    {"opt.huge_min", 2, {0, 64 << 20}},
    {"opt.huge_blocks", 5, {0, 1, 2, 3, 4}},
    {"opt.prefault", 2, {0, 1}},
    {"opt.whale_capacity", 4, {0, 4, 64, 512}},
    {"opt.pressure", 2, {0, 1}},
    {"opt.soft_limit", 3, {0, 32 << 20, 1 << 30}},
    {"opt.learn", 2, {0, 1}},
    {"opt.keep", 6, {0, 1, 2, 3, 4, 5}},
    {"opt.keep_time", 2, {0, 2000}},
    {"opt.keep_worth", 2, {0, 4000}},
    {"opt.hollow_time", 3, {0, 1, 1000}},
    {"opt.profile", 2, {0, 1}},
    {"opt.profile_interval", 3, {1, 4096, 512 << 10}},
    {"opt.profile_rate", 3, {1, 500, 1000000}},
    {"opt.profile_unwind", 2, {0, 1}},
    {"opt.profile_depth", 3, {1, 32, 64}},
    {"opt.guards", 3, {0, 16, 64}},
    {"opt.deepbind", 2, {0, 1}},
    {"opt.stats", 1, {0}}, /* 1 prints at the end */
#if HAK_SECURE
    {"opt.zero_freed", 2, {0, 1}},
#endif
};
enum { SETTINGS = sizeof(settings) / sizeof(settings[0]) };

/* One of those that the library says may be changed, at any time. */
#define OPTION(name, type, when, first, least, most, text) {"opt." #name, WHEN_##when},
enum when { WHEN_START, WHEN_LATER };
static const struct {
    const char *name;
    enum when when;
} options[] = {
#include "control/options.def"
};
#undef OPTION

static void check_that_none_is_missing(void)
{
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        size_t k = 0;
        while (k < SETTINGS && strcmp(settings[k].name, options[i].name) != 0) {
            k++;
        }
        if ((options[i].when == WHEN_LATER) != (k < SETTINGS)) {
            fail("%s is a setting that may%s be changed", options[i].name,
                 options[i].when == WHEN_LATER ? "" : " not");
        }
    }
}

static atomic_bool stop;

struct worker {
    pthread_t thread;
    struct rng rng;
    uint64_t next_id;
    struct parcel *slots[SLOTS];
};

static void *work(void *worker)
{
    struct worker *w = worker;
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        struct parcel **slot = &w->slots[rng_below(&w->rng, SLOTS)];
        parcel_end(*slot);
        *slot = parcel_new(rng_log_size(&w->rng, 4 * MIB), w->next_id++);
    }
    for (size_t i = 0; i < SLOTS; i++) {
        parcel_end(w->slots[i]);
    }
    return NULL;
}

static void change(struct rng *rng)
{
    const struct setting *s = &settings[rng_below(rng, SETTINGS)];
    size_t value = s->values[rng_below(rng, s->count)], now = 0, size = sizeof(now);
    int wrong = hak_ctl(s->name, NULL, NULL, &value, sizeof(value));
    if (wrong != 0) {
        fail("%s to %zu: %s", s->name, value, strerror(wrong));
    }
    if (hak_ctl(s->name, &now, &size, NULL, 0) != 0 || now != value) {
        fail("%s is %zu after it was set to %zu", s->name, now, value);
    }
}

int main(int argc, char **argv)
{
    static struct worker workers[THREADS_MOST];
    uint64_t threads = option(argc, argv, "--threads", 3), seed = option(argc, argv, "--seed", 1);
    uint64_t end = now_ms() + 1000 * option(argc, argv, "--seconds", 3), changes = 0;
    check_that_none_is_missing();
    if (threads > THREADS_MOST) {
        fail("--threads is %d at most", THREADS_MOST);
    }
    for (size_t i = 0; i < threads; i++) {
        workers[i].rng = rng_seeded(seed, i);
        workers[i].next_id = (uint64_t)i << 48;
        workers[i].thread = thread_start(work, &workers[i]);
    }
    struct rng rng = rng_seeded(seed, threads);
    for (; now_ms() < end; changes++) {
        change(&rng);
        sleep_ms(EVERY_MS);
    }
    atomic_store(&stop, true);
    for (size_t i = 0; i < threads; i++) {
        thread_join(workers[i].thread);
    }
    note("%llu changes", (unsigned long long)changes);
    return 0;
}
