#include "purge/purge.h"

#include "base/budget.h"
#include "base/probe.h"
#include "live/live.h"
#include "mind/keep.h"
#include "mind/rules.h"
#include "os/os.h"
#include "pressure/pressure.h"
#include "purge/show.h"

enum {
    IN_USE_SHARE = 16,
    SCATTER_SHARE = 3,
    SLACK_SHARE = 8,
    FREES_PER_LOOK = 16,
    FALLS_TO_SWING = 4,
    PAID_IN_MS = 64 << 10, /* bytes: 16 page faults take about a fortieth of that */
    PAID_AHEAD_MS = 128,
    TURNS_MOST = 2,  /* times the highest demand is paid while that does not rise ... */
    GROWN_SHARE = 16 /* ... by one part in so many */
};

#define SLACK_MIN ((size_t)2 * UNIT_SIZE)
#define FOLLOWED_FROM ((size_t)2 << 20)

/* All numbers are approximate under races, which cost a little memory or a few faults and nothing else. */
static struct {
    struct lock lock;       /* one thread purges at a time; the others go on */
    _Atomic size_t regret;  /* bytes */
    _Atomic size_t scatter; /* bytes missed beyond all regret, since what is free lies in pieces */
    _Atomic size_t recent;  /* bytes purged in the current window, less what was regretted */
    _Atomic uint64_t last_ms; /* time of the last purge */
    _Atomic size_t total;
    _Atomic size_t big_fresh_seen;
    _Atomic bool follows; /* more than FOLLOWED_FROM was in use once */
    _Atomic size_t kept;  /* bytes that are to keep their pages by what was learnt */
    _Atomic bool refused; /* the kernel took nothing back at the last purge */
    /* What was in use: most and least of the current window, and how far it fell below the most it had been there; and of the
     * one before. Looked at where memory is taken from the kernel and where much is free, so it misses `retain` at most. */
    _Atomic size_t most, least, fall, most_before, least_before, fall_before;
    _Atomic uint64_t paid_until_ms;
    _Atomic size_t highest; /* footprint, but for what is yet to be paid; 0: not followed yet */
    size_t grown_to;        /* the highest demand, to GROWN_SHARE, and ... */
    size_t paid;            /* ... what has been paid at it; both under the lock */
} purge;

_Atomic size_t hak_purge_allowed;
_Atomic uint64_t hak_purge_window_ms;
_Atomic enum memory_kind hak_purge_owed_for;

static size_t less(size_t a, size_t b)
{
    return a > b ? a - b : 0;
}

static size_t slack(size_t allowed)
{
    return largest_of(SLACK_MIN, allowed / SLACK_SHARE);
}

/* ---- demand ---- */

static void note_demand(size_t in_use)
{
    size_t most = load_relaxed(&purge.most);
    if (in_use > most)
        store_relaxed(&purge.most, in_use);
    else if (most - in_use > load_relaxed(&purge.fall))
        store_relaxed(&purge.fall, most - in_use);
    if (in_use < load_relaxed(&purge.least))
        store_relaxed(&purge.least, in_use);
}

/* From the most to the least and back. What only rises does not swing, however far: then there was no such fall. */
static size_t swing_of(size_t most, size_t least, size_t fall)
{
    return least_of(less(most, least), fall * FALLS_TO_SWING);
}

/* Regret that was not needed for a window is halved. */
static void fade_regret(size_t swing, uint64_t windows)
{
    size_t regret = load_relaxed(&purge.regret);
    if (windows > 1)
        regret = windows < 32 ? regret >> (windows - 1) : 0;
    store_relaxed(&purge.regret, largest_of(regret / 2, least_of(regret, 2 * swing)));
    store_relaxed(&purge.scatter, windows < 32 ? load_relaxed(&purge.scatter) >> windows : 0);
}

static void roll_window(size_t in_use)
{
    uint64_t now = os_now_ms(),
             windows = (now - load_relaxed(&hak_purge_window_ms)) / PURGE_WINDOW_MS;
    if (HAK_LIKELY(windows == 0))
        return;
    size_t most = load_relaxed(&purge.most), least = load_relaxed(&purge.least);
    size_t fall = load_relaxed(&purge.fall);
    fade_regret(swing_of(most, least, fall), windows);
    store_relaxed(&purge.most_before, windows == 1 ? most : in_use);
    store_relaxed(&purge.least_before, windows == 1 ? least : in_use);
    store_relaxed(&purge.fall_before, windows == 1 ? fall : 0);
    store_relaxed(&purge.fall, (size_t)0);
    store_relaxed(&purge.most, in_use);
    store_relaxed(&purge.least, in_use);
    store_relaxed(&hak_purge_window_ms, now);
}

static size_t recent_peak(void)
{
    return largest_of(load_relaxed(&purge.most), load_relaxed(&purge.most_before));
}

/* What of the highest demand is to be had besides, if it is to be served from memory that lies scattered. */
static size_t scattered(size_t peak)
{
    return largest_of(peak / SCATTER_SHARE, least_of(load_relaxed(&purge.scatter), peak));
}

/* By how much demand went up and down lately, and what it takes to serve the most of it from memory that
 * lies scattered; where it does not swing, what was missed beyond all regret (docs/decisions/0110). */
static size_t recent_swing(void)
{
    size_t peak = recent_peak();
    size_t low = least_of(load_relaxed(&purge.least), load_relaxed(&purge.least_before));
    size_t fall = largest_of(load_relaxed(&purge.fall), load_relaxed(&purge.fall_before));
    size_t swing = swing_of(peak, low, fall);
    size_t missed = least_of(load_relaxed(&purge.scatter), peak / 2);
    return swing + largest_of(least_of(swing, scattered(peak)), missed);
}

/* Before so much was ever in use there is nothing to learn, and no limit is near. */
HAK_INLINE bool is_followed(size_t in_use)
{
    if (load_relaxed(&purge.follows))
        return true;
    if (HAK_LIKELY(in_use <= FOLLOWED_FROM))
        return false;
    store_relaxed(&purge.follows, true);
    return true;
}

/* What the mind wants kept. Whoever finds it looked at by another thread takes what that found before. */
static HAK_NOINLINE size_t learnt_to_keep(size_t in_use)
{
    if (!keep_is_on() || !is_followed(in_use))
        return 0;
    thread_enter();
    if (lock_try(&purge.lock)) {
        store_relaxed(&purge.kept, keep_look(in_use, hak_thread.freed_key, os_now_ms()));
        lock_release(&purge.lock);
    }
    thread_leave();
    return load_relaxed(&purge.kept);
}

static size_t allowance(size_t in_use)
{
    if (pressure_is(PRESSURE_NEAR)) /* what heaps keep is not to be had here */
        return kept_bytes() + load_relaxed(&hak_pressure.allowed);
    size_t peak = recent_peak(), most = peak + scattered(peak);
    size_t wanted = most > in_use ? most - in_use : 0;
    size_t regretted = least_of(load_relaxed(&purge.regret), wanted);
    size_t floor = largest_of(option(retain), in_use / IN_USE_SHARE);
    return largest_of(largest_of(floor, regretted), learnt_to_keep(in_use));
}

/* The default of retain_max is for what nothing is known of; who sets it means it. */
static size_t most_regret(void)
{
    bool is_set = load_relaxed(&hak_option_sources.retain_max) != OPTION_DEFAULT;
    return is_set ? option(retain_max) : largest_of(option(retain_max), recent_swing());
}

/* `bytes` were taken from the kernel when `recent` had been purged. */
static HAK_NOINLINE void regret(size_t bytes, size_t recent)
{
    if (os_now_ms() - load_relaxed(&purge.last_ms) > PURGE_WINDOW_MS) {
        store_relaxed(&purge.recent, (size_t)0);
        return;
    }
    size_t regretted = least_of(bytes, recent), before = load_relaxed(&purge.regret);
    store_relaxed(&purge.recent, recent - regretted);
    size_t most = most_regret();
    if (before >= most)
        store_relaxed(&purge.scatter,
                      least_of(load_relaxed(&purge.scatter) + regretted, recent_peak()));
    store_relaxed(&purge.regret,
                  least_of(before + 2 * largest_of(regretted, option(retain)), most));
}

/* ---- the footprint: what is in use and free memory that keeps its pages ----
 * Kept pages spare faults, but as another kind of memory than what is wanted they make the process larger than it ever
 * had to be. So growth beyond the highest footprint is paid from the other kinds, as far as they have it and paying may
 * take time. What cannot be paid raises the highest footprint. docs/decisions/0054 */

/* Each payment is a look at three kinds and a system call at least. */
#define OWED_LEAST (GRANULE_SIZE / 8)

static size_t dirty_of(enum memory_kind kind)
{
    switch (kind) {
    case MEMORY_UNITS:
        return units_dirty() * UNIT_SIZE;
    case MEMORY_PAGES:
        return pages_dirty();
    case MEMORY_BIG:
        return big_cached_bytes();
    default: /* a stretch is taken anew where no units that are free lie together */
        return 0;
    }
}

/* Of the kinds beside this one. The default of retain is for what comes and goes; who sets it means it. */
static size_t payable_by_others(enum memory_kind kind)
{
    size_t own = dirty_of(kind);
    bool is_set = load_relaxed(&hak_option_sources.retain) != OPTION_DEFAULT;
    return less(purge_free_bytes(), is_set ? largest_of(own, option(retain)) : own);
}

static void note_footprint(size_t footprint, enum memory_kind kind)
{
    size_t highest = load_relaxed(&purge.highest);
    if (footprint <= highest)
        return;
    if (highest == 0 || payable_by_others(kind) < OWED_LEAST)
        store_relaxed(&purge.highest, footprint);
    else if (footprint - highest >= OWED_LEAST)
        store_relaxed(&hak_purge_owed_for, kind);
}

static HAK_NOINLINE void follow_growth(size_t in_use, size_t bytes, enum memory_kind kind)
{
    note_footprint(in_use + purge_free_bytes(), kind);
    (void)learnt_to_keep(in_use);
    pressure_note_growth(in_use + purge_dirty_bytes(), bytes);
}

void purge_note_fresh(size_t bytes, enum memory_kind kind)
{
    size_t recent = load_relaxed(&purge.recent), in_use = purge_in_use();
    note_demand(in_use);
    if (is_followed(in_use))
        follow_growth(in_use, bytes, kind);
    if (HAK_UNLIKELY(recent != 0))
        regret(bytes, recent);
}

/* ---- purge ---- */

void purge_note_given(size_t bytes)
{
    add_relaxed(&purge.total, bytes);
    live_set(purged_bytes, load_relaxed(&purge.total));
    pressure_gave(bytes);
    probe_purge(bytes);
}

HAK_COLD void purge_note_filled(size_t bytes)
{
    pressure_note_filled(purge_in_use() + purge_dirty_bytes(), bytes);
}

/* Big blocks first, then runs: one call gives most back. */
static size_t purge_down_to(size_t keep)
{
    size_t kept = kept_bytes(); /* not to be had here */
    keep = less(keep, kept);
    size_t bytes = big_purge(less(keep, pages_dirty() + units_dirty() * UNIT_SIZE));
    bytes += pages_purge(less(keep, big_cached_bytes() + units_dirty() * UNIT_SIZE));
    bytes += supers_purge(less(keep, big_cached_bytes() + pages_dirty()) / UNIT_SIZE) * UNIT_SIZE;
    purge_note_given(bytes);
    return bytes;
}

static void purge_excess_locked(size_t allowed)
{
    uint64_t now = os_now_ms();
    uint32_t refused = load_relaxed(&hak_purges_refused);
    size_t bytes = purge_down_to(allowed);
    if (now - load_relaxed(&purge.last_ms) > PURGE_WINDOW_MS)
        store_relaxed(&purge.recent, (size_t)0);
    add_relaxed(&purge.recent, bytes);
    store_relaxed(&purge.last_ms, now);
    /* Locked pages, say: trying at every free would help nobody. Not if other threads took what was free meanwhile. */
    store_relaxed(&purge.refused, bytes == 0 && load_relaxed(&hak_purges_refused) != refused);
}

static HAK_COLD void purge_excess(size_t allowed)
{
    if (load_relaxed(&purge.refused) &&
        os_now_ms() - load_relaxed(&purge.last_ms) < PURGE_WINDOW_MS)
        return;
    thread_enter(); /* a handler must not wait for the locks that are taken here */
    if (lock_try(&purge.lock)) {
        purge_excess_locked(allowed);
        lock_release(&purge.lock);
        purge_show();
    }
    thread_leave();
}

void purge_note_big(void)
{
    /* In this order: what was seen follows what there is, which only rises. */
    size_t seen = load_relaxed(&purge.big_fresh_seen), fresh = big_fresh_bytes();
    if (fresh != seen) {
        store_relaxed(&purge.big_fresh_seen, fresh);
        purge_note_fresh(fresh - seen, MEMORY_BIG);
    } else {
        (void)learnt_to_keep(purge_in_use());
    }
}

void purge_look(size_t dirty)
{
    size_t in_use = purge_in_use();
    note_demand(in_use);
    roll_window(in_use);
    pressure_note_time(in_use + dirty);
    size_t allowed = allowance(in_use);
    store_relaxed(&hak_purge_allowed, allowed + slack(allowed));
    hak_thread.until_look = FREES_PER_LOOK;
    if (dirty > allowed + slack(allowed))
        purge_excess(allowed);
}

/* Big blocks last, which can be given in granules alone. */
static size_t purge_others(enum memory_kind kind, size_t most)
{
    size_t bytes = 0;
    if (kind != MEMORY_UNITS)
        bytes = supers_purge(less(units_dirty(), most / UNIT_SIZE)) * UNIT_SIZE;
    if (kind != MEMORY_PAGES)
        bytes += pages_purge(less(pages_dirty(), less(most, bytes)));
    if (kind != MEMORY_BIG)
        bytes += big_purge(less(big_cached_bytes(), less(most, bytes)));
    return bytes;
}

/* Where kinds take turns the same pages would be paid over and over. So the time that touching them anew costs has a
 * budget. */
static bool may_pay(size_t bytes)
{
    return budget_pay(&purge.paid_until_ms, os_now_ms(), bytes / PAID_IN_MS, PAID_AHEAD_MS);
}

/* Where demand rises no more kinds take turns, and a kind wants back the pages that it has paid: in the end it keeps them
 * (docs/decisions/0112). */
static bool is_for_growth(size_t in_use, size_t owed)
{
    if (in_use > purge.grown_to + purge.grown_to / GROWN_SHARE) {
        purge.grown_to = in_use;
        purge.paid = 0;
    }
    purge.paid += owed;
    return purge.paid <= TURNS_MOST * purge.grown_to;
}

static void pay_locked(void)
{
    enum memory_kind kind = load_relaxed(&hak_purge_owed_for);
    if (kind == MEMORY_NONE) /* another thread was faster */
        return;
    store_relaxed(&hak_purge_owed_for, MEMORY_NONE); /* further growth says so again */
    size_t in_use = purge_in_use(), highest = load_relaxed(&purge.highest),
           owed = less(in_use + purge_free_bytes(), highest);
    if (!may_pay(owed) || !is_for_growth(in_use, owed)) {
        store_relaxed(&purge.highest, highest + owed);
        return;
    }
    purge_note_given(purge_others(kind, least_of(owed, payable_by_others(kind))));
    store_relaxed(&purge.highest, largest_of(highest, purge_in_use() + purge_free_bytes()));
}

HAK_COLD void purge_pay(void)
{
    thread_enter(); /* see purge_excess */
    if (lock_try(&purge.lock)) {
        pay_locked();
        lock_release(&purge.lock);
        purge_show();
    }
    thread_leave();
}

HAK_COLD void purge_log(const struct decision *d)
{
    if (!lock_try(&purge.lock))
        return;
    log_decision(d, os_now_ms());
    lock_release(&purge.lock);
}

HAK_COLD void purge_load_rules(void)
{
    thread_enter();
    lock_take(&purge.lock);
    rules_load(hak_options.rules, os_now_ms());
    lock_release(&purge.lock);
    thread_leave();
}

size_t purge_everything(void)
{
    if (!lock_take_if_safe(&purge.lock))
        return 0;
    size_t bytes = purge_down_to(0);
    /* Whoever asks for this wants nothing kept for what has been. */
    store_relaxed(&purge.regret, (size_t)0);
    store_relaxed(&purge.scatter, (size_t)0);
    store_relaxed(&purge.recent, (size_t)0);
    store_relaxed(&hak_purge_allowed, (size_t)0); /* until somebody looks */
    lock_release(&purge.lock);
    purge_show();
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
