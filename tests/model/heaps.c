#include "heaps.h"

#include "control/options.h"
#include "heap/surplus.h"
#include "pages/pages.h"
#include "pressure/pressure.h"
#include "super/super.h"

void heaps_touch_unit(size_t unit)
{
    (void)unit_word(unit);
    (void)load_relaxed(&slab_at(unit)->heap);
    (void)load_relaxed(&slab_at(unit)->shown);
}

void heaps_touch(struct heap *h)
{
    model_hooks->ignore(h->counters, sizeof h->counters); /* one writer, readers want any value */
    (void)load_relaxed(&h->lock.state);
    (void)load_relaxed(&h->lock.holder);
    (void)load_relaxed(&h->lock.lost);
    (void)load_relaxed(&registry_lock()->lost);
    (void)load_relaxed(&h->state);
    (void)load_relaxed(&h->passing);
    (void)load_relaxed(&h->row);
    (void)load_relaxed(&h->inbox);
    (void)load_relaxed(&h->inbox_bytes);
    (void)load_relaxed(&h->inbox_shown);
    (void)magazine_kept(magazine_of(h, MODEL_CLASS));
    heaps_touch_unit(unit_of(h));
}

/* What is constant, and classes that are not the scenario's, are not worth exploring. */
void heaps_ignore_classes(struct heap *h)
{
    for (uint32_t class = 0; class < CLASS_COUNT; class ++) {
        if (class != MODEL_CLASS) {
            model_hooks->ignore(magazine_of(h, class), sizeof(struct magazine));
            model_hooks->ignore(&h->classes[class], sizeof h->classes[class]);
        }
    }
}

void heaps_ignore_settings(void)
{
    model_hooks->ignore(&hak_options, sizeof hak_options);
    model_hooks->ignore(&hak_option_sources, sizeof hak_option_sources);
}

struct heap *heaps_attach(int thread)
{
    struct heap *h = registry_attach();
    model_assert(h != NULL);
    model_thread_of(thread)->heap = h;
    model_thread_of(thread)->depth = 1;
    model_hooks->ignore(hak_classes, sizeof hak_classes);
    heaps_ignore_classes(h);
    heaps_touch(h);
    (void)kept_bytes();
    (void)units_in_use();
    (void)pages_in_use();
    (void)units_dirty();
    (void)load_relaxed(&hak_pressure.level);
    (void)live_area();
    for (uint32_t class = 0; class < CLASS_COUNT; class += 64)
        registry_note_orphaned(class); /* each word once */
    lock_take(&h->lock);
    for (uint32_t class = 0; class < CLASS_COUNT; class += 64)
        (void)surplus_look_around(h, class);
    heap_unlock(h);
    return h;
}

void *heaps_block(struct heap *h)
{
    lock_take(&h->lock);
    void *p = heap_take_one(h, MODEL_CLASS);
    heap_unlock(h);
    model_assert(p != NULL);
    heaps_touch_unit(unit_of(p));
    return p;
}

void heaps_take_slab(struct heap *h, struct slab *(*take)(struct heap *h, uint32_t class))
{
    lock_take(&h->lock);
    struct slab *s = take(h, MODEL_CLASS);
    if (s != NULL)
        slab_list(h, s);
    heap_unlock(h);
}

void heaps_drain(struct heap *h)
{
    lock_take(&h->lock);
    inbox_drain(h, false);
    heap_unlock(h);
}

void heaps_send(struct heap *h, void *p)
{
    remote_send(h, unit_word(unit_of(p)), p, false);
    outbox_flush_all(h);
}

void heaps_push(void *p)
{
    inbox_push(heap_of_word(unit_word(unit_of(p))), p, hak_classes[MODEL_CLASS].size);
}

void heaps_prepare(struct heap *h, void *p)
{
    remote_send(h, unit_word(unit_of(p)), p, false);
    struct parcel *parcel = outbox_parcel(outbox_for(h, heap_of_word(unit_word(unit_of(p)))));
    model_assert(parcel != NULL);
    heaps_touch_unit(unit_of(parcel));
}

size_t heaps_in_use(struct heap *h)
{
    return h->classes[MODEL_CLASS].used - magazine_kept(magazine_of(h, MODEL_CLASS));
}
