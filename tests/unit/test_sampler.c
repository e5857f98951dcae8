/* The sampler: its arithmetic, its arena, and whether what it says of a program's memory is true. Random numbers
 * have fixed seeds, so a run is like any other. */
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "control/options.h"
#include "front/secure.h"
#include "live/live.h"
#include "live_here.h"
#include "profile/arena.h"
#include "profile/poisson.h"
#include "profile/rate.h"
#include "profile/records.h"

enum { OBJECT = 1024 };

static struct sampler *mine(void)
{
    return &hak_thread.heap->magazines.sampler;
}

/* From now on, with this interval and this seed. */
static void sample_every(size_t interval, uint64_t seed)
{
    hak_options.profile_interval = interval;
    hak_options.profile_rate = 1000000;
    mine()->random = seed;
    rate_draw(mine());
}

static const struct live_process *shown(void)
{
    return live_area()->process;
}

struct sums {
    double live_bytes, live_objects, total_bytes, total_objects, rounding;
    size_t live_samples;
};

/* Over all sites. */
static struct sums sites_sums(void)
{
    struct sums s = {0};
    const struct live_area *a = live_area();
    for (uint32_t i = 0; i < load_relaxed(&a->header.tables[LIVE_TABLE_sites].used); i++) {
        const struct live_sites *row = &a->sites[i];
        s.live_bytes += (double)load_relaxed(&row->live_bytes);
        s.live_objects += (double)load_relaxed(&row->live_objects) / OBJECT;
        s.total_bytes += (double)load_relaxed(&row->total_bytes);
        s.total_objects += (double)load_relaxed(&row->total_objects) / OBJECT;
        s.rounding += (double)load_relaxed(&row->live_rounding);
        s.live_samples += load_relaxed(&row->live_samples);
    }
    return s;
}

/* ---- arithmetic ---- */

static void the_probability_of_a_hit_is_exact(void **state)
{
    (void)state;
    for (double x = 1e-9; x < 100; x *= 1.01) {
        double want = -expm1(-x);
        if (fabs(poisson_hit(x) / want - 1) > 1e-9)
            fail_msg("x = %g: %.15g instead of %.15g", x, poisson_hit(x), want);
    }
}

static void distances_are_exponential(void **state)
{
    (void)state;
    enum { DRAWS = 1000000, INTERVAL = 524288 };
    uint64_t random = 42;
    double sum = 0;
    int below[3] = {0};
    static const double quantiles[] = {0.1, 0.5, 0.99};
    for (int i = 0; i < DRAWS; i++) {
        int64_t d = poisson_distance(&random, INTERVAL);
        assert_true(d >= 0);
        sum += (double)d;
        for (int q = 0; q < 3; q++)
            below[q] += (double)d < -log1p(-quantiles[q]) * INTERVAL;
    }
    /* Five standard errors each. */
    assert_true(fabs(sum / DRAWS / INTERVAL - 1) < 5 / sqrt(DRAWS));
    for (int q = 0; q < 3; q++) {
        double p = quantiles[q], error = sqrt(p * (1 - p) / DRAWS);
        assert_true(fabs((double)below[q] / DRAWS - p) < 5 * error);
    }
}

/* ---- arena ---- */

static void blocks_of_the_arena_are_like_their_classes(void **state)
{
    (void)state;
    enum { EACH = 3 };
    static char *blocks[FIRST_PAGED][EACH];
    for (uint32_t class = 0; class < FIRST_PAGED; class ++) {
        size_t size = hak_classes[class].size, natural = size & (0 - size);
        for (int i = 0; i < EACH; i++) {
            bool zeroed;
            char *p = arena_take(class, &zeroed);
            assert_non_null(p);
            assert_int_equal((uintptr_t)p & (natural - 1), 0);
            assert_int_equal(arena_usable(p), size);
            assert_int_equal(arena_usable(p + 16), 0); /* inside it, or behind all */
            for (size_t j = 0; zeroed && j < size; j++)
                assert_int_equal(p[j], 0);
            memset(p, (int)class + i, size);
            blocks[class][i] = p;
        }
    }
    for (uint32_t class = 0; class < FIRST_PAGED; class ++) {
        for (int i = 0; i < EACH; i++) {
            char *p = blocks[class][i];
            for (size_t j = 0; j < hak_classes[class].size; j++)
                assert_int_equal(p[j], (char)((int)class + i));
            arena_give(p);
        }
    }
    assert_int_equal(arena_units(), 1);
}

/* ---- what is said of a program ---- */

static const size_t sizes[] = {0,      1,      8,      16,      17,      100,     1000,
                               1024,   1025,   5000,   9000,    30000,   65536,   70000,
                               200000, 262144, 300000, 1000000, 1048576, 1048577, 3000000};
enum { SIZES = sizeof sizes / sizeof sizes[0] };

static void with_every_block_sampled_all_is_known(void **state)
{
    (void)state;
    sample_every(1, 1);
    struct sums before = sites_sums();
    char *blocks[SIZES];
    size_t bytes = 0;
    for (size_t i = 0; i < SIZES; i++) {
        blocks[i] = front_alloc(sizes[i]);
        assert_non_null(blocks[i]);
        assert_true(front_usable(blocks[i], "test") >= sizes[i]);
        memset(blocks[i], 1, sizes[i]);
        bytes += sizes[i];
    }
    struct sums during = sites_sums();
    /* A word is hit with 1 - 1/e^8, and weighed by that: nearly as itself. */
    assert_true(fabs(during.live_bytes - before.live_bytes - (double)bytes) < 4);
    assert_true(fabs(during.live_objects - before.live_objects - (SIZES - 1)) < 2);
    for (size_t i = 0; i < SIZES; i++)
        front_free(blocks[i]);
    struct sums after = sites_sums();
    assert_true(after.live_bytes == before.live_bytes && after.live_objects == before.live_objects);
    assert_true(after.rounding == before.rounding && after.live_samples == before.live_samples);
    assert_true(after.total_bytes == during.total_bytes);
}

static void sampled_blocks_are_resized_zeroed_and_aligned(void **state)
{
    (void)state;
    sample_every(1, 2);
    struct sums before = sites_sums();
    char *p = NULL;
    for (size_t i = 1; i < SIZES; i++) {
        p = p == NULL ? front_alloc(sizes[i]) : front_realloc(p, sizes[i]);
        assert_non_null(p);
        for (size_t j = 0; i > 1 && j < sizes[i - 1]; j++)
            assert_int_equal(p[j], 7);
        memset(p, 7, sizes[i]);
    }
    front_free(p);
    for (size_t i = 0; i < SIZES; i++) {
        char *z = front_alloc_zeroed(secure_request(sizes[i]));
        for (size_t j = 0; j < sizes[i]; j++)
            assert_int_equal(z[j], 0);
        memset(z, 7, sizes[i]);
        front_free(z);
        char *a = front_alloc_aligned(4096, sizes[i]);
        assert_int_equal((uintptr_t)a % 4096, 0);
        front_free(a);
    }
    assert_true(sites_sums().live_bytes == before.live_bytes);
}

/* Whoever runs out of memory wants to know what has it. */
static void a_realloc_that_fails_leaves_the_sample(void **state)
{
    (void)state;
    static const size_t large[] = {100000, 600000, 3000000};
    sample_every(1, 2);
    for (size_t i = 0; i < sizeof large / sizeof large[0]; i++) {
        struct sums before = sites_sums();
        void *p = front_alloc(large[i]);
        struct sums during = sites_sums();
        assert_true(during.live_bytes == before.live_bytes + (double)large[i]);
        assert_null(front_realloc(p, (size_t)PTRDIFF_MAX));
        struct sums after = sites_sums();
        assert_true(after.live_bytes == during.live_bytes);
        assert_int_equal(after.live_samples, during.live_samples);
        front_free(p);
        assert_true(sites_sums().live_bytes == before.live_bytes);
    }
}

/* Blocks of all sizes at once: bytes, objects and rounding are estimated from some thousand samples. */
static void estimates_hold_for_a_mix_of_sizes(void **state)
{
    (void)state;
    enum { BLOCKS = 100000, INTERVAL = 16384 };
    static void *blocks[BLOCKS];
    sample_every(INTERVAL, 3);
    struct sums before = sites_sums();
    double bytes = 0, variance = 0, rounding = 0;
    for (int i = 0; i < BLOCKS; i++) {
        size_t size = i % 50 == 0 ? 20000 : (size_t)(i * 37 % 900) + 1;
        double hit = poisson_hit((double)size / INTERVAL);
        blocks[i] = front_alloc(size);
        bytes += (double)size;
        variance += (double)size * (double)size * (1 - hit) / hit;
        rounding += (double)(front_usable(blocks[i], "test") - size);
    }
    struct sums during = sites_sums();
    double got = during.live_bytes - before.live_bytes;
    assert_true(fabs(got - bytes) < 4 * sqrt(variance));
    assert_true(fabs((during.live_objects - before.live_objects) / BLOCKS - 1) < 0.3);
    assert_true(fabs((during.rounding - before.rounding) / rounding - 1) < 0.3);
    for (int i = 0; i < BLOCKS; i++)
        front_free(blocks[i]);
    assert_true(sites_sums().live_bytes == before.live_bytes);
}

/* One block, again and again: its magazine is never refilled. */
static void a_pair_that_never_refills_is_seen(void **state)
{
    (void)state;
    enum { PAIRS = 2000000, SIZE = 64, INTERVAL = 65536 };
    front_free(front_alloc(SIZE));
    sample_every(INTERVAL, 4);
    struct sums before = sites_sums();
    for (int i = 0; i < PAIRS; i++)
        front_free(front_alloc(SIZE));
    struct sums after = sites_sums();
    double want = (double)PAIRS * SIZE, error = sqrt(want * INTERVAL);
    assert_true(fabs(after.total_bytes - before.total_bytes - want) < 4 * error);
    assert_true(after.live_bytes == before.live_bytes);
}

static void too_many_samples_make_them_rare_and_unbiased(void **state)
{
    (void)state;
    enum { PAIRS = 400000, SIZE = 1000 };
    sample_every(4096, 5);
    hak_options.profile_rate = 1000;
    struct sums before = sites_sums();
    uint64_t samples = load_relaxed(&shown()->samples);
    for (int i = 0; i < PAIRS; i++)
        front_free(front_alloc(SIZE));
    samples = load_relaxed(&shown()->samples) - samples;
    assert_true(rate_interval() > 4096);
    assert_true(samples < (uint64_t)PAIRS * SIZE / 4096 / 4);
    double got = sites_sums().total_bytes - before.total_bytes;
    assert_true(fabs(got / ((double)PAIRS * SIZE) - 1) < 0.5);
}

static void the_peak_is_remembered_by_site(void **state)
{
    (void)state;
    enum { BLOCKS = 1000, SIZE = 100000 };
    static void *blocks[BLOCKS];
    sample_every(SIZE, 6);
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = front_alloc(SIZE);
    double live = sites_sums().live_bytes;
    for (int i = 0; i < BLOCKS; i++)
        front_free(blocks[i]);
    double peak = 0;
    const struct live_area *a = live_area();
    for (uint32_t i = 0; i < load_relaxed(&a->header.tables[LIVE_TABLE_sites].used); i++)
        peak += (double)load_relaxed(&a->sites[i].peak_bytes);
    assert_true(peak == (double)load_relaxed(&shown()->sampled_peak));
    assert_true(peak >= live * 63 / 64);
}

/* One at a time, of which each sample stands for very many. */
static void a_short_lived_sample_is_no_peak(void **state)
{
    (void)state;
    enum { BLOCKS = 1000, SIZE = 100000, FAR = 64 << 20, PAIRS = 2000000 };
    static void *blocks[BLOCKS];
    sample_every(SIZE, 7);
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = front_alloc(SIZE);
    double live = sites_sums().live_bytes;
    sample_every(FAR, 8);
    uint64_t samples = load_relaxed(&shown()->samples);
    for (int i = 0; i < PAIRS; i++)
        front_free(front_alloc(1000));
    assert_true(load_relaxed(&shown()->samples) > samples + 10);
    for (int i = 0; i < BLOCKS; i++)
        front_free(blocks[i]);
    double peak = (double)load_relaxed(&shown()->sampled_peak);
    if (peak < live / 2 || peak > live + FAR / 4)
        fail_msg("%.0f live, peak %.0f", live, peak);
    const struct live_area *a = live_area();
    for (uint32_t i = 0; i < load_relaxed(&a->header.tables[LIVE_TABLE_sites].used); i++) {
        const struct live_sites *s = &a->sites[i];
        assert_true((load_relaxed(&s->peak_samples) == 0) == (load_relaxed(&s->peak_bytes) == 0));
    }
}

static void *free_it(void *p)
{
    front_free(p);
    return NULL;
}

static void a_thread_frees_what_another_one_sampled(void **state)
{
    (void)state;
    sample_every(1, 7);
    struct sums before = sites_sums();
    void *p = front_alloc(100);
    assert_int_equal(unit_word(unit_of(p)), WORD_SAMPLED);
    assert_true(sites_sums().live_samples == before.live_samples + 1);
    pthread_t other;
    assert_int_equal(pthread_create(&other, NULL, free_it, p), 0);
    assert_int_equal(pthread_join(other, NULL), 0);
    struct sums after = sites_sums();
    assert_true(after.live_samples == before.live_samples);
    assert_true(after.live_bytes == before.live_bytes);
}

/* As in a signal handler that has interrupted the holder of the sampler's lock. */
static void what_ends_beside_the_lock_is_forgotten_later(void **state)
{
    (void)state;
    enum { BLOCKS = 4, SIZE = 300000 };
    void *blocks[BLOCKS];
    sample_every(1, 7);
    struct sums before = sites_sums();
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = front_alloc(SIZE);
    assert_true(sites_sums().live_samples == before.live_samples + BLOCKS);
    thread_enter();
    lock_take(sampler_lock());
    for (int i = 0; i < BLOCKS; i++)
        front_free(blocks[i]);
    lock_release(sampler_lock());
    thread_leave();
    assert_true(sites_sums().live_samples == before.live_samples + BLOCKS);
    front_free(front_alloc(SIZE));
    struct sums after = sites_sums();
    assert_true(after.live_samples == before.live_samples);
    assert_true(after.live_bytes == before.live_bytes);
}

/* The lock was free before the block was resized, and is not afterwards. */
static void what_is_resized_beside_the_lock_is_forgotten_later(void **state)
{
    (void)state;
    enum { SIZE = 300000 };
    sample_every(1, 8);
    struct sums before = sites_sums();
    uint32_t records = records_live();
    void *p = front_alloc(SIZE);
    assert_int_equal(records_live(), records + 1);
    uint32_t record = sampled_detach(p);
    assert_int_not_equal(record, 0);
    thread_enter(); /* the holder, and ... */
    lock_take(sampler_lock());
    thread_enter(); /* ... the handler */
    assert_false(sampled_settle(record, false));
    thread_leave();
    lock_release(sampler_lock());
    thread_leave();
    slab_at(unit_of(p))->sampled = 0; /* as whoever resizes it says */
    assert_int_equal(records_live(), records + 1);
    front_free(front_alloc(SIZE));
    assert_int_equal(records_live(), records);
    assert_true(sites_sums().live_samples == before.live_samples);
    front_free(p);
    assert_int_equal(records_live(), records);
}

static void a_sampled_block_comes_home_from_a_magazine(void **state)
{
    (void)state;
    sample_every(1, 7);
    struct sums before = sites_sums();
    void *p = front_alloc(100);
    assert_int_equal(unit_word(unit_of(p)), WORD_SAMPLED);
    /* hak_free_sized_inline takes it for a block of its class and puts it into the magazine. */
    struct magazine *m = magazine_of(hak_thread.heap, class_for(100));
    hak_options.profile = 0;
    rate_draw(mine());
    void *fill = front_alloc(100);
    front_free(fill);
    assert_true(magazine_push(m, p));
    assert_ptr_equal(front_alloc(100), p);
    assert_true(magazine_push(m, p));
    (void)front_trim(); /* from there it finds its way home */
    hak_options.profile = 1;
    assert_true(sites_sums().live_bytes == before.live_bytes);
}

static void the_child_of_a_fork_has_its_own_area(void **state)
{
    (void)state;
    sample_every(1, 8);
    void *p = front_alloc(5000);
    struct sums before = sites_sums();
    struct live_area *parents = live_area();
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        bool forgotten = live_area() == NULL;
        void *q = front_alloc(70000);
        struct live_area *own = live_area();
        bool is_own = own != NULL && own != parents &&
                      load_relaxed(&own->process[0].pid) == (uint32_t)getpid();
        double more = sites_sums().live_bytes - before.live_bytes;
        front_free(p);
        double less = sites_sums().live_bytes - before.live_bytes;
        front_free(q);
        _exit(forgotten && is_own && more == 70000 && less == 65000 ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_ptr_equal(live_area(), parents);
    assert_true(sites_sums().live_bytes == before.live_bytes);
    front_free(p);
}

static struct lock gate = {.state = 1};

/* As in a handler that interrupted the sampler and waits to fork. */
static void *hold_the_sampler(void *held)
{
    lock_take(sampler_lock());
    store_relaxed(&sampler_lock()->stalled, true);
    store_release((_Atomic bool *)held, true);
    lock_take(&gate);
    store_relaxed(&sampler_lock()->stalled, false);
    lock_release(sampler_lock());
    return NULL;
}

/* The child of a handler's fork while another thread has the lock: it must not wait for that. */
static void a_child_without_the_lock_samples_no_more(void **state)
{
    (void)state;
    sample_every(1, 10);
    static _Atomic bool held;
    void *p = front_alloc(100);
    pthread_t holder;
    assert_int_equal(pthread_create(&holder, NULL, hold_the_sampler, &held), 0);
    while (!load_acquire(&held))
        sched_yield();
    thread_enter();
    pid_t child = fork();
    thread_leave();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(120); /* instead of waiting for ever */
        front_free(p);
        void *q = front_alloc(100);
        bool is_sample = unit_word(unit_of(q)) == WORD_SAMPLED;
        front_free(q);
        _exit(is_sample ? 1 : 0);
    }
    lock_release(&gate);
    assert_int_equal(pthread_join(holder, NULL), 0);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    front_free(p);
}

/* Of a program that would have `usual` per second, in so many seconds. */
static double samples_in(double seconds, double usual, double *now_ms)
{
    double end = *now_ms + 1000 * seconds, samples = 0;
    for (; *now_ms < end; samples++) {
        rate_count((uint64_t)*now_ms);
        *now_ms += 1000 / usual * (double)(rate_interval() / hak_options.profile_interval);
    }
    return samples;
}

/* However few, and no fewer than that after a time with many. */
static void no_more_samples_a_second_than_are_allowed(void **state)
{
    (void)state;
    enum { SECONDS = 1000 };
    static const double usual[] = {0.5, 3, 20, 1000, 20, 2};
    static const size_t rates[] = {1, 5, 8, 64, 500};
    double now_ms = 1e9;
    sample_every(4096, 8);
    rate_count((uint64_t)now_ms);
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        hak_options.profile_rate = rates[i];
        for (size_t k = 0; k < sizeof usual / sizeof usual[0]; k++) {
            double got = samples_in(SECONDS, usual[k], &now_ms) / SECONDS;
            double allowed = (double)rates[i];
            assert_true(got < 1.25 * allowed);
            assert_true(got > (usual[k] < allowed ? usual[k] : allowed) / 8);
        }
    }
}

/* The longest interval that can be set, as often doubled as it gets. */
static void the_interval_has_an_end(void **state)
{
    (void)state;
    sample_every((size_t)1 << 40, 9);
    hak_options.profile_rate = 1;
    for (int i = 0; i < 100; i++)
        rate_count(1);
    assert_true(rate_interval() > (size_t)1 << 40);
    for (int i = 0; i < 1000; i++) {
        rate_draw(mine());
        assert_true(hak_thread.left > 0 && mine()->rest >= 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_probability_of_a_hit_is_exact),
        cmocka_unit_test(distances_are_exponential),
        cmocka_unit_test(blocks_of_the_arena_are_like_their_classes),
        cmocka_unit_test(with_every_block_sampled_all_is_known),
        cmocka_unit_test(sampled_blocks_are_resized_zeroed_and_aligned),
        cmocka_unit_test(a_realloc_that_fails_leaves_the_sample),
        cmocka_unit_test(estimates_hold_for_a_mix_of_sizes),
        cmocka_unit_test(a_pair_that_never_refills_is_seen),
        cmocka_unit_test(the_peak_is_remembered_by_site),
        cmocka_unit_test(a_short_lived_sample_is_no_peak),
        cmocka_unit_test(a_thread_frees_what_another_one_sampled),
        cmocka_unit_test(what_ends_beside_the_lock_is_forgotten_later),
        cmocka_unit_test(what_is_resized_beside_the_lock_is_forgotten_later),
        cmocka_unit_test(a_sampled_block_comes_home_from_a_magazine),
        cmocka_unit_test(the_child_of_a_fork_has_its_own_area),
        cmocka_unit_test(a_child_without_the_lock_samples_no_more),
        /* Last: the interval stays longer for a while. */
        cmocka_unit_test(too_many_samples_make_them_rare_and_unbiased),
        cmocka_unit_test(no_more_samples_a_second_than_are_allowed),
        cmocka_unit_test(the_interval_has_an_end),
    };
    return cmocka_run_group_tests(tests, make_live_area, NULL);
}
