#include "heaps.h"

hak_heap *heaps_any(struct heaps *h, struct input *in)
{
    size_t i = input_take(in, 1) % HEAPS;
    if (h->at[i] == NULL && (h->at[i] = hak_heap_new()) == NULL)
        refused(0, 1);
    return h->at[i];
}

void *heaps_malloc(hak_heap *heap, size_t size)
{
    return heap != NULL ? hak_heap_malloc(heap, size) : hak_malloc(size);
}

static void check_one(hak_heap *heap, const struct model *m)
{
    struct hak_heap_stats s;
    size_t blocks = 0, bytes = 0;
    for (size_t i = 0; i < SLOTS; i++) {
        const struct block *b = &m->blocks[i];
        if (b->at == NULL || b->heap != heap)
            continue;
        blocks++;
        bytes += b->usable;
    }
    if (hak_heap_stats_get(heap, &s, sizeof s) != sizeof s)
        broken("hak_heap_stats_get is short");
    bool same = HAK_SECURE ? s.live_bytes >= bytes : s.live_bytes == bytes;
    if (s.live_blocks != blocks || !same || s.held_bytes < bytes)
        broken("heap %p says %zu blocks of %zu bytes in %zu, not %zu of %zu", (void *)heap,
               s.live_blocks, s.live_bytes, s.held_bytes, blocks, bytes);
}

void heaps_check(const struct heaps *h, const struct model *m)
{
    for (size_t i = 0; i < HEAPS; i++) {
        if (h->at[i] != NULL)
            check_one(h->at[i], m);
    }
}

/* With all its blocks, whose content is looked at first. */
static void destroy(hak_heap *heap, struct model *m)
{
    for (size_t i = 0; i < SLOTS; i++) {
        if (m->blocks[i].at != NULL && m->blocks[i].heap == heap)
            (void)model_take(m, i);
    }
    hak_heap_destroy(heap);
}

/* Its blocks live on. */
static void give_up(hak_heap *heap, struct model *m)
{
    for (size_t i = 0; i < SLOTS; i++) {
        if (m->blocks[i].heap == heap)
            m->blocks[i].heap = NULL;
    }
    hak_heap_delete(heap);
}

void heaps_end_any(struct heaps *h, struct model *m, struct input *in)
{
    size_t i = input_take(in, 1) % HEAPS;
    bool with_blocks = input_take(in, 1) % 2 == 0;
    if (h->at[i] == NULL)
        return;
    if (with_blocks)
        destroy(h->at[i], m);
    else
        give_up(h->at[i], m);
    h->at[i] = NULL;
}

void heaps_end_all(struct heaps *h, struct model *m)
{
    for (size_t i = 0; i < HEAPS; i++) {
        if (h->at[i] != NULL)
            destroy(h->at[i], m);
        h->at[i] = NULL;
    }
}
