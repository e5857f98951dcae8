#include "heap/explicit.h"

#include "big/big.h"
#include "heap/put.h"
#include "heap/runs.h"

struct heap *explicit_at(void *p)
{
    size_t unit = unit_of(p);
    struct heap *h = p;
    bool is_one =
        unit < hak_region.units && unit_word(unit) == WORD_HEAP && p == unit_address(unit);
    uint32_t state = is_one ? load_relaxed(&h->state) : 0;
    return state == HEAP_EXPLICIT || state == HEAP_LOST ? h : NULL;
}

bool explicit_enter(struct heap *h)
{
    thread_enter();
    if (!lock_take_if_safe(&h->lock)) {
        thread_leave();
        return false;
    }
    if (HAK_UNLIKELY(load_relaxed(&h->inbox) != NULL))
        inbox_drain(h, false);
    return true;
}

/* It may have ended meanwhile, and be an ended thread's. */
void explicit_leave(struct heap *h)
{
    if (HAK_LIKELY(load_relaxed(&h->state) == HEAP_EXPLICIT))
        heap_unlock(h);
    else
        heap_unlock_visited(h);
    thread_leave();
}

static uint32_t link_to(const struct slab *s)
{
    return (uint32_t)slab_unit(s) + 1;
}

/* ---- full slabs ---- */

static void push_full(struct heap *h, struct slab *s)
{
    s->prev = 0;
    s->next = h->parts.full;
    if (s->next != 0)
        slab_at(s->next - 1)->prev = link_to(s);
    h->parts.full = link_to(s);
}

static void remove_full(struct heap *h, const struct slab *s)
{
    if (s->prev != 0)
        slab_at(s->prev - 1)->next = s->next;
    else
        h->parts.full = s->next;
    if (s->next != 0)
        slab_at(s->next - 1)->prev = s->prev;
}

/* ---- blocks of slabs ---- */

/* Of one slab, so that it is known which is full then. */
uint32_t explicit_take(struct heap *h, uint32_t class, void **out, uint32_t wanted, bool *zeroed)
{
    struct slab *s = heap_find_slab(h, class);
    if (s == NULL)
        return 0;
    *zeroed = slab_next_is_zeroed(s);
    if (s->used == 0)
        store_relaxed(&s->sampled, (uint8_t)0);
    uint32_t there = s->freed + hak_classes[class].capacity - s->carved;
    uint32_t taken = heap_take(h, class, out, there < wanted ? there : wanted);
    if (!s->listed)
        push_full(h, s);
    return taken;
}

/* So many are not counted any more. */
enum { MANY_SAMPLED = UINT8_MAX };

void explicit_count_down(struct slab *s)
{
    uint8_t sampled = load_relaxed(&s->sampled);
    if (sampled != MANY_SAMPLED)
        store_relaxed(&s->sampled, (uint8_t)(sampled - 1));
}

bool explicit_forget_sample(const struct slab *s, const void *p)
{
    if (HAK_LIKELY(load_relaxed(&s->sampled) == 0))
        return false;
    thread_enter();
    bool is_one = sampled_forget_if(p, false);
    thread_leave();
    return is_one;
}

void explicit_put(struct heap *h, uint32_t class, void *const *blocks, size_t n)
{
    class_unuse(h, class, n);
    for (size_t i = 0; i < n; i++) {
        struct slab *s = slab_of_unit(unit_of(blocks[i]));
        if (HAK_UNLIKELY(load_relaxed(&s->heap) != h || s->used == 0))
            die_double_free(blocks[i]);
        if (!s->listed)
            remove_full(h, s);
        put_block(h, class, slab_unit(s), blocks[i]);
    }
}

HAK_COLD void explicit_note_sampled(struct heap *h, void *p)
{
    if (!explicit_enter(h))
        return;
    struct slab *s = slab_of_unit(unit_of(p));
    uint8_t sampled = load_relaxed(&s->sampled);
    if (sampled != MANY_SAMPLED)
        store_relaxed(&s->sampled, (uint8_t)(sampled + 1));
    explicit_leave(h);
}

/* ---- larger ones ---- */

static void link_large(struct heap *h, struct slab *s)
{
    struct explicit_parts *e = &h->parts;
    s->large_prev = 0;
    s->large_next = e->large;
    if (s->large_next != 0)
        slab_at(s->large_next - 1)->large_prev = link_to(s);
    e->large = link_to(s);
    e->large_bytes += s->size;
    e->large_blocks++;
    store_relaxed(&s->heap, h);
}

void explicit_unlink(struct heap *h, struct slab *s)
{
    struct explicit_parts *e = &h->parts;
    if (s->large_prev != 0)
        slab_at(s->large_prev - 1)->large_next = s->large_next;
    else
        e->large = s->large_next;
    if (s->large_next != 0)
        slab_at(s->large_next - 1)->large_prev = s->large_prev;
    e->large_bytes -= s->size;
    e->large_blocks--;
    store_relaxed(&s->heap, NULL);
}

bool explicit_add(struct heap *h, void *p)
{
    if (!explicit_enter(h))
        return false;
    bool is_one = load_relaxed(&h->state) == HEAP_EXPLICIT;
    if (is_one)
        link_large(h, slab_at(unit_of(p)));
    explicit_leave(h);
    return is_one;
}

/* Of two threads that free it at once the second is told by its unit's word. */
bool explicit_remove(struct heap *h, void *p)
{
    struct slab *s = slab_at(unit_of(p));
    if (!explicit_enter(h))
        return false;
    if (load_relaxed(&s->heap) == h)
        explicit_unlink(h, s);
    explicit_leave(h);
    return true;
}

/* ---- what could not be freed because of its lock ---- */

HAK_COLD bool explicit_receive(struct heap *h, void *p, uintptr_t word)
{
    size_t unit = unit_of(p);
    struct slab *s = slab_at(unit);
    struct heap *owner = explicit_owner(p, word);
    if (word == WORD_EXPLICIT && owner == h) {
        explicit_put(h, slab_of_unit(unit)->class, &p, 1);
        return true;
    }
    uint32_t state = load_relaxed(&h->state);
    if ((word != WORD_RUN && word != WORD_BIG) || (state != HEAP_EXPLICIT && state != HEAP_VACANT))
        return false;
    if (owner == h) /* else the heap has ended since, and given its blocks away */
        explicit_unlink(h, s);
    return word == WORD_RUN ? run_free(NULL, unit) : big_free(unit);
}
