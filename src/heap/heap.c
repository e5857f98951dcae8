#include "heap/heap.h"

#include <string.h>

#include "base/probe.h"
#include "control/options.h"
#include "hakmem/inline.h"
#include "heap/fresh.h"
#include "heap/paged.h"
#include "heap/put.h"
#include "heap/registry.h"
#include "heap/surplus.h"
#include "os/os.h"
#include "pressure/pressure.h"
#include "purge/purge.h"
#include "purge/show.h"
#include "super/super.h"

/* Rows that do not belong into an array are folded onto its entry 0, which the first row then
 * overwrites on purpose or nobody reads. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverride-init"
#define SMALL_INDEX(n) ((n) <= SMALL_MAX ? ((n) + 7) / 8 : 0)
const uint16_t hak_small_offset[SMALL_MAX / 8 + 1] = {
#define CLASS(index, from, size, units, slot_count)                                                \
    [SMALL_INDEX(from)... SMALL_INDEX(size)] =                                                     \
        (uint16_t)(offsetof(struct magazines, of) + (index) * sizeof(struct magazine)),
#include "slab/size_classes.def"
    [0] = (uint16_t)offsetof(struct magazines, of),
};
#undef CLASS
/* For include/hakmem/inline.h, under a name that stays. */
extern const uint16_t hak_magazine_offset_v1[HAK_INLINE_MAX_V1 / 8 + 1]
    __attribute__((alias("hak_small_offset"), visibility("default")));
_Static_assert(SMALL_MAX == HAK_INLINE_MAX_V1, "sizes that programs serve themselves");
#pragma GCC diagnostic pop

struct heap hak_empty_heap;

/* ---- a class's list of slabs with free blocks ---- */

static struct slab *slab_from_link(uint32_t link)
{
    return link != 0 ? slab_at(link - 1) : NULL;
}

void slab_list(struct heap *h, struct slab *s)
{
    struct class_slabs *c = &h->classes[s->class];
    uint32_t link = (uint32_t)slab_unit(s) + 1;
    s->prev = 0;
    s->next = c->list;
    if (c->list != 0)
        slab_from_link(c->list)->prev = link;
    c->list = link;
    c->listed++;
    s->listed = true;
    uint32_t state = load_relaxed(&h->state);
    if (state == HEAP_ORPHAN)
        registry_note_orphaned(s->class);
    else if (state == HEAP_SHARED)
        surplus_note_shared(s->class);
}

void slab_unlist(struct heap *h, struct slab *s)
{
    struct class_slabs *c = &h->classes[s->class];
    if (s->prev != 0)
        slab_from_link(s->prev)->next = s->next;
    else
        c->list = s->next;
    if (s->next != 0)
        slab_from_link(s->next)->prev = s->prev;
    c->listed--;
    s->listed = false;
}

/* ---- slabs come and go ---- */

static HAK_COLD void slab_units_give_purged(const struct slab *s)
{
    size_t pages = slab_touched_pages(s, s->high) - s->purged;
    if (units_give_purged(slab_unit(s), hak_classes[s->class].units))
        purge_note_given(pages * hak_region.page_size);
}

static void slab_units_give(const struct slab *s)
{
    if (HAK_UNLIKELY(s->purged != 0))
        slab_units_give_purged(s);
    else
        units_give(slab_unit(s), hak_classes[s->class].units, slab_touched_units(s));
}

static struct slab *slab_unused_to_owned(struct heap *h, uint32_t class)
{
    bool zeroed;
    uint32_t units = hak_classes[class].units;
    ptrdiff_t unit = fresh_units_take(h, class, &zeroed);
    if (unit < 0) {
        count(h, COUNTER_pool_miss, 1);
        return NULL;
    }
    count(h, COUNTER_pool_stage2, 1);
    slab_init((size_t)unit, class, h, zeroed);
    uintptr_t word = load_relaxed(&h->state) == HEAP_EXPLICIT ? (uintptr_t)WORD_EXPLICIT
                                                              : (uintptr_t)magazine_of(h, class);
    for (uint32_t i = 0; i < units; i++) {
        unit_set_word((size_t)unit + i, word);
        unit_show((size_t)unit + i);
    }
    h->classes[class].slabs++;
    heap_has_class(h, class);
    heap_changed(h, class);
    purge_show_units();
    probe_slab_new(class);
    return slab_at((size_t)unit);
}

static void slab_owned_to_unused(struct heap *h, struct slab *s)
{
    if (s->listed)
        slab_unlist(h, s);
    h->classes[s->class].slabs--;
    h->classes[s->class].touched -= slab_touched_pages(s, s->high);
    h->classes[s->class].purged -= s->purged;
    heap_changed(h, s->class);
    store_relaxed(&s->heap, NULL);
    slab_clear(s);
    size_t unit = slab_unit(s);
    uint32_t class = s->class, units = hak_classes[class].units;
    for (uint32_t i = 0; i < units; i++) {
        unit_set_word(unit + i, WORD_NONE);
        unit_show(unit + i);
    }
    count(h, COUNTER_slab_release, 1);
    probe_slab_release(class);
    slab_units_give(s);
    purge_show_units();
}

/* ---- empty slabs that stay ----
 *
 * A class that has given up its last block is likely to be asked again: at a thread's end and the next
 * one's start, or where few large blocks come and go. It keeps one slab, whose pages then serve
 * blocks of the same size again; the pool would give the unit to whoever comes first, and each class touches
 * more of it than the last. All together they are few bytes. */
static size_t touched_bytes(const struct slab *s)
{
    return slab_touched_pages(s, s->high) * hak_region.page_size;
}

static bool slab_used_to_kept(struct heap *h, struct slab *s)
{
    struct class_slabs *c = &h->classes[s->class];
    size_t bytes = touched_bytes(s);
    if (c->kept != 0 || load_relaxed(&hak_kept.slabs) + bytes > KEPT_SLABS_MOST)
        return false;
    add_relaxed(&hak_kept.slabs, bytes);
    live_set(kept_bytes, load_relaxed(&hak_kept.slabs));
    c->kept = (uint32_t)slab_unit(s) + 1;
    slab_restart(s);
    if (!s->listed)
        slab_list(h, s);
    return true;
}

void slab_kept_to_used(struct heap *h, struct slab *s)
{
    struct class_slabs *c = &h->classes[s->class];
    if (c->kept != slab_unit(s) + 1)
        return;
    c->kept = 0;
    sub_relaxed(&hak_kept.slabs, touched_bytes(s));
    live_set(kept_bytes, load_relaxed(&hak_kept.slabs));
}

void class_release_kept(struct heap *h, uint32_t class)
{
    struct slab *s = slab_from_link(h->classes[class].kept);
    if (s == NULL)
        return;
    slab_kept_to_used(h, s);
    slab_owned_to_unused(h, s);
}

HAK_COLD void heap_release_kept(struct heap *h)
{
    for (uint32_t class = 0; class < CLASS_COUNT; class ++)
        class_release_kept(h, class);
}

struct slab *heap_find_slab(struct heap *h, uint32_t class)
{
    struct slab *s = slab_from_link(h->classes[class].list);
    if (HAK_LIKELY(s != NULL))
        return s;
    if (HAK_LIKELY(load_relaxed(&h->state) != HEAP_EXPLICIT)) { /* whose slabs no thread may know */
        s = registry_adopt_slab(h, class);                      /* stage 1 */
        if (s == NULL)
            s = surplus_take(h, class);
    }
    if (s == NULL)
        s = slab_unused_to_owned(h, class); /* stages 2 and 3 */
    if (s != NULL)
        slab_list(h, s);
    return s;
}

HAK_COLD void die_bad_block(const struct slab *s, void *p)
{
    os_fatal("free(%p): not the start of a block: it lies inside a block of %u bytes", (uintptr_t)p,
             (size_t)hak_classes[s->class].size);
}

HAK_COLD void die_double_free(void *p)
{
    os_fatal("free(%p): double free: the block is free already", (uintptr_t)p);
}

/* Not in part either: two functions would take more room than one. */
HAK_NOINLINE void slab_put_first_or_last(struct heap *h, struct slab *s)
{
    if (s->used != 0)
        slab_list(h, s);
    else if (!slab_used_to_kept(h, s))
        slab_owned_to_unused(h, s);
}

/* ---- giving back ---- */

HAK_COLD struct slab *slab_if_of(const struct heap *h, uint32_t class, uint32_t link)
{
    struct slab *s = slab_from_link(link);
    /* An explicit heap's big block may lie there since, in whose line much of that means something else. */
    bool is = s != NULL && word_is_of_slab(unit_word(link - 1)) && load_relaxed(&s->heap) == h &&
              s->class == class;
    return is ? s : NULL;
}

/* Where the last step has stopped, if that slab is still there, or the first one. */
static struct slab *slab_to_go_on_with(const struct heap *h, uint32_t class, uint32_t at)
{
    struct slab *s = slab_if_of(h, class, at);
    return s != NULL && s->listed ? s : slab_from_link(h->classes[class].list);
}

HAK_COLD size_t class_purge_slabs(struct heap *h, uint32_t class, uint32_t *at, uint32_t *left)
{
    struct class_slabs *c = &h->classes[class];
    struct slab *s = slab_to_go_on_with(h, class, *at);
    size_t bytes = 0;
    for (; s != NULL && *left > 0; s = slab_from_link(s->next), --*left) {
        uint16_t purged = s->purged;
        bytes += slab_purge(s);
        if (s->purged != 0)
            super_huge_to_small(slab_unit(s) / GRANULE_UNITS);
        c->purged += s->purged - (uint32_t)purged;
    }
    *at = s != NULL ? (uint32_t)slab_unit(s) + 1 : 0;
    heap_changed(h, class);
    return bytes;
}

HAK_COLD size_t heap_purge_slabs(struct heap *h)
{
    size_t bytes = 0;
    uint32_t left = UINT32_MAX;
    for (uint32_t class = 0, at = 0; class < CLASS_COUNT; class ++)
        bytes += class_purge_slabs(h, class, &at, &left);
    purge_note_given(bytes);
    return bytes;
}

/* Blocks are about to be taken from a slab that was purged: for all that is known its pages are there again. */
static HAK_COLD void slab_purged_to_touched(struct heap *h, struct slab *s)
{
    h->classes[s->class].purged -= s->purged;
    h->hollow.missed += s->purged;
    purge_note_filled(s->purged * hak_region.page_size);
    s->purged = s->used_then = 0;
}

HAK_COLD void heap_trim(struct heap *h, bool with_magazines)
{
    inbox_drain(h, false);
    if (with_magazines) {
        outbox_empty_own(h);
        heap_empty_magazines(h, HAND_ALL);
    }
    heap_release_kept(h);
    if (with_magazines)
        outbox_flush_all(h);
    if (pressure_is(PRESSURE_TIGHT))
        (void)heap_purge_slabs(h);
}

void heap_put(struct heap *h, struct slab *s, void *p)
{
    if (HAK_UNLIKELY(load_relaxed(&s->heap) != h || s->used == 0))
        die_double_free(p);
    if (s->class < FIRST_PAGED)
        put_counted(h, s->class, slab_unit(s), p);
    else
        paged_put(h, s, p);
}

static void return_foreign(struct heap *h, uintptr_t word, void *p)
{
    /* hak_free_sized_inline takes a sampled block for one of its class. */
    if (word == WORD_SAMPLED && sampled_free(p))
        return;
    if (word <= WORD_TAG_MAX ||
        heap_of_word(word) == h) /* its slab has gone, or is another class's */
        die_double_free(p);
    remote_send(h, word, p, true);
}

size_t put_row(struct heap *h, size_t unit, void *const *blocks, size_t n)
{
    struct slab *s = slab_at(unit);
    size_t put = slab_put_row(s, blocks, n);
    if (HAK_UNLIKELY(put == 0)) {
        heap_put(h, s, blocks[n - 1]); /* and says what is wrong with it */
        return 1;
    }
    class_unuse(h, s->class, put);
    slab_unuse(h, s, (uint32_t)put);
    return put;
}

/* Returns how many have gone to slabs of this heap, and are to be counted. `one_unit`: each of the class' slabs is one. */
HAK_INLINE size_t put_each(struct heap *h, uint32_t class, void *const *blocks, size_t n,
                           bool one_unit)
{
    uintptr_t mine = (uintptr_t)magazine_of(h, class);
    size_t put = 0, alone = 0;
    while (n > 0) {
        void *p = blocks[n - 1];
        size_t unit = unit_of(p);
        uintptr_t word = unit_word(unit);
        if (HAK_UNLIKELY(word != mine)) {
            return_foreign(h, word, p);
            n--;
        } else if (one_unit && alone == 0 && is_row(unit, blocks, n)) {
            n -= put_row(h, unit, blocks, n);
        } else {
            if (one_unit)
                put_block_of_unit(h, class, unit, p);
            else
                put_block(h, class, slab_first_unit(unit), p);
            alone = (alone + 1) % ROW_NEXT;
            put++;
            n--;
        }
    }
    return put;
}

static HAK_NOINLINE size_t put_each_larger(struct heap *h, uint32_t class, void *const *blocks,
                                           size_t n)
{
    return put_each(h, class, blocks, n, false);
}

static HAK_NOINLINE void put_each_paged(struct heap *h, uint32_t class, void *const *blocks,
                                        size_t n)
{
    uintptr_t mine = (uintptr_t)magazine_of(h, class);
    while (n-- > 0) {
        size_t unit = unit_of(blocks[n]);
        uintptr_t word = unit_word(unit);
        if (HAK_LIKELY(word == mine))
            paged_put(h, slab_at(unit), blocks[n]);
        else
            return_foreign(h, word, blocks[n]);
    }
}

/* The loop is compiled for slabs of one unit and for the rest, so that it does not ask for each block what its class has in
 * common. */
void heap_put_all(struct heap *h, uint32_t class, void *const *blocks, size_t n)
{
    size_t put = 0;
    probe_flush(class, n);
    if (class < FIRST_OF_UNITS)
        put = put_each(h, class, blocks, n, true);
    else if (class < FIRST_PAGED)
        put = put_each_larger(h, class, blocks, n);
    else
        put_each_paged(h, class, blocks, n);
    class_unuse(h, class, put);
}

uint32_t heap_take(struct heap *h, uint32_t class, void **out, uint32_t wanted)
{
    uint32_t taken = 0;
    while (taken < wanted) {
        struct slab *s = slab_from_link(h->classes[class].list);
        /* One new slab is enough: what comes beyond the first block is in advance. */
        if (s == NULL && (taken > 0 || (s = heap_find_slab(h, class)) == NULL))
            break;
        if (HAK_UNLIKELY(s->used == 0))
            slab_kept_to_used(h, s);
        if (HAK_UNLIKELY(s->purged != 0))
            slab_purged_to_touched(h, s);
        uint32_t high = s->high;
        taken += slab_take(s, out + taken, wanted - taken);
        if (s->high != high)
            h->classes[class].touched +=
                slab_touched_pages(s, s->high) - slab_touched_pages(s, high);
        if (slab_is_full(s))
            slab_unlist(h, s);
    }
    class_use(h, class, taken);
    if (magazine_of(h, class)->gives)
        h->hollow.moved += taken;
    return taken;
}

void *heap_take_one(struct heap *h, uint32_t class)
{
    bool zeroed;
    void *p = NULL;
    if (class >= FIRST_PAGED)
        return paged_take(h, class, &zeroed);
    heap_take(h, class, &p, 1);
    return p;
}

/* ---- detached ---- */

void *heap_alloc_detached(uint32_t class)
{
    struct heap *h = registry_borrow();
    if (h == NULL)
        return NULL;
    void *p = heap_take_one(h, class);
    heap_unlock_visited(h);
    return p;
}

void heap_free_detached(struct heap *owner, void *p)
{
    if (load_relaxed(&owner->state) == HEAP_LOST)
        return; /* nobody can have it back */
    if (thread_may_wait() && lock_take_if_safe(&owner->lock)) {
        struct slab *s = slab_of_unit(unit_of(p));
        if (load_relaxed(&s->heap) == owner) {
            heap_put(owner, s, p);
            heap_unlock_visited(owner);
            return;
        }
        heap_unlock_visited(owner);
    }
    /* Not to be waited for, or adopted meanwhile: whoever empties the inbox sends it on. */
    inbox_push(owner, p, hak_classes[slab_of_unit(unit_of(p))->class].size);
}
