#include "control/stats.h"

#include <string.h>

#include "big/big.h"
#include "heap/lease.h"
#include "heap/registry.h"
#include "heap/runs.h"
#include "os/os.h"
#include "pages/pages.h"
#include "purge/purge.h"
#include "super/super.h"

#define COUNTER(name, text)                                                                        \
    _Static_assert(sizeof #name <= COUNTER_NAME_ROOM, "a name that is not cut");
#include "control/counters.def"
#undef COUNTER
const char hak_counter_names[COUNTER_COUNT][COUNTER_NAME_ROOM] = {
#define COUNTER(name, text) #name,
#include "control/counters.def"
#undef COUNTER
};

/* A magazine may hold blocks of other heaps, as a lease does, and those count them as handed out: a single difference may
 * wrap around, their sum over all heaps only if blocks went home while they were added up. */
static void add_class(struct numbers *n, struct heap *h, uint32_t class)
{
    const struct class_slabs *c = &h->classes[class];
    size_t kept = magazine_kept(magazine_of(h, class)) + leases_kept(h, class);
    struct class_numbers *to = &n->classes[class];
    to->blocks += c->used - kept;
    to->magazine += kept;
    to->slabs += c->slabs;
    n->slabs += c->slabs;
    n->slab_bytes += c->slabs * class_slab_bytes(class);
}

static void add_heap(struct heap *h, void *context)
{
    struct numbers *n = context;
    if (load_relaxed(&h->state) == HEAP_LOST || !lock_take_if_safe(&h->lock))
        return;
    n->heaps++;
    n->heaps_live += load_relaxed(&h->state) == HEAP_LIVE;
    for (uint32_t class = 0; class < CLASS_COUNT; class ++)
        add_class(n, h, class);
    for (int i = 0; i < COUNTER_COUNT; i++)
        n->counters[i] += load_relaxed(&h->counters[i]);
    heap_unlock_visited(h);
}

static void read_totals(struct numbers *n)
{
    registry_each(add_heap, n);
    for (uint32_t class = 0; class < CLASS_COUNT; class ++) {
        struct class_numbers *c = &n->classes[class];
        c->blocks = not_negative(c->blocks);
        n->small_blocks += c->blocks;
        n->small_bytes += c->blocks * hak_classes[class].size;
        n->magazine_blocks += c->magazine;
        n->magazine_bytes += c->magazine * hak_classes[class].size;
    }
    n->ss_local =
        not_negative(n->counters[COUNTER_ss_taken] - n->small_blocks - n->magazine_blocks);
    size_t sampled_blocks, sampled_bytes;
    sampled_live(&sampled_blocks, &sampled_bytes);
    n->small_blocks += sampled_blocks;
    n->small_bytes += sampled_bytes;
    runs_live(&n->run_bytes, &n->run_blocks);
    n->big_blocks = big_live_count();
    n->big_bytes = big_live_bytes();
    n->super_bytes = (supers_mapped() + pages_granules()) << GRANULE_SHIFT;
    n->supers_made = load_relaxed(&hak_supers.made);
    n->supers_collapsed = load_relaxed(&hak_supers.collapsed);
    n->dirty_bytes = units_dirty() * UNIT_SIZE + pages_dirty();
    n->big_cached = big_cached_bytes();
    n->big_hits = load_relaxed(&hak_big.hits);
    n->big_misses = load_relaxed(&hak_big.misses);
    n->purged_bytes = purge_total();
    n->heap_lock_waits = load_relaxed(&hak_lock_waits[LOCK_HEAP]);
    n->shared_lock_waits = load_relaxed(&hak_lock_waits[LOCK_SHARED]);
}

/* Else up to a parcel's blocks that this thread has freed would count as handed out. */
static void settle_own(struct heap *h)
{
    if (h == &hak_empty_heap || !lock_take_if_safe(&h->lock))
        return;
    outbox_empty_own(h);
    heap_unlock(h);
}

void numbers_read(struct numbers *n)
{
    memset(n, 0, sizeof *n);
    if (thread_enter() == 1)
        settle_own(hak_thread.heap);
    read_totals(n);
    thread_leave();
}

struct printed {
    int fd;
    int error; /* the first one's errno; nothing is written after it */
};

static void print(struct printed *to, const char *text, size_t length)
{
    if (to->error == 0)
        to->error = os_write(to->fd, text, length);
}

static void print_row(struct printed *to, const char *name, size_t value)
{
    char line[96];
    print(to, line, os_format(line, sizeof line, "%s %u\n", name, value));
}

static void print_class(struct printed *to, uint32_t class, const struct class_numbers *c)
{
    char line[128];
    size_t length = os_format(line, sizeof line, "class %u blocks %u magazine %u slabs %u\n",
                              (size_t)hak_classes[class].size, c->blocks, c->magazine, c->slabs);
    print(to, line, length);
}

int numbers_print(const struct numbers *n, int fd)
{
    static const struct {
        char name[20];
        uint16_t offset;
    } rows[] = {
#define ROW(field) {#field, offsetof(struct numbers, field)}
        ROW(heaps),
        ROW(heaps_live),
        ROW(small_blocks),
        ROW(small_bytes),
        ROW(magazine_blocks),
        ROW(magazine_bytes),
        ROW(slabs),
        ROW(slab_bytes),
        ROW(run_blocks),
        ROW(run_bytes),
        ROW(big_blocks),
        ROW(big_bytes),
        ROW(super_bytes),
        ROW(supers_made),
        ROW(supers_collapsed),
        ROW(dirty_bytes),
        ROW(big_cached),
        ROW(big_hits),
        ROW(big_misses),
        ROW(purged_bytes),
        ROW(heap_lock_waits),
        ROW(shared_lock_waits),
#undef ROW
    };
    struct printed to = {fd, 0};
    print(&to, "hakmem statistics\n", 18);
    print_row(&to, "live_bytes", numbers_live(n));
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        size_t value;
        memcpy(&value, (const char *)n + rows[i].offset, sizeof value);
        print_row(&to, rows[i].name, value);
    }
    for (int i = 0; i < COUNTER_COUNT; i++)
        print_row(&to, hak_counter_names[i], n->counters[i]);
    print_row(&to, "ss_local", n->ss_local);
    for (uint32_t class = 0; class < CLASS_COUNT; class ++) {
        if (n->classes[class].slabs != 0)
            print_class(&to, class, &n->classes[class]);
    }
    return to.error;
}
