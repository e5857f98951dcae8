#include "heap/verify.h"

#include "heap/put.h"
#include "heap/registry.h"
#include "os/thread.h"

/* That are looked at together: the own one, shared ones and some of ended threads, of which several lots follow, the newest
 * first: a program that has had thousands of threads at once is to end soon. */
enum { LOT = 16, LOTS = 16, HEAPS_MOST = 1 + SHARED_HEAPS + LOT };

/* A magazine's blocks, by address. */
struct held {
    void **from;
    size_t count;
};

struct verification {
    struct heap *heaps[HEAPS_MOST]; /* locked */
    struct held held[HEAPS_MOST];   /* of the class at hand */
    size_t count;
    size_t kept;  /* of them, the own one and the shared ones */
    size_t met;   /* ended threads' heaps in this walk over all heaps */
    size_t begin; /* the first of them that is of this lot */
};

/* ---- a magazine's blocks in order ---- */

static void sift_down(void **blocks, size_t at, size_t n)
{
    for (size_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && blocks[child + 1] > blocks[child])
            child++;
        if (blocks[at] >= blocks[child])
            return;
        void *above = blocks[at];
        blocks[at] = blocks[child];
        blocks[child] = above;
    }
}

/* In place, and without the C library's, which may allocate. */
static void sort(void **blocks, size_t n)
{
    for (size_t i = n / 2; i-- > 0;)
        sift_down(blocks, i, n);
    while (n > 1) {
        void *largest = blocks[0];
        blocks[0] = blocks[--n];
        blocks[n] = largest;
        sift_down(blocks, 0, n);
    }
}

static bool holds(const struct held *held, const void *p)
{
    size_t low = 0, high = held->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if ((uintptr_t)held->from[middle] < (uintptr_t)p)
            low = middle + 1;
        else
            high = middle;
    }
    return low < held->count && held->from[low] == p;
}

/* ---- what a block must be ---- */

static bool is_locked(const struct verification *v, const struct heap *h)
{
    for (size_t i = 0; i < v->count; i++) {
        if (v->heaps[i] == h)
            return true;
    }
    return false;
}

/* Against what its slab knows, whose heap is locked. */
static void verify_in_slab(void *p)
{
    const struct slab *s = slab_of_unit(unit_of(p));
    size_t offset = (size_t)((char *)p - slab_base(s));
    uint32_t index = class_block_index(&hak_classes[s->class], offset);
    if (!slab_block_starts_at(s, p))
        die_bad_block(s, p);
    const uint64_t *word = slab_word_of(slab_unit(s), s->class, index);
    if (index >= s->carved || slab_knows_free(s->class, word, index))
        die_double_free(p);
}

static void verify_block(const struct verification *v, uint32_t class, void *p)
{
    size_t unit = unit_of(p);
    uintptr_t word = unit < hak_region.units ? unit_word(unit) : WORD_NONE;
    if (word == WORD_SAMPLED)
        return; /* hak_free_sized_inline takes it for one of its class */
    if (word <= WORD_TAG_MAX || class_of_word(word) != class)
        die_double_free(p);
    if (is_locked(v, heap_of_word(word)))
        verify_in_slab(p);
}

/* ---- all of them ---- */

static void close_and_sort(struct verification *v, uint32_t class)
{
    for (size_t i = 0; i < v->count; i++) {
        struct magazine *m = magazine_of(v->heaps[i], class);
        v->held[i] = (struct held){0};
        if (!magazine_is_open(m))
            continue;
        magazine_close(m);
        void **end = magazine_slots(m) + m->cap;
        v->held[i] = (struct held){m->top, (size_t)(end - m->top)};
        sort(m->top, v->held[i].count);
    }
}

static void open_again(const struct verification *v, uint32_t class)
{
    for (size_t i = 0; i < v->count; i++) {
        if (v->held[i].from != NULL)
            magazine_open(magazine_of(v->heaps[i], class), v->held[i].from);
    }
}

static void verify_held(const struct verification *v, uint32_t class, size_t at)
{
    const struct held *held = &v->held[at];
    for (size_t i = 0; i < held->count; i++) {
        void *p = held->from[i];
        if (i > 0 && held->from[i - 1] == p)
            die_double_free(p);
        for (size_t other = 0; other < at; other++) {
            if (holds(&v->held[other], p))
                die_double_free(p);
        }
        verify_block(v, class, p);
    }
}

static void verify_class(struct verification *v, uint32_t class)
{
    close_and_sort(v, class);
    for (size_t at = 0; at < v->count; at++)
        verify_held(v, class, at);
    open_again(v, class);
}

static void lock_orphan(struct heap *h, void *verification)
{
    struct verification *v = verification;
    if (load_relaxed(&h->state) != HEAP_ORPHAN || v->met++ < v->begin ||
        v->count == v->kept + LOT || !lock_try(&h->lock))
        return;
    if (load_relaxed(&h->state) == HEAP_ORPHAN)
        v->heaps[v->count++] = h;
    else
        heap_unlock_visited(h);
}

/* Those who have taken from them have their blocks in magazines; they have none themselves. */
static void lock_shared(struct verification *v)
{
    for (int i = 0; i < SHARED_HEAPS; i++) {
        struct heap *h = registry_shared(i);
        if (h != NULL && lock_try(&h->lock))
            v->heaps[v->count++] = h;
    }
}

static void unlock_from(struct verification *v, size_t first)
{
    while (v->count > first)
        heap_unlock_visited(v->heaps[--v->count]);
}

/* False: there is no further lot. */
static bool verify_lot(struct verification *v)
{
    v->met = 0;
    registry_each(lock_orphan, v);
    for (uint32_t class = 0; class < CLASS_COUNT; class ++)
        verify_class(v, class);
    unlock_from(v, v->kept);
    v->begin += LOT;
    return v->met > v->begin;
}

HAK_COLD void heaps_verify(struct heap *own)
{
    struct verification v = {0};
    if (own != NULL && lock_take_if_safe(&own->lock)) {
        outbox_flush_all(own); /* each block's slab tells whether it may come home */
        inbox_drain(own, false);
        v.heaps[v.count++] = own;
    }
    lock_shared(&v);
    v.kept = v.count;
    for (int lot = 0; lot < LOTS && verify_lot(&v); lot++)
        ;
    unlock_from(&v, 0);
}
