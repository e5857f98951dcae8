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
    uint32_t pages = pages_for(hak_classes[s->class].size);
    uint32_t touched = (uint32_t)os_resident_pages(p, (size_t)pages << page_shift());
    if (touched == 0)
        return; /* nobody wrote to it, or the kernel does not tell */
    uint32_t before = load_relaxed(&hak_untouched);
    uint32_t now = TOUCHED_WHOLE - TOUCHED_WHOLE * touched / pages;
    store_relaxed(&hak_untouched, (before * (NEW_SHARE - 1) + now) / NEW_SHARE);
}
