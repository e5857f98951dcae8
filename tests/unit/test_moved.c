/* Moves of pages that the kernel refuses, of big blocks: what becomes of the block and of both places. */
#include "../strict.h"
#include "big_blocks.h"

#include "os/os.h"
#include "region/region.h"
#include "slab/slab.h"

/* Which of the next moves is refused, and what becomes of its target. */
static int refused_move = -1;
static enum target { KEPT, LOST, KEPT_UNMAPPABLE } target;

bool __real_os_move(void *from, size_t old, void *to, size_t size);
bool __wrap_os_move(void *from, size_t old, void *to, size_t size);
bool __real_os_map_over(void *at, size_t size);
bool __wrap_os_map_over(void *at, size_t size);

bool __wrap_os_move(void *from, size_t old, void *to, size_t size)
{
    return refused_move-- != 0 && __real_os_move(from, old, to, size);
}

bool __wrap_os_map_over(void *at, size_t size)
{
    return target == LOST   ? !os_unmap(at, size)
           : target == KEPT ? __real_os_map_over(at, size)
                            : false;
}

static void refuse_move(int number, enum target becomes)
{
    refused_move = number;
    target = becomes;
}

static int all_moves(void **state)
{
    refuse_move(-1, KEPT);
    return empty_cache(state);
}

/* Three of 4 MiB are wanted as one of 12, and the fourth of six moves is refused. */
static void *alloc_from_pieces(void **between, enum target becomes)
{
    bool zeroed = true;
    void *p[3];
    alloc_apart(p, between, 3, 4 * MIB);
    for (size_t i = 0; i < 3; i++)
        stamp(p[i], 4 * MIB);
    release_all(p, 3);
    refuse_move(3, becomes);
    void *whole = big_alloc(12 * MIB, 1, BIG_PLAIN, &zeroed);
    assert_false(whole != NULL && zeroed);
    assert_int_equal(big_cached_bytes(), 4 * MIB); /* the piece that was not begun */
    refuse_move(-1, KEPT);
    return whole;
}

static void a_refused_move_is_made_up_for_by_new_pages(void **state)
{
    (void)state;
    if (!region_can_forget())
        skip();
    for (int i = 0; i < 2; i++) {
        void *between[3];
        char *p = alloc_from_pieces(between, i == 0 ? KEPT : KEPT_UNMAPPABLE);
        assert_non_null(p);
        assert_true(has_stamp(p, 4 * MIB));
        assert_true(has_stamp(p + 4 * MIB, 2 * MIB));
        assert_int_equal(big_dirty_bytes(p), 6 * MIB);
        assert_true(is_zero(p + 6 * MIB, 6 * MIB));
        stamp(p, 12 * MIB);
        release(p);
        release_all(between, 3);
        (void)big_purge(0);
    }
}

static void a_lost_place_is_given_up(void **state)
{
    (void)state;
    if (!region_can_forget())
        skip();
    void *between[3];
    size_t blocks = big_live_count();
    assert_null(alloc_from_pieces(between, LOST));
    assert_int_equal(big_live_count(), blocks + 3);
    for (size_t i = 0; i < 8; i++) { /* what is handed out next is there */
        void *p = alloc(12 * MIB);
        stamp(p, 12 * MIB);
        assert_true(has_stamp(p, 12 * MIB));
        release(p);
    }
    release_all(between, 3);
}

static size_t granule_behind(const void *p, size_t size)
{
    return unit_of(p) / GRANULE_UNITS + size / GRANULE_SIZE;
}

/* Taken from here on, if it is nobody's. */
static void take_granules(size_t granule, size_t n)
{
    bool zeroed;
    (void)region_extend(granule, n, &zeroed);
}

/* A block of three granules that cannot grow where it is, and is refused one of its moves, from 0 on. */
static void *resize_with_refusal(char **p, int move, enum target becomes)
{
    *p = alloc(6 * MIB);
    take_granules(granule_behind(*p, 6 * MIB), 1);
    stamp(*p, 6 * MIB);
    refuse_move(move, becomes);
    return big_resize(unit_of(*p), 40 * MIB, BIG_PLAIN);
}

static void a_refused_move_of_a_block_is_a_copy(void **state)
{
    (void)state;
    if (!region_can_forget())
        skip();
    char *p, *q = resize_with_refusal(&p, 1, KEPT);
    assert_non_null(q);
    assert_ptr_not_equal(q, p);
    assert_true(has_stamp(q, 6 * MIB));
    stamp(q, 40 * MIB);
    release(q);
}

static void move_back_from(int move)
{
    char *p;
    void *place = alloc(40 * MIB); /* where it would go */
    size_t behind = granule_behind(place, 40 * MIB);
    take_granules(behind, 2);
    release(place);
    assert_int_equal(big_purge(0), 40 * MIB);
    size_t bytes = big_live_bytes();
    assert_null(resize_with_refusal(&p, move, LOST));
    assert_int_equal(big_live_bytes(), bytes + 6 * MIB);
    assert_true(has_stamp(p, 6 * MIB));
    refuse_move(-1, KEPT);
    (void)big_purge(0);
    void *q = alloc(40 * MIB);
    assert_ptr_equal(q, place); /* all of it can be used again, and nothing else */
    assert_false(region_is_free(behind) || region_is_free(behind + 1));
    stamp(q, 40 * MIB);
    assert_true(has_stamp(p, 6 * MIB));
    release(q);
    release(p);
}

static void a_block_moves_back_from_a_lost_place(void **state)
{
    (void)state;
    if (!region_can_forget())
        skip();
    for (int move = 0; move < 3; move++) {
        move_back_from(move);
        (void)big_purge(0);
    }
}

/* What happens as soon as granules have been given away, once. */
static void (*when_forgotten)(size_t granule);
void __real_region_forget(size_t first, size_t n);
void __wrap_region_forget(size_t first, size_t n);
void __wrap_region_forget(size_t first, size_t n)
{
    void (*then)(size_t) = when_forgotten;
    __real_region_forget(first, n);
    when_forgotten = NULL;
    if (then != NULL)
        then(first);
}

/* Another thread's slab, behind many others in its class' list. */
static void begin_slab(size_t granule)
{
    struct slab *s = slab_at(granule * GRANULE_UNITS);
    take_granules(granule, 1);
    slab_init(granule * GRANULE_UNITS, 0, NULL, true);
    s->prev = UINT32_MAX;
}

static void the_old_line_may_be_anothers(void **state)
{
    (void)state;
    if (!region_can_forget())
        skip();
    char *p = alloc(4 * MIB);
    size_t granule = unit_of(p) / GRANULE_UNITS;
    stamp(p, 4 * MIB);
    take_granules(granule + 2, 1);
    when_forgotten = begin_slab;
    char *q = big_resize(unit_of(p), 6 * MIB, BIG_PLAIN);
    assert_true(q != NULL && q != p && when_forgotten == NULL);
    assert_true(has_stamp(q, 4 * MIB));
    size_t before = big_cached_bytes();
    release(q);
    assert_int_equal(big_cached_bytes() - before, 6 * MIB);
    region_give(granule, 1, false);
    region_give(granule + 2, 1, false);
}

/* What moves as a whole is a mapping, however large. Nothing of it is written. */
static void large_blocks_move_as_often_as_small_ones(void **state)
{
    (void)state;
    enum { MANY = 12 };
    if (!region_can_forget())
        skip();
    for (int i = 0; i < MANY; i++) {
        bool zeroed;
        char *p = big_alloc(1024 * MIB, 1, BIG_PLAIN, &zeroed);
        if (p == NULL)
            skip(); /* memory must not be promised here */
        take_granules(granule_behind(p, 1024 * MIB), 1);
        *p = 'x';
        char *q = big_resize(unit_of(p), 1100 * MIB, BIG_PLAIN);
        if (q == NULL && overcommit_is_strict())
            skip();
        assert_non_null(q);
        assert_ptr_not_equal(q, p);
        assert_int_equal(*q, 'x');
        assert_at(os_resident_pages(q + 512 * MIB, GRANULE_SIZE) == 0,
                  (size_t)i); /* or it was copied */
    }
}

static size_t granules_taken(void)
{
    size_t taken = 0;
    for (size_t granule = 0; granule < region_top(); granule++)
        taken += !region_is_free(granule);
    return taken;
}

/* The new end was to have pages of others, and is lost before the block itself moves. */
static void a_block_stays_when_its_new_end_is_lost(void **state)
{
    (void)state;
    if (!region_can_forget())
        skip();
    char *p;
    void *piece, *between;
    alloc_apart(&piece, &between, 1, 4 * MIB);
    size_t taken = granules_taken() - 2;
    release(piece);
    assert_null(resize_with_refusal(&p, 0, LOST));
    refuse_move(-1, KEPT);
    (void)big_purge(0);
    assert_int_equal(granules_taken(), taken + 3 + 1); /* the block, and what lies behind it */
    assert_true(has_stamp(p, 6 * MIB));
    release(p);
    release(between);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_refused_move_is_made_up_for_by_new_pages, all_moves),
        cmocka_unit_test_setup(a_lost_place_is_given_up, all_moves),
        cmocka_unit_test_setup(a_refused_move_of_a_block_is_a_copy, all_moves),
        cmocka_unit_test_setup(a_block_moves_back_from_a_lost_place, all_moves),
        cmocka_unit_test_setup(a_block_stays_when_its_new_end_is_lost, all_moves),
        cmocka_unit_test_setup(the_old_line_may_be_anothers, all_moves),
        cmocka_unit_test_setup(large_blocks_move_as_often_as_small_ones, all_moves),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
