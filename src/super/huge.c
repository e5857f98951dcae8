#include "super/huge.h"

#include "base/budget.h"
#include "os/os.h"

enum {
    NEW_SHARE = 4, /* a new price of small pages counts for one part of so many */
    PAID_SHARE =
        32, /* of the time at most one part in so many is spent on what huge pages cost beyond small ones */
    REFUSED_MS = 10000
};

/* Relaxed: each is a guess, and publishes nothing else. */
static struct {
    _Atomic uint64_t small_ns; /* of a granule's first touch; 0: not known */
    _Atomic uint64_t paid_until_ms, collapsed_until_ms;
} price;

/* Of bytes that read as zeros, and do so afterwards. ns */
static uint64_t first_touch(char *at, size_t size)
{
    uint64_t before = os_thread_ns();
    for (size_t i = 0; i < size; i += hak_region.page_size)
        *(volatile char *)(at + i) = 0;
    return os_thread_ns() - before;
}

static void touch_small(char *granule)
{
    uint64_t ns = first_touch(granule, UNIT_SIZE) * GRANULE_UNITS,
             before = load_relaxed(&price.small_ns);
    store_relaxed(&price.small_ns, before == 0 ? ns : (before * (NEW_SHARE - 1) + ns) / NEW_SHARE);
}

/* False: it is none, since the kernel has none or makes none. */
static bool touch_huge(char *granule, uint64_t now_ms)
{
    uint64_t ns = first_touch(granule, 1), small = load_relaxed(&price.small_ns);
    uint64_t beyond = ns > small ? ns - small : 0;
    bool done = os_resident_pages(granule, GRANULE_SIZE) * hak_region.page_size == GRANULE_SIZE;
    (void)budget_pay(&price.paid_until_ms, now_ms,
                     done ? beyond * PAID_SHARE / 1000000 : REFUSED_MS, 0);
    return done;
}

/* The first granule tells what small pages cost. */
static bool is_affordable(uint64_t now_ms)
{
    return load_relaxed(&price.small_ns) != 0 && budget_pay(&price.paid_until_ms, now_ms, 0, 0);
}

HAK_COLD bool huge_advise(size_t granule, bool fresh)
{
    char *at = granule_address(granule);
    uint64_t now_ms = os_now_ms();
    bool huge = is_affordable(now_ms);
    if (huge) {
        os_advise_huge(at, GRANULE_SIZE, true);
        if (!fresh || touch_huge(at, now_ms))
            return true;
    }
    os_advise_huge(at, GRANULE_SIZE, false);
    if (fresh && !huge)
        touch_small(at);
    return false;
}

HAK_COLD bool huge_may_collapse(void)
{
    return budget_pay(&price.collapsed_until_ms, os_now_ms(), 0, 0);
}

HAK_COLD bool huge_collapse(size_t granule)
{
    char *at = granule_address(granule);
    uint64_t before = os_thread_ns();
    os_advise_huge(at, GRANULE_SIZE, true);
    bool done = os_collapse(at, GRANULE_SIZE);
    uint64_t ns = os_thread_ns() - before, cost = done ? ns * PAID_SHARE / 1000000 : REFUSED_MS;
    (void)budget_pay(&price.collapsed_until_ms, os_now_ms(), cost, 0);
    return done;
}
