#include "pages/pages.h"

#include "os/os.h"
#include "pages/filled.h"
#include "region/arrays.h"
#include "slab/slab.h"
#include "super/super.h"

enum { BITS = 64, LONGEST = 512 /* pages of a granule, of 4 KiB and so at most */ };
enum kind { CLEAN, DIRTY, KINDS };

/* Free runs by length, each length a list of units in which they start (index + 1, 0 ends it), and a bit
 * for each length that there is. */
static struct {
    struct lock lock;
    uint32_t list[KINDS][LONGEST + 1];
    _Atomic uint64_t there[KINDS][LONGEST / BITS + 1]; /* changed under the lock, read by anyone */
} pages;

struct pages_counts hak_pages;

/* Free runs in a unit, under the lock: the one that starts in it, and the one that ends. Where the unit's map
 * would be if it were a slab's of many blocks, which no unit of these granules is. */
struct free_run {
    uint32_t next, prev; /* of its length: unit index + 1, 0 ends the list */
    uint16_t length;     /* pages of the run that starts here; 0: none does */
    uint16_t from, to;   /* as in struct run */
    uint16_t ending;     /* pages of the run that ends here; 0: none does */
    uint8_t at, end;     /* the first page of the one and the last of the other, in this unit */
};

/* The pages from `from` to before `to`, counted from its first, may hold something else than zeros; both 0: none does. */
struct run {
    size_t first;
    uint32_t length, from, to;
};

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static uint32_t most(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static uint32_t dirty_in(const struct run *r, uint32_t from, uint32_t to)
{
    from = most(from, r->from);
    to = least(to, r->to);
    return to > from ? to - from : 0;
}

static struct run part_of(const struct run *r, uint32_t start, uint32_t n)
{
    struct run part = {.first = r->first + start, .length = n};
    if (dirty_in(r, start, start + n) != 0) {
        part.from = most(r->from, start) - start;
        part.to = least(r->to, start + n) - start;
    }
    return part;
}

static struct run joined(const struct run *a, const struct run *behind)
{
    struct run r = {a->first, a->length + behind->length, a->from, a->to};
    if (behind->to != 0) {
        r.from = a->to != 0 ? a->from : a->length + behind->from;
        r.to = a->length + behind->to;
    }
    return r;
}

HAK_INLINE uint32_t granule_pages(void)
{
    return 1u << (GRANULE_SHIFT - page_shift());
}

/* ---- with the lock held ---- */

HAK_INLINE void add(_Atomic size_t *number, size_t n)
{
    store_relaxed(number, load_relaxed(number) + n);
}

HAK_INLINE struct free_run *free_run_in(size_t unit)
{
    return (struct free_run *)(void *)unit_map(unit, FIRST_PAGED);
}

static struct free_run *free_run_at(uint32_t link)
{
    return free_run_in(link - 1);
}

HAK_INLINE void note_there(enum kind kind, uint32_t length, bool there)
{
    _Atomic uint64_t *word = &pages.there[kind][length / BITS];
    uint64_t bit = (uint64_t)1 << (length % BITS), others = load_relaxed(word) & ~bit;
    store_relaxed(word, there ? others | bit : others);
}

static void list_push(struct free_run *f, uint32_t link)
{
    enum kind kind = f->to != 0 ? DIRTY : CLEAN;
    uint32_t *list = &pages.list[kind][f->length];
    f->prev = 0;
    f->next = *list;
    if (*list != 0)
        free_run_at(*list)->prev = link;
    *list = link;
    note_there(kind, f->length, true);
}

static void list_remove(const struct free_run *f)
{
    enum kind kind = f->to != 0 ? DIRTY : CLEAN;
    uint32_t *list = &pages.list[kind][f->length];
    if (f->next != 0)
        free_run_at(f->next)->prev = f->prev;
    if (f->prev != 0)
        free_run_at(f->prev)->next = f->next;
    else
        *list = f->next;
    if (*list == 0)
        note_there(kind, f->length, false);
}

/* The units in which a free run starts and ends say so, for its neighbours to find it. */
static void insert(struct run r)
{
    size_t unit = unit_of_page(r.first), last = r.first + r.length - 1;
    struct free_run *f = free_run_in(unit), *end = free_run_in(unit_of_page(last));
    f->length = (uint16_t)r.length;
    f->from = (uint16_t)r.from;
    f->to = (uint16_t)r.to;
    f->at = place_in_unit(r.first);
    end->ending = (uint16_t)r.length;
    end->end = place_in_unit(last);
    list_push(f, (uint32_t)unit + 1);
    add(&hak_pages.dirty, (size_t)(r.to - r.from) << page_shift());
}

static struct run remove_at(size_t unit)
{
    struct free_run *f = free_run_in(unit);
    struct run r = {unit * unit_pages() + f->at, f->length, f->from, f->to};
    list_remove(f);
    f->length = 0;
    free_run_in(unit_of_page(r.first + r.length - 1))->ending = 0;
    add(&hak_pages.dirty, (size_t)0 - ((size_t)(r.to - r.from) << page_shift()));
    return r;
}

HAK_INLINE bool ends_granule(size_t page)
{
    return (page & (granule_pages() - 1)) == 0;
}

HAK_INLINE bool free_run_starts(size_t page)
{
    const struct free_run *f = free_run_in(unit_of_page(page));
    return !ends_granule(page) && f->length != 0 && f->at == place_in_unit(page);
}

/* With the free runs on either side. */
static void insert_joined(struct run r)
{
    if (free_run_starts(r.first + r.length)) {
        struct run behind = remove_at(unit_of_page(r.first + r.length));
        r = joined(&r, &behind);
    }
    const struct free_run *f = free_run_in(unit_of_page(r.first - 1));
    if (!ends_granule(r.first) && f->ending != 0 && f->end == place_in_unit(r.first - 1)) {
        struct run before = remove_at(unit_of_page(r.first - f->ending));
        r = joined(&before, &r);
    }
    insert(r);
}

/* The shortest length of at least so many pages that there is; 0: none. */
HAK_INLINE uint32_t shortest_there(enum kind kind, uint32_t length)
{
    if (length > LONGEST)
        return 0;
    uint32_t word = length / BITS;
    uint64_t bits = load_relaxed(&pages.there[kind][word]) & ~(uint64_t)0 << (length % BITS);
    while (bits == 0) {
        if (++word > LONGEST / BITS)
            return 0;
        bits = load_relaxed(&pages.there[kind][word]);
    }
    return word * BITS + lowest_bit(bits);
}

/* A link to a shortest run of at least so many pages; 0: none. */
static uint32_t find(enum kind kind, uint32_t length)
{
    return pages.list[kind][shortest_there(kind, length)]; /* no run has length 0 */
}

bool pages_have_touched(uint32_t n)
{
    return shortest_there(DIRTY, n) != 0;
}

static uint32_t find_longest_dirty(void)
{
    for (uint32_t word = LONGEST / BITS + 1; word-- > 0;) {
        uint64_t bits = load_relaxed(&pages.there[DIRTY][word]);
        if (bits != 0)
            return pages.list[DIRTY][word * BITS + 63 - (uint32_t)__builtin_clzll(bits)];
    }
    return 0;
}

/* What r has before and beyond these pages stays free. */
static void put_rest(struct run *r, uint32_t start, uint32_t n)
{
    uint32_t end = start + n;
    if (start != 0)
        insert(part_of(r, 0, start));
    if (end != r->length)
        insert(part_of(r, end, r->length - end));
    *r = part_of(r, start, n);
}

/* The first that is aligned, or where what may have been touched begins. */
static uint32_t best_start(const struct run *r, uint32_t n, uint32_t alignment)
{
    if (alignment == 1)
        return least(r->from, r->length - n);
    return (uint32_t)(0 - r->first) & (alignment - 1);
}

static bool take_found(struct run *r, uint32_t n, uint32_t alignment)
{
    /* What is aligned by chance is not looked for. */
    uint32_t link = find(DIRTY, n + alignment - 1);
    if (link == 0)
        link = find(CLEAN, n + alignment - 1);
    if (link == 0)
        return false;
    *r = remove_at(link - 1);
    put_rest(r, best_start(r, n, alignment), n);
    add(&hak_pages.in_use, (size_t)n << page_shift());
    return true;
}

/* Maps are zeros where there is no slab. */
static void clear_granule(size_t granule)
{
    for (size_t unit = granule * GRANULE_UNITS; unit < (granule + 1) * GRANULE_UNITS; unit++)
        *free_run_in(unit) = (struct free_run){0};
}

/* Its first `dirty` pages may hold something. */
static void add_granule(size_t granule, uint32_t dirty)
{
    add(&hak_pages.granules, 1);
    insert((struct run){granule * granule_pages(), granule_pages(), 0, dirty});
}

/* ---- take and give ---- */

/* False: it has gone, in a handler that interrupted this very lock. Else the lock is held. */
static HAK_NOINLINE bool lock_and_add(size_t granule, uint32_t dirty)
{
    if (filled_advise(granule, dirty == 0))
        dirty = granule_pages();
    bool done = lock_take_if_safe(&pages.lock);
    if (done) {
        add_granule(granule, dirty);
    } else {
        super_set_pages(granule, SUPER_NONE);
        region_give(granule, 1, os_purge(granule_address(granule), GRANULE_SIZE));
    }
    return done;
}

HAK_COLD void pages_add(size_t granule, size_t touched)
{
    if (lock_and_add(granule, pages_for(touched)))
        lock_release(&pages.lock);
}

/* The lock is not held while the kernel is asked. The run is taken with the granule: else a purge in between
 * would give the granule back. `*zeroed`: the granule's pages are, if it is found there. */
static bool take_from_new_granule(struct run *r, uint32_t n, uint32_t alignment, bool *zeroed)
{
    bool fresh = false;
    ptrdiff_t granule = supers_take_whole();
    if (granule < 0)
        granule = region_take(1, GRANULE_SIZE, &fresh);
    if (granule < 0)
        return false;
    if (!lock_and_add((size_t)granule, fresh ? 0 : granule_pages()))
        return false;
    bool found = take_found(r, n, alignment);
    lock_release(&pages.lock);
    *zeroed = fresh && r->first / granule_pages() == (size_t)granule;
    return found;
}

ptrdiff_t pages_take(uint32_t n, uint32_t alignment, bool *zeroed)
{
    struct run r;
    bool fresh = false;
    if (!lock_take_if_safe(&pages.lock))
        return REGION_NONE;
    bool found = take_found(&r, n, alignment);
    lock_release(&pages.lock);
    if (!found && !take_from_new_granule(&r, n, alignment, &fresh))
        return REGION_NONE;
    *zeroed = fresh || r.to == 0;
    return (ptrdiff_t)r.first;
}

/* False in a handler that interrupted this very lock: the pages stay taken. */
static bool give(size_t first, uint32_t n)
{
    if (!lock_take_if_safe(&pages.lock))
        return false;
    insert_joined((struct run){first, n, 0, n});
    add(&hak_pages.in_use, (size_t)0 - ((size_t)n << page_shift()));
    lock_release(&pages.lock);
    return true;
}

void pages_give(size_t first, uint32_t n)
{
    (void)give(first, n);
}

/* The n pages from `first` on, which is where a taken run ends, if they are free. */
static bool extend(size_t first, uint32_t n, bool *zeroed)
{
    if (!lock_take_if_safe(&pages.lock))
        return false;
    size_t unit = unit_of_page(first);
    bool done = free_run_starts(first) && free_run_in(unit)->length >= n;
    if (done) {
        struct run r = remove_at(unit);
        put_rest(&r, 0, n);
        add(&hak_pages.in_use, (size_t)n << page_shift());
        *zeroed = r.to == 0;
    }
    lock_release(&pages.lock);
    return done;
}

HAK_COLD bool pages_resize(size_t first, uint32_t before, uint32_t n, bool *zeroed)
{
    if (n > before)
        return extend(first + before, n - before, zeroed);
    /* What would stay taken, and is shorter than a unit, would be between two free runs that both have their place in it. */
    return n == before || give(first + n, before - n);
}

/* ---- purge ---- */

enum { ASIDE_MOST = 8 /* runs; where all memory is locked, so many are tried */ };

/* The lock is kept while such a run is purged: of what becomes free before and behind it meanwhile, both might start, or end,
 * in its unit. */
HAK_INLINE bool is_short(const struct run *r)
{
    return r->length < unit_pages();
}

/* The longest dirty run, which is nobody's while it is purged. */
static bool take_dirty(size_t keep, struct run *r)
{
    if (!lock_take_if_safe(&pages.lock))
        return false;
    uint32_t link = pages_dirty() > keep ? find_longest_dirty() : 0;
    if (link != 0)
        *r = remove_at(link - 1);
    if (link == 0 || !is_short(r))
        lock_release(&pages.lock);
    return link != 0;
}

static void put_after_purge(struct run r)
{
    if (!is_short(&r) && !lock_take_if_safe(&pages.lock))
        return; /* in a handler that interrupted this very lock: the pages stay taken */
    insert_joined(r);
    lock_release(&pages.lock);
}

/* So many pages at a time. What is between parts of which the kernel refuses pages, as one that is locked, counts as dirty
 * still. Returns bytes. */
static size_t purge_in_steps(struct run *r, uint32_t step)
{
    uint32_t from = 0, to = 0;
    size_t purged = 0;
    for (uint32_t at = r->from; at < r->to; at += step) {
        uint32_t n = (uint32_t)least_of(step, r->to - at);
        if (os_purge(page_address(r->first + at), (size_t)n << page_shift())) {
            purged += (size_t)n << page_shift();
            continue;
        }
        from = to == 0 ? at : from;
        to = at + n;
    }
    r->from = from;
    r->to = to;
    return purged;
}

/* As a whole, or else by units. */
static size_t purge_run(struct run *r)
{
    size_t purged = 0;
    super_set_pages(r->first / granule_pages(), SUPER_NONE);
    for (uint32_t step = r->to - r->from; step != 0;
         step = step > unit_pages() ? unit_pages() : 0) {
        purged = purge_in_steps(r, step);
        if (r->to == 0)
            break;
    }
    return purged;
}

/* Not more than there is at the beginning: others, and handlers of signals, may dirty pages as fast as these go back. Runs of which some
 * pages stay wait aside, or the longest one would be the next again. A short one cannot, as the lock is held, and ends it. */
static size_t purge_dirty(size_t keep)
{
    size_t dirty = pages_dirty(), most = dirty > keep ? dirty - keep : 0, purged = 0, kept = 0;
    struct run r, aside[ASIDE_MOST];
    bool goes_on = true;
    do {
        goes_on = goes_on && purged < most && kept < ASIDE_MOST && take_dirty(keep, &r);
        if (goes_on) {
            size_t bytes = purge_run(&r);
            purged += bytes;
            goes_on = bytes != 0 || !is_short(&r);
            if (r.to != 0 && !is_short(&r)) {
                aside[kept++] = r;
                continue;
            }
        } else if (kept > 0) {
            r = aside[--kept];
        } else {
            break;
        }
        put_after_purge(r);
    } while (goes_on || kept > 0);
    return purged;
}

static HAK_COLD ptrdiff_t take_whole_granule(enum kind kind)
{
    struct run r;
    if (!lock_take_if_safe(&pages.lock))
        return REGION_NONE;
    uint32_t link = pages.list[kind][granule_pages()];
    if (link != 0) {
        r = remove_at(link - 1);
        add(&hak_pages.granules, (size_t)0 - 1);
    }
    lock_release(&pages.lock);
    if (link == 0)
        return REGION_NONE;
    clear_granule(r.first / granule_pages());
    super_set_pages(r.first / granule_pages(), SUPER_NONE);
    return (ptrdiff_t)(r.first / granule_pages());
}

/* Looked for among all: which purge made a granule whole is not known where several purge its parts. */
static void give_whole_granules(void)
{
    for (ptrdiff_t granule; (granule = take_whole_granule(CLEAN)) >= 0;) {
        arrays_purge_maps((size_t)granule);
        region_give((size_t)granule, 1, true);
    }
}

ptrdiff_t pages_take_whole(void)
{
    return pages_dirty() == 0 ? REGION_NONE : take_whole_granule(DIRTY);
}

HAK_COLD size_t pages_purge(size_t keep)
{
    size_t purged = purge_dirty(keep);
    give_whole_granules();
    return purged;
}

struct lock *pages_lock(void)
{
    return &pages.lock;
}
