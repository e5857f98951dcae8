#include "front/front.h"

#include <errno.h>
#include <string.h>

#include "big/big.h"
#include "front/attach.h"
#include "front/pointer.h"
#include "front/secure.h"
#include "front/slow.h"
#include "heap/hollow.h"
#include "heap/lease.h"
#include "heap/paged.h"
#include "heap/registry.h"
#include "heap/runs.h"
#include "heap/verify.h"
#include "live/dump.h"
#include "live/live.h"
#include "mind/keep.h"
#include "mind/touch.h"
#include "os/os.h"
#include "pressure/pressure.h"
#include "profile/rate.h"
#include "profile/stack.h"
#include "purge/purge.h"
#include "purge/show.h"

/* ---- allocation ---- */

/* What the caller names says it all. */
static HAK_NOINLINE void note_site(struct slab *s)
{
    uintptr_t frames[KEEP_SITE_FRAMES];
    frames[0] = hak_thread.heap->magazines.sampler.site;
    uint32_t depth = frames[0] != 0 ? 1 : stack_capture(frames, KEEP_SITE_FRAMES, false);
    s->key = keep_key_of_site(s->size, frames, depth);
}

void note_pages(struct heap *h, void *p, size_t size)
{
    struct slab *s = slab_at(unit_of(p));
    if (HAK_UNLIKELY(keep_is_by_site()))
        note_site(s);
    if (h == NULL)
        forget_words();
    bool is_sample = h != NULL && !sampler_goes_on(&h->magazines.sampler) &&
                     sampled_note(&h->magazines.sampler, p, size, s->size);
    store_relaxed(&s->sampled, (uint8_t)is_sample);
}

/* A block that is a sample; NULL: it is to be had as any other. */
static HAK_NOINLINE void *sample_class(struct heap *h, uint32_t class, size_t size, bool *zeroed)
{
    bool reads_as_zeros = false;
    void *p;
    if (class < FIRST_PAGED) {
        p = sampled_alloc(&h->magazines.sampler, size, class, &reads_as_zeros);
        if (hollow_may_be())
            hollow_look_unlocked(h);
    } else {
        p = run_of_kept(h, class);
        if (p == NULL)
            p = run_alloc(h, class_slab_bytes(class), 1, &reads_as_zeros);
        if (p != NULL)
            note_pages(h, p, size);
    }
    purge_show();
    if (zeroed != NULL)
        *zeroed = p != NULL && reads_as_zeros; /* what could not be kept as a sample may have */
    return p;
}

/* The class of a request for `size` bytes. `zeroed`: where to say that the block reads as zeros; NULL if
 * that does not matter. */
static void *alloc_class(uint32_t class, size_t size, bool *zeroed)
{
    struct heap *h = own_heap(thread_enter());
    void *p = NULL;
    if (zeroed != NULL)
        *zeroed = false;
    if (h != NULL && !sampler_goes_on(&h->magazines.sampler))
        p = sample_class(h, class, size, zeroed);
    if (p == NULL)
        p = h != NULL ? heap_refill(h, class, zeroed) : heap_alloc_detached(class);
    thread_leave();
    return p;
}

HAK_NOINLINE enum big_pages plan_pages(size_t size, bool grows)
{
    return pressure_is(PRESSURE_NEAR) ? BIG_PLAIN : touch_plan(size, grows);
}

static HAK_NOINLINE void *alloc_big(size_t size, size_t alignment, bool *zeroed)
{
    struct decision d;
    void *p = big_alloc(size, alignment, plan_pages(size, false), zeroed);
    if (p != NULL && touch_try(p, (enum big_pages)slab_at(unit_of(p))->pages, &d))
        purge_log(&d);
    purge_note_big();
    purge_show_big();
    return p;
}

HAK_INLINE void *alloc_pages(size_t size, size_t alignment, bool *zeroed)
{
    struct heap *h = own_heap(thread_enter());
    void *p = NULL;
    *zeroed = false;
    if (size <= RUN_MAX && alignment <= UNIT_SIZE)
        p = run_alloc(h, size, alignment, zeroed);
    if (p == NULL) /* or in a handler that interrupted the runs' lock */
        p = alloc_big(size, alignment, zeroed);
    if (p != NULL)
        note_pages(h, p, size);
    thread_leave();
    return p;
}

HAK_COLD void make_room(void)
{
    secure_verify();
    thread_enter();
    (void)purge_everything();
    thread_leave();
}

static HAK_COLD void trim_own(struct heap *h)
{
    if (!lock_take(&h->lock))
        return;
    heap_trim(h, true);
    heap_unlock(h);
}

/* What the process' memory other than the calling thread's heap can do for it, in any thread, once per round. */
static HAK_COLD void give_back(void)
{
    bool is_first = false;
    if (pressure_is(PRESSURE_TIGHT)) {
        registry_trim();
        is_first = exchange_acquire(&hak_pressure.first_tight, false);
        if (is_first)
            sampler_keep_tight();
    }
    (void)purge_everything();
    if (is_first && hak_options.profile_output[0] != '\0') /* it may be killed */
        (void)dump_profile(hak_options.profile_output);
}

HAK_COLD void begin_round(void)
{
    struct heap *h = own_heap(thread_enter());
    if (h != NULL) {
        h->round = load_relaxed(&hak_pressure.rounds);
        if (pressure_is(PRESSURE_TIGHT))
            trim_own(h);
    }
    if (thread_may_wait() && exchange_acquire(&hak_pressure.due, false))
        give_back();
    thread_leave();
}

/* What was counted is none, and may have been so much that a few more of its kind would make the countdown wrap: where the
 * next point is, is drawn anew, which is as likely anywhere. */
HAK_COLD void *no_memory(void)
{
    struct heap *h = own_heap(thread_enter());
    if (h != NULL)
        rate_draw(&h->magazines.sampler);
    else
        forget_words();
    thread_leave();
    errno = ENOMEM;
    return NULL;
}

static HAK_NOINLINE void *class_or_fail(uint32_t class, size_t size, bool *zeroed)
{
    void *p = alloc_class(class, size, zeroed);
    if (HAK_UNLIKELY(p == NULL)) {
        make_room();
        p = alloc_class(class, size, zeroed);
    }
    leave_slow();
    return HAK_LIKELY(p != NULL) ? p : no_memory();
}

HAK_COLD void *pages_or_fail(size_t size, size_t alignment, bool *zeroed)
{
    if (size > PTRDIFF_MAX || alignment > ALIGN_MAX || !region_may_hold(size))
        return no_memory();
    void *p = alloc_pages(size, alignment, zeroed);
    if (HAK_UNLIKELY(p == NULL)) {
        make_room();
        p = alloc_pages(size, alignment, zeroed);
    }
    leave_slow();
    return HAK_LIKELY(p != NULL) ? p : no_memory();
}

/* From the magazine if it has one and the request, which has been counted, is no sample. */
HAK_INLINE bool pop_unsampled(size_t offset, void **p)
{
    struct heap *h = hak_thread.heap;
    return HAK_LIKELY(sampler_goes_on(&h->magazines.sampler)) && HAK_LIKELY(pop_at(h, offset, p));
}

/* Of a size that slabs have. */
HAK_INLINE size_t offset_for(size_t size)
{
    return size <= SMALL_MAX ? hak_small_offset[words_of(size)]
                             : magazine_offset(class_in_doublings(size));
}

static HAK_NOINLINE void *alloc_missed(size_t size)
{
    bool zeroed;
    return size <= SLAB_MAX ? class_or_fail(class_for(size), size, NULL)
                            : pages_or_fail(size, 1, &zeroed);
}

/* The fast path serves the size from now on, by the thread's own heap: the empty one has no block to come here with. */
HAK_INLINE void learn_offset(size_t size, size_t offset)
{
    if (size != 0 && words_of(size) <= SERVED_MOST)
        hak_thread.heap->offset_of_words[words_of(size)] = (uint16_t)offset;
}

/* ---- while much is free ----
 * A process may serve all it does from magazines, and no slow path would find that what is kept for a swing of its demand is not
 * wanted any more, or that slabs are nearly empty. So where much may be free the end of a countdown glances at the clock: a thread
 * for which that comes seldom looks at what may be kept, and makes the next countdown a short one. One that only allocates may do so
 * all the time: it looks where nobody has for long. */
enum { SELDOM_MS = 64, SHORT_WORDS = 256 };

/* What magazines keep is given back at slow paths, too, and what is free in slabs. */
static void look_at_heap(struct heap *h)
{
    thread_enter();
    hollow_look_unlocked(h);
    thread_leave();
}

/* Where the clock has not moved since the last one, which it does once in some milliseconds, countdowns become longer. */
static void glance(struct heap *h)
{
    struct sampler *s = &h->magazines.sampler;
    uint64_t now = os_now_ms(), apart = now - h->glanced_ms;
    bool seldom = apart >= SELDOM_MS;
    h->glanced_ms = now;
    s->at_once = apart == 0 ? (2 * s->at_once + 1) & LEFT_MOST : LEFT_LEAST;
    sampler_shorten(s, seldom ? SHORT_WORDS : s->at_once);
    if (hak_thread.depth != 0)
        return;
    if (hollow_may_be() && now - h->hollow.looked_ms >= SELDOM_MS)
        look_at_heap(h);
    if (seldom || purge_look_is_overdue(now))
        purge_look(purge_dirty_bytes());
}

static HAK_COLD void *alloc_and_glance(size_t size)
{
    struct heap *h = hak_thread.heap;
    if (!sampler_goes_on(&h->magazines.sampler)) /* nor does a thread's without a heap */
        return alloc_missed(size);
    glance(h);
    return front_alloc_slow(size);
}

/* Of a countdown that is over. Where little can be free none is for a while. */
HAK_INLINE bool glance_is_due(void)
{
    struct heap *h = hak_thread.heap;
    if (purge_finds_much())
        return true;
    if (h != &hak_empty_heap) /* which is everybody's */
        h->magazines.sampler.at_once = LEFT_MOST;
    return false;
}

/* Medium sizes are nearly as hot as small ones: their magazines are looked at before a frame is built.
 * A small size comes here because its magazine is empty, or the countdown is over. */
void *front_alloc_slow(size_t size)
{
    void *p = NULL;
    if (size > SLAB_MAX)
        return alloc_missed(size);
    if (HAK_UNLIKELY(sampler_is_over()) && HAK_UNLIKELY(glance_is_due()))
        return alloc_and_glance(size);
    size_t offset = offset_for(size);
    if (!pop_unsampled(offset, &p))
        return alloc_missed(size);
    learn_offset(size, offset);
    return p;
}

HAK_COLD void front_name_site(uintptr_t site)
{
    struct heap *h = thread_find_heap(thread_enter());
    if (h != NULL)
        h->magazines.sampler.site = site;
    thread_leave();
}

static void *clear(void *p, size_t request)
{
    return memset(p, 0, request - SECURE_WORD);
}

enum { SPARSE_SHARE = 4, LOOK_SHARE = 8, LOOKED_AT = 8, LEAST_STEP = 2 };

/* Whether of these bytes, whole pages, so few are there that they are given back instead of written. What is swapped out counts
 * as not there, and is given back with the rest. */
static bool few_are_there(char *at, size_t bytes)
{
    return os_resident_pages(at, bytes) * hak_region.page_size <= bytes / SPARSE_SHARE;
}

/* The end first: where all of it has been written a look at the whole costs more than it saves. */
static bool is_sparse(char *granule)
{
    size_t bytes = GRANULE_SIZE / LOOK_SHARE;
    return few_are_there(granule + GRANULE_SIZE - bytes, bytes) &&
           few_are_there(granule, GRANULE_SIZE);
}

/* Of many granules some tell of all: a look at each takes longer than to clear what is there. */
static bool are_sparse(char *granules, size_t n)
{
    size_t step = n / LOOKED_AT;
    bool sparse = step >= LEAST_STEP;
    for (size_t i = 0; i < LOOKED_AT && sparse; i++)
        sparse = is_sparse(granules + (i * step << GRANULE_SHIFT));
    return sparse;
}

/* Of a big block what lies behind its dirty granules is zero, and these may have few pages: what the program does not write
 * stays without. */
HAK_COLD void *clear_pages(char *p, size_t n)
{
    if (unit_word(unit_of(p)) != WORD_BIG)
        return memset(p, 0, n);
    size_t part, dirty = least_of(n, big_dirty_bytes(p));
    if (are_sparse(p, dirty >> GRANULE_SHIFT) && os_purge(p, round_up(dirty, hak_region.page_size)))
        return p;
    for (size_t at = 0; at < dirty; at += part) {
        part = least_of(dirty - at, GRANULE_SIZE);
        if (!is_sparse(p + at) || !os_purge(p + at, round_up(part, hak_region.page_size)))
            memset(p + at, 0, part);
    }
    return p;
}

static HAK_NOINLINE void *zeroed_missed(size_t size)
{
    bool zeroed, is_of_class = size <= SLAB_MAX;
    void *p = is_of_class ? class_or_fail(class_for(size), size, &zeroed)
                          : pages_or_fail(size, 1, &zeroed);
    if (p == NULL || zeroed)
        return p;
    size -= SECURE_WORD;
    return is_of_class ? memset(p, 0, size) : clear_pages(p, size);
}

void *front_alloc_zeroed_slow(size_t size)
{
    void *p = NULL;
    if (HAK_LIKELY(size <= SLAB_MAX) && pop_unsampled(offset_for(size), &p))
        return clear(p, size);
    return zeroed_missed(size);
}

uint32_t class_for_request(size_t alignment, size_t size)
{
    if (size > SLAB_MAX || alignment > UNIT_SIZE) /* slabs start at any unit */
        return CLASS_COUNT;
    return alignment <= 8 ? class_for(size) : class_for_aligned(size, alignment);
}

size_t front_usable_for(size_t alignment, size_t size)
{
    uint32_t class = class_for_request(alignment, size);
    return class < CLASS_COUNT ? hak_classes[class].size
                               : round_up(size == 0 ? 1 : size, hak_region.page_size);
}

void *front_alloc_aligned(size_t alignment, size_t size)
{
    bool zeroed;
    void *p = NULL;
    uint32_t class = class_for_request(alignment, size);
    (void)count_words(words_of(size));
    if (class < CLASS_COUNT)
        return pop_unsampled(magazine_offset(class), &p) ? p : class_or_fail(class, size, NULL);
    if (size == 0)
        size = 1;
    return pages_or_fail(size, alignment, &zeroed);
}

HAK_COLD size_t front_trim(void)
{
    secure_verify();
    struct heap *h = own_heap(thread_enter());
    if (h != NULL)
        trim_own(h);
    size_t bytes = purge_everything();
    thread_leave();
    return bytes;
}

HAK_COLD void front_show_inherited(void)
{
    if (hak_live.inherited != NULL)
        thread_attach();
}

HAK_COLD size_t front_purge_slabs(void)
{
    thread_enter();
    size_t bytes = registry_purge_slabs();
    thread_leave();
    return bytes;
}

HAK_COLD void front_verify(void)
{
    secure_verify();
    struct heap *h = hak_thread.heap;
    if (thread_enter() == 1)
        heaps_verify(h != &hak_empty_heap ? h : NULL);
    thread_leave();
}

/* ---- free ---- */

static void free_block(void *p)
{
    struct heap *h = own_heap(thread_enter());
    hak_thread.freed_key = 0;
    /* Only now: attaching a heap orders this after what its last visitors did to its slabs. */
    uintptr_t word = unit_word(unit_of(p));
    if (h == NULL)
        heap_free_detached(heap_of_word(word), p);
    else
        heap_flush(h, word, p);
    thread_leave();
}

static HAK_NOINLINE void look_at_touched(void *p, size_t size)
{
    struct decision d;
    if (touch_look(p, size, &d))
        purge_log(&d);
}

/* Of whole pages. */
static void forget_if_sampled(const void *p)
{
    if (load_relaxed(&slab_at(unit_of(p))->sampled) != 0)
        sampled_forget(p);
}

static bool free_run(struct heap *h, size_t unit)
{
    bool is_sample = h != NULL && load_relaxed(&slab_at(unit)->sampled) != 0;
    return (is_sample && run_to_kept(h, unit)) || run_free(h, unit);
}

static HAK_COLD void free_pages(void *p, uintptr_t word)
{
    struct heap *h = own_heap(thread_enter());
    const struct slab *s = slab_at(unit_of(p));
    hak_thread.freed_key = keep_is_by_site() ? s->key : keep_key_of_size(s->size);
    forget_if_sampled(p);
    if (word == WORD_BIG && s->pages == BIG_LOOKED_AT)
        look_at_touched(p, s->size);
    bool freed = word == WORD_RUN ? free_run(h, unit_of(p)) : big_free(unit_of(p));
    if (word == WORD_BIG || pressure_is(PRESSURE_NEAR))
        purge_look_soon();
    if (word == WORD_BIG)
        purge_show_big();
    thread_leave();
    if (!freed)
        die_not_a_block(p, "free", WORD_FREED);
}

static void free_sampled(void *p)
{
    /* hak_free_sized_inline may have put it into the magazine of its class a moment ago. */
    uint32_t class = class_for(sampled_usable(p));
    thread_enter();
    bool freed = !magazine_newest_is(magazine_of(hak_thread.heap, class), p) && sampled_free(p);
    purge_show();
    thread_leave();
    if (!freed)
        die_double_free(p);
}

/* A block for whose class this thread has no room: it is noted for its way home, and nothing else is done, so that the
 * processor goes on with what the program does next. Whether a block starts there is seen when it gets home. */
HAK_INLINE bool free_noted(void *p)
{
    struct heap *h = hak_thread.heap;
    size_t unit = unit_of(p);
    if (HAK_UNLIKELY(unit >= hak_region.units))
        return false;
    uintptr_t word = unit_word(unit);
    const struct magazine *m = magazine_for_word(h, word);
    bool is_own = heap_of_word(word) == h;
    if (magazine_takes(m) ? word <= WORD_TAG_MAX || is_own : is_own && m->size > GATHERED_MAX)
        return false;
    if (HAK_UNLIKELY(magazine_newest_is(m, p)))
        return false;
    bool noted = thread_enter() == 1 && remote_note(h, heap_of_word(word), p, m->size);
    thread_leave();
    return noted;
}

/* An explicit heap's block. What its slab or line says may be another's by the time that its lock is had. */
static HAK_COLD void free_explicit(struct heap *owner, void *p, uintptr_t word)
{
    if (word == WORD_EXPLICIT) {
        if (!lease_free(owner, p))
            front_free_slow(p);
    } else if (explicit_remove(owner, p)) {
        free_pages(p, word);
    } else {
        thread_enter();
        forget_if_sampled(p);
        thread_leave();
        explicit_defer(owner, p);
    }
}

static HAK_NOINLINE void free_any(void *p)
{
    int saved = errno;
    struct heap *owner;
    uintptr_t word = word_of(p, "free");
    if (word > WORD_TAG_MAX)
        free_block(p);
    else if (word == WORD_SAMPLED)
        free_sampled(p);
    else if (HAK_UNLIKELY((owner = explicit_owner(p, word)) != NULL))
        free_explicit(owner, p, word);
    else
        free_pages(p, word);
    purge_if_due();
    give_back_if_due();
    errno = saved;
}

void front_free_slow(void *p)
{
    if (p != NULL && !free_noted(p)) /* programs free NULL often enough */
        free_any(p);
}

static HAK_COLD _Noreturn void die_of_size(const void *p, size_t size, size_t usable)
{
    os_fatal("free_sized(%p): wrong size: %u was given for a block of %u bytes", (uintptr_t)p, size,
             usable);
}

void front_free_sized_slow(void *p, size_t size)
{
    size_t unit = unit_of(p), usable = SIZE_MAX;
    if (unit < hak_region.units) {
        uintptr_t word = unit_word(unit);
        if (word > WORD_TAG_MAX || is_block_start(p, unit, word))
            usable = usable_of(p, word);
    }
    if (HAK_UNLIKELY(size > usable))
        die_of_size(p, size, usable);
    front_free_slow(p);
}
