#include "heap/paged.h"

#include <string.h>

#include "pages/pages.h"

static size_t kept_bytes(const struct heap *h)
{
    size_t bytes = 0;
    for (const struct magazine *m = &h->magazines.of[FIRST_PAGED];
         m < &h->magazines.of[CLASS_COUNT]; m++)
        bytes += magazine_kept(m) * m->size;
    return bytes;
}

/* Of which class a block is to go back if n pages are wanted: the least that is large enough by itself, or else the
 * largest, which may become so with what is free beside it. Some class has one. */
static uint32_t class_to_give(const struct heap *h, uint32_t n)
{
    const struct magazine *m = &h->magazines.of[CLASS_COUNT], *found = NULL;
    while (--m >= &h->magazines.of[FIRST_PAGED] && (found == NULL || pages_for(m->size) >= n)) {
        if (magazine_kept(m) != 0)
            found = m;
    }
    return (uint32_t)(found - h->magazines.of);
}

static void give_oldest(struct heap *h, uint32_t class)
{
    struct magazine *m = magazine_of(h, class);
    magazine_close(m);
    void **top = m->top, **oldest = magazine_slots(m) + m->cap - 1;
    if (top <= oldest) { /* else a signal handler has taken it since */
        heap_put_all(h, class, oldest, 1);
        memmove(top + 1, top, (size_t)(oldest - top) * sizeof *top);
        top++;
    }
    magazine_open(m, top);
}

void paged_give_back(struct heap *h, uint32_t n, size_t most)
{
    while (!pages_have_touched(n) && kept_bytes(h) > most)
        give_oldest(h, class_to_give(h, n));
}

void paged_give_one(struct heap *h, uint32_t class)
{
    if (magazine_kept(magazine_of(h, class)) == 0 || !lock_take(&h->lock))
        return;
    give_oldest(h, class);
    heap_unlock(h);
}
