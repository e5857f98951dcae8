#include "mind/keep.h"

#include "live/live.h"
#include "mind/falls.h"
#include "mind/log.h"
#include "mind/touch.h"

enum {
    TOGETHER_MS = 50,    /* falls so close are one */
    LOOK_MS = 50,        /* between two looks at what has been kept for long enough */
    DECIDE_MS = 250,     /* between two decisions, and between two episodes */
    FADE_MS = 60 * 1000, /* what is known counts half after that */
    GAP_MOST_MS = 60 * 60 * 1000,
    MARGIN_SHARE = 16, /* of all there could be to win */
    DEEPER_SHARE = 4,  /* of the most that came back, what is kept beyond it */
    KIB_SHIFT = 10,
    STEP_SHARE = 32, /* of demand: smaller changes are no falls */
};

#define STEP_LEAST ((size_t)1 << 20)

/* Times to live, in milliseconds: each about half as long again as the one before. Index 0: none. */
static const uint16_t times[KEEP_TIMES] = {0,    250,  500,  1000, 1500,  2000,
                                           3000, 4000, 6000, 8000, 12000, 16000};

_Static_assert(LIVE_ROWS_rules == KEEP_ANY + 1, "each key has a row");
_Static_assert(sizeof(((struct live_rules *)0)->kib) == KEEP_TIMES * sizeof(uint64_t),
               "each time has a word");

/* What is known of a key. */
struct rule {
    /* Of memory that was used again: by the shortest time that would have kept it, KiB and KiB * ms of
     * gap. Index 0: not for so long that no time would have been worth it. */
    uint64_t kib[KEEP_TIMES], gap[KEEP_TIMES];
    uint64_t episode_ms; /* of the last one */
    uint32_t episodes;   /* moments at which some was used again */
    uint8_t chosen;      /* index into times */
    bool is_known;       /* something was learnt */
    bool is_loaded;      /* by an earlier run */
    bool is_changed;     /* since the last decision */
    uint64_t saved_kib;  /* was kept and used again */
    uint64_t vain_kib;   /* was kept and was not */
    uint64_t held;       /* KiB * ms of both */
};

static struct {
    struct falls falls;
    struct rule rules[KEEP_KEYS + 1];
    size_t level;
    size_t kept; /* of the falls, bytes; exact when all have just been looked at */
    /* Bytes that were used again in time, less what has fallen since, never below none; and the most that this came to. */
    size_t risen, risen_most;
    uint64_t looked_ms, decided_ms, faded_ms;
} keep;

/* Of each key by site: whose it is, and for showing the last address and size. Relaxed: guesses. */
static struct {
    _Atomic uint64_t address, signature;
    _Atomic uint16_t by_size; /* the key it has by size alone */
} sites[KEEP_KEYS];

/* ---- keys ---- */

/* By 2^64 / the golden ratio: Knuth, The Art of Computer Programming 3, 6.4. */
static uint64_t mixed(uint64_t x)
{
    x *= 0x9e3779b97f4a7c15u;
    return x ^ x >> 29;
}

/* A key that another block has, so that the number of each stays about the same and means nothing. */
static uint16_t shuffled(uint16_t key)
{
    static _Atomic uint16_t last[KEEP_KEYS];
    static _Atomic uint64_t turn;
    uint64_t draw = mixed(add_relaxed(&turn, 1) + 1) >> 32;
    _Atomic uint16_t *place = &last[draw % KEEP_KEYS];
    uint16_t other = load_relaxed(place);
    store_relaxed(place, key);
    return other != 0 ? other : key;
}

/* Programs are loaded at whole pages, the smallest of which are of 4 KiB: an address' place in its page stays. */
uint64_t keep_signature_of(size_t size, const uintptr_t *frames, uint32_t depth)
{
    enum { PLACES = 4096 };
    uint64_t signature = keep_key_of_size(size);
    for (uint32_t i = 0; i < depth; i++)
        signature = mixed(signature * PLACES + frames[i] % PLACES);
    return signature | 1;
}

/* The first place near its own that it has or can have; where all have others it shares its own. A place is taken once
 * and for good, so whoever finds its signature there has it (relaxed: nothing else comes with it). */
static uint16_t key_of_signature(uint64_t signature)
{
    enum { PLACES_NEAR = 8 };
    uint64_t own = (signature >> 1) % (KEEP_KEYS - 1);
    for (uint32_t i = 0; i < PLACES_NEAR; i++) {
        uint16_t key = (uint16_t)(1 + (own + i) % (KEEP_KEYS - 1));
        uint64_t there = load_relaxed(&sites[key].signature);
        if (there == 0 && cas_relaxed(&sites[key].signature, &there, signature))
            return key;
        if (there == signature)
            return key;
    }
    return (uint16_t)(1 + own);
}

uint16_t keep_key_of_site(size_t size, const uintptr_t *frames, uint32_t depth)
{
    uint16_t by_size = keep_key_of_size(size);
    if (by_size == 0)
        return 0;
    uint64_t signature = keep_signature_of(size, frames, depth);
    uint16_t key = key_of_signature(signature);
    if (load_relaxed(&sites[key].signature) == signature) { /* what it shows is its first one's */
        store_relaxed(&sites[key].address, (uint64_t)(depth > 0 ? frames[0] : 0));
        store_relaxed(&sites[key].by_size, by_size);
    }
    return option(keep) == KEEP_SHUFFLED ? shuffled(key) : key;
}

/* ---- what happened ---- */

static uint32_t time_for(uint64_t gap)
{
    for (uint32_t i = 1; i < KEEP_TIMES; i++) {
        if (gap < times[i])
            return i;
    }
    return 0;
}

/* Bounded for the sums' sake. If the clock has gone back it is as if very long had passed: nothing is kept for that. */
static uint64_t ms_since(uint64_t then, uint64_t now)
{
    uint64_t gap = now - then;
    return gap < GAP_MOST_MS ? gap : GAP_MOST_MS;
}

static uint64_t kib_of(size_t bytes)
{
    return bytes >> KIB_SHIFT;
}

/* Of memory that was kept for so long. */
static void note_end(struct rule *r, size_t bytes, uint64_t gap, bool in_time)
{
    if (bytes == 0)
        return;
    uint64_t kib = kib_of(bytes);
    *(in_time ? &r->saved_kib : &r->vain_kib) += kib;
    r->held += kib * gap;
    r->is_changed = true;
}

static void learn(struct rule *r, uint64_t kib, uint64_t gap, uint64_t now)
{
    uint32_t i = time_for(gap);
    r->kib[i] += kib;
    r->gap[i] += kib * gap;
    r->is_known = r->is_changed = true;
    if (now - r->episode_ms >= DECIDE_MS) {
        r->episode_ms = now;
        r->episodes++;
    }
}

static void note_used_again(const struct fall *fall, uint64_t now)
{
    uint64_t gap = ms_since(fall->ms, now), kib = kib_of(fall->bytes);
    note_end(&keep.rules[fall->key], fall->kept, gap, true);
    if (fall->is_old)
        return;
    keep.risen += fall->bytes;
    keep.risen_most = largest_of(keep.risen_most, keep.risen);
    learn(&keep.rules[fall->key], kib, gap, now);
    learn(&keep.rules[KEEP_ANY], kib, gap, now);
}

/* It has not been used again for so long that keeping it was not worth it, whatever comes. */
static void note_old(struct fall *f)
{
    uint16_t keys[] = {f->key, KEEP_ANY};
    f->is_old = true;
    for (int i = 0; i < 2; i++) {
        keep.rules[keys[i]].kib[0] += kib_of(f->bytes);
        keep.rules[keys[i]].is_known = keep.rules[keys[i]].is_changed = true;
    }
}

static uint64_t time_of(uint16_t key)
{
    if (option(keep) == KEEP_FIXED)
        return option(keep_time);
    return times[keep.rules[keep.rules[key].is_known ? key : KEEP_ANY].chosen];
}

static void note_fall(size_t bytes, uint16_t key, uint64_t now)
{
    struct fall fall = {
        .bytes = bytes, .kept = time_of(key) != 0 ? bytes : 0, .ms = now, .key = key};
    falls_push(&keep.falls, fall, TOGETHER_MS);
    keep.kept += fall.kept;
    keep.risen -= least_of(keep.risen, bytes);
}

static void note_rise(const struct fall *taken, uint64_t now)
{
    keep.kept -= least_of(keep.kept, taken->kept);
    note_used_again(taken, now);
}

static void follow(size_t in_use, uint16_t key, uint64_t now)
{
    size_t step = keep.level / STEP_SHARE > STEP_LEAST ? keep.level / STEP_SHARE : STEP_LEAST;
    if (in_use + step <= keep.level) {
        note_fall(keep.level - in_use, key, now);
        keep.level = in_use;
    }
    while (in_use >= keep.level + step) {
        struct fall taken = falls_pop(&keep.falls, in_use - keep.level);
        if (taken.bytes == 0)
            taken.bytes = in_use - keep.level; /* higher than ever */
        else
            note_rise(&taken, now);
        keep.level += taken.bytes;
    }
}

/* ---- what was known before ---- */

static uint32_t time_of_ms(uint64_t ms)
{
    uint32_t i = 0;
    while (i + 1 < KEEP_TIMES && times[i + 1] <= ms)
        i++;
    return i;
}

bool keep_know(const struct keep_known *known, uint64_t now_ms)
{
    bool has_site = known->key != 0 && known->key != KEEP_ANY;
    bool is_by_site = has_site && known->signature != 0;
    if (option(keep) < KEEP_SHADOW || (has_site && is_by_site != keep_is_by_site()))
        return false;
    uint16_t key = is_by_site ? key_of_signature(known->signature) : known->key;
    if (is_by_site)
        store_relaxed(&sites[key].by_size, known->key);
    struct rule *r = &keep.rules[key];
    *r = (struct rule){.chosen = (uint8_t)time_of_ms(known->keep_ms),
                       .is_known = true,
                       .is_loaded = true,
                       .is_changed = true};
    for (uint32_t i = 0; i < KEEP_TIMES; i++) {
        r->kib[i] = known->kib[i];
        if (i > 0)
            keep.risen_most = largest_of(keep.risen_most, (size_t)known->kib[i] << KIB_SHIFT);
        /* Half way between two times, for all that a file says. */
        r->gap[i] = i > 0 ? known->kib[i] * (uint64_t)(times[i - 1] + times[i]) / 2 : 0;
    }
    keep.faded_ms = now_ms;
    return true;
}

/* ---- decisions ---- */

static uint64_t known_kib(const struct rule *r)
{
    uint64_t kib = 0;
    for (uint32_t i = 0; i < KEEP_TIMES; i++)
        kib += r->kib[i];
    return kib;
}

static uint16_t size_key_of(uint16_t key)
{
    return keep_is_by_site() && key != 0 ? load_relaxed(&sites[key].by_size) : key;
}

/* For how long memory of the key may be held to save touching it anew. */
static HAK_NOINLINE uint64_t worth_of(uint16_t key)
{
    uint32_t cost = key != KEEP_ANY ? touch_cost(size_key_of(key)) : TOUCH_COST_SMALL;
    return option(keep_worth) * cost / TOUCH_COST_SMALL;
}

/* What a time would have been worth, in KiB * ms. */
static int64_t score(uint16_t key, uint32_t time)
{
    const struct rule *r = &keep.rules[key];
    uint64_t in_time = 0, held = 0;
    for (uint32_t i = 1; i <= time; i++) {
        in_time += r->kib[i];
        held += r->gap[i];
    }
    held += (known_kib(r) - in_time) * times[time];
    return (int64_t)(in_time * worth_of(key)) - (int64_t)held;
}

static uint32_t best_time(uint16_t key)
{
    struct rule *r = &keep.rules[key];
    uint32_t best = r->chosen;
    int64_t margin = (int64_t)(known_kib(r) * worth_of(key) / MARGIN_SHARE);
    int64_t most = score(key, best) + margin;
    for (uint32_t i = 0; i < KEEP_TIMES; i++) {
        int64_t s = score(key, i);
        if (s > most) {
            most = s;
            best = i;
        }
    }
    return best;
}

static HAK_COLD void log_change(uint16_t key, uint32_t from, uint32_t to, uint64_t now)
{
    const struct rule *r = &keep.rules[key];
    struct decision d = {.policy = POLICY_KEEP,
                         .key = key,
                         .from = times[from],
                         .to = times[to],
                         .episodes = r->episodes,
                         .seen_kib = known_kib(r),
                         .is_shadow = option(keep) == KEEP_SHADOW};
    uint64_t gap = 0;
    for (uint32_t i = 1; i <= (to > from ? to : from); i++) {
        d.reused_kib += r->kib[i];
        gap += r->gap[i];
    }
    d.gap_ms = (uint32_t)(d.reused_kib != 0 ? gap / d.reused_kib : 0);
    log_decision(&d, now);
}

static uint64_t least_bytes_of(uint16_t key)
{
    if (key == 0 || key == KEEP_ANY)
        return key == KEEP_ANY;
    uint16_t by_size = size_key_of(key);
    return by_size == 0 ? 0 : (uint64_t)KEYS_FROM << (by_size - 1);
}

static uint64_t site_of(uint16_t key)
{
    return keep_is_by_site() && key != KEEP_ANY ? load_relaxed(&sites[key].address) : 0;
}

static uint64_t signature_of(uint16_t key)
{
    return keep_is_by_site() && key != KEEP_ANY ? load_relaxed(&sites[key].signature) : 0;
}

static HAK_COLD void show_rule(struct live_area *a, uint16_t key)
{
    const struct rule *r = &keep.rules[key];
    struct live_rules *row = &a->rules[key];
    store_relaxed(&row->least_bytes, least_bytes_of(key));
    store_relaxed(&row->site, site_of(key));
    store_relaxed(&row->stack, signature_of(key));
    store_relaxed(&row->keep_ms, (uint32_t)times[r->chosen]);
    store_relaxed(&row->loaded, (uint64_t)r->is_loaded);
    store_relaxed(&row->episodes, r->episodes);
    for (uint32_t i = 0; i < KEEP_TIMES; i++)
        store_relaxed(&row->kib[i], r->kib[i]);
    store_relaxed(&row->saved_kib, r->saved_kib);
    store_relaxed(&row->vain_kib, r->vain_kib);
    store_relaxed(&row->held_kib_s, r->held / 1000);
    live_raise_used(a, LIVE_TABLE_rules, (uint32_t)key + 1);
}

static void decide_key(uint16_t key, uint64_t now)
{
    struct rule *r = &keep.rules[key];
    if (!r->is_changed)
        return;
    uint32_t from = r->chosen, to = best_time(key);
    r->chosen = (uint8_t)to;
    struct live_area *a = live_area();
    if (a != NULL)
        show_rule(a, key); /* before the decision that refers to it */
    if (to != from)
        log_change(key, from, to, now);
    r->is_changed = false;
}

static void fade(struct rule *r)
{
    for (uint32_t i = 0; i < KEEP_TIMES; i++) {
        r->kib[i] /= 2;
        r->gap[i] /= 2;
    }
    r->episodes /= 2;
}

static void fade_if_due(uint64_t now)
{
    if (now - keep.faded_ms < FADE_MS)
        return;
    keep.faded_ms = now;
    keep.risen_most /= 2;
    for (uint32_t key = 0; key <= KEEP_ANY; key++) {
        if (keep.rules[key].is_known) /* the others are zero: they need no pages for that */
            fade(&keep.rules[key]);
    }
}

static void decide(uint64_t now)
{
    keep.decided_ms = now;
    for (uint32_t key = 0; key <= KEEP_ANY; key++)
        decide_key((uint16_t)key, now);
    fade_if_due(now);
}

/* ---- what is kept ---- */

/* How soon memory is used again is learnt from falls as deep as there were. One that is much deeper has nothing in common with
 * them: at a program's low point for good, say. */
static size_t most_kept(void)
{
    return option(keep) == KEEP_FIXED ? SIZE_MAX : keep.risen_most + keep.risen_most / DEEPER_SHARE;
}

/* How much of a fall is to keep its pages, of up to `most`; notes what becomes of it. */
static size_t look_at(struct fall *f, size_t most, uint64_t now)
{
    uint64_t age = ms_since(f->ms, now);
    if (!f->is_old && age >= worth_of(f->key))
        note_old(f);
    size_t kept = age < time_of(f->key) ? least_of(f->bytes, most) : 0;
    if (f->kept > kept)
        note_end(&keep.rules[f->key], f->kept - kept, age, false);
    return f->kept = kept;
}

/* The newest falls first, which are used again first. */
static void look_at_all(uint64_t now)
{
    size_t most = most_kept();
    keep.looked_ms = now;
    keep.kept = 0;
    for (uint32_t i = keep.falls.count; i-- > 0;)
        keep.kept += look_at(&keep.falls.at[i], most - keep.kept, now);
}

size_t keep_look(size_t in_use, uint16_t key, uint64_t now_ms)
{
    follow(in_use, key, now_ms);
    if (option(keep) != KEEP_FIXED && now_ms - keep.decided_ms >= DECIDE_MS)
        decide(now_ms);
    if (now_ms - keep.looked_ms >= LOOK_MS || keep.kept > most_kept())
        look_at_all(now_ms);
    return option(keep) == KEEP_SHADOW ? 0 : keep.kept;
}
