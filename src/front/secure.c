#include "front/secure.h"

#if HAK_SECURE

#include <errno.h>
#include <string.h>

#include "base/budget.h"
#include "control/options.h"
#include "front/attach.h"
#include "front/freed.h"
#include "front/front.h"
#include "front/pointer.h"
#include "front/seal.h"
#include "heap/explicit.h"
#include "heap/registry.h"
#include "heap/waiting.h"
#include "os/os.h"

enum {
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

/* keeps: the program's bytes are what they are to be. */
HAK_INLINE void *out(char *p, size_t size, _Atomic uint64_t *last, enum flags flags, bool keeps)
{
    uint64_t said, seal = seal_of(last);
    if (HAK_UNLIKELY(says(touch(last, size), seal, LIVE, (size_t)((char *)last - p), &said)))
        die_twice(p);
    if (keeps)
        fill_behind_kept(p, size, last);
    else
        fill_behind(p, size, last);
    say(last, seal, LIVE, said_with(size, flags));
    return p;
}

void *secure_out_aligned(void *p, size_t size)
{
    if (p == NULL)
        return NULL;
    size_t total = front_usable(p, "malloc");
    enum flags flags = is_large(total) && guard(p, total) ? GUARDED : 0;
    return out(p, size, last_word(p, total), flags, true);
}

static HAK_NOINLINE void *out_middle(void *p, size_t size)
{
    size_t request = secure_request(size);
    if (p == NULL || is_large(request))
        return secure_out_aligned(p, size);
    return out(p, size, word_before((char *)p + hak_classes[class_for(request)].size), 0, true);
}

/* Its class from a table: nobody could predict a branch on the size. */
HAK_INLINE void *out_small(char *p, size_t size, bool keeps)
{
    if (HAK_UNLIKELY(p == NULL || size > SMALL_MAX - WORD))
        return out_middle(p, size);
    uint32_t class = class_of_word(hak_small_offset[words_of(secure_request(size))]);
    return out(p, size, word_before(p + hak_classes[class].size), 0, keeps);
}

void *secure_out(void *p, size_t size)
{
    return out_small(p, size, false);
}

void *secure_out_zeroed(void *p, size_t size)
{
    return out_small(p, size, true);
}

/* ---- back from it ---- */

static _Noreturn HAK_COLD void die_not_live(const void *p, const _Atomic uint64_t *last,
                                            const char *what)
{
    uint64_t said;
    uintptr_t at = (uintptr_t)p, word = word_of(p, what); /* ends it if no block can start there */
    if (place_says(last, FREE, p, &said))
        os_fatal("%s(%p): double free or use after free: the block is free already", what, at);
    if (word_is_of_slab(word) && (const char *)p >= slab_frontier(slab_of_unit(unit_of(p))))
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
    uint64_t word = load_relaxed(last), seal = seal_of(last);
    if (HAK_UNLIKELY(!says_live_or_free(word, seal, total - WORD)) && word != 0)
        die_before(p, what);
}

/* One that is not a slab's: a sample, or of pages. */
static HAK_NOINLINE struct block_info other_block(const void *p, const char *what)
{
    size_t total = front_usable(p, what);
    return live_block(p, total, last_word(p, total), what);
}

/* `word`: of the unit p lies in. Where no block starts no last word is sealed either: that its last byte lies in a slab of the class is all
 * to be known beforehand, so that it can be read. Whose slab that is may change meanwhile. */
HAK_INLINE struct block_info slab_block(const char *p, uintptr_t word, const char *what)
{
    uint32_t class = class_of_word(word);
    size_t total = hak_classes[class].size;
    _Atomic uint64_t *last = word_before(p + total);
    if (HAK_UNLIKELY(class_of_word(unit_word(unit_of(p + total - 1))) != class))
        die_not_live(p, last, what);
    struct block_info b = live_block(p, total, last, what);
    verify_before(p, total, what);
    return b;
}

HAK_INLINE bool is_in_slab(uintptr_t word)
{
    return word > WORD_TAG_MAX && class_of_word(word) < FIRST_PAGED;
}

/* `word`: of its unit. */
HAK_INLINE struct block_info block_of(const char *p, uintptr_t word, const char *what)
{
    return is_in_slab(word) ? slab_block(p, word, what) : other_block(p, what);
}

HAK_INLINE struct block_info block_at(const char *p, const char *what)
{
    return block_of(p, word_of(p, what), what);
}

size_t secure_size(const void *p, const char *what)
{
    return block_at(p, what).size;
}

bool secure_is_live(const void *p, size_t *size)
{
    uint64_t said;
    size_t total = usable_of(p, word_of(p, "secure_is_live")); /* which may be a free block's */
    bool is_live = place_says(last_word(p, total), LIVE, p, &said);
    *size = said >> FLAG_BITS;
    return is_live;
}

/* ---- blocks that wait ---- */

static _Noreturn HAK_COLD void die_waiting(const void *p, const _Atomic uint64_t *last)
{
    uint64_t said;
    if (place_says(last, LIVE, p, &said))
        os_fatal("free(%p): double free or use after free: the block is free already",
                 (uintptr_t)p);
    os_fatal("free(%p): the block was written to after it was freed", (uintptr_t)p);
}

HAK_INLINE size_t total_of(uintptr_t entry)
{
    uint32_t class = waiting_class(entry);
    return HAK_LIKELY(class < CLASS_COUNT) ? hak_classes[class].size
                                           : front_usable(waiting_block(entry), "free");
}

/* One that leaves. It stays marked as free. If two threads have freed it at once it comes here twice, and is found out when
 * its heap sees it again or when it is handed out the second time. */
HAK_INLINE void verify_waited(uintptr_t entry)
{
    char *p = waiting_block(entry);
    size_t total = total_of(entry);
    _Atomic uint64_t *last = word_before(p + total);
    uint64_t said;
    if (HAK_UNLIKELY(!says(load_relaxed(last), seal_of(last), FREE, total - WORD, &said)) ||
        HAK_UNLIKELY(!is_filled_freed(p, (char *)last, (said & WHOLE) != 0)))
        die_waiting(p, last);
    if (HAK_UNLIKELY(option(zero_freed)))
        memset(p, 0, total - WORD);
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
    w->random = w->random * UINT64_C(6364136223846793005) +
                UINT64_C(1442695040888963407); /* Knuth's MMIX */
    return (uint32_t)(w->random >> 40);
}

/* A block goes through the first half in turn, so that it waits for as many others at least, and then takes a place of
 * the second by chance from another, which leaves. 0: none does. */
HAK_INLINE uintptr_t exchange(struct waiting *w, struct room *r, uintptr_t *halves, uint32_t length,
                              uintptr_t entry)
{
    uintptr_t *place = &halves[r->turn++ & (length - 1)], leaves = *place;
    *place = entry;
    if (HAK_LIKELY(leaves != 0)) {
        uintptr_t last = leaves;
        place = &halves[length + (next_random(w) & (length - 1))];
        leaves = *place;
        *place = last;
    } else if (w->random == 0) {
        w->random = hak_region.key ^ (uintptr_t)w;
    }
    return leaves;
}

/* The heap in whose rooms a block may wait; until rooms_leave no handler looks at them. NULL: none. The thread has no heap,
 * or is a handler's that has interrupted what changes one: then the block does not wait. */
static struct heap *rooms_enter(void)
{
    return own_heap(thread_enter());
}

HAK_INLINE void rooms_leave(void)
{
    thread_leave();
}

/* Whether a block may be filled as a whole. */
HAK_INLINE bool pay_for_filling(struct waiting *w, size_t total)
{
    if (HAK_LIKELY(w->pays_back)) {
        w->debt -= PAID_BACK; /* more than half of the most is left */
        w->pays_back = w->debt > DEBT_MOST / 2;
        return false;
    }
    w->debt += total - least_of(total, FILLED_MOST);
    w->pays_back = w->debt > DEBT_MOST;
    return true;
}

/* What it holds, up to its last word; of a large one by giving its pages back, but for the last. */
static HAK_COLD void wipe(char *p, const struct block_info *b)
{
    char *from = is_large(b->total) && os_purge(p, (size_t)(last_page(b) - p)) ? last_page(b) : p;
    memset(from, 0, (size_t)((char *)b->last - from));
}

/* One of up to a unit. */
HAK_INLINE void mark_free(struct waiting *w, char *p, const struct block_info *b)
{
    bool as_a_whole = w != NULL && (option(zero_freed) || pay_for_filling(w, b->total));
    say(b->last, b->seal, FREE, said_with(b->size, as_a_whole ? WHOLE : 0));
    fill_freed(p, (char *)b->last, as_a_whole);
    if (w == NULL && option(zero_freed))
        wipe(p, b);
}

/* Into the magazine of the thread, if it has room. */
HAK_INLINE bool give_back_here(struct heap *h, uintptr_t entry)
{
    uint32_t class = waiting_class(entry);
    void *p = waiting_block(entry);
    struct free_slot slot;
    if (HAK_UNLIKELY(class == CLASS_COUNT) || !find_slot_at(h, magazine_offset(class), p, &slot))
        return false;
    fill_slot(&slot, p);
    return true;
}

static HAK_NOINLINE void give_back(uintptr_t entry)
{
    front_free(waiting_block(entry));
}

/* In the rooms of h, and leaves them. */
HAK_INLINE void free_small(struct heap *h, char *p, uint32_t class, const struct block_info *b)
{
    struct waiting *w = &h->waiting;
    mark_free(w, p, b);
    uintptr_t leaves = exchange(w, &w->small, w->places, WAITING_SMALL, waiting_entry(p, class));
    bool is_back = leaves == 0;
    if (HAK_LIKELY(!is_back)) {
        verify_waited(leaves);
        is_back = give_back_here(h, leaves);
    }
    rooms_leave();
    if (HAK_UNLIKELY(!is_back))
        give_back(leaves);
}

/* The same; rare enough to be given back by way of front. */
static HAK_NOINLINE void free_middle(struct heap *h, char *p, uint32_t class,
                                     const struct block_info *b)
{
    struct waiting *w = &h->waiting;
    mark_free(w, p, b);
    uintptr_t leaves =
        exchange(w, &w->middle, w->places + MIDDLE_AT, WAITING_MIDDLE, waiting_entry(p, class));
    rooms_leave();
    if (leaves != 0) {
        verify_waited(leaves);
        give_back(leaves);
    }
}

/* One without a guard page does not wait. */
static HAK_NOINLINE void free_large(void *p, const struct block_info *b)
{
    say(b->last, b->seal, FREE, said_with(b->size, 0));
    if (!b->is_guarded) {
        if (option(zero_freed))
            wipe(p, b);
        front_free(p);
        return;
    }
    size_t bytes = (size_t)(last_page(b) - (char *)p);
    fill_to(last_page(b), (char *)b->last);
    if (!os_purge(p, bytes) && option(zero_freed)) /* it is locked */
        memset(p, 0, bytes);
    (void)os_guard(p, bytes);
    struct heap *h = rooms_enter();
    uintptr_t leaves = waiting_entry(p, CLASS_COUNT);
    if (h != NULL)
        leaves = exchange(&h->waiting, &h->waiting.large, h->waiting.places + LARGE_AT,
                          WAITING_LARGE, leaves);
    rooms_leave();
    if (leaves != 0)
        give_back_large(waiting_block(leaves));
}

/* An explicit heap's, which may end before it would leave. It does not wait. If nobody can use its memory it is the heap's no
 * more. */
static HAK_COLD void free_unwaited(struct heap *owner, void *p, const struct block_info *b)
{
    mark_free(NULL, p, b);
    if (!b->is_guarded || unguard(p, b->total))
        front_free(p);
    else
        (void)explicit_remove(owner, p);
}

static HAK_NOINLINE void free_other(void *p, const char *what)
{
    uintptr_t word = word_of(p, what);
    uint32_t class = is_in_slab(word) ? class_of_word(word) : CLASS_COUNT;
    struct block_info b = block_of(p, word, what);
    struct heap *owner = explicit_owner(p, word);
    if (HAK_UNLIKELY(owner != NULL)) {
        free_unwaited(owner, p, &b);
        return;
    }
    if (is_large(b.total)) {
        free_large(p, &b);
        return;
    }
    struct heap *h = rooms_enter();
    if (h == NULL) {
        mark_free(NULL, p, &b);
        rooms_leave();
        front_free(p);
    } else if (b.total > SMALL_MAX) {
        free_middle(h, p, class, &b);
    } else {
        free_small(h, p, class, &b);
    }
}

void secure_free(void *p, const char *what)
{
    if (p == NULL)
        return;
    size_t unit = unit_of(p);
    uintptr_t word = HAK_LIKELY(unit < hak_region.units) ? unit_word(unit) : WORD_NONE;
    if (HAK_UNLIKELY(class_of_word(word) > class_for(SMALL_MAX))) {
        free_other(p, what);
        return;
    }
    struct block_info b = slab_block(p, word, what);
    uint32_t depth = thread_enter();
    struct heap *h = hak_thread.heap;
    if (HAK_LIKELY(depth == 1 && h != &hak_empty_heap)) {
        free_small(h, p, class_of_word(word), &b);
        return;
    }
    thread_leave();
    free_other(p, what);
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

/* Whether front resizes a large block where it is, or has the kernel move it. A slab's that does not fit is copied here: the old
 * one says that it is free then, and waits. So is any whose content is to be gone, also behind a shorter one. */
static bool is_left_to_front(const void *p, bool fits)
{
    return !option(zero_freed) && (fits || unit_word(unit_of(p)) <= WORD_TAG_MAX);
}

void *secure_realloc(void *p, size_t size, const char *what)
{
    struct block_info b = block_at(p, what);
    size_t request = secure_request(size);
    bool fits = request <= b.total && request >= b.total / 2;
    if (is_large(b.total) && is_large(request) && size <= PTRDIFF_MAX && is_left_to_front(p, fits))
        return resize_large(p, &b, size);
    if (!is_large(b.total) && fits) {
        store_relaxed(b.last, 0);
        return out(p, size, b.last, 0, true);
    }
    struct heap *owner = explicit_owner(p, unit_word(unit_of(p)));
    size_t larger = secure_request(with_headroom(b.size, size));
    void *q = secure_out_aligned(front_alloc_beside(owner, larger), size);
    if (q == NULL)
        return NULL;
    memcpy(q, p, least_of(b.size, size));
    secure_free(p, what);
    return q;
}

/* ---- all that wait ---- */

enum { TAKEN_MOST = 32 };

struct taken {
    uintptr_t entries[TAKEN_MOST];
    size_t n, next; /* place to look at */
};

static void take_some(struct waiting *w, struct taken *t)
{
    for (t->n = 0; t->next < WAITING_PLACES && t->n < TAKEN_MOST; t->next++) {
        if (w->places[t->next] != 0)
            t->entries[t->n++] = w->places[t->next];
        w->places[t->next] = 0;
    }
}

static void give_back_taken(const struct taken *t)
{
    for (size_t i = 0; i < t->n; i++) {
        if (is_large(total_of(t->entries[i]))) {
            give_back_large(waiting_block(t->entries[i]));
        } else {
            verify_waited(t->entries[i]);
            give_back(t->entries[i]);
        }
    }
}

/* Given back outside of the rooms: what is freed may have a room to enter. */
static bool empty_own(struct taken *t)
{
    struct heap *h = rooms_enter();
    if (h != NULL)
        take_some(&h->waiting, t);
    rooms_leave();
    give_back_taken(t);
    return h != NULL && t->next < WAITING_PLACES;
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
        heap_unlock_visited(h); /* what was sent to it meanwhile has nobody else to open it */
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
    struct taken t = {.next = 0};
    if (hak_thread.depth != 0) /* a handler, which would wait for one lock after the other */
        return;
    while (empty_own(&t))
        continue;
    registry_each(empty_orphan, NULL);
}

#endif
