/* What heaps show in the live area: a row each. A class's words are written when the lock is released under
 * which they changed, so they are of one moment. */
#include "purge/show.h"
#include "control/options.h"
#include "heap/heap.h"
#include "heap/registry.h"
#include "live/live.h"
#include "os/os.h"
#include "profile/rate.h"

static void show_class(struct heap *h, struct live_heaps *row, uint32_t class)
{
    const struct class_slabs *c = &h->classes[class];
    live_u32 *words = &row->by_class[(size_t) class * 4];
    store_relaxed(&words[0], (uint32_t)c->used);
    store_relaxed(&words[1], c->slabs);
    store_relaxed(&words[2], c->touched - c->purged);
    store_relaxed(&words[3], (uint32_t)magazine_kept(magazine_of(h, class)));
}

void heap_show_changed(struct heap *h, struct live_heaps *row)
{
    for (uint32_t i = 0; i < CLASS_WORDS; i++) {
        for (uint64_t bits = h->changed[i]; bits != 0; bits &= bits - 1)
            show_class(h, row, i * 64 + lowest_bit(bits));
        h->changed[i] = 0;
    }
}

static void show_thread(const struct heap *h, struct live_heaps *row)
{
    store_relaxed(&row->tid, h->tid);
    store_relaxed(&row->state, load_relaxed(&h->state));
}

/* The child of a handler that forks here goes on with its parent's row, and writes what stands there. */
void heap_show_thread(const struct heap *h)
{
    struct live_heaps *row = load_relaxed(&h->row); /* set under the lock */
    if (row != NULL)
        show_thread(h, row);
}

static void show_all(struct heap *h, struct live_heaps *row)
{
    store_relaxed(&row->address, (uint64_t)(uintptr_t)h);
    show_thread(h, row);
    store_relaxed(&row->run_bytes, load_relaxed(&h->live_runs.bytes));
    store_relaxed(&row->inbox_bytes, load_relaxed(&h->inbox_bytes));
    store_relaxed(&row->run_blocks, load_relaxed(&h->live_runs.count));
#define COUNTER(name, text) store_relaxed(&row->name, load_relaxed(&h->counters[COUNTER_##name]));
#include "control/counters.def"
#undef COUNTER
    for (uint32_t class = 0; class < CLASS_COUNT; class ++)
        show_class(h, row, class);
}

/* With the lock held: a row for a heap that has none. */
static void give_row(struct heap *h, struct live_area *a)
{
    if (load_relaxed(&h->row) != NULL)
        return;
    ptrdiff_t i = live_new_row(a, LIVE_TABLE_heaps);
    if (i < 0) {
        if (!h->unseen)
            add_relaxed(&a->process[0].heaps_unseen, 1);
        h->unseen = true;
        return;
    }
    show_all(h, &a->heaps[i]);
    /* release: the heap's own thread adds to what it finds in the row. */
    store_release(&h->row, &a->heaps[i]);
    store_release(&h->inbox_shown, &a->heaps[i].inbox_bytes); /* and whoever sends to it */
}

static void visit(struct heap *h, void *area)
{
    if (load_relaxed(&h->state) == HEAP_LOST || !lock_take_if_safe(&h->lock))
        return;
    give_row(h, area);
    heap_unlock_visited(h);
}

/* Not interrupted: the child of a handler that forks would give the heap a row of its parent's area. */
void heap_show(struct heap *h)
{
    sigset_t signals;
    if (live_area() == NULL || load_relaxed(&h->row) != NULL)
        return;
    os_block_signals(&signals);
    if (live_area() != NULL) /* not in a child that a handler has just forked */
        visit(h, live_area());
    os_restore_signals(&signals);
}

/* Where they are, for who reads a heap's memory: live/tables.def. */
#define OUTBOXES_SHOWN                                                                             \
    ((uint64_t)offsetof(struct heap, outbox) | (uint64_t)OUTBOXES << 16 |                          \
     (uint64_t)sizeof(struct outbox) << 32 | (uint64_t)PARCEL_BYTES_MAX << 48)
_Static_assert(offsetof(struct outbox, last) == 2 * sizeof(uint64_t) &&
                   offsetof(struct outbox, room) == 3 * sizeof(uint64_t) &&
                   offsetof(struct heap, aside_bytes) == offsetof(struct heap, outbox) +
                                                             sizeof(struct outbox[OUTBOXES]) +
                                                             sizeof(void *) &&
                   offsetof(struct heap, outbox) < 1 << 16 && PARCEL_BYTES_MAX < 1 << 16,
               "as live/tables.def says");

static void show_classes(struct live_area *a)
{
    for (uint32_t class = 0; class < CLASS_COUNT; class ++) {
        store_relaxed(&a->classes[class].size, hak_classes[class].size);
        store_relaxed(&a->classes[class].units, hak_classes[class].units);
        store_relaxed(&a->classes[class].capacity, hak_classes[class].capacity);
    }
    store_relaxed(&a->header.tables[LIVE_TABLE_classes].used, CLASS_COUNT);
    store_relaxed(&a->process[0].magazines_at, (uint32_t)magazine_offset(0));
    store_relaxed(&a->process[0].magazine_stride, (uint32_t)sizeof(struct magazine));
    store_relaxed(&a->process[0].unsent, OUTBOXES_SHOWN);
}

static void make_area(void)
{
    struct live_area *a = live_make();
    if (a == NULL)
        return;
    show_classes(a);
    region_show(a);
    units_show(a);
    /* A heap that joins after this has passed finds the area and takes a row by itself. */
    registry_each(visit, a);
    purge_show();
    if (option(profile))
        live_set(interval, rate_interval());
    if (hak_live.inherited != NULL)
        sampler_carry_over(a);
    live_complete(a);
}

/* Not interrupted: as heap_show. */
void heaps_make_area(void)
{
    sigset_t signals;
    os_block_signals(&signals);
    make_area();
    os_restore_signals(&signals);
}

void heap_forget_row(struct heap *h)
{
    if (heap_is_own(h))
        h->tid = hak_thread.id = live_is_wanted() ? os_thread_id() : 0;
    if (hak_live.is_private)
        return;
    store_relaxed(&h->row, NULL);
    store_relaxed(&h->inbox_shown, NULL);
    h->unseen = false;
}
