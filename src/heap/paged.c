#include "heap/paged.h"

#include <string.h>

#include "pages/pages.h"

/* What the magazines hold, and of which class a block is to go back if n pages are wanted: the least that is large
 * enough by itself, or else the largest, which may become so with what is free beside it. */
struct kept {
    size_t bytes;
    uint32_t class;
};

static struct kept look(const struct heap *h, uint32_t n)
{
    struct kept kept = {0, CLASS_COUNT};
    bool suffices = false;
    for (uint32_t class = FIRST_PAGED; class < CLASS_COUNT; class ++) {
        size_t blocks = magazine_kept(&h->magazines.of[class]), size = hak_classes[class].size;
        kept.bytes += blocks * size;
        if (blocks == 0 || suffices)
            continue;
        kept.class = class;
        suffices = pages_for(size) >= n;
    }
    return kept;
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
    struct kept kept;
    while (!pages_have_touched(n) && (kept = look(h, n)).bytes > most)
        give_oldest(h, kept.class);
}

void paged_give_one(struct heap *h, uint32_t class)
{
    if (magazine_kept(magazine_of(h, class)) == 0 || !lock_take(&h->lock))
        return;
    give_oldest(h, class);
    heap_unlock(h);
}
