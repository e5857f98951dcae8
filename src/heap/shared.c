#include "heap/shared.h"

#include "os/os.h"

enum {
    FEW = 255,        /* refills of a class, each of pages as ... */
    PAGED_WEIGHT = 5, /* ... so many, in ... */
    PERIOD_MS = 1000,
    LINE = 64,           /* bytes of a processor's cache's line */
    BYTES_MOST = 2 << 10 /* of more than one block */
};
_Static_assert(FEW % PAGED_WEIGHT == 0 && FEW <= UINT8_MAX, "counted up to FEW");

static void count_anew(struct heap *h, uint64_t now)
{
    h->few_since_ms = now;
    for (uint32_t class = 0; class < CLASS_COUNT; class ++)
        h->classes[class].few = 0;
}

HAK_COLD bool needs_little(struct heap *h, uint32_t class)
{
    uint64_t now = os_now_ms();
    if (now - h->few_since_ms >= PERIOD_MS)
        count_anew(h, now);
    if (h->classes[class].few == FEW)
        return false;
    h->classes[class].few =
        (uint8_t)(h->classes[class].few + (class < FIRST_PAGED ? 1 : PAGED_WEIGHT));
    return true;
}

HAK_COLD struct heap *shared_take(struct heap *h, uint32_t class)
{
    struct heap *from = needs_little(h, class) ? registry_take_shared() : NULL;
    if (from == NULL)
        return NULL;
    count(h, COUNTER_refill_shared, 1);
    h->classes[class].taken = true;
    return from;
}

HAK_COLD uint32_t shared_batch(const struct heap *h, uint32_t class, uint32_t wanted)
{
    size_t size = hak_classes[class].size, few = h->classes[class].few;
    size_t least = largest_of(1, LINE / size), most = largest_of(1, BYTES_MOST / size);
    size_t batch = least_of(least_of(wanted, few), most);
    return (uint32_t)least_of(largest_of(batch, least), h->magazines.of[class].cap);
}
