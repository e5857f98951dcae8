#include "heap/paged.h"

#include <string.h>

#include "base/probe.h"
#include "heap/capacity.h"
#include "heap/put.h"
#include "heap/registry.h"
#include "heap/touched.h"
#include "pages/pages.h"
#include "pressure/pressure.h"
#include "purge/purge.h"
#include "purge/show.h"

enum { BORROWED_UP = 2 }; /* classes, an eighth each, by which a block may be too large */

/* What the magazines of all heaps keep, in bytes: the sum of their `paged_kept`, which they change by adding. */
static _Atomic size_t kept_by_all;

/* ---- blocks come and go ---- */

static void note_grown(struct heap *h, size_t bytes)
{
    h->grown_bytes += bytes;
    purge_note_fresh(bytes, MEMORY_PAGES);
}

/* `word`: its unit's from now on. */
static void show_slab(size_t unit, uintptr_t word)
{
    unit_set_word(unit, word);
    unit_show(unit);
}

/* The pages become a slab of the class, of which the block is in use, and that becomes none. */
static void pages_to_slab(struct heap *h, size_t page, uint32_t class, bool zeroed)
{
    size_t unit = unit_of_page(page);
    struct slab *s = slab_at(unit);
    s->run_at = place_in_unit(page);
    slab_init(unit, class, h, zeroed);
    s->used = s->carved = s->high = 1;
    h->classes[class].slabs++;
    h->classes[class].touched += pages_for(hak_classes[class].size);
    heap_has_class(h, class);
    class_gain(h, class, 1);
    show_slab(unit, (uintptr_t)magazine_of(h, class));
}

static void slab_to_pages(struct heap *h, struct slab *s)
{
    uint32_t class = s->class;
    class_unuse(h, class, 1);
    h->classes[class].slabs--;
    h->classes[class].touched -= pages_for(hak_classes[class].size);
    s->used = 0;
    s->size = hak_classes[class].size; /* for who asks what was here */
    store_relaxed(&s->heap, NULL);
    show_slab(slab_unit(s), WORD_FREED);
}

void *paged_take(struct heap *h, uint32_t class, bool *zeroed)
{
    uint32_t n = pages_for(hak_classes[class].size);
    ptrdiff_t page = pages_take(n, 1, zeroed);
    if (page < 0) {
        count(h, COUNTER_pool_miss, 1);
        return NULL;
    }
    pages_to_slab(h, (size_t)page, class, *zeroed);
    class_note_taken(h, class, 1);
    count(h, COUNTER_pool_stage2, 1);
    purge_show_pages();
    probe_slab_new(class);
    if (*zeroed) {
        note_grown(h, (size_t)n << page_shift());
        touched_note_fresh(h);
    }
    return page_address((size_t)page);
}

void paged_put(struct heap *h, struct slab *s, void *p)
{
    if (HAK_UNLIKELY(p != slab_base(s)))
        die_bad_block(s, p);
    touched_note_freed(h, p);
    slab_to_pages(h, s);
    count(h, COUNTER_slab_release, 1);
    probe_slab_release(s->class);
    pages_give(page_of(p), pages_for(hak_classes[s->class].size));
    purge_show_pages();
}

HAK_COLD bool paged_resize(struct heap *h, struct slab *s, uint32_t class)
{
    if (!lock_take(&h->lock))
        return false;
    size_t page = page_of(slab_base(s));
    uint32_t before = pages_for(hak_classes[s->class].size);
    uint32_t n = pages_for(hak_classes[class].size);
    bool zeroed = false, done = pages_resize(page, before, n, &zeroed);
    if (done) {
        slab_to_pages(h, s);
        pages_to_slab(h, page, class, s->zeroed && zeroed);
        purge_show_pages();
    }
    if (zeroed)
        note_grown(h, (size_t)(n - before) << page_shift());
    heap_unlock(h);
    return done;
}

/* ---- what is kept goes back ---- */

/* The first of these classes whose blocks have n pages; CLASS_COUNT: none has. */
static uint32_t class_of_pages(uint32_t n)
{
    uint32_t class = CLASS_COUNT;
    if (n <= pages_for(SLAB_MAX))
        class = class_for((size_t)n << page_shift());
    while (class > FIRST_PAGED && pages_for(hak_classes[class - 1].size) >= n)
        class --;
    return class < FIRST_PAGED ? FIRST_PAGED : class;
}

struct search {
    const struct magazine *found; /* the first that keeps a block */
    size_t kept;                  /* bytes in all that were looked at */
};

/* Whether there is one, and more than `most` bytes. */
HAK_INLINE bool look_into(struct search *s, const struct magazine *m, size_t most)
{
    size_t blocks = magazine_kept(m);
    if (blocks != 0 && s->found == NULL)
        s->found = m;
    s->kept += blocks * m->size;
    return s->kept > most;
}

/* Of which class a block is to go back if n pages are wanted: the least that is large enough by itself, or else the
 * largest, which may become so with what is free beside it. CLASS_COUNT: no more than `most` bytes are kept. */
static uint32_t class_to_give(const struct heap *h, uint32_t n, size_t most)
{
    const struct magazine *all = h->magazines.of, *m, *first = &all[class_of_pages(n)];
    struct search s = {NULL, 0};
    bool enough = false;
    for (m = first; m < &all[CLASS_COUNT] && !enough; m++)
        enough = look_into(&s, m, most);
    for (m = first - 1; m >= &all[FIRST_PAGED] && !enough; m--)
        enough = look_into(&s, m, most);
    return enough ? (uint32_t)(s.found - all) : CLASS_COUNT;
}

static HAK_NOINLINE void give_oldest(struct heap *h, uint32_t class)
{
    struct magazine *m = magazine_of(h, class);
    close_magazine(m);
    void **top = m->top, **oldest = magazine_slots(m) + m->cap - 1;
    if (top <= oldest) { /* else a signal handler has taken it since */
        heap_put_all(h, class, oldest, 1);
        memmove(top + 1, top, (size_t)(oldest - top) * sizeof *top);
        top++;
    }
    open_magazine(m, top);
}

bool paged_give_back(struct heap *h, uint32_t n, size_t most)
{
    bool gave = false;
    for (uint32_t class;
         !pages_have_touched(n) && (class = class_to_give(h, n, most)) != CLASS_COUNT; gave = true)
        give_oldest(h, class);
    return gave;
}

/* What a thread may keep by what it has in use: more bytes where few of them are touched, none near a memory limit. */
static size_t share_of(const struct heap *h)
{
    if (pressure_is(PRESSURE_NEAR))
        return 0;
    size_t least = least_of(PAGED_KEPT_MIN, PAGED_KEPT_ALL / registry_live_heaps());
    size_t share = h->used_bytes / PAGED_KEPT_SHARE;
    if (touched_little())
        return TOUCHED_LITTLE * largest_of(least, 2 * share);
    return largest_of(least, share);
}

void paged_make_room(struct heap *h, uint32_t n)
{
    (void)paged_give_back(h, n, touched_little() ? share_of(h) : PAGED_KEPT_MIN);
    if (pages_have_touched(n))
        return;
    size_t touched;
    ptrdiff_t granule = big_take_cached((size_t)n << page_shift(), &touched);
    if (granule < 0)
        return;
    pages_add((size_t)granule, touched);
    purge_show_big();
}

/* What a thread may keep. Where its demand goes up and down, as much as could lie free with its pages anyway: what all threads keep and
 * what does are no more than that together. */
static size_t may_keep(struct heap *h, bool swings)
{
    size_t share = share_of(h);
    return swings ? largest_of(share, purge_room(load_relaxed(&kept_by_all) - h->paged_kept))
                  : share;
}

/* Of one that does not swing it is little, and not counted. */
static void note_kept(struct heap *h, bool swings)
{
    size_t bytes = 0;
    for (uint32_t class = FIRST_PAGED; swings && class < CLASS_COUNT; class ++)
        bytes += magazine_kept(magazine_of(h, class)) * hak_classes[class].size;
    if (bytes == h->paged_kept)
        return; /* and all threads go without the line that they share */
    add_relaxed(&kept_by_all, bytes - h->paged_kept);
    h->paged_kept = bytes;
}

/* Returns whether something had to go back. */
static HAK_NOINLINE bool keep_within(struct heap *h)
{
    bool swings = heap_swings(h), gave = paged_give_back(h, UINT32_MAX, may_keep(h, swings));
    note_kept(h, swings);
    return gave;
}

void paged_limit(struct heap *h, uint32_t class, void *freed)
{
    struct magazine *m = magazine_of(h, class);
    bool gave = keep_within(h);
    if (magazine_newest_is(m, freed))
        touched_note_freed(h, freed);
    if (gave && magazine_takes(m))
        magazine_seem_full_after(m, 0);
}

void paged_opened(struct magazine *m)
{
    size_t blocks = touched_little() ? PAGED_STEP / UNIT_SIZE : largest_of(PAGED_STEP / m->size, 1);
    if (magazine_takes(m))
        magazine_seem_full_after(m, pressure_is(PRESSURE_NEAR) ? 0 : blocks);
}

/* Where frees are checked against their size, a block's class must stay its size's. */
static void *borrow(struct heap *h, uint32_t class)
{
    for (uint32_t from = class + 1;
         !HAK_CHECKED && from < CLASS_COUNT && from <= class + BORROWED_UP; from++) {
        void *p = magazine_pop(magazine_of(h, from));
        heap_changed(h, from);
        if (p != NULL)
            return p;
    }
    return NULL;
}

void *paged_refill(struct heap *h, uint32_t class, bool *zeroed)
{
    uint32_t n = pages_for(hak_classes[class].size);
    bool little = touched_little();
    if (!little)
        (void)keep_within(h);
    if (!pages_have_touched(n)) {
        void *p = little ? NULL : borrow(h, class);
        if (p != NULL)
            return p;
        paged_make_room(h, n);
    }
    return paged_take(h, class, zeroed);
}

void *paged_release(struct heap *h, uint32_t class)
{
    if (magazine_kept(magazine_of(h, class)) == 0 || !lock_take(&h->lock))
        return NULL;
    void *p = magazine_pop(magazine_of(h, class));
    if (p != NULL && load_relaxed(&slab_at(unit_of(p))->heap) == h) {
        slab_to_pages(h, slab_at(unit_of(p)));
    } else if (p != NULL) {
        heap_put_all(h, class, &p, 1);
        p = NULL;
    }
    heap_unlock(h);
    return p;
}

bool paged_keep(struct heap *h, uint32_t class, void *p)
{
    if (pressure_is(PRESSURE_NEAR) || !lock_take(&h->lock))
        return false;
    pages_to_slab(h, page_of(p), class, false);
    if (!magazine_push(magazine_of(h, class), p))
        paged_put(h, slab_at(unit_of(p)), p);
    heap_unlock(h);
    return true;
}
