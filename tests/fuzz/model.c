#include "model.h"

#include <string.h>

enum { EDGE = 512, WORD = 8, STEPS = 256, STEP_LEAST = 1016, MANY_GIANTS = 2 };
static const size_t LIVE_MOST = (size_t)128 << 20;
static const size_t WHOLE_MOST = (size_t)64 << 10;

static uint64_t word_at(uint64_t id, size_t offset)
{
    uint64_t value = (id + 1) * 0x9E3779B97F4A7C15u + offset;
    return (value ^ value >> 29) * 0xBF58476D1CE4E5B9u;
}

/* Offsets that are looked at: every word of both ends, some in between. SIZE_MAX: no further one. */
static size_t next_offset(size_t offset, size_t usable)
{
    size_t last = usable - WORD;
    size_t step = usable / STEPS > STEP_LEAST ? usable / STEPS / WORD * WORD : STEP_LEAST;
    if (offset == last)
        return SIZE_MAX;
    if (offset >= EDGE && offset + EDGE < usable)
        offset += step;
    else
        offset += WORD;
    return offset < last ? offset : last;
}

/* One that has no room for a word holds nothing. */
static void fill(const struct block *b)
{
    if (b->usable < WORD)
        return;
    for (size_t at = 0; at != SIZE_MAX; at = next_offset(at, b->usable)) {
        uint64_t word = word_at(b->id, at);
        memcpy(b->at + at, &word, WORD);
    }
}

void content_check(const char *p, size_t keep, size_t usable, uint64_t id)
{
    for (size_t at = 0; at != SIZE_MAX && at + WORD <= keep; at = next_offset(at, usable)) {
        uint64_t wanted = word_at(id, at);
        /* The last word was written over the end of the one before it. */
        size_t length = usable - at < 2 * WORD && usable - at > WORD ? usable - WORD - at : WORD;
        if (memcmp(p + at, &wanted, length) != 0)
            broken("block %p of %zu bytes changed at %zu", (const void *)p, usable, at);
    }
}

void model_check(const struct block *b)
{
    content_check(b->at, b->usable, b->usable, b->id);
    if (hak_usable_size(b->at) != b->usable)
        broken("usable size of %p became %zu, was %zu", (void *)b->at, hak_usable_size(b->at),
               b->usable);
    if (hak_heap_of(b->at) != b->heap)
        broken("heap of %p became %p, was %p", (void *)b->at, (void *)hak_heap_of(b->at),
               (void *)b->heap);
}

static void zero_check(const char *p, size_t size)
{
    if (size <= WHOLE_MOST) {
        if (size > 0 && (p[0] != 0 || memcmp(p, p + 1, size - 1) != 0))
            broken("calloc: %p of %zu bytes is not zero", (const void *)p, size);
        return;
    }
    static const char zeros[WORD];
    for (size_t at = 0; at != SIZE_MAX; at = next_offset(at, size)) {
        if (memcmp(p + at, zeros, WORD) != 0)
            broken("calloc: %p of %zu bytes is not zero at %zu", (const void *)p, size, at);
    }
}

static void disjointness_check(const struct model *m, const char *p, size_t usable)
{
    for (size_t i = 0; i < SLOTS; i++) {
        const struct block *b = &m->blocks[i];
        if (b->at != NULL && (p == b->at || (p < b->at + b->usable && b->at < p + usable)))
            broken("%p of %zu bytes overlaps %p of %zu", (const void *)p, usable, (void *)b->at,
                   b->usable);
    }
}

bool model_has_room(const struct model *m, size_t size)
{
    if (size > HOPELESS)
        return true;
    return size > GIANT ? m->giants < MANY_GIANTS : m->bounded_bytes + size <= LIVE_MOST;
}

void model_add_of(struct model *m, size_t slot, void *p, size_t size, size_t alignment, bool zeroed,
                  hak_heap *heap)
{
    size_t usable = hak_usable_size(p);
    size_t least = size >= 16 ? 16 : 8;
    if (HAK_SECURE ? usable != size : usable < size || usable < WORD)
        broken("%zu bytes asked for, %zu usable", size, usable);
    if ((uintptr_t)p % (alignment > least ? alignment : least) != 0)
        broken("%p of %zu bytes is not aligned to %zu", p, size, alignment);
    if (hak_heap_of(p) != heap)
        broken("%p is of heap %p, not %p", p, (void *)hak_heap_of(p), (void *)heap);
    disjointness_check(m, p, usable);
    if (zeroed)
        zero_check(p, size);
    struct block *b = &m->blocks[slot];
    *b = (struct block){p, size, usable, alignment, m->next_id++, heap};
    fill(b);
    m->live_blocks++;
    m->usable_bytes += usable;
    if (usable > GIANT)
        m->giants++;
    else
        m->bounded_bytes += usable;
}

void model_add(struct model *m, size_t slot, void *p, size_t size, size_t alignment, bool zeroed)
{
    model_add_of(m, slot, p, size, alignment, zeroed, NULL);
}

void model_forget(struct model *m, size_t slot)
{
    struct block *b = &m->blocks[slot];
    m->live_blocks--;
    m->usable_bytes -= b->usable;
    if (b->usable > GIANT)
        m->giants--;
    else
        m->bounded_bytes -= b->usable;
    b->at = NULL;
}

struct block model_take(struct model *m, size_t slot)
{
    struct block b = m->blocks[slot];
    model_check(&b);
    model_forget(m, slot);
    return b;
}
