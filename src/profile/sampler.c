#include "profile/sampler.h"

#include "base/probe.h"
#include "control/options.h"
#include "live/live.h"
#include "os/os.h"
#include "os/thread.h"
#include "profile/arena.h"
#include "profile/guarded.h"
#include "profile/poisson.h"
#include "profile/rate.h"
#include "profile/records.h"
#include "profile/sites.h"
#include "profile/stack.h"
#include "profile/timeline.h"
#include "purge/purge.h"
#include "slab/slab.h"

enum {
    OBJECT = 1024,  /* what one object is counted as */
    FULL_STEPS = 8, /* of the second half of a table; each makes samples twice as rare */
    ENDED_MOST = 8,
};

static struct {
    struct lock lock;
    bool given_up;        /* in the child of a fork: nothing is sampled, blocks stay deferred */
    uint64_t sampled;     /* estimated live bytes, ... */
    double variance;      /* ... and that of the estimate */
    uint64_t peak;        /* the highest of it that the sites remember, 0: none yet; ... */
    double peak_variance; /* ... that of it, ... */
    size_t peak_in_use;   /* ... and what it lay in */
    uint64_t samples, lost;
    uint64_t intervals;               /* of the samples, added up */
    _Atomic bool out_of_sight;        /* small blocks: sampler_lose_sight */
    size_t apart_blocks, apart_bytes; /* live in the arena and in slots */
    /* Blocks freed where the lock could not be waited for, linked through their first word. Pushed by
     * compare-and-swap (release), taken whole by exchange (acquire): no ABA. */
    _Atomic(struct block *) deferred;
    /* Likewise the addresses of blocks of pages, which are gone, or the numbers of records, of such as were resized and are in no
     * bucket; 0: none. Set by compare-and-swap from 0, to 0 under the lock. Relaxed: whoever is given the same pages took them
     * later, under a lock, and then looks here first. More than these keep their records. */
    _Atomic uintptr_t ended[ENDED_MOST];
} sampler;

struct lock *sampler_lock(void)
{
    return &sampler.lock;
}

/* The fuller a table the rarer the samples, so that it never is full. */
static uint32_t doublings_for(size_t used, size_t room)
{
    return used <= room / 2 ? 0 : (uint32_t)((used - room / 2) / (room / 2 / FULL_STEPS)) + 1;
}

static void set_fullness(void)
{
    uint32_t of_records = doublings_for(records_live(), LIVE_ROWS_blocks);
    uint32_t of_arena = doublings_for(arena_units(), ARENA_UNITS_MOST);
    rate_set_fullness(of_records > of_arena ? of_records : of_arena);
}

/* ---- what a record stands for ---- */

static void show_sums(struct live_area *a, uint64_t now)
{
    struct live_process *p = a->process;
    struct guarded_sums guarded = guarded_sums();
    store_relaxed(&p->interval, rate_interval());
    store_relaxed(&p->samples, sampler.samples);
    store_relaxed(&p->samples_lost, sampler.lost);
    store_relaxed(&p->intervals, sampler.intervals);
    store_relaxed(&p->sampled_live, sampler.sampled);
    store_relaxed(&p->sampled_unit_bytes, (uint64_t)arena_units() * UNIT_SIZE);
    store_relaxed(&p->apart_blocks, (uint64_t)sampler.apart_blocks);
    store_relaxed(&p->apart_bytes, (uint64_t)sampler.apart_bytes);
    store_relaxed(&p->guarded, guarded.taken);
    store_relaxed(&p->guarded_bytes, (uint64_t)guarded.bytes);
    store_relaxed(&p->changed_ms, now);
}

static uint64_t rounding_of(const struct record *r)
{
    return (r->usable - r->size) * r->weight_objects / OBJECT;
}

static struct site_change change_of(const struct record *r)
{
    return (struct site_change){r->site, r->weight_bytes, r->weight_objects, rounding_of(r),
                                r->born_ms};
}

/* Counts a sample, and what it stands for: by the probability with which its size is one. */
static void weigh(struct record *r, uint64_t interval)
{
    sampler.samples++;
    sampler.intervals += interval;
    size_t words = words_of(r->size);
    double hit = poisson_hit(8. * (double)(words != 0 ? words : 1) / (double)interval);
    r->weight_bytes = (uint64_t)((double)r->size / hit + 0.5);
    r->weight_objects = (uint64_t)(OBJECT / hit + 0.5);
}

/* Of a record's weight: a block that is a sample with probability p stands for 1/p, which varies by (1 - p) / p^2. */
static double variance_of(const struct record *r)
{
    double bytes = (double)r->weight_bytes;
    return bytes * (bytes - (double)r->size);
}

/* A request that is a sample. Its stack is captured before the lock is taken. */
struct request {
    const struct sampler *by;
    size_t size;
    uint32_t depth;
    uintptr_t stack[STACK_MOST];
};

static void capture(struct request *q, const struct sampler *s, size_t size)
{
    q->by = s;
    q->size = size;
    q->stack[0] = s->site;
    q->depth = s->site != 0;
    q->depth += stack_capture(q->stack + q->depth, (uint32_t)option(profile_depth) - q->depth,
                              option(profile_unwind));
}

static bool record(const struct request *q, const void *p, size_t usable)
{
    struct live_area *a = records_area();
    struct record *r = a != NULL ? record_take() : NULL;
    if (r == NULL)
        return false;
    uint64_t now = os_now_ms();
    r->address = (uintptr_t)p;
    r->size = q->size;
    r->usable = usable;
    r->born_ms = now;
    r->tid = hak_thread.id;
    r->site = site_for(a, q->stack, q->depth, now);
    weigh(r, q->by->interval);
    probe_sample(r->size, r->weight_bytes);
    record_link(r);
    sampler.sampled += r->weight_bytes;
    sampler.variance += variance_of(r);
    rate_count(now);
    set_fullness();
    site_allocated(a, change_of(r));
    record_show(a, r);
    show_sums(a, now);
    timeline_note(a, now, sampler.sampled);
    return true;
}

/* The highest of many estimates is the one that chance made high: among few samples, or with a short-lived one that stands for very
 * much, a multiple of what ever lived. So there has to be more than at the peak by more than chance makes: where memory in use is
 * higher as well (which no chance has made so) by more than two samples stand for, otherwise by three standard deviations. */
static bool is_peak(size_t in_use)
{
    enum { WORTH = 64, SAMPLES = 2, DEVIATIONS = 3 };
    double more = (double)sampler.sampled - (double)sampler.peak;
    bool has_grown = in_use > sampler.peak_in_use + sampler.peak_in_use / WORTH;
    double by_chance = has_grown ? SAMPLES * (sampler.variance - sampler.peak_variance)
                                 : DEVIATIONS * DEVIATIONS * sampler.variance;
    return sampler.peak == 0 || (more > 0 && more * more > by_chance);
}

/* The highest figures are kept where they begin to fall: most of the time they do not. */
static void keep_peak(struct live_area *a, uint64_t now)
{
    size_t in_use = purge_in_use();
    if (!is_peak(in_use))
        return;
    sampler.peak = sampler.sampled;
    sampler.peak_variance = sampler.variance;
    sampler.peak_in_use = in_use;
    sites_keep_peak(a);
    store_relaxed(&a->process[0].sampled_peak, sampler.peak);
    store_relaxed(&a->process[0].sampled_peak_ms, now);
}

/* One that stands in no bucket. */
static void end_record(struct record *r, const struct trace *by)
{
    struct live_area *a = records_area();
    uint64_t now = os_now_ms();
    struct freed_block freed = {r->address, r->size, r->site, r->tid, *by};
    if (guarded_owns((void *)r->address))
        guarded_remember(&freed);
    else
        past_note(&freed);
    if (a != NULL)
        keep_peak(a, now);
    sampler.sampled -= r->weight_bytes;
    sampler.variance -= variance_of(r);
    if (a != NULL)
        site_freed(a, change_of(r), now);
    record_release(a, r);
    set_fullness();
    if (a != NULL) {
        show_sums(a, now);
        timeline_note(a, now, sampler.sampled);
    }
}

static void forget(struct record *r, const struct trace *by)
{
    record_unlink(r);
    end_record(r, by);
}

/* ---- blocks ---- */

size_t sampled_usable(const void *p)
{
    return guarded_owns(p) ? guarded_usable(p) : arena_usable(p);
}

static void *take_block(const struct request *q, uint32_t class, bool *zeroed)
{
    void *p = guarded_take(class, q->by->random);
    *zeroed = p != NULL;
    return p != NULL ? p : arena_take(class, zeroed);
}

static void give_block(void *p)
{
    if (guarded_owns(p))
        guarded_give(p);
    else
        arena_give(p);
}

static void free_locked(void *p, const struct trace *by)
{
    struct record *r = record_find((uintptr_t)p);
    sampler.apart_blocks--;
    sampler.apart_bytes -= sampled_usable(p);
    give_block(p);
    if (r != NULL) /* and where blocks lie is shown */
        forget(r, by);
}

static const struct trace unknown;

/* No block lies where the number of a record would be an address. */
static HAK_COLD void forget_one(uintptr_t ended)
{
    struct record *r = record_find(ended);
    if (r != NULL)
        forget(r, &unknown);
    else if (ended <= UINT16_MAX)
        end_record(record_at((uint32_t)ended), &unknown);
}

static void forget_ended(void)
{
    for (int i = 0; i < ENDED_MOST; i++) {
        uintptr_t at = load_relaxed(&sampler.ended[i]);
        if (HAK_LIKELY(at == 0))
            continue;
        store_relaxed(&sampler.ended[i], (uintptr_t)0);
        forget_one(at);
    }
}

static HAK_COLD void note_ended(const void *p)
{
    for (int i = 0; i < ENDED_MOST; i++) {
        uintptr_t none = 0;
        if (cas_relaxed(&sampler.ended[i], &none, (uintptr_t)p))
            return;
    }
}

static void free_deferred(void)
{
    if (load_relaxed(&sampler.deferred) == NULL)
        return;
    struct block *b = exchange_acquire(&sampler.deferred, NULL);
    while (b != NULL) {
        struct block *next = b->next;
        free_locked(b, &unknown);
        b = next;
    }
}

static void defer(struct block *b)
{
    struct block *head = load_relaxed(&sampler.deferred);
    do {
        b->next = head;
    } while (!cas_weak_release(&sampler.deferred, &head, b)); /* its link comes along */
}

static bool take_lock(void)
{
    if (sampler.given_up || !lock_take_if_safe(&sampler.lock))
        return false;
    forget_ended();
    return true;
}

static bool enter(void)
{
    if (!take_lock())
        return false;
    free_deferred();
    return true;
}

/* To take a sample. */
static bool enter_for(struct sampler *s, size_t size, struct request *q)
{
    if (option(profile)) {
        capture(q, s, size);
        if (enter())
            return true;
    }
    rate_draw(s);
    return false;
}

/* Without a record nobody has to be told of its end. */
static void record_total(const struct request *q)
{
    struct live_area *a = records_area();
    struct record r = {.size = q->size, .usable = q->size, .born_ms = os_now_ms()};
    if (a == NULL)
        return;
    r.site = site_for(a, q->stack, q->depth, r.born_ms);
    weigh(&r, q->by->interval);
    rate_count(r.born_ms);
    site_passed(a, change_of(&r));
    show_sums(a, r.born_ms);
}

static bool is_out_of_sight(uint32_t class)
{
    return hak_classes[class].size <= SMALL_MAX && load_relaxed(&sampler.out_of_sight);
}

void sampler_lose_sight(void)
{
    if (!load_relaxed(&sampler.out_of_sight))
        store_relaxed(&sampler.out_of_sight, true);
}

static void *take_locked(const struct request *q, uint32_t class, bool *zeroed)
{
    if (is_out_of_sight(class)) {
        record_total(q);
        return NULL;
    }
    void *p = take_block(q, class, zeroed);
    if (p == NULL)
        return NULL;
    /* Before it is recorded, which shows the sums. */
    size_t usable = sampled_usable(p);
    sampler.apart_blocks++;
    sampler.apart_bytes += usable;
    if (record(q, p, hak_classes[class].size))
        return p;
    sampler.apart_blocks--;
    sampler.apart_bytes -= usable;
    give_block(p);
    return NULL;
}

void *sampled_alloc(struct sampler *s, size_t size, uint32_t class, bool *zeroed)
{
    struct request q;
    if (!enter_for(s, size, &q))
        return NULL;
    void *p = take_locked(&q, class, zeroed);
    sampler.lost += p == NULL && !is_out_of_sight(class);
    rate_draw(s);
    lock_release(&sampler.lock);
    return p;
}

bool sampled_note(struct sampler *s, const void *p, size_t size, size_t usable)
{
    struct request q;
    if (!enter_for(s, size, &q))
        return false;
    bool noted = record(&q, p, usable);
    sampler.lost += !noted;
    rate_draw(s);
    lock_release(&sampler.lock);
    return noted;
}

/* By frame pointers, whatever the setting: a free is to cost little. */
static struct trace here(void)
{
    struct trace t;
    t.depth = stack_capture(t.at, PAST_FRAMES, false);
    t.tid = hak_thread.id;
    return t;
}

void sampled_forget(const void *p)
{
    struct trace by = here();
    if (!enter()) {
        note_ended(p);
        return;
    }
    struct record *r = record_find((uintptr_t)p);
    if (r != NULL)
        forget(r, &by);
    lock_release(&sampler.lock);
}

/* Most are none: those have no trace to be found. */
HAK_COLD bool sampled_forget_if(const void *p, bool at_once)
{
    if (!enter()) {
        note_ended(p);
        return false;
    }
    struct record *r = record_find((uintptr_t)p);
    if (r != NULL && at_once)
        forget(r, &unknown);
    lock_release(&sampler.lock);
    if (r != NULL && !at_once)
        sampled_forget(p);
    return r != NULL;
}

uint32_t sampled_detach(const void *p)
{
    if (!enter()) {
        note_ended(p);
        return 0;
    }
    struct record *r = record_find((uintptr_t)p);
    if (r != NULL)
        record_unlink(r);
    lock_release(&sampler.lock);
    return r != NULL ? record_number(r) : 0;
}

bool sampled_settle(uint32_t detached, bool as_it_was)
{
    struct trace by = here();
    if (detached == 0)
        return false;
    if (!enter()) {
        note_ended((void *)(uintptr_t)detached);
        return false;
    }
    if (as_it_was)
        record_link(record_at(detached));
    else
        end_record(record_at(detached), &by);
    lock_release(&sampler.lock);
    return as_it_was;
}

bool sampled_free(void *p)
{
    if (sampled_usable(p) == 0)
        return false;
    struct trace by = here();
    if (!enter()) {
        defer(p);
        return true;
    }
    bool is_live = sampled_usable(p) != 0;
    const char *damage = is_live && guarded_owns(p) ? guarded_damage(p) : NULL;
    if (is_live && damage == NULL)
        free_locked(p, &by);
    lock_release(&sampler.lock);
    if (damage != NULL) /* now that whoever explains it gets the lock */
        os_fatal("free(%p): %s", (uintptr_t)p, damage);
    return is_live;
}

void sampled_live(size_t *blocks, size_t *bytes)
{
    *blocks = *bytes = 0;
    if (!take_lock())
        return;
    *blocks = sampler.apart_blocks;
    *bytes = sampler.apart_bytes;
    lock_release(&sampler.lock);
}

HAK_COLD void sampler_keep_tight(void)
{
    if (!take_lock())
        return;
    struct live_area *a = records_area();
    if (a != NULL) {
        sites_keep_tight(a);
        store_relaxed(&a->process[0].sampled_tight, sampler.sampled);
        store_relaxed(&a->process[0].sampled_tight_ms, os_now_ms());
    }
    lock_release(&sampler.lock);
}

/* ---- the child of a fork ---- */

HAK_COLD void sampler_give_up(void)
{
    sampler.given_up = true;
}

HAK_COLD void sampler_carry_over(struct live_area *a)
{
    if (!take_lock())
        return;
    sites_carry_over(a, hak_live.inherited);
    for (const struct record *r = records_next(NULL); r != NULL; r = records_next(r)) {
        site_allocated(a, change_of(r));
        record_show(a, r);
    }
    sampler.peak = 0; /* that was the parent's */
    show_sums(a, os_now_ms());
    live_drop_inherited();
    lock_release(&sampler.lock);
}
