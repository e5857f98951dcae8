#include "purge/purge.h"

#include "os/os.h"

enum { REGRET_WINDOW_MS = 1000, IN_USE_SHARE = 16, SLACK_SHARE = 8 };
#define SLACK_MIN ((size_t)4 * UNIT_SIZE)

static struct {
    struct lock lock;           /* one thread purges at a time; the others go on */
    _Atomic size_t regret;      /* bytes */
    _Atomic size_t recent;      /* bytes purged in the current window, less what was regretted */
    _Atomic uint64_t last_ms;   /* time of the last purge */
    _Atomic uint64_t regret_ms; /* time of the last regret or halving */
    _Atomic size_t total;
    _Atomic bool refused; /* the kernel took nothing back at the last purge */
} purge;

static size_t largest(size_t a, size_t b)
{
    return a > b ? a : b;
}

static size_t allowance(void)
{
    size_t in_use = units_in_use() * UNIT_SIZE + big_live_bytes();
    return largest(hak_options.retain, largest(in_use / IN_USE_SHARE, load_relaxed(&purge.regret)));
}

static size_t slack(size_t allowed)
{
    return largest(SLACK_MIN, allowed / SLACK_SHARE);
}

void purge_note_fresh(size_t bytes)
{
    size_t recent = load_relaxed(&purge.recent);
    if (HAK_LIKELY(recent == 0))
        return;
    uint64_t now = os_now_ms();
    if (now - load_relaxed(&purge.last_ms) > REGRET_WINDOW_MS) {
        store_relaxed(&purge.recent, (size_t)0);
        return;
    }
    /* Approximate under races, which cost a little memory or a few faults and nothing else. */
    size_t regretted = bytes < recent ? bytes : recent;
    store_relaxed(&purge.recent, recent - regretted);
    size_t regret = load_relaxed(&purge.regret);
    size_t most = largest(hak_options.retain_max, hak_options.retain);
    size_t more = regret + largest(regretted, hak_options.retain);
    store_relaxed(&purge.regret, more < most ? more : most);
    store_relaxed(&purge.regret_ms, now);
}

static void fade_regret(uint64_t now)
{
    uint64_t since = now - load_relaxed(&purge.regret_ms);
    if (since < REGRET_WINDOW_MS)
        return;
    size_t halvings = since / REGRET_WINDOW_MS;
    size_t regret = load_relaxed(&purge.regret);
    store_relaxed(&purge.regret, halvings < 32 ? regret >> halvings : 0);
    store_relaxed(&purge.regret_ms, now);
}

/* Big blocks first: one call gives most back. */
static size_t purge_down_to(size_t keep)
{
    size_t kept = load_relaxed(&hak_kept_bytes); /* not to be had here */
    keep = keep > kept ? keep - kept : 0;
    size_t bytes =
        big_purge(keep > units_dirty() * UNIT_SIZE ? keep - units_dirty() * UNIT_SIZE : 0);
    size_t big = big_cached_bytes();
    bytes += supers_purge((keep > big ? keep - big : 0) / UNIT_SIZE) * UNIT_SIZE;
    add_relaxed(&purge.total, bytes);
    return bytes;
}

static void purge_excess_locked(uint64_t now)
{
    fade_regret(now);
    size_t allowed = allowance();
    if (purge_dirty_bytes() > allowed + slack(allowed)) {
        size_t bytes = purge_down_to(allowed);
        if (now - load_relaxed(&purge.last_ms) > REGRET_WINDOW_MS)
            store_relaxed(&purge.recent, (size_t)0);
        add_relaxed(&purge.recent, bytes);
        store_relaxed(&purge.last_ms, now);
        /* Locked pages, say: trying at every free would help nobody. */
        store_relaxed(&purge.refused, bytes == 0);
    }
}

static HAK_COLD void purge_excess(void)
{
    uint64_t now = os_now_ms();
    if (load_relaxed(&purge.refused) && now - load_relaxed(&purge.last_ms) < REGRET_WINDOW_MS)
        return;
    thread_enter(); /* a handler must not wait for the locks that are taken here */
    if (lock_try(&purge.lock)) {
        purge_excess_locked(now);
        lock_release(&purge.lock);
    }
    thread_leave();
}

void purge_look(size_t dirty)
{
    size_t allowed = allowance();
    if (dirty > allowed + slack(allowed))
        purge_excess();
}

size_t purge_everything(void)
{
    if (!lock_take_if_safe(&purge.lock))
        return 0;
    size_t bytes = purge_down_to(0);
    lock_release(&purge.lock);
    return bytes;
}

size_t purge_total(void)
{
    return load_relaxed(&purge.total);
}

struct lock *purge_lock(void)
{
    return &purge.lock;
}
