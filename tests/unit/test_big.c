/* Big blocks: what is known of them, pages that move, resizing. Their cache: test_big_cache.c. */
#include "big_blocks.h"

#include <sys/resource.h>

#include "os/os.h"
#include "pages/pages.h"
#include "slab/slab.h"
#include "super/super.h"

/* What the kernel was told last of pages: bytes that are to be huge ones, and that are not. */
static size_t told_huge, told_small;
void __real_os_advise_huge(void *p, size_t size, bool on);
void __wrap_os_advise_huge(void *p, size_t size, bool on);
void __wrap_os_advise_huge(void *p, size_t size, bool on)
{
    *(on ? &told_huge : &told_small) += size;
    __real_os_advise_huge(p, size, on);
}

/* Pages that are locked, say. */
static bool purges_are_refused;
bool __real_os_purge(void *at, size_t size);
bool __wrap_os_purge(void *at, size_t size);
bool __wrap_os_purge(void *at, size_t size)
{
    return !purges_are_refused && __real_os_purge(at, size);
}

static void what_cannot_be_purged_is_unmapped(void **state)
{
    (void)state;
    if (!region_can_forget())
        skip();
    bool zeroed = false;
    char *p = alloc(4 * MIB);
    stamp(p, 4 * MIB);
    release(p);
    purges_are_refused = true;
    size_t purged = big_purge(0);
    purges_are_refused = false;
    assert_int_equal(purged, 4 * MIB);
    assert_ptr_equal(big_alloc(4 * MIB, 1, BIG_PLAIN, &zeroed), p);
    assert_true(zeroed && is_zero(p, 4 * MIB));
    release(p);
}

static void blocks_are_accounted_for(void **state)
{
    (void)state;
    size_t bytes = big_live_bytes(), blocks = big_live_count();
    size_t size = 3 * MIB + 1, usable = round_up(size, os_page_size());
    char *p = alloc(size);
    assert_int_equal((uintptr_t)p % GRANULE_SIZE, 0);
    assert_int_equal(unit_word(unit_of(p)), WORD_BIG);
    assert_int_equal(slab_at(unit_of(p))->size, usable);
    assert_int_equal(big_live_bytes(), bytes + usable);
    assert_int_equal(big_live_count(), blocks + 1);
    p[usable - 1] = 'x';
    release(p);
    assert_int_equal(big_live_bytes(), bytes);
    assert_int_equal(big_live_count(), blocks);
    assert_int_equal(big_cached_bytes(), usable);
}

/* A handler that has interrupted the lock's holder. */
static void blocks_of_handlers_are_accounted_for(void **state)
{
    (void)state;
    size_t bytes = big_live_bytes(), blocks = big_live_count();
    thread_enter();
    lock_take(big_lock());
    thread_enter();
    void *p = alloc(3 * MIB);
    thread_leave();
    lock_release(big_lock());
    thread_leave();
    assert_int_equal(big_live_bytes(), bytes + 3 * MIB);
    assert_int_equal(big_live_count(), blocks + 1);
    release(p);
    assert_int_equal(big_live_bytes(), bytes);
    assert_int_equal(big_live_count(), blocks);
}

static void a_second_free_is_refused(void **state)
{
    (void)state;
    void *p = alloc(2 * MIB);
    size_t cached = big_cached_bytes();
    assert_true(big_free(unit_of(p)));
    assert_int_equal(unit_word(unit_of(p)), WORD_FREED);
    assert_false(big_free(unit_of(p)));
    assert_int_equal(big_cached_bytes(), cached + 2 * MIB);
}

static long page_faults(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
}

static void pages_of_scattered_ones_come_together(void **state)
{
    (void)state;
    if (!region_can_forget())
        skip(); /* a reserved window: nothing moves there */
    bool zeroed = true;
    void *p[3], *between[3];
    alloc_apart(p, between, 3, 4 * MIB);
    size_t live = big_live_count(), bytes = big_live_bytes();
    for (size_t i = 0; i < 3; i++)
        stamp(p[i], 4 * MIB);
    release_all(p, 3);
    char *other = big_alloc(12 * MIB, 1, BIG_PLAIN, &zeroed);
    assert_non_null(other);
    assert_false(zeroed);
    assert_int_equal(big_cached_bytes(), 0);
    assert_int_equal(big_live_count(), live - 2);
    assert_int_equal(big_live_bytes(), bytes);
    long faults = page_faults();
    for (size_t i = 0; i < 3; i++)
        assert_true(has_stamp(other + i * 4 * MIB, 4 * MIB));
    assert_true(page_faults() - faults < 100); /* of 3072 pages */
    release(other);
    assert_int_equal(big_purge(0), 12 * MIB);
    other = big_alloc(12 * MIB, 1, BIG_PLAIN, &zeroed);
    assert_true(zeroed && is_zero(other, 12 * MIB));
    release(other);
    release_all(between, 3);
}

/* Of the last piece no more is taken than is wanted. */
static void a_piece_that_is_too_long_is_cut(void **state)
{
    (void)state;
    if (!region_can_forget())
        skip();
    bool zeroed = true;
    void *p[2], *between[2];
    alloc_apart(p, between, 1, 4 * MIB);
    alloc_apart(p + 1, between + 1, 1, 10 * MIB);
    void *place = alloc(12 * MIB), *behind = alloc(2 * MIB); /* where they will come together */
    release(place);
    assert_int_equal(big_purge(0), 12 * MIB);
    stamp(p[0], 4 * MIB);
    stamp(p[1], 10 * MIB);
    stamp(behind, 2 * MIB);
    release_all(p, 2);
    char *whole = big_alloc(12 * MIB, 1, BIG_PLAIN, &zeroed);
    assert_ptr_equal(whole, place);
    assert_int_equal(big_cached_bytes(), 2 * MIB);
    assert_true(has_stamp(whole, 10 * MIB));
    assert_true(has_stamp(behind, 2 * MIB));
    release(whole);
    release(behind);
    release_all(between, 2);
}

/* How much may be moved is bounded at a time, not in all. */
static void what_was_moved_and_dropped_does_not_count(void **state)
{
    (void)state;
    enum { ROUNDS = 1100 }; /* of four granules, of 4,096 */
    if (!region_can_forget())
        skip();
    void *p[2], *between[2];
    for (size_t i = 0; i < ROUNDS; i++) {
        alloc_apart(p, between, 2, 4 * MIB);
        release_all(p, 2);
        size_t fresh = big_fresh_bytes();
        release(alloc(8 * MIB));
        assert_at(big_fresh_bytes() == fresh, i);
        (void)big_purge(0);
        release_all(between, 2);
        (void)big_purge(0);
    }
}

static void told(size_t huge, size_t small)
{
    assert_int_equal(told_huge, huge);
    assert_int_equal(told_small, small);
    told_huge = told_small = 0;
}

static void huge_pages_are_asked_for_of_fresh_memory(void **state)
{
    (void)state;
    bool zeroed;
    void *p[2], *between[2];
    told_huge = told_small = 0;
    release(alloc(8 * MIB));
    assert_int_equal(big_purge(0), 8 * MIB);
    told(0, 0); /* nothing was said of any before */
    p[0] = big_alloc(5 * MIB, 1, BIG_HUGE, &zeroed);
    told(4 * MIB, 2 * MIB);
    release(p[0]);
    assert_int_equal(big_purge(0), 5 * MIB);
    release(alloc(6 * MIB));
    told(0, 6 * MIB); /* what was said of that place does not hold for others */
    assert_int_equal(big_purge(0), 6 * MIB);
    if (!region_can_forget())
        return;
    alloc_apart(p, between, 2, 4 * MIB);
    release_all(p, 2);
    told_huge = told_small = 0;
    void *whole = big_alloc(8 * MIB, 1, BIG_HUGE, &zeroed);
    told(0, 0); /* it has pages */
    release(whole);
    assert_int_equal(big_purge(0), 8 * MIB);
    release_all(between, 2);
    (void)big_purge(0);
    alloc_apart(p, between, 2, 4 * MIB);
    release_all(p, 2);
    told_huge = told_small = 0;
    whole = big_alloc(13 * MIB, 1, BIG_HUGE, &zeroed);
    told(4 * MIB, 2 * MIB); /* of the part that has none */
    release(whole);
    (void)big_purge(0);
    release_all(between, 2);
}

static void huge_pages_are_asked_for_behind_a_cached_stretch(void **state)
{
    (void)state;
    bool zeroed;
    void *whole = alloc(13 * MIB);
    release(whole);
    assert_int_equal(big_purge(4 * MIB), 10 * MIB);
    told_huge = told_small = 0;
    assert_ptr_equal(big_alloc(13 * MIB, 1, BIG_HUGE, &zeroed), whole);
    told(8 * MIB, 2 * MIB);
    release(whole);
}

/* Where it is, behind pages of the cache, and elsewhere. */
static void huge_pages_are_asked_for_where_a_block_grows(void **state)
{
    (void)state;
    char *p = alloc(16 * MIB);
    release(p);
    (void)big_purge(0);
    assert_ptr_equal(alloc(4 * MIB), p);
    told_huge = told_small = 0;
    assert_ptr_equal(big_resize(unit_of(p), 9 * MIB, BIG_HUGE), p);
    told(4 * MIB, 2 * MIB);
    void *next = big_alloc(2 * MIB, 1, BIG_PLAIN, &(bool){false});
    if (next != p + 10 * MIB || !region_can_forget())
        skip(); /* somebody else's mapping lies there */
    told_huge = told_small = 0;
    char *q = big_resize(unit_of(p), 20 * MIB, BIG_HUGE);
    assert_ptr_not_equal(q, p);
    told(10 * MIB, 0); /* its own pages come with it */
    assert_ptr_equal(big_resize(unit_of(q), 20 * MIB - 4096, BIG_HUGE), q);
    told(0, 0);
    release(q);
    release(next);
}

static void a_block_grows_into_its_freed_neighbour(void **state)
{
    (void)state;
    void *p = alloc(4 * MIB), *next = alloc(8 * MIB);
    if (next != (char *)p + 4 * MIB)
        skip(); /* somebody else's mapping lies between */
    stamp(p, 4 * MIB);
    stamp(next, 8 * MIB);
    release(next);
    assert_ptr_equal(big_resize(unit_of(p), 9 * MIB / 2, BIG_PLAIN), p);
    assert_true(has_stamp(p, 4 * MIB));
    assert_true(has_stamp((char *)p + 4 * MIB, 2 * MIB)); /* its pages */
    assert_int_equal(big_cached_bytes(), 6 * MIB);
    assert_int_equal(slab_at(unit_of(p))->touched * hak_region.page_size,
                     6 * MIB); /* all that it has got */
    assert_ptr_equal(big_resize(unit_of(p), 12 * MIB, BIG_PLAIN), p);
    assert_int_equal(big_cached_bytes(), 0);
    release(p);
}

static void alignments_are_kept(void **state)
{
    (void)state;
    for (size_t alignment = 1; alignment <= (size_t)1 << 30; alignment *= 2) {
        bool zeroed;
        void *p = big_alloc(2 * MIB, alignment, BIG_PLAIN, &zeroed);
        assert_at(p != NULL && (uintptr_t)p % alignment == 0, alignment);
        release(p);
    }
}

static void resize_in_place(void **state)
{
    (void)state;
    size_t bytes = big_live_bytes();
    char *p = alloc(20 * MIB);
    stamp(p, 20 * MIB);
    assert_ptr_equal(big_resize(unit_of(p), 6 * MIB, BIG_PLAIN), p);
    assert_true(has_stamp(p, 6 * MIB));
    assert_int_equal(big_live_bytes(), bytes + 6 * MIB);
    assert_ptr_equal(big_resize(unit_of(p), 20 * MIB, BIG_PLAIN), p);
    assert_true(has_stamp(p, 6 * MIB));
    stamp(p, 20 * MIB); /* all of it is there */
    assert_ptr_equal(big_resize(unit_of(p), 20 * MIB - 1, BIG_PLAIN), p);
    assert_int_equal(big_live_bytes(), bytes + 20 * MIB);
    release(p);
    assert_int_equal(big_live_bytes(), bytes);
}

/* What a block has left behind the end of the next one at its place keeps its pages. */
static void what_lies_behind_a_shorter_one_counts(void **state)
{
    (void)state;
    bool zeroed;
    void *p = alloc(4 * MIB);
    release(p);
    assert_ptr_equal(big_alloc(3 * MIB, 1, BIG_PLAIN, &zeroed), p);
    assert_int_equal(big_cached_bytes(), 0);
    release(p);
    assert_int_equal(big_cached_bytes(), 4 * MIB);
    assert_ptr_equal(big_alloc(4 * MIB, 1, BIG_PLAIN, &zeroed), p);
    assert_ptr_equal(big_resize(unit_of(p), 3 * MIB, BIG_PLAIN), p); /* as many granules */
    release(p);
    assert_int_equal(big_cached_bytes(), 4 * MIB);
    assert_ptr_equal(big_alloc(3 * MIB, 1, BIG_PLAIN, &zeroed), p);
    assert_ptr_equal(big_resize(unit_of(p), 2 * MIB, BIG_PLAIN), p); /* the rest goes by itself */
    assert_int_equal(big_cached_bytes(), 2 * MIB);
    release(p);
    assert_int_equal(big_cached_bytes(), 4 * MIB);
}

static size_t resident_behind(char *p, size_t at)
{
    return os_resident_pages(p + at, GRANULE_SIZE - at % GRANULE_SIZE) * hak_region.page_size;
}

static void may_keep(size_t retain, size_t most)
{
    hak_options.retain = retain;
    hak_options.retain_max = most;
}

/* Nobody else can use what lies behind a block in its last granule. */
static void much_behind_a_block_that_shrinks_goes_back(void **state)
{
    (void)state;
    bool zeroed;
    may_keep(0, 0);
    char *p = alloc(4 * MIB);
    stamp(p, 4 * MIB);
    assert_ptr_equal(big_resize(unit_of(p), 7 * MIB / 2, BIG_PLAIN), p); /* an eighth of it */
    assert_int_equal(resident_behind(p, 7 * MIB / 2), MIB / 2);
    assert_ptr_equal(big_resize(unit_of(p), 5 * MIB / 2, BIG_PLAIN), p);
    assert_int_equal(resident_behind(p, 5 * MIB / 2), 0);
    assert_true(has_stamp(p, 5 * MIB / 2));
    release(p);
    assert_int_equal(big_cached_bytes(), 5 * MIB / 2);
    assert_ptr_equal(big_alloc(4 * MIB, 1, BIG_PLAIN, &zeroed), p);
    release(p);
}

/* As much as of other free memory, of all blocks together. */
static void little_behind_blocks_that_shrink_stays(void **state)
{
    (void)state;
    enum { BLOCKS = 3 };
    may_keep(3 * MIB, 3 * MIB);
    char *p[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        p[i] = alloc(4 * MIB);
        stamp(p[i], 4 * MIB);
        assert_ptr_equal(big_resize(unit_of(p[i]), 5 * MIB / 2, BIG_PLAIN), p[i]);
        assert_int_equal(resident_behind(p[i], 5 * MIB / 2), i < 2 ? 3 * MIB / 2 : 0);
    }
    release(p[0]);
    assert_ptr_equal(big_resize(unit_of(p[2]), 4 * MIB, BIG_PLAIN), p[2]);
    stamp(p[2], 4 * MIB);
    assert_ptr_equal(big_resize(unit_of(p[2]), 5 * MIB / 2, BIG_PLAIN), p[2]);
    assert_int_equal(resident_behind(p[2], 5 * MIB / 2), 3 * MIB / 2);
    release(p[1]);
    release(p[2]);
}

/* Within a millisecond 64 KiB go back, however long it takes, 8 MiB ahead and the last one beyond. */
static void blocks_that_shrink_all_the_time_do_not_touch_their_pages_anew(void **state)
{
    (void)state;
    enum { TURNS = 1000, AHEAD_MS = 128 };
    may_keep(0, 32 * MIB);
    char *p = alloc(4 * MIB);
    stamp(p, 4 * MIB);
    size_t gone = 0;
    uint64_t since = os_now_ms();
    for (int i = 0; i < TURNS; i++) {
        stamp(p, 4 * MIB);
        assert_ptr_equal(big_resize(unit_of(p), 5 * MIB / 2, BIG_PLAIN), p);
        gone += 3 * MIB / 2 - resident_behind(p, 5 * MIB / 2);
        assert_ptr_equal(big_resize(unit_of(p), 4 * MIB, BIG_PLAIN), p);
    }
    size_t may_go = (os_now_ms() - since + AHEAD_MS + 1) * UNIT_SIZE + 3 * MIB / 2;
    assert_true(gone > 0 && gone <= may_go);
    release(p);
}

static void resize_moves_if_it_must(void **state)
{
    (void)state;
    if (!region_can_forget())
        skip(); /* a reserved window, as under a sanitizer: blocks are copied there */
    bool zeroed;
    void *p = alloc(4 * MIB);
    size_t granule = unit_of(p) / GRANULE_UNITS;
    bool mine = region_extend(granule + 2, 1, &zeroed); /* else somebody else is there */
    stamp(p, 4 * MIB);
    size_t bytes = big_live_bytes(), blocks = big_live_count();
    void *q = big_resize(unit_of(p), 30 * MIB, BIG_PLAIN);
    assert_non_null(q);
    assert_ptr_not_equal(q, p);
    assert_true(has_stamp(q, 4 * MIB));
    stamp(q, 30 * MIB);
    assert_int_equal(unit_word(unit_of(p)), WORD_FREED);
    assert_false(big_free(unit_of(p)));
    assert_int_equal(big_live_bytes(), bytes + 26 * MIB);
    assert_int_equal(big_live_count(), blocks);
    release(q);
    ptrdiff_t again = region_take(2, 1, &zeroed); /* the old place is free, mapped or not */
    assert_int_equal(again, granule);
    stamp(granule_address(granule), 4 * MIB);
    region_give(granule, 2, false);
    if (mine)
        region_give(granule + 2, 1, false);
}

/* The descriptor may have been that of a run that began in the middle of its unit. */
static void a_block_begins_where_its_granule_does(void **state)
{
    (void)state;
    char *p = alloc(2 * MIB);
    release(p);
    slab_at(unit_of(p))->run_at = 3;
    assert_ptr_equal(alloc(2 * MIB), p);
    assert_int_equal(slab_at(unit_of(p))->run_at, 0);
    release(p);
}

static void failing_resize_leaves_the_block(void **state)
{
    (void)state;
    void *p = alloc(4 * MIB);
    stamp(p, 4 * MIB);
    size_t bytes = big_live_bytes();
    assert_null(big_resize(unit_of(p), PTRDIFF_MAX, BIG_PLAIN));
    assert_int_equal(big_live_bytes(), bytes);
    assert_int_equal(unit_word(unit_of(p)), WORD_BIG);
    assert_true(has_stamp(p, 4 * MIB));
    release(p);
}

/* ---- threads ---- */

static _Atomic size_t freed, wrong;
static void *shared;
static pthread_barrier_t barrier;

/* All free the same block at once: one of them alone may. */
static void *race_to_free(void *number)
{
    for (int i = 0; i < 200; i++) {
        if ((uintptr_t)number == 1) {
            bool zeroed;
            shared = big_alloc(2 * MIB, 1, BIG_PLAIN, &zeroed);
            store_relaxed(&freed, (size_t)0);
        }
        pthread_barrier_wait(&barrier);
        if (big_free(unit_of(shared)))
            add_relaxed(&freed, 1);
        pthread_barrier_wait(&barrier);
        if (load_relaxed(&freed) != 1)
            add_relaxed(&wrong, 1);
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

static void one_of_many_frees_wins(void **state)
{
    (void)state;
    pthread_barrier_init(&barrier, NULL, THREADS);
    run_threads(race_to_free);
    pthread_barrier_destroy(&barrier);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(what_cannot_be_purged_is_unmapped, empty_cache),
        cmocka_unit_test_setup(blocks_are_accounted_for, empty_cache),
        cmocka_unit_test_setup(blocks_of_handlers_are_accounted_for, empty_cache),
        cmocka_unit_test_setup(a_second_free_is_refused, empty_cache),
        cmocka_unit_test_setup(pages_of_scattered_ones_come_together, empty_cache),
        cmocka_unit_test_setup(a_piece_that_is_too_long_is_cut, empty_cache),
        cmocka_unit_test_setup(what_was_moved_and_dropped_does_not_count, empty_cache),
        cmocka_unit_test_setup(huge_pages_are_asked_for_of_fresh_memory, empty_cache),
        cmocka_unit_test_setup(huge_pages_are_asked_for_behind_a_cached_stretch, empty_cache),
        cmocka_unit_test_setup(huge_pages_are_asked_for_where_a_block_grows, empty_cache),
        cmocka_unit_test_setup(a_block_grows_into_its_freed_neighbour, empty_cache),
        cmocka_unit_test_setup(alignments_are_kept, empty_cache),
        cmocka_unit_test_setup(resize_in_place, empty_cache),
        cmocka_unit_test_setup(what_lies_behind_a_shorter_one_counts, empty_cache),
        cmocka_unit_test_setup(much_behind_a_block_that_shrinks_goes_back, empty_cache),
        cmocka_unit_test_setup(little_behind_blocks_that_shrink_stays, empty_cache),
        cmocka_unit_test_setup(blocks_that_shrink_all_the_time_do_not_touch_their_pages_anew,
                               empty_cache),
        cmocka_unit_test_setup(resize_moves_if_it_must, empty_cache),
        cmocka_unit_test_setup(a_block_begins_where_its_granule_does, empty_cache),
        cmocka_unit_test_setup(failing_resize_leaves_the_block, empty_cache),
        cmocka_unit_test_setup(one_of_many_frees_wins, empty_cache),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
