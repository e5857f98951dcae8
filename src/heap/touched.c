#include "heap/touched.h"

#include "os/os.h"
#include "pages/pages.h"

enum {
    LOOKS_AT_ONCE = 8, /* of a heap, before it looks at one of many */
    NEW_SHARE = 4      /* of what is known: a look counts for one part of so many */
};

_Atomic uint32_t hak_untouched;

void touched_note_freed(struct heap *h, void *p)
{
    const struct slab *s = slab_at(unit_of(p));
    if (!s->zeroed || ++h->looks_owed < LOOK_EVERY - LOOKS_AT_ONCE * LOOK_EVERY)
        return;
    h->looks_owed -= LOOK_EVERY;
    size_t size = hak_classes[s->class].size;
    size_t touched = os_resident_pages(p, size) * hak_region.page_size;
    if (touched == 0)
        return; /* the kernel does not tell */
    uint32_t before = load_relaxed(&hak_untouched);
    uint32_t now = TOUCHED_WHOLE - (uint32_t)(touched / (size / TOUCHED_WHOLE));
    store_relaxed(&hak_untouched, before - before / NEW_SHARE + now / NEW_SHARE);
}
