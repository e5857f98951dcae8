#include "profile/rate.h"

#include "base/atomic.h"
#include "control/options.h"
#include "os/os.h"
#include "profile/poisson.h"

enum {
    WINDOW_MS = 128, /* samples are counted per window, ... */
    SAMPLES_MIN = 8, /* ... which is longer where it would have fewer */
    QUIET_SHARE =
        4, /* a window with less than this share of what is allowed: twice as often again */
    DOUBLINGS_MOST = 24,
};

/* After so many the setting is looked at again. */
#define WORDS_WHEN_OFF ((int64_t)1 << 27)

/* The longest distance drawn of it is 38 times as far, and a word has 63 bits. */
#define INTERVAL_MOST ((uint64_t)1 << 57)

static struct {
    _Atomic uint32_t doublings; /* of the interval, because samples came too fast */
    _Atomic uint32_t fullness;
    uint64_t window; /* number of the current one */
    size_t in_window;
} rate;

uint64_t rate_interval(void)
{
    uint32_t doublings = load_relaxed(&rate.doublings) + load_relaxed(&rate.fullness);
    if (doublings > DOUBLINGS_MOST)
        doublings = DOUBLINGS_MOST;
    uint64_t interval = option(profile_interval);
    return interval <= INTERVAL_MOST >> doublings ? interval << doublings : INTERVAL_MOST;
}

static int64_t draw(struct sampler *s)
{
    s->interval = rate_interval();
    return option(profile) ? poisson_distance(&s->random, s->interval) / 8 : WORDS_WHEN_OFF;
}

void rate_draw(struct sampler *s)
{
    sampler_let(s, s->at_once, draw(s));
}

void sampler_start(struct sampler *s)
{
    if (s->random == 0)
        s->random = (os_secret(SECRET_SAMPLES) ^ (uintptr_t)s) | 1;
    s->rest = draw(s);
    s->at_once = LEFT_LEAST;
    if (HAK_INSIGHT && hak_thread.left > 0)
        hak_thread.left = 0;
}

/* For one sample in so many windows the interval is that much too long. */
static uint32_t doublings_too_many(uint64_t windows, size_t allowed)
{
    if (windows > 1)
        return 63 - (uint32_t)__builtin_clzll(windows);
    return rate.in_window < allowed / QUIET_SHARE;
}

static void begin_window(uint64_t window, size_t allowed)
{
    /* Where the setting has changed they are counted otherwise. */
    uint64_t windows = window > rate.window ? window - rate.window : 0;
    uint32_t less = doublings_too_many(windows, allowed);
    uint32_t doublings = load_relaxed(&rate.doublings);
    store_relaxed(&rate.doublings, doublings > less ? doublings - less : 0);
    rate.window = window;
    rate.in_window = 0;
}

void rate_count(uint64_t now_ms)
{
    size_t per_second = option(profile_rate);
    size_t window_ms = ((size_t)SAMPLES_MIN * 1000 + per_second - 1) / per_second;
    if (window_ms < WINDOW_MS)
        window_ms = WINDOW_MS;
    size_t allowed = per_second * window_ms / 1000;
    uint64_t window = now_ms / window_ms;
    if (window != rate.window)
        begin_window(window, allowed);
    if (++rate.in_window < allowed)
        return;
    uint32_t doublings = load_relaxed(&rate.doublings);
    if (doublings < DOUBLINGS_MOST)
        store_relaxed(&rate.doublings, doublings + 1);
    rate.in_window = 0;
}

void rate_set_fullness(uint32_t doublings)
{
    store_relaxed(&rate.fullness, doublings);
}
