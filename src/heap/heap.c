#include "heap/heap.h"

#include <string.h>

#include "control/options.h"
#include "heap/registry.h"
#include "os/os.h"
#include "purge/purge.h"
#include "super/super.h"

enum {
    BATCH_MAX = 32, /* blocks that a refill or a flush moves, or half a magazine if that is less */
    CAP_FIRST = 8,  /* capacity a magazine starts with, doubled at each refill ... */
    BUDGET_MIN = 2 << 20, /* ... while all capacities together stay within this many bytes ... */
    BUDGET_SHARE = 32,    /* ... and this share of what the heap has in use */
    SPARSE_SHARE = 8,     /* a class is sparse below one eighth of its blocks in use */
    SHRUNK_SHARE = 4,     /* a heap has shrunk at a quarter of the bytes it had in use ... */
    SHRUNK_MIN = 2 << 20, /* ... if that was worth it */
    PREFAULT_FROM = 64,   /* slabs of a class from which on the next one will be filled, too */
};

const uint16_t hak_magazine_offset[CLASS_COUNT + 1] = {
#define CLASS(index, from, size, units, slot_count)                                                \
    [index] = (uint16_t)offsetof(struct magazines, m##index),
#include "slab/size_classes.def"
#undef CLASS
    [CLASS_COUNT] = (uint16_t)offsetof(struct magazines, end),
};

uint8_t hak_class_at[UNIT_SIZE / sizeof(void *)];

void heap_init_tables(void)
{
    for (uint32_t class = 0; class < CLASS_COUNT; class ++)
        hak_class_at[hak_magazine_offset[class] / sizeof(void *)] = (uint8_t) class;
}

/* Rows that do not belong into an array are folded onto its entry 0, which the first row then
 * overwrites on purpose or nobody reads. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverride-init"
#define SMALL_INDEX(n) ((n) <= SMALL_MAX ? ((n) + 7) / 8 : 0)
const uint16_t hak_small_offset[SMALL_MAX / 8 + 1] = {
#define CLASS(index, from, size, units, slot_count)                                                \
    [SMALL_INDEX(from)... SMALL_INDEX(size)] = (uint16_t)offsetof(struct magazines, m##index),
#include "slab/size_classes.def"
    [0] = (uint16_t)offsetof(struct magazines, m0),
};
#undef CLASS
#define MID_INDEX(n) ((n) > SMALL_MAX ? ((n)-1) / MID_STEP : 0)
const uint16_t hak_mid_offset[SLAB_MAX / MID_STEP] = {
#define CLASS(index, from, size, units, slot_count)                                                \
    [MID_INDEX(from)... MID_INDEX(size)] = (uint16_t)offsetof(struct magazines, m##index),
#include "slab/size_classes.def"
#undef CLASS
};
#pragma GCC diagnostic pop

const uint8_t hak_magazine_slots[CLASS_COUNT] = {
#define CLASS(index, from, size, units, slot_count) [index] = slot_count,
#include "slab/size_classes.def"
#undef CLASS
};

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
    if (load_relaxed(&h->state) == HEAP_ORPHAN)
        registry_count_orphaned(s->class, 1);
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
    if (load_relaxed(&h->state) == HEAP_ORPHAN)
        registry_count_orphaned(s->class, -1);
}

/* ---- slabs come and go ---- */

static struct slab *slab_unused_to_owned(struct heap *h, uint32_t class)
{
    bool zeroed;
    uint32_t units = hak_classes[class].units;
    ptrdiff_t unit = units_take(units, &zeroed);
    if (unit < 0) {
        count(h, COUNTER_pool_miss, 1);
        return NULL;
    }
    count(h, COUNTER_pool_stage2, 1);
    struct class_slabs *c = &h->classes[class];
    if (zeroed) {
        purge_note_fresh((size_t)units * UNIT_SIZE);
        if (units == 1 && c->slabs >= PREFAULT_FROM && hak_options.prefault) {
            os_prefault(unit_address((size_t)unit), UNIT_SIZE);
            count(h, COUNTER_prefault, 1);
        }
    }
    slab_init((size_t)unit, class, h, zeroed);
    for (uint32_t i = 0; i < units; i++)
        unit_set_word((size_t)unit + i, (uintptr_t)magazine_of(h, class));
    c->slabs++;
    return slab_at((size_t)unit);
}

static void slab_owned_to_unused(struct heap *h, struct slab *s)
{
    if (s->listed)
        slab_unlist(h, s);
    h->classes[s->class].slabs--;
    store_relaxed(&s->heap, NULL);
    slab_clear(s);
    size_t unit = slab_unit(s);
    uint32_t units = hak_classes[s->class].units;
    for (uint32_t i = 0; i < units; i++)
        unit_set_word(unit + i, WORD_NONE);
    count(h, COUNTER_slab_release, 1);
    units_give(unit, units, slab_touched_units(s));
}

struct slab *heap_find_slab(struct heap *h, uint32_t class)
{
    struct slab *s = slab_from_link(h->classes[class].list);
    if (HAK_LIKELY(s != NULL))
        return s;
    s = registry_adopt_slab(h, class); /* stage 1 */
    if (s == NULL)
        s = slab_unused_to_owned(h, class); /* stages 2 and 3 */
    if (s != NULL)
        slab_list(h, s);
    return s;
}

static HAK_COLD void die_bad_block(const struct slab *s, void *p)
{
    os_fatal("free(%p): not the start of a block: it lies inside a block of %u bytes", (uintptr_t)p,
             (size_t)hak_classes[s->class].size);
}

static HAK_COLD void die_double_free(void *p)
{
    os_fatal("free(%p): double free: the block is free already", (uintptr_t)p);
}

void heap_put(struct heap *h, struct slab *s, void *p)
{
    const struct class_info *c = &hak_classes[s->class];
    size_t offset = (size_t)((char *)p - slab_base(s));
    uint32_t index = class_block_index(c, offset);
    if (HAK_UNLIKELY(load_relaxed(&s->heap) != h || s->used == 0 || index >= s->carved))
        die_double_free(p);
    if (HAK_UNLIKELY((size_t)index * c->size != offset))
        die_bad_block(s, p);
    if (HAK_UNLIKELY(slab_knows_free(s, p, index)))
        die_double_free(p);
    h->classes[s->class].used--;
    h->used_bytes -= c->size;
    slab_put(s, p, index);
    if (s->used == 0)
        slab_owned_to_unused(h, s);
    else if (!s->listed)
        slab_list(h, s);
}

/* Blocks of any number of slabs; fewer than wanted only if memory runs out. */
static uint32_t take_blocks(struct heap *h, uint32_t class, void **out, uint32_t wanted)
{
    uint32_t taken = 0;
    while (taken < wanted) {
        struct slab *s = slab_from_link(h->classes[class].list);
        /* One new slab is enough: what comes beyond the first block is in advance. */
        if (s == NULL && (taken > 0 || (s = heap_find_slab(h, class)) == NULL))
            break;
        taken += slab_take(s, out + taken, wanted - taken);
        if (slab_is_full(s))
            slab_unlist(h, s);
    }
    h->classes[class].used += taken;
    h->used_bytes += (size_t)taken * hak_classes[class].size;
    if (h->peak_bytes < h->used_bytes)
        h->peak_bytes = h->used_bytes;
    return taken;
}

void *heap_take_one(struct heap *h, uint32_t class)
{
    void *p = NULL;
    take_blocks(h, class, &p, 1);
    return p;
}

/* ---- capacity ---- */

static void return_foreign(struct heap *h, uintptr_t word, void *p)
{
    if (word <= WORD_TAG_MAX ||
        heap_of_word(word) == h) /* its slab has gone, or is another class's */
        die_double_free(p);
    remote_send(h, word, p, true);
}

/* Slots [from, to) go back to where they belong, oldest (highest) first. */
static void put_slots(struct heap *h, struct magazine *m, uint32_t from, uint32_t to)
{
    while (to > from) {
        void *p = m->slots[--to];
        size_t unit = unit_of(p);
        uintptr_t word = unit_word(unit);
        if (HAK_LIKELY(word == (uintptr_t)m))
            heap_put(h, slab_of_unit(unit), p);
        else
            return_foreign(h, word, p);
    }
}

static void empty_magazine(struct heap *h, uint32_t class)
{
    struct magazine *m = magazine_of(h, class);
    uint32_t room = m->room, cap = m->cap;
    magazine_close(m);
    put_slots(h, m, room, cap);
    h->magazine_bytes -= (size_t)cap * hak_classes[class].size;
}

static bool within_budget(const struct heap *h, size_t more)
{
    return h->magazine_bytes + more <= BUDGET_MIN + h->used_bytes / BUDGET_SHARE;
}

/* One class on in turn: a magazine that was neither refilled nor flushed for a whole round is
 * emptied. */
static void move_budget_hand(struct heap *h)
{
    uint32_t class = h->budget_hand;
    h->budget_hand = class + 1 < CLASS_COUNT ? class + 1 : 0;
    if (!h->classes[class].active && magazine_of(h, class)->cap != 0)
        empty_magazine(h, class);
    h->classes[class].active = false;
}

/* New capacity of an empty magazine that has been missed: the double if the budget allows. */
static uint32_t grown_capacity(struct heap *h, uint32_t cap, uint32_t class)
{
    size_t size = hak_classes[class].size;
    uint32_t most = hak_magazine_slots[class];
    if (most > hak_options.magazine_max)
        most = (uint32_t)hak_options.magazine_max;
    uint32_t wanted = cap != 0 ? 2 * cap : CAP_FIRST;
    if (wanted > most)
        wanted = most;
    if (wanted > cap && cap != 0 && !within_budget(h, (wanted - cap) * size)) {
        move_budget_hand(h);
        wanted = cap;
    }
    h->magazine_bytes += wanted * size - cap * size;
    return wanted;
}

static bool next_is_zeroed(struct heap *h, uint32_t class)
{
    const struct slab *s = heap_find_slab(h, class);
    return s != NULL && slab_next_is_zeroed(s);
}

static uint32_t batch_for(uint32_t cap)
{
    uint32_t half = (cap + 1) / 2;
    return half < BATCH_MAX ? half : BATCH_MAX;
}

static void *fill(struct heap *h, struct magazine *m, uint32_t class, bool *zeroed)
{
    uint32_t before = m->cap;
    magazine_close(m);
    h->classes[class].active = true;
    uint32_t cap = grown_capacity(h, before, class);
    uint32_t wanted = batch_for(cap);
    if (wanted == 1)
        *zeroed = next_is_zeroed(h, class);
    void **top = &m->slots[cap - wanted];
    uint32_t taken = take_blocks(h, class, top, wanted);
    if (taken < wanted)
        memmove(top + (wanted - taken), top, taken * sizeof *top);
    magazine_open(m, cap - taken, cap);
    return magazine_pop(m);
}

void *heap_refill(struct heap *h, uint32_t class, bool *zeroed)
{
    struct magazine *m = magazine_of(h, class);
    *zeroed = false;
    lock_take(&h->lock);
    count(h, COUNTER_refill, 1);
    void *p = NULL;
    if (load_relaxed(&h->inbox) != NULL) {
        inbox_drain(h, true);
        p = magazine_pop(m);
    }
    if (p == NULL)
        p = fill(h, m, class, zeroed);
    lock_release(&h->lock);
    return p;
}

/* ---- flush ---- */

/* A class that has lost most of its blocks: what its magazine holds would keep slabs from becoming
 * empty, so it holds nothing until the class is asked for again. */
static bool is_sparse(const struct heap *h, uint32_t class)
{
    const struct class_slabs *c = &h->classes[class];
    size_t blocks = (size_t)c->slabs * hak_classes[class].capacity;
    return c->slabs >= 2 && c->used * SPARSE_SHARE < blocks;
}

/* The same for the heap: blocks freed last lie anywhere, and each keeps its slab. */
static bool has_shrunk(const struct heap *h)
{
    return h->peak_bytes >= SHRUNK_MIN && h->used_bytes <= h->peak_bytes / SHRUNK_SHARE;
}

/* The oldest blocks make room for this one. */
static void spill(struct heap *h, struct magazine *m, void *p)
{
    uint32_t cap = m->cap, keep = cap - batch_for(cap);
    magazine_close(m);
    put_slots(h, m, keep, cap);
    memmove(&m->slots[cap - keep], m->slots, keep * sizeof m->slots[0]);
    m->slots[cap - keep - 1] = p;
    magazine_open(m, cap - keep - 1, cap);
}

/* The fast path sends a block here as well because it stands in the slot above the room, which says
 * something only if the magazine is not empty. */
static bool push_with_care(struct magazine *m, void *p)
{
    if (m->room < m->cap && m->slots[m->room] == p)
        die_double_free(p);
    return magazine_push(m, p);
}

static void flush_own(struct heap *h, uint32_t class, void *p)
{
    struct magazine *m = magazine_of(h, class);
    lock_take(&h->lock);
    count(h, COUNTER_flush, 1);
    if (has_shrunk(h)) {
        count(h, COUNTER_flush_all, 1);
        heap_empty_magazines(h);
        h->peak_bytes = h->used_bytes;
    } else if (is_sparse(h, class)) {
        count(h, COUNTER_flush_sparse, 1);
        empty_magazine(h, class);
    }
    h->classes[class].active = true;
    if (m->cap == 0)
        heap_put(h, slab_of_unit(unit_of(p)), p);
    else
        spill(h, m, p);
    lock_release(&h->lock);
}

void heap_flush(struct heap *h, uintptr_t word, void *p)
{
    if (push_with_care(magazine_for_word(h, word), p))
        return;
    if (heap_of_word(word) == h)
        flush_own(h, class_of_word(word), p);
    else
        remote_send(h, word, p, false);
}

void heap_empty_magazines(struct heap *h)
{
    for (uint32_t class = 0; class < CLASS_COUNT; class ++) {
        if (magazine_of(h, class)->cap != 0) /* else its page may be untouched, and stays so */
            empty_magazine(h, class);
    }
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
    if (thread_may_wait()) {
        lock_take(&owner->lock);
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
