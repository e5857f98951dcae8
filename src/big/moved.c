#include "big/moved.h"

#include "os/os.h"

enum {
    MOVED_MOST = 4096, /* stretches, each a mapping or two, of which a process may have 65,530 */
    BITS = 64
};

#define MAP_WORDS_OF_GRANULES (WINDOW_MAX / GRANULE_SIZE / BITS)

static struct lock lock;
static _Atomic size_t stretches; /* bits set in `begins`; written under the lock */

/* One bit per granule: its pages were moved there, and so lie in another mapping than what is around. The kernel joins the mappings
 * of what has moved by as much, a stretch; `begins` says where each does. Under the lock. */
static struct {
    uint64_t is, begins;
} moved[MAP_WORDS_OF_GRANULES + 1]; /* what lies behind the last one is looked at */

/* Once each: in ten places they would take more room than all the rest. */
HAK_NOINLINE bool big_take_lock(void)
{
    return lock_take_if_safe(&lock);
}

HAK_NOINLINE void big_release_lock(void)
{
    lock_release(&lock);
}

struct lock *big_lock(void)
{
    return &lock;
}

bool moved_too_often(void)
{
    return load_relaxed(&stretches) >= MOVED_MOST;
}

/* ---- marks ---- */

bool moved_is(size_t granule)
{
    return (moved[granule / BITS].is >> (granule % BITS) & 1) != 0;
}

static bool begins_stretch(size_t granule)
{
    return (moved[granule / BITS].begins >> (granule % BITS) & 1) != 0;
}

static void mark(size_t granule, bool is, bool begins)
{
    uint64_t bit = (uint64_t)1 << (granule % BITS);
    add_locked(&stretches, (size_t)begins - (size_t)begins_stretch(granule));
    moved[granule / BITS].is = (moved[granule / BITS].is & ~bit) | (is ? bit : 0);
    moved[granule / BITS].begins = (moved[granule / BITS].begins & ~bit) | (begins ? bit : 0);
}

/* What stays of a stretch begins behind them. Returns whether any was moved. */
static bool unmark(size_t granule, size_t n)
{
    bool any = false;
    for (size_t g = granule; g < granule + n; g++) {
        any |= moved_is(g);
        mark(g, false, false);
    }
    if (moved_is(granule + n))
        mark(granule + n, true, true);
    return any;
}

bool moved_forget(size_t granule, size_t n)
{
    if (load_relaxed(&stretches) == 0 || !big_take_lock())
        return false;
    bool any = unmark(granule, n);
    big_release_lock();
    return any;
}

/* Than the granule before it. */
static bool is_another_mapping(size_t granule)
{
    return begins_stretch(granule) || moved_is(granule) != moved_is(granule - 1);
}

void moved_note(size_t from, size_t to, struct moving m)
{
    if (!big_take_lock())
        return;
    for (size_t i = 0; i < m.done; i++)
        mark(to + i, true, i == 0 || is_another_mapping(from + i));
    for (size_t i = 0; i < m.more; i++)
        mark(to + m.done + i, true, false);
    unmark(from, m.done);
    big_release_lock();
}

/* ---- moves ---- */

/* From the granule on, as far as is known here. */
static size_t in_one_mapping(size_t granule, size_t most)
{
    size_t n = 1;
    if (!big_take_lock())
        return n;
    while (n < most && !is_another_mapping(granule + n))
        n++;
    big_release_lock();
    return n;
}

/* A move that was refused may have unmapped its target all the same, as a whole: then it cannot be purged either, but nor can what is
 * locked. */
static HAK_COLD bool stays_mapped(size_t granule, size_t n)
{
    void *at = granule_address(granule);
    size_t size = n << GRANULE_SHIFT;
    return os_map_over(at, size) || os_purge(at, size) || os_is_mapped(at, GRANULE_SIZE);
}

/* Of several that do not end the move a granule more is asked for, which the next ones take: then the kernel refuses what is not one
 * mapping, and all of it is where it was. What keeps its length it moves mapping by mapping (from Linux 6.17 on), and stops half-way if one
 * fails. docs/decisions/0118 */
struct moving move_granules(size_t from, size_t to, size_t n, size_t more)
{
    struct moving m = {0, 0, 0};
    size_t step = in_one_mapping(from, n);
    bool is_guess = false; /* the marks do not tell all */
    while (m.done < n) {
        step -= m.done + step == n && more == 0 && step > 1;
        bool is_last = m.done + step == n;
        size_t at_target = step + (is_last ? more : step > 1);
        if (os_move(granule_address(from + m.done), step << GRANULE_SHIFT,
                    granule_address(to + m.done), at_target << GRANULE_SHIFT)) {
            m.done += step;
            m.more = is_last ? more : 0;
            step =
                least_of(in_one_mapping(from + m.done, n - m.done), is_guess ? 2 * step : SIZE_MAX);
            continue;
        }
        if (!stays_mapped(to + m.done, at_target)) {
            m.lost = at_target;
            break;
        }
        if (at_target == 1)
            break;
        if (step == 1)
            more = 0;
        is_guess = true;
        step = (step + 1) / 2;
    }
    return m;
}
