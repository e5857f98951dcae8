#include "heap/runs.h"

#include "heap/paged.h"
#include "heap/registry.h"
#include "pages/pages.h"
#include "purge/purge.h"
#include "purge/show.h"

/* What lives, less what each heap's thread keeps in its own books (struct heap, live_runs). */
static struct live_runs detached;

static size_t run_page(size_t unit)
{
    return unit * unit_pages() + slab_at(unit)->run_at;
}

static uint32_t run_pages(size_t unit)
{
    return (uint32_t)(slab_at(unit)->size >> page_shift());
}

/* A heap's books have one writer, so its additions are plain; the others share theirs. */
static HAK_NOINLINE void account(struct heap *h, size_t bytes, size_t blocks)
{
    if (h != NULL) {
        store_relaxed(&h->live_runs.bytes, load_relaxed(&h->live_runs.bytes) + bytes);
        store_relaxed(&h->live_runs.count, load_relaxed(&h->live_runs.count) + blocks);
        struct live_heaps *row = load_acquire(&h->row); /* pairs with give_row in show.c */
        if (row != NULL) {
            store_relaxed(&row->run_bytes, load_relaxed(&h->live_runs.bytes));
            store_relaxed(&row->run_blocks, load_relaxed(&h->live_runs.count));
        }
    } else {
        add_relaxed(&detached.bytes, bytes);
        add_relaxed(&detached.count, blocks);
        live_set(run_bytes, load_relaxed(&detached.bytes));
        live_set(run_blocks, load_relaxed(&detached.count));
    }
}

/* Of pages that are whoever asks for them: where a run starts, with its size in the unit's line. */
static HAK_NOINLINE void begin_run(struct heap *h, size_t unit, size_t size)
{
    slab_at(unit)->size = size;
    account(h, size, 1);
    unit_set_word(unit, WORD_RUN);
    unit_show(unit);
}

void *run_alloc(struct heap *h, size_t size, size_t alignment, bool *zeroed)
{
    uint32_t n = pages_for(size), aligned_at = pages_for(alignment);
    if (h != NULL && !pages_have_touched(n + aligned_at - 1) && lock_take(&h->lock)) {
        paged_make_room(h, n + aligned_at - 1);
        heap_unlock(h);
    }
    ptrdiff_t page = pages_take(n, aligned_at, zeroed);
    if (page < 0)
        return NULL;
    if (*zeroed)
        purge_note_fresh((size_t)n << page_shift(), MEMORY_PAGES);
    size_t unit = unit_of_page((size_t)page);
    slab_at(unit)->run_at = place_in_unit((size_t)page);
    begin_run(h, unit, (size_t)n << page_shift());
    purge_show_pages();
    return page_address((size_t)page);
}

bool run_free(struct heap *h, size_t unit)
{
    if (unit_word(unit) != WORD_RUN)
        return false;
    unit_set_word(unit, WORD_FREED);
    unit_show(unit);
    account(h, (size_t)0 - slab_at(unit)->size, (size_t)0 - 1);
    pages_give(run_page(unit), run_pages(unit));
    purge_show_pages();
    return true;
}

void *run_of_kept(struct heap *h, uint32_t class)
{
    void *p = paged_release(h, class);
    if (p != NULL)
        begin_run(h, unit_of(p), class_slab_bytes(class));
    return p;
}

bool run_to_kept(struct heap *h, size_t unit)
{
    size_t size = slab_at(unit)->size;
    uint32_t class = size <= SLAB_MAX ? class_for(size) : CLASS_COUNT;
    if (unit_word(unit) != WORD_RUN || class == CLASS_COUNT || class_slab_bytes(class) != size ||
        !paged_keep(h, class, run_address(unit)))
        return false;
    account(h, (size_t)0 - size, (size_t)0 - 1);
    return true;
}

bool run_resize(struct heap *h, size_t unit, size_t size)
{
    struct slab *s = slab_at(unit);
    uint32_t n = pages_for(size), before = run_pages(unit);
    bool zeroed = false;
    if (!pages_resize(run_page(unit), before, n, &zeroed))
        return n < before; /* it stays as long as it is */
    if (zeroed)
        purge_note_fresh((size_t)(n - before) << page_shift(), MEMORY_PAGES);
    s->size = (size_t)n << page_shift();
    unit_show(unit);
    account(h, s->size - ((size_t)before << page_shift()), 0);
    return true;
}

static HAK_COLD void add_live(struct heap *h, void *context)
{
    struct live_runs *sum = context;
    add_relaxed(&sum->bytes, load_relaxed(&h->live_runs.bytes));
    add_relaxed(&sum->count, load_relaxed(&h->live_runs.count));
}

HAK_COLD void runs_live(size_t *bytes, size_t *blocks)
{
    struct live_runs sum;
    store_relaxed(&sum.bytes, load_relaxed(&detached.bytes));
    store_relaxed(&sum.count, load_relaxed(&detached.count));
    registry_each(add_live, &sum);
    *bytes = not_negative(load_relaxed(&sum.bytes));
    *blocks = not_negative(load_relaxed(&sum.count));
}
