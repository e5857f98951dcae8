#include "front/secure.h"

#if HAK_SECURE

#include <errno.h>
#include <string.h>

#include "base/budget.h"
#include "control/options.h"
#include "front/attach.h"
#include "front/front.h"
#include "front/pointer.h"
#include "front/seal.h"
#include "heap/registry.h"
#include "heap/waiting.h"
#include "os/os.h"

enum {
    FREED = 0xDF,          /* in a block that waits: as a pointer it is no address */
    DEBT_MOST = 256 << 10, /* bytes that may be filled beyond FILLED_MOST of each block; then ... */
    PAID_BACK = 16         /* ... so many a free are paid back first */
};

/* ---- guard pages ---- */

/* They cost mappings, of which the kernel allows 65,530, and time, of which they may have a twentieth: a block for
 * which there is neither has none, and does not wait either. */
enum { GUARDS_MOST = 4096, PAGES_PER_MS = 64, AHEAD_MS = 256 };
static _Atomic size_t guards;
static _Atomic uint64_t paid_until_ms; /* for the guards so far */

static bool pay_for_guard(size_t total)
{
    uint64_t cost_ms = 1 + total / hak_region.page_size / PAGES_PER_MS;
    return budget_pay(&paid_until_ms, os_now_ms(), cost_ms, AHEAD_MS);
}

/* Bytes that are nobody else's, a big block's whole granules included. */
static size_t extent(const void *p, size_t total)
{
    size_t unit = unit_of(p);
    return unit_word(unit) == WORD_BIG ? slab_at(unit)->granules << GRANULE_SHIFT : total;
}

static bool guard(void *p, size_t total)
{
    if (!pay_for_guard(total))
        return false;
    if (add_relaxed(&guards, 1) < GUARDS_MOST &&
        os_guard((char *)p + inner(total), extent(p, total) - inner(total)))
        return true;
    sub_relaxed(&guards, 1);
    return false;
}

/* False: the kernel refuses. Then nobody can use the block. */
static bool unguard(void *p, size_t total)
{
    if (!os_commit(p, extent(p, total)))
        return false;
    sub_relaxed(&guards, 1);
    return true;
}

/* ---- to the program ---- */

static _Noreturn HAK_COLD void die_twice(const void *p)
{
    os_fatal("malloc: block %p is handed out twice: the heap is corrupt", (uintptr_t)p);
}

/* The page of a large enough block may be fresh: a mere read of it would be a page fault of its own before that of the
 * write. */
HAK_INLINE uint64_t touch(_Atomic uint64_t *last, size_t size)
{
    return HAK_UNLIKELY(size >= hak_region.page_size) ? add_relaxed(last, 0) : load_relaxed(last);
}

HAK_INLINE void *out(char *p, size_t size, _Atomic uint64_t *last, enum flags flags)
{
    uint64_t said, seal = seal_of(last);
    if (HAK_UNLIKELY(says(touch(last, size), seal, LIVE, (size_t)((char *)last - p), &said)))
        die_twice(p);
    fill_behind(p, size, last);
    say(last, seal, LIVE, said_with(size, flags));
    return p;
}

void *secure_out_aligned(void *p, size_t size)
{
    if (p == NULL)
        return NULL;
    size_t total = front_usable(p, "malloc");
    return out(p, size, last_word(p, total), is_large(total) && guard(p, total) ? GUARDED : 0);
}

void *secure_out(void *p, size_t size)
{
    size_t request = secure_request(size);
    if (HAK_UNLIKELY(p == NULL || is_large(request)))
        return secure_out_aligned(p, size);
    return out(p, size, word_before((char *)p + hak_classes[class_for(request)].size), 0);
}

/* ---- back from it ---- */

static _Noreturn HAK_COLD void die_not_live(const void *p, const _Atomic uint64_t *last,
                                            const char *what)
{
    uint64_t said;
    uintptr_t at = (uintptr_t)p, word = unit_word(unit_of(p));
    if (place_says(last, FREE, p, &said))
        os_fatal("%s(%p): double free or use after free: the block is free already", what, at);
    if (word > WORD_TAG_MAX && (const char *)p >= slab_frontier(slab_of_unit(unit_of(p))))
        os_fatal("%s(%p): invalid pointer: no block starts there", what, at);
    os_fatal("%s(%p): the block was written past its end", what, at);
}

static _Noreturn HAK_COLD void die_behind(const void *p, const char *what)
{
    os_fatal("%s(%p): the block was written past its end", what, (uintptr_t)p);
}

static _Noreturn HAK_COLD void die_before(const void *p, const char *what)
{
    os_fatal("%s(%p): something was written before the start of the block, or past the end of the "
             "one in front of it",
             what, (uintptr_t)p);
}

struct block_info {
    size_t total, size;
    _Atomic uint64_t *last;
    uint64_t seal; /* of that place */
    bool is_guarded;
};

/* Ends the program if no block is live at p, or it was written past its end. */
HAK_INLINE struct block_info live_block(const char *p, size_t total, _Atomic uint64_t *last,
                                        const char *what)
{
    uint64_t said, seal = seal_of(last);
    if (HAK_UNLIKELY(
            !says(load_relaxed(last), seal, LIVE, (size_t)((const char *)last - p), &said)))
        die_not_live(p, last, what);
    size_t size = said >> FLAG_BITS;
    if (HAK_UNLIKELY(!is_filled_behind(p, size, last)))
        die_behind(p, what);
    return (struct block_info){total, size, last, seal, (said & GUARDED) != 0};
}

/* The block in front of one in a slab, if it lies in the same unit: blocks are cut by address, so it has been cut, and
 * its last word says something, or is zero, as in fresh pages and those that were purged. It may be freed and handed out
 * meanwhile, so it is read once. */
HAK_INLINE void verify_before(const char *p, size_t total, const char *what)
{
    if (((uintptr_t)p & (UNIT_SIZE - 1)) < total)
        return;
    const _Atomic uint64_t *last = word_before(p);
    uint64_t said, word = load_relaxed(last), seal = seal_of(last);
    bool is_said = says(word, seal, LIVE, total, &said) | says(word, seal, FREE, total, &said);
    if (HAK_UNLIKELY(!(is_said | (word == 0))))
        die_before(p, what);
}

/* One that is not a slab's: a sample, or of pages. */
static HAK_NOINLINE struct block_info other_block(const void *p, const char *what)
{
    size_t total = front_usable(p, what);
    return live_block(p, total, last_word(p, total), what);
}

HAK_INLINE bool is_in_slab(uintptr_t word)
{
    return word > WORD_TAG_MAX && class_of_word(word) < FIRST_PAGED;
}

HAK_INLINE struct block_info block_at(const char *p, const char *what)
{
    uintptr_t word = word_of(p, what);
    if (HAK_UNLIKELY(!is_in_slab(word)))
        return other_block(p, what);
    size_t total = hak_classes[class_of_word(word)].size;
    struct block_info b = live_block(p, total, word_before(p + total), what);
    verify_before(p, total, what);
    return b;
}

size_t secure_size(const void *p, const char *what)
{
    return block_at(p, what).size;
}

bool secure_is_live(const void *p, size_t *size)
{
    uint64_t said;
    bool is_live = place_says(last_word(p, front_usable(p, "secure_is_live")), LIVE, p, &said);
    *size = said >> FLAG_BITS;
    return is_live;
}

/* ---- blocks that wait ---- */

#define FREED_WORD (UINT64_MAX / UINT8_MAX * FREED)

typedef uint64_t pair __attribute__((vector_size(2 * WORD), may_alias));
static const pair freed = {FREED_WORD, FREED_WORD};

/* Unaligned, for the last one of a block whose bytes before its last word are an odd number of words. */
HAK_INLINE void store_freed(char *at)
{
    memcpy(at, &freed, sizeof freed);
}

HAK_INLINE pair difference(const char *at)
{
    pair is;
    memcpy(&is, at, sizeof is);
    return is ^ freed;
}

/* The first two pairs and the last one, of n bytes, at least three words. */
HAK_INLINE void fill_some(char *p, size_t n)
{
    store_freed(p);
    store_freed(p + least_of(n - sizeof(pair), sizeof(pair)));
    store_freed(p + n - sizeof(pair));
}

HAK_INLINE bool is_filled_some(const char *p, size_t n)
{
    pair all = difference(p) | difference(p + least_of(n - sizeof(pair), sizeof(pair))) |
               difference(p + n - sizeof(pair));
    return (all[0] | all[1]) == 0;
}

static HAK_NOINLINE void fill_to(char *p, const char *end)
{
    memset(p, FREED, (size_t)(end - p));
}

static HAK_NOINLINE bool is_filled_to(const char *p, const char *end)
{
    uint64_t all = 0;
    for (; p < end; p += WORD)
        all |= load_word(p) ^ FREED_WORD;
    return all == 0;
}

enum { FILLED_MOST = 3 * sizeof(pair) }; /* unless as a whole */

HAK_INLINE void fill(char *p, const char *last, bool as_a_whole)
{
    size_t n = (size_t)(last - p);
    if (HAK_UNLIKELY(n == WORD))
        memset(p, FREED, WORD);
    else
        fill_some(p, n);
    if (as_a_whole && HAK_UNLIKELY(n > FILLED_MOST))
        fill_to(p, last);
}

HAK_INLINE bool is_filled(const char *p, const char *last, bool as_a_whole)
{
    size_t n = (size_t)(last - p);
    bool is = HAK_UNLIKELY(n == WORD) ? load_word(p) == FREED_WORD : is_filled_some(p, n);
    return is && (!as_a_whole || HAK_LIKELY(n <= FILLED_MOST) || is_filled_to(p, last));
}

static _Noreturn HAK_COLD void die_waiting(const void *p, const _Atomic uint64_t *last)
{
    uint64_t said;
    if (place_says(last, LIVE, p, &said))
        os_fatal("free(%p): double free or use after free: the block is free already",
                 (uintptr_t)p);
    os_fatal("free(%p): the block was written to after it was freed", (uintptr_t)p);
}

/* It stays marked as free. If two threads have freed it at once it comes here twice, and is found out when its heap sees
 * it again or when it is handed out the second time. */
HAK_INLINE void give_back(char *p)
{
    uintptr_t word = unit_word(unit_of(p));
    size_t total = HAK_LIKELY(is_in_slab(word)) ? hak_classes[class_of_word(word)].size
                                                : front_usable(p, "free");
    _Atomic uint64_t *last = word_before(p + total);
    uint64_t said;
    if (HAK_UNLIKELY(!says(load_relaxed(last), seal_of(last), FREE, total, &said)) ||
        HAK_UNLIKELY(!is_filled(p, (char *)last, (said & WHOLE) != 0)))
        die_waiting(p, last);
    if (HAK_UNLIKELY(hak_options.zero_freed))
        memset(p, 0, total - WORD);
    front_free(p);
}

/* The page of a large block that can be accessed while it waits. */
static char *last_page(const struct block_info *b)
{
    return (char *)b->last + WORD - hak_region.page_size;
}

static HAK_NOINLINE void give_back_large(void *p)
{
    size_t total = front_usable(p, "free");
    struct block_info b = {.total = total, .last = last_word(p, total)};
    uint64_t said;
    if (!place_says(b.last, FREE, p, &said) || !is_filled_to(last_page(&b), (char *)b.last))
        die_waiting(p, b.last);
    if (unguard(p, total))
        front_free(p);
}

static uint32_t next_random(struct waiting *w)
{
    if (HAK_UNLIKELY(w->random == 0))
        w->random = hak_region.key ^ (uintptr_t)w;
    w->random = w->random * UINT64_C(6364136223846793005) +
                UINT64_C(1442695040888963407); /* Knuth's MMIX */
    return (uint32_t)(w->random >> 40);
}

/* Its places change: what a signal handler frees meanwhile does not wait. */
static _Thread_local bool is_changing;

HAK_INLINE void set_changing(bool to)
{
    atomic_signal_fence(memory_order_seq_cst);
    is_changing = to;
    atomic_signal_fence(memory_order_seq_cst);
}

/* A block goes through the first half in turn, so that it waits for as many others at least, and then takes a place of
 * the second by chance from another, which leaves. */
HAK_INLINE void *exchange(struct waiting *w, struct room *r, void **halves, uint32_t length,
                          void *p)
{
    set_changing(true);
    void **place = &halves[r->turn++ & (length - 1)], *leaves = *place;
    *place = p;
    if (HAK_LIKELY(leaves != NULL)) {
        void *last = leaves;
        place = &halves[length + (next_random(w) & (length - 1))];
        leaves = *place;
        *place = last;
    }
    set_changing(false);
    return leaves;
}

static HAK_NOINLINE struct waiting *first_waiting(void)
{
    struct heap *h = own_heap(thread_enter());
    thread_leave();
    return h != NULL ? &h->waiting : NULL;
}

/* NULL: none that may be used: the thread has no heap, or a signal handler has interrupted what changes it. */
HAK_INLINE struct waiting *own_waiting(void)
{
    struct heap *h = hak_thread.heap;
    if (HAK_UNLIKELY(is_changing))
        return NULL;
    return HAK_LIKELY(h != &hak_empty_heap) ? &h->waiting : first_waiting();
}

/* Whether a block may be filled as a whole. */
HAK_INLINE bool pay_for_filling(struct waiting *w, size_t total)
{
    if (HAK_LIKELY(w->pays_back)) {
        w->debt -= least_of(w->debt, PAID_BACK);
        w->pays_back = w->debt > DEBT_MOST / 2;
        return false;
    }
    w->debt += total - least_of(total, FILLED_MOST);
    w->pays_back = w->debt > DEBT_MOST;
    return true;
}

/* One of up to a unit. */
HAK_INLINE void mark_free(struct waiting *w, char *p, const struct block_info *b)
{
    bool as_a_whole = w != NULL && pay_for_filling(w, b->total);
    say(b->last, b->seal, FREE, said_with(b->size, as_a_whole ? WHOLE : 0));
    fill(p, (char *)b->last, as_a_whole);
}

HAK_INLINE void free_small(void *p, const struct block_info *b)
{
    struct waiting *w = own_waiting();
    mark_free(w, p, b);
    if (HAK_LIKELY(w != NULL))
        p = exchange(w, &w->small, w->places, WAITING_SMALL, p);
    if (HAK_LIKELY(p != NULL))
        give_back(p);
}

static HAK_NOINLINE void free_middle(void *p, const struct block_info *b)
{
    struct waiting *w = own_waiting();
    mark_free(w, p, b);
    if (w != NULL)
        p = exchange(w, &w->middle, w->places + MIDDLE_AT, WAITING_MIDDLE, p);
    if (p != NULL)
        give_back(p);
}

/* One without a guard page does not wait. */
static HAK_NOINLINE void free_large(void *p, const struct block_info *b)
{
    struct waiting *w = own_waiting();
    say(b->last, b->seal, FREE, said_with(b->size, 0));
    if (!b->is_guarded) {
        front_free(p);
        return;
    }
    size_t bytes = (size_t)(last_page(b) - (char *)p);
    fill_to(last_page(b), (char *)b->last);
    os_purge(p, bytes);
    (void)os_guard(p, bytes);
    if (w != NULL)
        p = exchange(w, &w->large, w->places + LARGE_AT, WAITING_LARGE, p);
    if (p != NULL)
        give_back_large(p);
}

void secure_free(void *p, const char *what)
{
    if (p == NULL)
        return;
    struct block_info b = block_at(p, what);
    if (HAK_LIKELY(b.total <= SMALL_MAX))
        free_small(p, &b);
    else if (is_large(b.total))
        free_large(p, &b);
    else
        free_middle(p, &b);
}

/* ---- realloc ---- */

/* In place, or moved by the kernel. The last word would stay behind in what is the program's then. */
static void *resize_large(void *p, const struct block_info *b, size_t size)
{
    if (b->is_guarded && !unguard(p, b->total)) {
        errno = ENOMEM;
        return NULL;
    }
    store_relaxed(b->last, 0);
    void *q = front_realloc(p, secure_request(size));
    if (q == NULL)
        say(b->last, b->seal, LIVE, said_with(b->size, 0));
    return secure_out_aligned(q, size);
}

void *secure_realloc(void *p, size_t size, const char *what)
{
    struct block_info b = block_at(p, what);
    size_t request = secure_request(size);
    if (is_large(b.total) && is_large(request) && size <= PTRDIFF_MAX)
        return resize_large(p, &b, size);
    if (!is_large(b.total) && request <= b.total && request >= b.total / 2) {
        store_relaxed(b.last, 0);
        return out(p, size, b.last, 0);
    }
    void *q = secure_out_aligned(front_alloc(secure_request(with_headroom(b.size, size))), size);
    if (q == NULL)
        return NULL;
    memcpy(q, p, least_of(b.size, size));
    secure_free(p, what);
    return q;
}

/* ---- all that wait ---- */

enum { TAKEN_MOST = 32 };

struct taken {
    void *blocks[TAKEN_MOST];
    size_t n, next; /* place to look at */
};

static void take_some(struct waiting *w, struct taken *t)
{
    set_changing(true);
    for (t->n = 0; t->next < WAITING_PLACES && t->n < TAKEN_MOST; t->next++) {
        if (w->places[t->next] != NULL)
            t->blocks[t->n++] = w->places[t->next];
        w->places[t->next] = NULL;
    }
    set_changing(false);
}

static void give_back_taken(const struct taken *t)
{
    for (size_t i = 0; i < t->n; i++) {
        if (is_large(front_usable(t->blocks[i], "free")))
            give_back_large(t->blocks[i]);
        else
            give_back(t->blocks[i]);
    }
}

/* Of a heap whose thread has ended. False: it is none (nobody may wait for a lost one's lock), or its lock cannot be had. */
static bool take_some_orphaned(struct heap *h, struct taken *t)
{
    bool is_orphan = false;
    t->n = 0;
    if (load_relaxed(&h->state) != HEAP_ORPHAN)
        return false;
    thread_enter();
    if (lock_take_if_safe(&h->lock)) {
        is_orphan = load_relaxed(&h->state) == HEAP_ORPHAN; /* changed under the lock */
        if (is_orphan)
            take_some(&h->waiting, t);
        lock_release(&h->lock);
    }
    thread_leave();
    return is_orphan;
}

/* Given back without the lock, under which nothing may be freed. */
static void empty_orphan(struct heap *h, void *none)
{
    struct taken t = {.next = 0};
    (void)none;
    while (t.next < WAITING_PLACES && take_some_orphaned(h, &t))
        give_back_taken(&t);
}

HAK_COLD void secure_verify(void)
{
    struct waiting *w = own_waiting();
    struct taken t = {.next = 0};
    if (is_changing)
        return;
    while (w != NULL && t.next < WAITING_PLACES) {
        take_some(w, &t);
        give_back_taken(&t);
    }
    registry_each(empty_orphan, NULL);
}

#endif
