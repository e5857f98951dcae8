#include "heap/shared.h"

#include "os/os.h"

enum {
    PERIOD_MS = 1000,
    LINE = 64,           /* bytes of a processor's cache's line */
    BYTES_MOST = 2 << 10 /* of more than one block */
};
_Static_assert(FEW_REFILLS % PAGED_WEIGHT == 0 && FEW_REFILLS <= UINT8_MAX,
               "counted up to FEW_REFILLS");

static void count_anew(struct heap *h, uint64_t now)
{
    h->few_since_ms = now;
    for (uint32_t class = 0; class < CLASS_COUNT; class ++)
        h->classes[class].few = 0;
}

HAK_COLD bool needs_little(struct heap *h, uint32_t class)
{
    struct class_slabs *c = &h->classes[class];
    uint64_t now = os_now_ms();
    if (now - h->few_since_ms >= PERIOD_MS)
        count_anew(h, now);
    if (c->few >= BUSY_FROM)
        c->busy = true;
    if (c->few == FEW_REFILLS)
        return false;
    c->few = (uint8_t)(c->few + (class < FIRST_PAGED ? 1 : PAGED_WEIGHT));
    return true;
}

/* As many as there were refills lately, so that who asks once takes one; but a line of the processor's cache, and few bytes. */
static uint32_t blocks_to_share(const struct heap *h, uint32_t class)
{
    size_t size = hak_classes[class].size, bytes = h->classes[class].few * size;
    return (uint32_t)largest_of(1, least_of(largest_of(bytes, LINE), BYTES_MOST) / size);
}

HAK_COLD struct heap *shared_or_own(struct heap *h, uint32_t class, uint32_t *most)
{
    struct heap *from = NULL;
    if (h->classes[class].list == 0 && needs_little(h, class))
        from = registry_take_shared();
    if (from == NULL)
        return h;
    *most = blocks_to_share(h, class);
    count(h, COUNTER_refill_shared, 1);
    h->classes[class].taken = true;
    return from;
}
