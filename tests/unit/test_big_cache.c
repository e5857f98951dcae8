/* What big blocks have left: which of it serves the next one, what is joined and cut, what goes back first. */
#include "big_blocks.h"

static void the_shortest_that_fits_is_reused(void **state)
{
    (void)state;
    bool zeroed = true;
    void *blocks[2], *between[2];
    alloc_apart(blocks, between, 2, 4 * MIB);
    void *large = alloc(40 * MIB), *end = alloc(2 * MIB);
    release_all(blocks, 2);
    release(large);
    assert_ptr_equal(big_alloc(4 * MIB, 1, BIG_PLAIN, &zeroed), blocks[1]); /* the newer of two */
    assert_false(zeroed);
    assert_ptr_equal(big_alloc(3 * MIB, 1, BIG_PLAIN, &zeroed), blocks[0]);
    assert_ptr_equal(big_alloc(36 * MIB, 1, BIG_PLAIN, &zeroed), large);
    assert_int_equal(big_cached_bytes(), 4 * MIB);
    void *rest = big_alloc(4 * MIB, 1, BIG_PLAIN, &zeroed);
    assert_ptr_equal(rest, (char *)large + 36 * MIB);
    assert_int_equal(big_cached_bytes(), 0);
    release_all(blocks, 2);
    release_all(between, 2);
    release(large);
    release(rest);
    release(end);
}

/* Bytes are for the purge to bound. */
static void hundreds_of_blocks_stay(void **state)
{
    (void)state;
    enum { MANY = 300 };
    static void *blocks[MANY], *between[MANY];
    alloc_apart(blocks, between, MANY, 2 * MIB);
    release_all(blocks, MANY);
    assert_int_equal(big_cached_bytes(), MANY * 2 * MIB);
    release_all(between, MANY);
}

static void hits_and_misses_are_counted(void **state)
{
    (void)state;
    size_t hits = load_relaxed(&hak_big.hits), misses = load_relaxed(&hak_big.misses);
    void *p = alloc(8 * MIB); /* of an empty cache */
    assert_int_equal(load_relaxed(&hak_big.misses), misses + 1);
    release(p);
    p = alloc(6 * MIB);
    assert_int_equal(load_relaxed(&hak_big.hits), hits + 1);
    void *longer = alloc(8 * MIB); /* what is left is made longer: neither */
    assert_int_equal(load_relaxed(&hak_big.hits), hits + 1);
    assert_int_equal(load_relaxed(&hak_big.misses), misses + 1);
    release(p);
    release(longer);
}

static void neighbours_become_one(void **state)
{
    (void)state;
    bool zeroed;
    void *whole = alloc(12 * MIB), *part[3];
    release(whole);
    for (size_t i = 0; i < 3; i++) {
        part[i] = big_alloc(4 * MIB, 1, BIG_PLAIN, &zeroed);
        assert_ptr_equal(part[i], (char *)whole + i * 4 * MIB);
    }
    release(part[0]);
    release(part[2]);
    release(part[1]);
    assert_int_equal(big_cached_bytes(), 12 * MIB);
    assert_ptr_equal(big_alloc(12 * MIB, 1, BIG_PLAIN, &zeroed), whole);
    release(whole);
}

static void a_short_one_is_extended(void **state)
{
    (void)state;
    bool zeroed = true;
    void *whole = alloc(12 * MIB);
    release(whole);
    stamp(whole, 4 * MIB);
    assert_int_equal(big_purge(4 * MIB), 8 * MIB);
    assert_ptr_equal(big_alloc(12 * MIB, 1, BIG_PLAIN, &zeroed), whole);
    assert_false(zeroed);
    assert_int_equal(big_dirty_bytes(whole), 4 * MIB);
    assert_true(is_zero((char *)whole + 4 * MIB, 8 * MIB));
    assert_int_equal(big_cached_bytes(), 0);
    release(whole);
}

static void the_cache_is_bounded(void **state)
{
    (void)state;
    void *p[7], *between[7];
    size_t n = ARRAY_LENGTH(p);
    alloc_apart(p, between, n, 2 * MIB);
    hak_options.whale_capacity = 4;
    for (size_t i = 0; i < n; i++) {
        release(p[i]);
        assert_int_equal(big_cached_bytes(), 2 * MIB * (i < 4 ? i + 1 : 4));
    }
    bool zeroed;
    for (size_t i = n; i-- > 3;) /* the oldest three had to go */
        assert_ptr_equal(big_alloc(2 * MIB, 1, BIG_PLAIN, &zeroed), p[i]);
    assert_int_equal(big_cached_bytes(), 0);
    hak_options.whale_capacity = 0;
    release_all(p + 3, n - 3);
    release_all(between, n);
    assert_int_equal(big_cached_bytes(), 0);
}

static void purge_keeps_the_newest(void **state)
{
    (void)state;
    bool zeroed = false;
    void *p[2], *between[2];
    alloc_apart(p, between, 2, 2 * MIB);
    stamp(p[0], 2 * MIB);
    release_all(p, 2);
    assert_int_equal(big_purge(4 * MIB), 0);
    assert_int_equal(big_purge(2 * MIB), 2 * MIB);
    assert_int_equal(big_cached_bytes(), 2 * MIB);
    assert_ptr_equal(big_alloc(2 * MIB, 1, BIG_PLAIN, &zeroed), p[1]);
    assert_ptr_equal(big_alloc(2 * MIB, 1, BIG_PLAIN, &zeroed), p[0]); /* the region's lowest */
    assert_true(zeroed);
    assert_true(is_zero(p[0], 2 * MIB));
    release_all(p, 2);
    release_all(between, 2);
}

/* Neighbours of which each uses part of its last granule: which of theirs that is, the cache does not know. */
static void purge_leaves_nothing_of_neighbours(void **state)
{
    (void)state;
    void *p[10];
    for (size_t i = 0; i < ARRAY_LENGTH(p); i++)
        p[i] = alloc(MIB + MIB / 8);
    release_all(p, ARRAY_LENGTH(p));
    assert_int_equal(big_cached_bytes(), 10 * (MIB + MIB / 8));
    assert_int_equal(big_purge(0), 10 * (MIB + MIB / 8));
    assert_int_equal(big_cached_bytes(), 0);
}

/* Neither was touched to its end; the next block touches what lies between. */
static void what_was_two_blocks_may_be_touched_all_over(void **state)
{
    (void)state;
    void *p = alloc(MIB + 4096), *q = alloc(MIB + 4096);
    release(p);
    release(q);
    assert_int_equal(big_cached_bytes(), 2 * (MIB + 4096));
    void *both = alloc(2 * MIB + 4096);
    assert_ptr_equal(both, p);
    release(both);
    assert_int_equal(big_cached_bytes(), 4 * MIB);
}

/* Who takes it for pages takes what lies behind that for zeros. */
static void a_part_of_what_was_two_blocks_may_be_touched_as_a_whole(void **state)
{
    (void)state;
    size_t touched;
    void *p = alloc(MIB + 4096), *q = alloc(2 * MIB);
    release(p);
    release(q);
    ptrdiff_t granule = big_take_cached(1, &touched);
    assert_ptr_equal(granule_address((size_t)granule), q);
    assert_int_equal(touched, 2 * MIB);
    region_give((size_t)granule, 1, false);
}

static void purge_takes_no_more_than_it_must(void **state)
{
    (void)state;
    bool zeroed = true;
    void *p = alloc(10 * MIB);
    release(p);
    assert_int_equal(big_purge(7 * MIB), 4 * MIB);
    assert_int_equal(big_cached_bytes(), 6 * MIB);
    assert_ptr_equal(big_alloc(6 * MIB, 1, BIG_PLAIN, &zeroed), p); /* its end went */
    assert_false(zeroed);
    release(p);
}

/* With what lies before and behind it left there. */
static void an_aligned_block_comes_out_of_the_cache(void **state)
{
    (void)state;
    bool zeroed = true;
    char *whole = big_alloc(34 * MIB, 8 * MIB, BIG_PLAIN, &zeroed);
    stamp(whole, 34 * MIB);
    release(whole);
    assert_ptr_equal(big_alloc(2 * MIB, 1, BIG_PLAIN, &zeroed), whole);
    char *p = big_alloc(10 * MIB, 8 * MIB, BIG_PLAIN, &zeroed);
    assert_ptr_equal(p, whole + 8 * MIB);
    assert_false(zeroed);
    assert_int_equal(big_cached_bytes(), 22 * MIB);
    assert_ptr_equal(big_alloc(6 * MIB, 1, BIG_PLAIN, &zeroed), whole + 2 * MIB);
    release(whole + 2 * MIB);
    release(p);
    release(whole);
    assert_int_equal(big_cached_bytes(), 34 * MIB);
    assert_ptr_equal(big_alloc(34 * MIB, 1, BIG_PLAIN, &zeroed), whole);
    release(whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_shortest_that_fits_is_reused, empty_cache),
        cmocka_unit_test_setup(hundreds_of_blocks_stay, empty_cache),
        cmocka_unit_test_setup(hits_and_misses_are_counted, empty_cache),
        cmocka_unit_test_setup(neighbours_become_one, empty_cache),
        cmocka_unit_test_setup(a_short_one_is_extended, empty_cache),
        cmocka_unit_test_setup(the_cache_is_bounded, empty_cache),
        cmocka_unit_test_setup(purge_keeps_the_newest, empty_cache),
        cmocka_unit_test_setup(purge_leaves_nothing_of_neighbours, empty_cache),
        cmocka_unit_test_setup(what_was_two_blocks_may_be_touched_all_over, empty_cache),
        cmocka_unit_test_setup(a_part_of_what_was_two_blocks_may_be_touched_as_a_whole,
                               empty_cache),
        cmocka_unit_test_setup(purge_takes_no_more_than_it_must, empty_cache),
        cmocka_unit_test_setup(an_aligned_block_comes_out_of_the_cache, empty_cache),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
