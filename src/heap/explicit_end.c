/* What is in an explicit heap, and how it ends. */
#include "heap/lease.h"
#include "heap/put.h"
#include "heap/registry.h"
#include "heap/runs.h"

HAK_COLD void explicit_read(struct heap *h, struct explicit_numbers *out)
{
    size_t leased_blocks, leased_bytes;
    *out = (struct explicit_numbers){0};
    if (!explicit_enter(h))
        return;
    leases_read(h, &leased_blocks, &leased_bytes);
    size_t live_blocks = h->parts.large_blocks;
    out->held_bytes = h->parts.large_bytes;
    for (uint32_t class = heap_class_from(h, 0); class < CLASS_COUNT;
         class = heap_class_from(h, class + 1)) {
        live_blocks += h->classes[class].used;
        out->held_bytes += h->classes[class].slabs * class_slab_bytes(class);
    }
    /* A block that passes from one lease to another meanwhile may have been found in both. */
    out->live_bytes = not_negative(h->used_bytes + h->parts.large_bytes - leased_bytes);
    out->live_blocks = not_negative(live_blocks - leased_blocks);
    explicit_leave(h);
}

/* ---- its slabs ---- */

/* For each, which that may take away. The full ones are on no list afterwards. */
static void each_slab(struct heap *h, void (*visit)(struct heap *, struct slab *, struct heap *),
                      struct heap *to)
{
    uint32_t class = 0, link = h->parts.full;
    h->parts.full = 0;
    for (;;) {
        for (uint32_t next; link != 0; link = next) {
            next = slab_at(link - 1)->next;
            visit(h, slab_at(link - 1), to);
        }
        class = heap_class_from(h, class);
        if (class == CLASS_COUNT)
            return;
        link = h->classes[class ++].list;
    }
}

/* The first block in use from this index on, which becomes its; NULL: there is none. */
static void *used_block_from(const struct slab *s, uint32_t *index)
{
    while (*index < s->carved) {
        uint64_t used = ~*slab_word_of(slab_unit(s), s->class, *index) >> (*index % 64);
        if (used != 0) {
            *index += lowest_bit(used);
            break;
        }
        *index += 64 - *index % 64;
    }
    return *index < s->carved ? slab_base(s) + (size_t)*index * hak_classes[s->class].size : NULL;
}

/* The sampler hears of no free of them any more. */
static void forget_samples(struct slab *s)
{
    void *p;
    for (uint32_t i = 0; load_relaxed(&s->sampled) != 0 && (p = used_block_from(s, &i)) != NULL;
         i++)
        if (sampled_forget_if(p, true))
            explicit_count_down(s);
    store_relaxed(&s->sampled, (uint8_t)0);
}

/* One of each class may stay for who has the heap next. */
static void end_slab(struct heap *h, struct slab *s, struct heap *none)
{
    (void)none;
    if (s->used == 0) /* which one that stays is */
        return;
    forget_samples(s);
    class_unuse(h, s->class, s->used);
    s->used = 0;
    slab_put_first_or_last(h, s);
}

/* ---- blocks that are freed before the end ---- */

#if HAK_CHECKED || HAK_SECURE

static struct slab *any_used_slab(const struct heap *h)
{
    if (h->parts.full != 0)
        return slab_at(h->parts.full - 1);
    for (uint32_t class = heap_class_from(h, 0); class < CLASS_COUNT;
         class = heap_class_from(h, class + 1)) {
        for (uint32_t link = h->classes[class].list; link != 0; link = slab_at(link - 1)->next) {
            if (slab_at(link - 1)->used != 0)
                return slab_at(link - 1);
        }
    }
    return NULL;
}

/* Every block is looked at when it is freed. */
static void *any_small(struct heap *h)
{
    uint32_t index = 0;
    leases_take_back(h);
    const struct slab *s = any_used_slab(h);
    return s != NULL ? used_block_from(s, &index) : NULL;
}

#else

/* They end with their slabs. */
HAK_INLINE void *any_small(struct heap *h)
{
    (void)h;
    return NULL;
}

#endif

HAK_COLD void *explicit_next_to_free(struct heap *h)
{
    if (!explicit_enter(h))
        return NULL;
    void *p = any_small(h);
    if (p == NULL && h->parts.large != 0)
        p = run_address(h->parts.large - 1);
    explicit_leave(h);
    return p;
}

/* ---- the end ---- */

HAK_COLD void explicit_to_vacant(struct heap *h)
{
    if (!explicit_enter(h))
        return;
    leases_take_back(h);
    each_slab(h, end_slab, NULL);
    registry_give_explicit(h);
    thread_leave();
}

/* Whoever frees one of its blocks with the lock meanwhile waits for that, and looks again. */
static void slab_explicit_to_owned(struct heap *h, struct slab *s, struct heap *to)
{
    forget_samples(s);
    if (s->listed)
        slab_unlist(h, s);
    slab_move(s, h, to);
    if (!slab_is_full(s))
        slab_list(to, s);
}

/* To the calling thread's own heap, or an ended one's, which is locked. */
static void give_blocks(struct heap *h, struct heap *to)
{
    leases_take_back(h);
    heap_release_kept(h);
    while (h->parts.large != 0)
        explicit_unlink(h, slab_at(h->parts.large - 1));
    each_slab(h, slab_explicit_to_owned, to);
    registry_give_explicit(h);
}

HAK_COLD bool explicit_give_blocks(struct heap *h)
{
    struct heap *to = hak_thread.heap;
    bool is_own = thread_enter() == 1 && to != &hak_empty_heap && lock_take(&to->lock);
    if (!is_own)
        to = registry_borrow();
    bool gives = to != NULL && lock_take_if_safe(&h->lock);
    if (gives)
        give_blocks(h, to);
    if (to != NULL)
        heap_unlock_visited(to);
    thread_leave();
    return gives;
}
