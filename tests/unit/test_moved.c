/* Moves of pages that the kernel refuses, of big blocks: what becomes of the block and of both places. */
#include "../strict.h"
#include "big_blocks.h"

#include <sys/mman.h>

#include "os/os.h"
#include "pressure/pressure.h"
#include "region/region.h"
#include "slab/slab.h"

/* Which of the next moves is refused, and what becomes of its target; and how many there were. */
static int refused_move = -1, moves;
static bool was_refused;
static enum target { KEPT, LOST, LOST_FOR_GOOD, KEPT_UNMAPPABLE, KEPT_LOCKED } target;
static bool growth_is_refused; /* of the mapping that moves */

bool __real_os_move(void *from, size_t old, void *to, size_t size);
bool __wrap_os_move(void *from, size_t old, void *to, size_t size);
bool __real_os_map_over(void *at, size_t size);
bool __wrap_os_map_over(void *at, size_t size);

bool __wrap_os_move(void *from, size_t old, void *to, size_t size)
{
    moves++;
    bool is_refused = refused_move-- == 0;
    was_refused = is_refused || (was_refused && target == LOST_FOR_GOOD);
    return !is_refused && !(growth_is_refused && size > old) && __real_os_move(from, old, to, size);
}

bool __wrap_os_map_over(void *at, size_t size)
{
    return !was_refused || target == KEPT ? __real_os_map_over(at, size)
           : target <= LOST_FOR_GOOD      ? !os_unmap(at, size)
                                          : false;
}

bool __real_os_purge(void *at, size_t size);
bool __wrap_os_purge(void *at, size_t size);
bool __wrap_os_purge(void *at, size_t size)
{
    return !(was_refused && target == KEPT_LOCKED) && __real_os_purge(at, size);
}

static void refuse_move(int number, enum target becomes)
{
    refused_move = number;
    target = becomes;
    was_refused = false;
    moves = 0;
}

static int all_moves(void **state)
{
    refuse_move(-1, KEPT);
    store_relaxed(&hak_purges_refused, 0U); /* what was lost could not be purged either */
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

/* A block, filled, of which the second of three granules is a mapping of its own, which nobody has told the allocator. It cannot grow where it is. */
static char *alloc_split(void)
{
    char *p = alloc(6 * MIB);
    assert_int_equal(madvise(p + GRANULE_SIZE, GRANULE_SIZE, MADV_DONTFORK), 0);
    take_granules(granule_behind(p, 6 * MIB), 1);
    stamp(p, 6 * MIB);
    return p;
}

static void move_back_from(int move)
{
    void *place = alloc(44 * MIB); /* where it would go, with its room */
    size_t behind = granule_behind(place, 44 * MIB);
    take_granules(behind, 2);
    release(place);
    assert_int_equal(big_purge(0), 44 * MIB);
    size_t bytes = big_live_bytes();
    char *p = alloc_split();
    refuse_move(move, LOST);
    assert_null(big_resize(unit_of(p), 40 * MIB, BIG_PLAIN));
    assert_int_equal(big_live_bytes(), bytes + 6 * MIB);
    assert_true(has_stamp(p, 6 * MIB));
    refuse_move(-1, KEPT);
    (void)big_purge(0);
    void *q = alloc(44 * MIB);
    assert_ptr_equal(q, place); /* all of it can be used again, and nothing else */
    assert_false(region_is_free(behind) || region_is_free(behind + 1));
    stamp(q, 44 * MIB);
    assert_true(has_stamp(p, 6 * MIB));
    release(q);
    release(p);
}

/* All three at a time, two, one; of the other two both, one; and the last. */
enum { MOVES_OF_SPLIT = 6 };

static void a_block_moves_back_from_a_lost_place(void **state)
{
    (void)state;
    if (!region_can_forget())
        skip();
    for (int move = 0; move < MOVES_OF_SPLIT; move++) {
        move_back_from(move);
        (void)big_purge(0);
    }
}

/* What has moved by one call goes back without more than it had. */
static void nothing_is_mapped_anew_for_the_way_back(void **state)
{
    (void)state;
    if (!region_can_forget())
        skip();
    char *p = alloc(10 * MIB);
    assert_int_equal(madvise(p + 3 * GRANULE_SIZE, 2 * GRANULE_SIZE, MADV_DONTFORK), 0);
    take_granules(granule_behind(p, 10 * MIB), 1);
    stamp(p, 10 * MIB);
    refuse_move(2, LOST_FOR_GOOD); /* of all, and three, and the rest */
    assert_null(big_resize(unit_of(p), 40 * MIB, BIG_PLAIN));
    refuse_move(-1, KEPT);
    assert_true(has_stamp(p, 10 * MIB));
    release(p);
}

static void what_is_several_mappings_moves_in_parts(void **state)
{
    (void)state;
    if (!region_can_forget())
        skip();
    char *p = alloc_split();
    refuse_move(-1, KEPT);
    char *q = big_resize(unit_of(p), 40 * MIB, BIG_PLAIN);
    assert_true(q != NULL && q != p);
    assert_int_equal(moves, MOVES_OF_SPLIT);
    assert_true(has_stamp(q, 6 * MIB));
    assert_true(is_zero(q + 6 * MIB, 34 * MIB));
    stamp(q, 40 * MIB);
    release(q);
}

/* All of a block that is refused the whole move moves in parts, and is not copied: where it was nothing is left. */
static void move_in_spite_of(int refused, bool growth)
{
    char *p = alloc_split();
    size_t granule = unit_of(p) / GRANULE_UNITS;
    refuse_move(refused, KEPT_LOCKED);
    growth_is_refused = growth;
    char *q = big_resize(unit_of(p), 40 * MIB, BIG_PLAIN);
    growth_is_refused = false;
    refuse_move(-1, KEPT);
    assert_true(q != NULL && q != p);
    assert_true(region_is_free(granule) && region_is_free(granule + 2));
    assert_false(os_is_mapped(p, GRANULE_SIZE) || os_is_mapped(p + 2 * GRANULE_SIZE, GRANULE_SIZE));
    assert_true(has_stamp(q, 6 * MIB));
    assert_true(is_zero(q + 6 * MIB, 34 * MIB));
    stamp(q, 40 * MIB);
    release(q);
}

static void a_place_that_is_locked_is_not_lost(void **state)
{
    (void)state;
    if (!region_can_forget())
        skip();
    move_in_spite_of(0, false);
}

static void growth_that_is_refused_is_done_without(void **state)
{
    (void)state;
    if (!region_can_forget())
        skip();
    move_in_spite_of(-1, true);
}

/* Grown to 40 MiB from 32, which it cannot where it is. */
static char *moved_block(enum big_pages pages)
{
    char *p = alloc(32 * MIB);
    take_granules(granule_behind(p, 32 * MIB), 1);
    stamp(p, 32 * MIB);
    refuse_move(-1, KEPT);
    char *q = big_resize(unit_of(p), 40 * MIB, pages);
    if (q == NULL && overcommit_is_strict())
        skip();
    assert_true(q != NULL && q != p);
    assert_true(has_stamp(q, 32 * MIB));
    assert_true(is_zero(q + 32 * MIB, 8 * MIB));
    return q;
}

static void a_block_moves_at_once_and_has_room(void **state)
{
    (void)state;
    if (!region_can_forget() || region_is_counted())
        skip();
    size_t bytes = big_live_bytes();
    char *p = moved_block(BIG_PLAIN);
    assert_int_equal(moves, 1);
    size_t room = granule_behind(p, 40 * MIB);
    assert_false(region_is_free(room) || region_is_free(room + 1));
    take_granules(granule_behind(p, 44 * MIB), 1);
    assert_int_equal(os_resident_pages(p + 40 * MIB, 4 * MIB), 0);
    assert_int_equal(big_live_bytes(), bytes + 40 * MIB);
    assert_ptr_equal(big_resize(unit_of(p), 44 * MIB, BIG_PLAIN), p);
    assert_int_equal(moves, 1);
    stamp(p, 44 * MIB);
    char *q = big_resize(unit_of(p), 46 * MIB, BIG_PLAIN); /* in one mapping still */
    assert_true(q != NULL && q != p);
    assert_int_equal(moves, 2);
    assert_true(has_stamp(q, 44 * MIB));
    room = granule_behind(q, 46 * MIB);
    assert_false(region_is_free(room));
    size_t cached = big_cached_bytes();
    assert_ptr_equal(big_resize(unit_of(q), 45 * MIB, BIG_PLAIN),
                     q); /* which gives its room back */
    assert_true(region_is_free(room) && region_is_free(room + 1));
    assert_int_equal(big_cached_bytes(), cached);
    release(q);
}

/* It has no pages that the next block could use. */
static void room_is_not_cached(void **state)
{
    (void)state;
    if (!region_can_forget() || region_is_counted())
        skip();
    char *p = moved_block(BIG_PLAIN);
    size_t room = granule_behind(p, 40 * MIB);
    stamp(p, 40 * MIB);
    release(p);
    assert_int_equal(big_cached_bytes(), 40 * MIB);
    assert_true(region_is_free(room) && region_is_free(room + 1));
    p = alloc(40 * MIB);
    assert_int_equal(granule_behind(p, 40 * MIB), room);
    release(p);
}

static void move_without_room(enum big_pages pages)
{
    char *p = moved_block(pages);
    assert_true(region_is_free(granule_behind(p, 40 * MIB)));
    release(p);
    (void)big_purge(0);
}

static void room_is_where_it_costs_nothing(void **state)
{
    (void)state;
    if (!region_can_forget())
        skip();
    move_without_room(BIG_HUGE);
    store_relaxed(&hak_purges_refused, 1U);
    move_without_room(BIG_PLAIN);
    store_relaxed(&hak_purges_refused, 0U);
    bool counted = load_relaxed(&hak_pressure.mappings_count);
    store_relaxed(&hak_pressure.mappings_count, true);
    move_without_room(BIG_PLAIN);
    store_relaxed(&hak_pressure.mappings_count, counted);
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
        cmocka_unit_test_setup(nothing_is_mapped_anew_for_the_way_back, all_moves),
        cmocka_unit_test_setup(what_is_several_mappings_moves_in_parts, all_moves),
        cmocka_unit_test_setup(a_place_that_is_locked_is_not_lost, all_moves),
        cmocka_unit_test_setup(growth_that_is_refused_is_done_without, all_moves),
        cmocka_unit_test_setup(a_block_moves_at_once_and_has_room, all_moves),
        cmocka_unit_test_setup(room_is_not_cached, all_moves),
        cmocka_unit_test_setup(room_is_where_it_costs_nothing, all_moves),
        cmocka_unit_test_setup(a_block_stays_when_its_new_end_is_lost, all_moves),
        cmocka_unit_test_setup(the_old_line_may_be_anothers, all_moves),
        cmocka_unit_test_setup(large_blocks_move_as_often_as_small_ones, all_moves),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
