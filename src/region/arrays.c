#include "region/arrays.h"

#include "os/os.h"
#include "slab/slab.h"
#include "super/super.h"

/* Granules for which arrays are mapped at a time: what the first of them need is less than a huge page. */
enum { STEP = 64 };

enum {
    WORDS_EACH = sizeof(uintptr_t) * GRANULE_UNITS,
    SLABS_EACH = sizeof(struct slab) * GRANULE_UNITS,
    MAPS_EACH = sizeof(uint64_t) * NARROW_WORDS * GRANULE_UNITS,
    WIDE_EACH = sizeof(uint64_t) * WIDE_WORDS * GRANULE_UNITS,
    SUPERS_EACH = sizeof(struct super),
    SLABS_BEHIND = SLABS_EACH, /* granule 0's */
    SUPERS_STEP = UNIT_SIZE / SUPERS_EACH,
};

_Static_assert(SLABS_BEHIND < 4096, "the first words share a page with the first slabs");
_Static_assert(SLABS_EACH + WORDS_EACH < (GRANULE_SIZE - 2 * UNIT_SIZE) / STEP &&
                   MAPS_EACH + WIDE_EACH < GRANULE_SIZE / STEP,
               "no huge page fits into what the first granules have");

static struct {
    bool reserved;     /* not only chosen: other mappings take the place of the reserved ones */
    size_t committed;  /* granules that have all arrays but supers */
    size_t with_super; /* granules that have one */
    char *words_at, *maps_at; /* where the pairs meet */
    uintptr_t from, to;
} arrays;

/* ---- where they lie ---- */

/* What the first n entries of an array need on its side of the place, in whole units. */
HAK_INLINE size_t words_need(size_t n)
{
    return n == 0 ? 0 : round_up(SLABS_BEHIND + n * WORDS_EACH, UNIT_SIZE);
}

static size_t slabs_need(size_t n)
{
    return n == 0 ? 0 : round_up(n * SLABS_EACH - SLABS_BEHIND, UNIT_SIZE);
}

static size_t maps_need(size_t n)
{
    return round_up(n * MAPS_EACH, UNIT_SIZE);
}

static size_t wide_need(size_t n)
{
    return round_up(n * WIDE_EACH, UNIT_SIZE);
}

static size_t supers_need(size_t n)
{
    return round_up(n * SUPERS_EACH, UNIT_SIZE);
}

size_t arrays_need(size_t n)
{
    return slabs_need(n) + words_need(n) + wide_need(n) + maps_need(n) + supers_need(n);
}

static void lay_out(uintptr_t at, size_t granules)
{
    arrays.from = at;
    arrays.with_super = EARLY_SUPERS; /* static ones */
    arrays.words_at = (char *)at + slabs_need(granules);
    arrays.maps_at = arrays.words_at + words_need(granules) + wide_need(granules);
    hak_region.words = (_Atomic uintptr_t *)(void *)(arrays.words_at + SLABS_BEHIND);
    hak_region.slabs = (struct slab *)(void *)hak_region.words - 1;
    hak_region.maps = (uint64_t *)(void *)arrays.maps_at;
    hak_region.supers = (struct super *)(void *)(arrays.maps_at + maps_need(granules));
    arrays.to = (uintptr_t)hak_region.supers + supers_need(granules);
}

/* With the words the first slabs, so that both can be committed in one call. */
bool arrays_choose(uintptr_t at, size_t granules)
{
    size_t slabs = slabs_need(STEP);
    lay_out(at, granules);
    return os_map_to_read(arrays.words_at - slabs, slabs + words_need(granules)) == OS_OK;
}

bool arrays_reserve(size_t granules)
{
    size_t size = arrays_need(granules) + UNIT_SIZE;
    char *got = os_reserve(size);
    if (got == NULL)
        return false;
    lay_out(round_up((uintptr_t)got, UNIT_SIZE), granules);
    arrays.reserved = os_allow_reading(arrays.words_at, words_need(granules));
    if (!arrays.reserved)
        os_unmap(got, size);
    return arrays.reserved;
}

HAK_COLD bool arrays_hold(uintptr_t at)
{
    return at >= arrays.from && at < arrays.to;
}

/* ---- what is mapped of them ---- */

/* No huge pages: there is an array for each kind of slab, so that some are hardly used. The first ones have no room for one. */
static bool commit(char *at, size_t size)
{
    if (size == 0)
        return true;
    if (arrays.reserved ? !os_commit(at, size) : os_map_at(at, size) != OS_OK)
        return false;
    if (arrays.committed != 0)
        os_advise_huge(at, size, false);
    return true;
}

/* What has just been committed, for want of the rest: it could not be mapped a second time. */
static void uncommit(char *at, size_t size)
{
    if (size != 0 && !arrays.reserved)
        os_unmap(at, size);
}

/* What these granules have in the maps, or nothing. */
static bool commit_maps(size_t first, size_t end)
{
    size_t wide = wide_need(end) - wide_need(first), maps = maps_need(end) - maps_need(first);
    char *wide_at = arrays.maps_at - wide_need(end), *maps_at = arrays.maps_at + maps_need(first);
    if (first == 0) /* side by side */
        return commit(wide_at, wide + maps);
    if (!commit(wide_at, wide))
        return false;
    if (commit(maps_at, maps))
        return true;
    uncommit(wide_at, wide);
    return false;
}

/* What these granules have in slabs and words. Words are mapped already, and the first slabs with them. */
static bool commit_slabs(size_t first, size_t end)
{
    size_t slabs = slabs_need(end) - slabs_need(first), words = words_need(end) - words_need(first);
    char *slabs_at = arrays.words_at - slabs_need(end);
    if (first == 0)
        return os_commit(slabs_at, slabs + words);
    /* Of no bytes an emulator may think that they cannot be. */
    if (words != 0 && !os_commit(arrays.words_at + words_need(first), words))
        return false;
    return commit(slabs_at, slabs);
}

/* The same of all arrays but supers. */
static bool commit_granules(size_t first, size_t end)
{
    if (!commit_slabs(first, end))
        return false;
    if (commit_maps(first, end))
        return true;
    if (first != 0)
        uncommit(arrays.words_at - slabs_need(end), slabs_need(end) - slabs_need(first));
    return false;
}

/* The first step takes along those that static ones stand in for. */
static bool commit_supers(size_t granules)
{
    while (arrays.with_super < granules) {
        size_t first = arrays.with_super == EARLY_SUPERS ? 0 : arrays.with_super;
        size_t end = least_of(first + SUPERS_STEP, hak_region.granules);
        size_t from = supers_need(first), to = supers_need(end);
        if (!commit((char *)hak_region.supers + from, to - from))
            return false;
        arrays.with_super = end;
    }
    return true;
}

size_t arrays_described(void)
{
    return arrays.committed == 0 ? EARLY_SUPERS : least_of(arrays.committed, arrays.with_super);
}

/* Rare: every 128 MiB. */
bool arrays_describe(size_t granules)
{
    while (arrays.committed < granules) {
        size_t first = arrays.committed, wanted = first == 0 ? 1 : granules;
        size_t end = least_of(round_up(wanted, STEP), hak_region.granules);
        if (!commit_granules(first, end))
            return false;
        arrays.committed = end;
    }
    return commit_supers(granules);
}

void arrays_purge_maps(size_t granule)
{
    if (MAPS_EACH % hak_region.page_size == 0)
        (void)os_purge(arrays.maps_at + granule * MAPS_EACH, MAPS_EACH);
    if (WIDE_EACH % hak_region.page_size == 0)
        (void)os_purge(arrays.maps_at - (granule + 1) * WIDE_EACH, WIDE_EACH);
}
