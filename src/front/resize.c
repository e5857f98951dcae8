/* The size of a block, and a block of another size. */
#include <string.h>

#include "big/big.h"
#include "front/attach.h"
#include "front/explicit.h"
#include "front/front.h"
#include "front/pointer.h"
#include "front/slow.h"
#include "heap/lease.h"
#include "heap/paged.h"
#include "heap/runs.h"
#include "os/os.h"
#include "purge/purge.h"
#include "purge/show.h"

static HAK_COLD _Noreturn void die_free_already(const void *p, const char *what)
{
    os_fatal("%s(%p): double free or use after free: the block is free already", what,
             (uintptr_t)p);
}

void *front_alloc_beside(struct heap *owner, size_t size)
{
    if (owner == NULL)
        return front_alloc(size);
    (void)count_words(words_of(size));
    return front_heap_alloc_counted(owner, 1, size);
}

/* The build `secure` knows of each block whether it is free, and asks this of blocks that are. */
HAK_INLINE bool is_newest_freed(const void *p, uintptr_t word)
{
    return !HAK_SECURE && magazine_newest_is(magazine_for_word(hak_thread.heap, word), p);
}

static bool is_known_free(const void *p, uintptr_t word)
{
    return word > WORD_TAG_MAX ? is_newest_freed(p, word)
                               : word == WORD_EXPLICIT && leased_says_free(p);
}

/* The word of a block's unit; ends the program if it is none, or one that is known to be free. */
static uintptr_t word_of_live(const void *p, const char *what)
{
    uintptr_t word = word_of(p, what);
    if (HAK_UNLIKELY(is_known_free(p, word)))
        die_free_already(p, what);
    return word;
}

size_t front_usable(const void *p, const char *what)
{
    uintptr_t word = word_of_live(p, what);
    return usable_of(p, word);
}

/* Whether a slab's block of `old` bytes can serve for the size as it is. Where frees are checked against their
 * size, the block's class must stay its size's. */
HAK_INLINE bool still_fits(size_t old, size_t size)
{
    return size <= old && size >= old / 2 && (!HAK_CHECKED || front_usable_for(1, size) == old);
}

/* Whether a big block stays one at that size. A program that goes to and fro over the border of two kinds would have its block
 * copied each time. */
HAK_INLINE bool stays_big(size_t old, size_t size)
{
    return size > RUN_MAX || (!HAK_CHECKED && size > RUN_MAX / 2 && size >= old / 2);
}

/* Whether a run does. Where frees are checked, what a class would serve is to be a slab's. */
HAK_INLINE bool stays_run(size_t size)
{
    return !HAK_CHECKED && size > UNIT_SIZE && size <= RUN_MAX;
}

/* Whether a run or a big block has as many pages as it would have of the size: nothing is to be done, as with a slab's block that
 * still fits. */
static bool has_its_pages(uintptr_t word, size_t old, size_t size)
{
    return round_up(size, hak_region.page_size) == old &&
           (!HAK_CHECKED || (word == WORD_BIG && stays_big(old, size)));
}

/* A slab's, unless a sample is due. Its thread's alone: whoever else has the block does not have the heap's books. What is freed would be in
 * the magazine of another class then. */
static bool resize_slab(struct heap *h, const void *p, struct slab *s, size_t size)
{
    size_t words = words_of(size);
    if (h == NULL || load_relaxed(&s->heap) != h || size <= UNIT_SIZE || size > SLAB_MAX ||
        sampler_is_due(&h->magazines.sampler, words))
        return false;
    if (magazine_has(magazine_of(h, s->class), p))
        die_free_already(p, "realloc");
    bool done = paged_resize(h, s, class_for(size));
    if (done && !count_words(words)) /* another request */
        (void)sampler_goes_on(&h->magazines.sampler);
    return done;
}

static HAK_COLD void *resize_pages(void *p, uintptr_t word, size_t old, size_t size)
{
    void *q = NULL;
    struct heap *h = own_heap(thread_enter());
    struct slab *s = slab_at(unit_of(p));
    if (word > WORD_TAG_MAX) {
        hak_thread.freed_key = 0; /* of what it gives back: a class' block */
        q = resize_slab(h, p, s, size) ? p : NULL;
        thread_leave();
        return q;
    }
    bool sampled = load_relaxed(&s->sampled) != 0;
    uint32_t record = sampled ? sampled_detach(p) : 0;
    store_relaxed(&s->sampled, (uint8_t)0); /* once the block has moved, the line is another's */
    if (word == WORD_RUN && stays_run(size))
        q = run_resize(h, unit_of(p), size) ? p : NULL;
    else if (word == WORD_BIG && stays_big(old, size) && region_may_hold(size)) {
        s->pages = BIG_PLAIN;
        q = big_resize(unit_of(p), size, plan_pages(size, true));
        purge_note_big();
    }
    if (sampled && sampled_settle(record, q == NULL))
        store_relaxed(&s->sampled, (uint8_t)1);
    if (q != NULL) { /* what is resized counts as another request */
        (void)count_words(words_of(size));
        note_pages(h, q, size);
    }
    purge_show();
    thread_leave();
    return q;
}

/* An explicit heap's: it leaves its list meanwhile. */
static HAK_COLD void *resize_owned(struct heap *owner, void *p, uintptr_t word, size_t size)
{
    if (!explicit_remove(owner, p))
        return NULL;
    void *q = resize_pages(p, word, slab_at(unit_of(p))->size, size);
    (void)explicit_add(owner, q != NULL ? q : p);
    return q;
}

/* False: there is no memory for it. `old`: usable bytes. */
HAK_INLINE bool copy_to(void *q, const void *p, size_t old, size_t size)
{
    if (HAK_UNLIKELY(q == NULL))
        return false;
    memcpy(q, p, least_of(old, size));
    return true;
}

/* A slab's block. NULL: no memory, and p is as it was. What is due besides is seen to by what takes and frees. */
static HAK_NOINLINE void *move_small(void *p, size_t old, size_t size)
{
    void *q = front_alloc(with_headroom(old, size));
    if (copy_to(q, p, old, size))
        front_free(p);
    return q;
}

/* The same of one that no fast path gives or takes. */
static void *move_other(struct heap *owner, void *p, size_t old, size_t size)
{
    void *q = front_alloc_beside(owner, with_headroom(old, size));
    if (copy_to(q, p, old, size))
        front_free_slow(p);
    return q;
}

/* A block of pages, or none that may be resized, which ends the program. Of a heap that another thread deletes the slab may
 * have become an ordinary one meanwhile. */
static HAK_COLD void *realloc_other(void *p, size_t size)
{
    uintptr_t word = word_of_live(p, "realloc");
    void *q = NULL;
    size_t old = usable_of(p, word);
    struct heap *owner = explicit_owner(p, word);
    bool is_run = word == WORD_RUN || word == WORD_BIG;
    if (is_run ? has_its_pages(word, old, size) : still_fits(old, size))
        return p;
    if (old > UNIT_SIZE)
        q = owner == NULL ? resize_pages(p, word, old, size) : resize_owned(owner, p, word, size);
    if (q == NULL)
        q = move_other(owner, p, old, size);
    purge_pay_if_owed();
    purge_if_due();
    return q;
}

/* Most calls find that the block is large enough. It calls nothing else, and so builds no frame. */
void *front_realloc(void *p, size_t size)
{
    size_t unit = unit_of(p);
    uintptr_t word = word_if_ours(unit);
    if (HAK_UNLIKELY(word <= WORD_TAG_MAX || !is_block_start(p, unit, word) ||
                     is_newest_freed(p, word)))
        return realloc_other(p, size);
    size_t old = hak_classes[class_of_word(word)].size;
    if (still_fits(old, size))
        return p;
    return HAK_UNLIKELY(old > UNIT_SIZE) ? realloc_other(p, size) : move_small(p, old, size);
}
