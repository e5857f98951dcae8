/* latency: how long single calls take, the slowest ones included. */
#include "common.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#define TIMER_READS 100001u
#define WARM_OPERATIONS 65536u

/* The processor's own counter where there is one: a tenth of a call's time is too much for a clock.
 * The fences keep the call between the two reads. */
static inline uint64_t read_timer(void)
{
#if defined(__x86_64__)
    _mm_lfence();
    uint64_t ticks = __rdtsc();
    _mm_lfence();
    return ticks;
#else
    return now_ns();
#endif
}

/* Exact below 128 ticks, to a 64th above. */
#define EXACT 128u
#define PARTS 64u
#define BUCKETS (EXACT + 57 * PARTS)

struct histogram {
    uint64_t calls;
    uint64_t ticks; /* all of them together */
    uint64_t bucket[BUCKETS];
};

static size_t bucket_of(uint64_t ticks)
{
    if (ticks < EXACT) {
        return ticks;
    }
    unsigned top = 63u - (unsigned)__builtin_clzll(ticks);
    return EXACT + (top - 7) * PARTS + (ticks >> (top - 6)) - PARTS;
}

static double least_of(size_t bucket)
{
    if (bucket < EXACT) {
        return (double)bucket;
    }
    unsigned top = (unsigned)((bucket - EXACT) / PARTS) + 7;
    return (double)(((bucket - EXACT) % PARTS + PARTS) << (top - 6));
}

static void add(struct histogram *h, uint64_t ticks)
{
    h->calls++;
    h->ticks += ticks;
    h->bucket[bucket_of(ticks)]++;
}

/* Some machines' counters advance in steps much longer than a tick. A call that starts anywhere in
 * a step is seen as one of two numbers of steps, so what lies in one bucket is taken as spread over
 * a step around it. */
static double quantile(const struct histogram *h, double share, double step)
{
    double wanted = (double)h->calls * share;
    double seen = 0;
    for (size_t i = 0; i < BUCKETS; i++) {
        double here = (double)h->bucket[i];
        if (here > 0 && seen + here >= wanted) {
            double width = least_of(i + 1) - least_of(i);
            width = width > step ? width : step;
            return least_of(i) + width * ((wanted - seen) / here - 0.5);
        }
        seen += here;
    }
    die("no call was timed");
}

struct timer {
    double cost; /* ticks two reads with nothing between them are apart, in the middle */
    double step; /* the shortest time other than none that it can tell */
};

static void look_at_timer(struct timer *timer)
{
    static struct histogram reads;
    uint64_t step = UINT64_MAX;
    uint64_t before = read_timer();
    for (unsigned i = 0; i < TIMER_READS; i++) {
        uint64_t after = read_timer();
        uint64_t apart = after - before;
        add(&reads, apart);
        step = apart > 0 && apart < step ? apart : step;
        before = after;
    }
    for (size_t i = 1; i < EXACT; i++) {
        for (size_t k = i + 1; k < EXACT; k++) {
            if (reads.bucket[i] > 0 && reads.bucket[k] > 0 && k - i < step) {
                step = k - i;
            }
        }
    }
    timer->step = (double)step;
    timer->cost = quantile(&reads, 0.5, timer->step);
}

struct mix {
    void **table;
    uint32_t live;
    size_t least;
    size_t most;
    uint64_t random;
    struct histogram mallocs;
    struct histogram frees;
};

static void timed_replace(struct mix *mix, uint64_t bits, uint32_t slot)
{
    size_t size = size_between(bits, mix->least, mix->most);
    check_at(mix->table[slot], 0, slot);
    uint64_t before = read_timer();
    free(mix->table[slot]);
    uint64_t between = read_timer();
    void *block = malloc(size);
    uint64_t after = read_timer();
    if (block == NULL) {
        die_no_memory(size);
    }
    stamp(block, size, slot);
    mix->table[slot] = block;
    add(&mix->frees, between - before);
    add(&mix->mallocs, after - between);
}

static void replace(struct mix *mix, uint64_t operations)
{
    for (uint64_t i = 0; i < operations; i++) {
        uint64_t bits = next_random(&mix->random);
        timed_replace(mix, bits, below((uint32_t)(bits >> 32), mix->live));
    }
}

static void fill(struct mix *mix)
{
    for (uint32_t slot = 0; slot < mix->live; slot++) {
        mix->table[slot] =
            take(size_between(next_random(&mix->random), mix->least, mix->most), slot);
    }
}

static void report_calls(const char *const keys[3], const struct histogram *h,
                         const struct timer *timer, double ns_per_tick)
{
    static const double shares[3] = {0.5, 0.99, 0.999};
    for (unsigned i = 0; i < 3; i++) {
        double ticks = quantile(h, shares[i], timer->step) - timer->cost;
        report_value(keys[i], ticks > 0 ? ticks * ns_per_tick : 0);
    }
}

/* Time in the calls alone, without the timer's. */
static uint64_t calls_ns(const struct mix *mix, const struct timer *timer, double ns_per_tick)
{
    double ticks = (double)(mix->mallocs.ticks + mix->frees.ticks);
    ticks -= timer->cost * (double)(mix->mallocs.calls + mix->frees.calls);
    return ticks > 0 ? (uint64_t)(ticks * ns_per_tick) : 0;
}

enum { LEAST, MOST, LIVE, OPERATIONS, SEED, PARAMETERS };

static struct parameter parameters[PARAMETERS] = {
    [LEAST] = {"LEAST", "bytes of the smallest block", 8, 1048576, NULL, 0, 0},
    [MOST] = {"MOST", "bytes of the largest block", 8, 1048576, NULL, 0, 0},
    [LIVE] = {"LIVE", "blocks at a time", 1, 100000000, NULL, 0, 0},
    [OPERATIONS] = {"OPERATIONS", "replacements, each a free and a malloc", 1, 1000000000, NULL, 0,
                    0},
    [SEED] = {"SEED", "of sizes and slots", 0, UINT32_MAX, NULL, 1, 1},
};

int main(int argc, char **argv)
{
    static struct mix mix;
    parse_arguments("How long single calls of malloc and free take.", parameters, PARAMETERS, argc,
                    argv);
    mix.live = (uint32_t)parameters[LIVE].value;
    mix.least = parameters[LEAST].value;
    mix.most = parameters[MOST].value;
    if (mix.least > mix.most) {
        refuse_arguments("LEAST is more than MOST");
    }
    mix.random = seeded(parameters[SEED].value, 0);
    mix.table = harness_table(mix.live * sizeof(void *));
    fill(&mix);
    struct timer timer;
    look_at_timer(&timer);
    replace(&mix, WARM_OPERATIONS);
    memset(&mix.mallocs, 0, sizeof mix.mallocs);
    memset(&mix.frees, 0, sizeof mix.frees);

    uint64_t start_ns = now_ns();
    uint64_t start_ticks = read_timer();
    replace(&mix, parameters[OPERATIONS].value);
    double ns_per_tick = (double)(now_ns() - start_ns) / (double)(read_timer() - start_ticks);
    static const char *const malloc_keys[3] = {"malloc_p50_ns", "malloc_p99_ns", "malloc_p999_ns"};
    static const char *const free_keys[3] = {"free_p50_ns", "free_p99_ns", "free_p999_ns"};
    report(parameters[OPERATIONS].value, calls_ns(&mix, &timer, ns_per_tick));
    report_calls(malloc_keys, &mix.mallocs, &timer, ns_per_tick);
    report_calls(free_keys, &mix.frees, &timer, ns_per_tick);
    report_value("timer_cost_ns", timer.cost * ns_per_tick);
    report_value("timer_step_ns", timer.step * ns_per_tick);
    for (uint32_t slot = 0; slot < mix.live; slot++) {
        give_back(mix.table[slot], slot);
    }
    return 0;
}
