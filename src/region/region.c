#include "region/region.h"

#include "live/live.h"
#include "os/os.h"
#include "pressure/pressure.h"
#include "region/arrays.h"
#include "region/free_map.h"
#include "super/super.h"

/* State of a granule, one byte each, changed under the lock.
 *   UNMAPPED -> MAPPING -> MAPPED -> TAKEN -> CLEAN | USED -> MAPPED -> TAKEN ...
 *   UNMAPPED -> MAPPING -> FOREIGN
 * MAPPING and MAPPED keep others off while the kernel is asked without the lock. */
enum granule_state {
    GRANULE_UNMAPPED = 0,
    GRANULE_CLEAN,   /* mapped, free, reads as zeros */
    GRANULE_USED,    /* mapped, free, content unknown */
    GRANULE_MAPPED,  /* being taken by one thread, mapped */
    GRANULE_MAPPING, /* being taken by one thread, not mapped yet */
    GRANULE_TAKEN,
    GRANULE_FOREIGN, /* somebody else's mapping lies here: never used */
};

enum { RAISED_MOST = 64 }; /* times: words are 1/32 of the limit then, or up to 1/16 */

#define WINDOW_USUAL ((size_t)1 << 39)
#define WINDOW_MIN ((size_t)1 << 28)

struct region hak_region;

static struct {
    struct lock lock;
    _Atomic bool ready;
    bool is_limited;    /* a limit on address space was set before the start */
    bool reserved;      /* the window is, not only chosen */
    _Atomic size_t top; /* one past the highest granule ever taken or mapped */
} region;

/* All large variables lie between these (cmake/layout.ld, cmake/static.ld), or there are none. */
extern char __start_hak_large[] __attribute__((visibility("hidden"), weak));
extern char __stop_hak_large[] __attribute__((visibility("hidden"), weak));

/* ---- choosing the window ---- */

/* A place far from where the kernel maps by itself (below the stack, above the program): an eighth
 * to three eighths up the address space, at random; 0: there is none. */
static uintptr_t free_place(size_t size)
{
    uintptr_t stack = (uintptr_t)__builtin_frame_address(0);
    unsigned bits = 64 - (unsigned)__builtin_clzll(stack);
    uintptr_t space = (uintptr_t)1 << bits;
    if (HAK_SANITIZED || bits < 38 || size > space / 8)
        return 0;
    return round_up(space / 8 + os_secret(SECRET_PLACE) % (space / 4 - size), UNIT_SIZE);
}

/* Arrays, and the window behind them. They are chosen, not reserved: a limit on address space that the program sets later counts what is
 * mapped alone. The window's first granule is mapped, which shows that one can map there. A clash further up shows later. */
static bool choose_free_window(size_t size)
{
    size_t granules = size >> GRANULE_SHIFT, arrays = arrays_need(granules);
    uintptr_t at = free_place(arrays + GRANULE_SIZE + size);
    uintptr_t base = round_up(at + arrays, GRANULE_SIZE);
    if (at == 0 || os_map_at((void *)base, GRANULE_SIZE) != OS_OK)
        return false;
    if (!arrays_choose(at, granules)) {
        os_unmap((void *)base, GRANULE_SIZE);
        return false;
    }
    hak_region.base = base;
    super_at(0)->state = GRANULE_CLEAN;
    return true;
}

/* Where the address space is small or managed (valgrind, sanitizers): a reserved window. */
static bool reserve_window(size_t size)
{
    char *got = os_reserve(size + GRANULE_SIZE);
    if (got == NULL)
        return false;
    hak_region.base = round_up((uintptr_t)got, GRANULE_SIZE);
    region.reserved = true;
    return true;
}

/* Four times what may be mapped: granules may lie far from each other. */
static size_t wanted_window(struct os_limit limit)
{
    size_t size = region.is_limited ? WINDOW_MIN : WINDOW_USUAL;
    size_t mapped = region.is_limited ? limit.now : os_physical_memory();
    while (size < WINDOW_MAX && size / 4 < mapped)
        size *= 2;
    return size;
}

static bool reserve_some_window(size_t most)
{
    for (size_t size = HAK_SANITIZED ? (size_t)64 << 30 : most; size >= WINDOW_MIN / 4; size /= 2) {
        if (!reserve_window(size))
            continue;
        if (arrays_reserve(size >> GRANULE_SHIFT)) {
            hak_region.granules = size >> GRANULE_SHIFT;
            return true;
        }
        os_unmap((void *)hak_region.base, size);
        region.reserved = false;
    }
    return false;
}

static bool choose_window(void)
{
    struct os_limit limit = os_address_limit();
    hak_live.address_limit = limit.now;
    region.is_limited = limit.now != SIZE_MAX;
    size_t least = wanted_window(limit), size = least;
    /* What the limit may be raised to counts, as far as words for it take little of what it is now. */
    while (region.is_limited && size < WINDOW_MAX && size < least * RAISED_MOST &&
           size / 4 < limit.most)
        size *= 2;
    for (; size >= least; size /= 2) {
        if (choose_free_window(size)) {
            hak_region.granules = size >> GRANULE_SHIFT;
            return true;
        }
    }
    return reserve_some_window(least / 8);
}

void region_start(void)
{
    hak_region.page_size = os_page_size();
}

bool region_deletes_are_ours(void)
{
    return &hak_delete_in_use != NULL && hak_delete_in_use.used == hak_delete_in_use.ours;
}

/* No huge pages for the library's large variables: of most a little is touched here and there. */
static void advise_variables(void)
{
    uintptr_t page = hak_region.page_size, start = round_up((uintptr_t)__start_hak_large, page);
    uintptr_t stop = (uintptr_t)__stop_hak_large & ~(page - 1);
    if (start < stop)
        os_advise_huge((void *)start, stop - start, false);
}

bool region_init(void)
{
    /* acquire: pairs with the release below, so that whoever sees `ready` sees the arrays. */
    if (HAK_LIKELY(load_acquire(&region.ready)))
        return true;
    if (!lock_take_if_safe(&region.lock))
        return false;
    bool ready = load_relaxed(&region.ready);
    if (!ready) {
        hak_region.page_size = os_page_size();
        ready = choose_window();
        if (ready) {
            advise_variables();
            hak_region.key = os_secret(SECRET_KEY);
            hak_region.mark = os_secret(SECRET_MARK);
            /* The bound comes last and without the words it guards it would be a lie. */
            hak_region.units = hak_region.granules * GRANULE_UNITS;
            hak_region.deletable = region_deletes_are_ours() ? hak_region.units : 0;
            store_release(&region.ready, true);
        }
    }
    lock_release(&region.lock);
    return ready;
}

/* ---- granules ---- */

static bool state_is_free(enum granule_state s)
{
    return s == GRANULE_UNMAPPED || s == GRANULE_CLEAN || s == GRANULE_USED;
}

static void set_states(size_t first, size_t n, enum granule_state s)
{
    for (size_t i = first; i < first + n; i++) {
        super_at(i)->state = (uint8_t)s;
        free_map_set(i, state_is_free(s));
    }
}

/* Of granules below the top. */
static size_t mapped_run_at(size_t first, size_t wanted)
{
    size_t n = 0, most = least_of(wanted, region_top() - first);
    while (n < most && region_is_free(first + n) && super_at(first + n)->state != GRANULE_UNMAPPED)
        n++;
    return n;
}

/* The same as free_map_find among those that are mapped. */
static HAK_COLD ptrdiff_t find_mapped(size_t n, size_t alignment)
{
    for (size_t at = 0, found; at < region_top(); at += found + 1) {
        found = granule_is_aligned(at, alignment) ? mapped_run_at(at, n) : 0;
        if (found == n)
            return (ptrdiff_t)at;
    }
    return REGION_NONE;
}

static enum os_result map_granules(size_t first, size_t n)
{
    void *at = granule_address(first);
    if (region.reserved)
        return os_map_over(at, n << GRANULE_SHIFT) ? OS_OK : OS_NO_MEMORY;
    return os_map_at(at, n << GRANULE_SHIFT);
}

/* Sees which of the granules are somebody else's and puts them aside for good. */
static HAK_COLD void mark_foreign(size_t first, size_t n)
{
    for (size_t i = first; i < first + n; i++) {
        enum os_result got = map_granules(i, 1);
        if (got == OS_OK)
            os_unmap(granule_address(i), GRANULE_SIZE);
        set_states(i, 1, got == OS_TAKEN ? GRANULE_FOREIGN : GRANULE_UNMAPPED);
    }
}

static bool granules_free_to_busy(size_t first, size_t n)
{
    bool zeroed = true;
    for (size_t i = first; i < first + n; i++) {
        enum granule_state s = (enum granule_state)super_at(i)->state;
        zeroed = zeroed && s != GRANULE_USED;
        set_states(i, 1, s == GRANULE_UNMAPPED ? GRANULE_MAPPING : GRANULE_MAPPED);
    }
    return zeroed;
}

static HAK_COLD void granules_busy_to_free(size_t first, size_t n)
{
    for (size_t i = first; i < first + n; i++) {
        if (super_at(i)->state == GRANULE_MAPPED)
            set_states(i, 1, GRANULE_USED);
        else if (super_at(i)->state == GRANULE_MAPPING)
            set_states(i, 1, GRANULE_UNMAPPED);
    }
}

/* Takes a range of free granules and maps what is not mapped of it. Entered and left with the lock
 * held, which is not held while the kernel works. */
static enum os_result take_range(size_t first, size_t n, bool *zeroed)
{
    *zeroed = granules_free_to_busy(first, n);
    enum os_result result = OS_OK;
    for (size_t i = first, end; i < first + n && result == OS_OK; i = end) {
        for (end = i + 1; end < first + n && super_at(end)->state == super_at(i)->state; end++)
            ;
        if (super_at(i)->state == GRANULE_MAPPED)
            continue;
        lock_release(&region.lock);
        result = map_granules(i, end - i);
        lock_take(&region.lock);
        if (result == OS_OK)
            set_states(i, end - i, GRANULE_MAPPED);
        else if (result == OS_TAKEN)
            mark_foreign(i, end - i);
    }
    if (result == OS_OK)
        set_states(first, n, GRANULE_TAKEN);
    else
        granules_busy_to_free(first, n);
    return result;
}

static void raise_top(size_t top)
{
    if (top > load_relaxed(&region.top))
        store_release(&region.top, top); /* release: the side arrays below it are committed */
}

/* What describes the granules. What nothing describes yet is mapped before: of what the kernel refuses nothing needs to be described, and
 * that may be more than all memory. Where somebody else's mapping lies is seen later. */
static bool describe(size_t first, size_t n)
{
    size_t end = first + n, fresh = largest_of(first, arrays_described());
    enum os_result got = OS_TAKEN; /* here: none is mapped */
    if (fresh < end)
        got = map_granules(fresh, end - fresh);
    if (got == OS_NO_MEMORY)
        return false;
    bool done = arrays_describe(end);
    if (got == OS_OK && done) {
        set_states(fresh, end - fresh, GRANULE_CLEAN);
        raise_top(end); /* below it they are found, also if the others are refused */
    } else if (got == OS_OK && !region.reserved)
        os_unmap(granule_address(fresh), (end - fresh) << GRANULE_SHIFT);
    return done;
}

typedef ptrdiff_t finder(size_t n, size_t alignment);

static ptrdiff_t take_found(finder *find, size_t n, size_t alignment, bool *zeroed)
{
    enum os_result result;
    ptrdiff_t first;
    do {
        first = find(n, alignment);
        if (first < 0 || !describe((size_t)first, n))
            return REGION_NONE;
        result = take_range((size_t)first, n, zeroed);
    } while (result == OS_TAKEN);
    if (result != OS_OK)
        return REGION_NONE;
    raise_top((size_t)first + n);
    return first;
}

/* With the lock held all along: nobody gets granules at this moment. */
static HAK_COLD void unmap_free(void)
{
    for (size_t at = 0, n; at < region_top(); at += n + 1) {
        n = mapped_run_at(at, SIZE_MAX);
        if (n != 0 && os_unmap(granule_address(at), n << GRANULE_SHIFT))
            set_states(at, n, GRANULE_UNMAPPED);
    }
}

/* The kernel maps no more: what is mapped may do, or may make room elsewhere. */
static HAK_COLD ptrdiff_t take_from_mapped(size_t n, size_t alignment, bool *zeroed)
{
    ptrdiff_t first = take_found(find_mapped, n, alignment, zeroed);
    if (first >= 0 || !region_can_forget())
        return first;
    unmap_free();
    return take_found(free_map_find, n, alignment, zeroed);
}

ptrdiff_t region_take(size_t n, size_t alignment, bool *zeroed)
{
    if (!region_init() || n >= hak_region.granules || !lock_take_if_safe(&region.lock))
        return REGION_NONE;
    ptrdiff_t first = take_found(free_map_find, n, alignment, zeroed);
    if (first < 0)
        first = take_from_mapped(n, alignment, zeroed);
    lock_release(&region.lock);
    return first;
}

bool region_extend(size_t first, size_t n, bool *zeroed)
{
    if (!lock_take_if_safe(&region.lock))
        return false;
    bool done = n <= hak_region.granules - first &&
                free_map_run_end(first, first + n) == first + n && describe(first, n) &&
                take_range(first, n, zeroed) == OS_OK;
    if (done)
        raise_top(first + n);
    lock_release(&region.lock);
    return done;
}

static void give(size_t first, size_t n, enum granule_state s)
{
    if (!lock_take_if_safe(&region.lock))
        return; /* stays taken: lost address space, in a handler that interrupted this very lock */
    set_states(first, n, s);
    lock_release(&region.lock);
}

HAK_COLD bool region_is_counted(void)
{
    return region.is_limited || pressure_counts_mappings();
}

static HAK_COLD bool unmap_if_counted(size_t first, size_t n)
{
    return region_is_counted() && region_can_forget() &&
           os_unmap(granule_address(first), n << GRANULE_SHIFT);
}

void region_give(size_t first, size_t n, bool zeroed)
{
    if (unmap_if_counted(first, n))
        give(first, n, GRANULE_UNMAPPED);
    else
        give(first, n, zeroed ? GRANULE_CLEAN : GRANULE_USED);
}

void region_forget(size_t first, size_t n)
{
    give(first, n, GRANULE_UNMAPPED);
}

bool region_is_limited(void)
{
    return region.is_limited;
}

bool region_can_forget(void)
{
    return !region.reserved;
}

size_t region_top(void)
{
    return load_acquire(&region.top);
}

HAK_COLD bool region_is_free(size_t granule)
{
    return state_is_free((enum granule_state)super_at(granule)->state);
}

struct lock *region_lock(void)
{
    return &region.lock;
}

void region_show(struct live_area *a)
{
    struct live_process *p = a->process;
    store_relaxed(&p->window_at, (uint64_t)hak_region.base);
    store_relaxed(&p->window_bytes, (uint64_t)hak_region.units << UNIT_SHIFT);
    store_relaxed(&p->words_at, (uint64_t)(uintptr_t)hak_region.words);
    store_relaxed(&p->slabs_at, (uint64_t)(uintptr_t)hak_region.slabs);
    store_relaxed(&p->maps_at, (uint64_t)(uintptr_t)hak_region.maps);
    store_relaxed(&p->supers_at, (uint64_t)(uintptr_t)hak_region.supers);
}
