#include "heap/surplus.h"

enum {
    SLABS_LEAST = 2, /* one is what a class begins with */
    LINE = 64,
    USED_OF_EIGHT = 6,          /* blocks at most, of the class and of the slab, ... */
    USED_OF_EIGHT_IN_LINES = 1, /* ... where blocks of both would lie in one line of the cache */
    HEAP_LOOKS = 16,
    SLAB_LOOKS = 16,
};

_Atomic uint64_t hak_surplus[CLASS_WORDS];
/* Where the next look begins; NULL: at the newest heap. Not in the line of the hints, which are read far more often. */
static _Alignas(LINE) _Atomic(struct heap *) next_look;

/* Where it stands already it is not written again: it is a line that all threads share. */
HAK_INLINE void note(uint32_t class)
{
    if (!surplus_is_noted(class))
        or_relaxed(&hak_surplus[class / 64], class_bit(class));
}

static bool has_surplus(const struct heap *h, uint32_t class)
{
    const struct class_slabs *c = &h->classes[class];
    size_t blocks = (size_t)c->slabs * hak_classes[class].capacity;
    return c->slabs >= SLABS_LEAST && c->used * 8 <= blocks * USED_OF_EIGHT;
}

void surplus_note_if_any(const struct heap *h, uint32_t class)
{
    if (has_surplus(h, class))
        note(class);
}

void surplus_note_shared(uint32_t class)
{
    note(class);
}

static bool may_spare(const struct heap *h)
{
    uint32_t state = load_relaxed(&h->state);
    return state == HEAP_LIVE || state == HEAP_SHARED;
}

static bool is_worth_taking(const struct slab *s)
{
    const struct class_info *c = &hak_classes[s->class];
    uint32_t most = c->size < LINE ? USED_OF_EIGHT_IN_LINES : USED_OF_EIGHT;
    return s->used * 8U <= c->capacity * most;
}

/* Of the first few on the list, NULL if that is too full: its other blocks come home the sooner, and the heap fills the rest. */
static struct slab *emptiest(const struct heap *h, uint32_t class)
{
    struct slab *best = slab_at(h->classes[class].list - 1), *s = best;
    for (int looks = 1; looks < SLAB_LOOKS && s->next != 0; looks++) {
        s = slab_at(s->next - 1);
        best = s->used < best->used ? s : best;
    }
    return is_worth_taking(best) ? best : NULL;
}

/* Both heaps' locks are held. */
static struct slab *take_from(struct heap *from, struct heap *to, uint32_t class)
{
    if (!may_spare(from) || from->classes[class].list == 0 || !has_surplus(from, class))
        return NULL;
    struct slab *s = emptiest(from, class);
    if (s != NULL)
        slab_adopt(s, from, to);
    return s;
}

/* `*more`: becomes true if the next look may find one here. */
static struct slab *look_at(struct heap *from, struct heap *to, uint32_t class, bool *more)
{
    if (!may_spare(from))
        return NULL;
    if (!lock_try(&from->lock))
        return NULL; /* who is at work there says so again */
    struct slab *s = take_from(from, to, class);
    *more |=
        s != NULL || (load_relaxed(&from->state) == HEAP_SHARED && from->classes[class].list != 0);
    heap_unlock_visited(from);
    return s;
}

/* Past the last heap the newest comes next, once around at most. */
static struct slab *look_around(struct heap *h, uint32_t class, bool *more)
{
    /* acquire: pairs with the store below, and so with what the heap was set up with.
     * model: its heaps are all made before. */
    struct heap *from = load_acquire(&next_look), *first;
    if (from == NULL)
        from = registry_first();
    first = from;
    struct slab *s = NULL;
    for (int looks = 0; looks < HEAP_LOOKS; looks++) {
        s = look_at(from, h, class, more);
        if (s != NULL)
            break;
        from = from->all_next != NULL ? from->all_next : registry_first();
        if (from == first)
            break;
    }
    /* model: as above. */
    store_release(&next_look, from);
    return s;
}

struct slab *surplus_look_around(struct heap *h, uint32_t class)
{
    /* Where this thread holds all locks (fork) every try succeeds, also at a heap that it was interrupted in. */
    if (!thread_may_wait())
        return NULL;
    and_relaxed(&hak_surplus[class / 64], ~class_bit(class));
    bool more = false;
    struct slab *s = look_around(h, class, &more);
    if (more)
        note(class);
    return s;
}
