/* SuperSlabs: units, their accounts, and purging them. */
#include "supers.h"

enum { MANY = 4 * GRANULE_UNITS };

static void accounts_add_up(void **state)
{
    (void)state;
    bool zeroed;
    size_t in_use = units_in_use(), mapped = supers_mapped();
    size_t unit = take(4, &zeroed);
    assert_int_equal(units_in_use(), in_use + 4);
    assert_true(supers_mapped() >= mapped);
    soil(unit, 3);
    size_t dirty = units_dirty();
    units_give(unit, 4, 3);
    assert_int_equal(units_in_use(), in_use);
    assert_int_equal(units_dirty(), dirty + 3 + !zeroed);
}

static void untouched_units_stay_clean(void **state)
{
    (void)state;
    bool zeroed = false;
    supers_purge(0);
    size_t unit = take(4, &zeroed);
    assert_true(zeroed);
    units_give(unit, 4, 0);
    assert_int_equal(units_dirty(), 0);
    assert_int_equal(take(4, &zeroed), unit);
    assert_true(zeroed);
    units_give(unit, 4, 0);
}

static void dirty_units_are_reused_first(void **state)
{
    (void)state;
    bool zeroed;
    size_t a = take(2, &zeroed), b = take(2, &zeroed);
    assert_int_equal(a / GRANULE_UNITS, b / GRANULE_UNITS);
    soil(b, 2);
    units_give(a, 2, 0);
    units_give(b, 2, 2);
    size_t dirty = units_dirty();
    assert_int_equal(take(2, &zeroed), b);
    assert_false(zeroed);
    assert_int_equal(units_dirty(), dirty - 2);
    units_give(b, 2, 2);
}

static void dirty_stretches_serve_single_units(void **state)
{
    (void)state;
    bool zeroed;
    supers_purge(0);
    size_t keeps = take(2, &zeroed), stretch = take(3, &zeroed), single = take(1, &zeroed);
    assert_true(zeroed);
    soil(stretch, 3);
    units_give(stretch, 3, 3);
    uint32_t taken = 0;
    for (uint32_t i = 0; i < 3; i++) {
        size_t unit = take(1, &zeroed);
        assert_true(unit - stretch < 3);
        taken |= 1U << (unit - stretch);
        assert_false(zeroed);
    }
    assert_int_equal(taken, 7);
    assert_int_equal(units_dirty(), 0);
    size_t clean = take(1, &zeroed);
    assert_true(zeroed);
    assert_int_equal(clean / GRANULE_UNITS, single / GRANULE_UNITS);
    units_give(clean, 1, 0);
    units_give(single, 1, 0);
    units_give(stretch, 3, 0);
    units_give(keeps, 2, 0);
}

/* The lowest first, but for the build `secure`. */
static void chance_decides_where_a_slab_lies_in_secure(void **state)
{
    (void)state;
    enum { UNITS = 12 };
    size_t units[UNITS], rises = 0;
    bool zeroed;
    for (size_t i = 0; i < UNITS; i++) {
        units[i] = take(1, &zeroed);
        rises += i != 0 && units[i] > units[i - 1];
    }
    for (size_t i = 0; i < UNITS; i++)
        units_give(units[i], 1, 0);
    assert_int_equal(rises < UNITS - 1, HAK_SECURE);
}

static void singles_and_stretches_keep_apart(void **state)
{
    (void)state;
    bool zeroed;
    supers_purge(0); /* while there is nothing dirty */
    size_t single[MANY], stretch[MANY / 4];
    for (size_t i = 0; i < ARRAY_LENGTH(single); i++)
        single[i] = take(1, &zeroed);
    for (size_t i = 0; i < ARRAY_LENGTH(stretch); i++) {
        stretch[i] = take((uint32_t)(2 + i % 7), &zeroed);
        for (size_t j = 0; j < ARRAY_LENGTH(single); j++)
            assert_at(stretch[i] / GRANULE_UNITS != single[j] / GRANULE_UNITS, j);
    }
    for (size_t i = 0; i < ARRAY_LENGTH(single); i++)
        units_give(single[i], 1, 0);
    for (size_t i = 0; i < ARRAY_LENGTH(stretch); i++)
        units_give(stretch[i], (uint32_t)(2 + i % 7), 0);
}

static void stretches_stay_within_a_super(void **state)
{
    (void)state;
    bool zeroed;
    for (uint32_t n = 1; n <= GRANULE_UNITS; n++) {
        size_t unit = take(n, &zeroed);
        assert_at(unit / GRANULE_UNITS == (unit + n - 1) / GRANULE_UNITS, n);
        units_give(unit, n, 0);
    }
}

/* Every other unit stays in use, so that no SuperSlab goes back whole. */
static void soil_every_other(size_t *units, size_t n)
{
    bool zeroed;
    for (size_t i = 0; i < n; i++)
        units[i] = take(1, &zeroed);
    for (size_t i = 0; i < n; i++)
        soil(units[i], 1);
    for (size_t i = 0; i < n; i += 2)
        units_give(units[i], 1, 1);
}

static void give_the_others(const size_t *units, size_t n)
{
    for (size_t i = 1; i < n; i += 2)
        units_give(units[i], 1, 1);
}

static void purge_keeps_what_it_should(void **state)
{
    (void)state;
    size_t units[MANY];
    supers_purge(0);
    soil_every_other(units, MANY);
    size_t dirty = units_dirty(), keep = MANY / 4;
    assert_true(dirty >= MANY / 2);
    assert_int_equal(supers_purge(dirty), 0);
    assert_int_equal(units_dirty(), dirty);
    size_t purged = supers_purge(keep);
    assert_int_equal(units_dirty(), dirty - purged);
    assert_true(units_dirty() <= keep);
    assert_true(units_dirty() + GRANULE_UNITS > keep); /* it works SuperSlab by SuperSlab */
    supers_purge(0);
    assert_int_equal(units_dirty(), 0);
    give_the_others(units, MANY);
}

static void purged_units_are_zero_and_others_are_not(void **state)
{
    (void)state;
    size_t units[MANY];
    soil_every_other(units, MANY);
    supers_purge(0);
    for (size_t i = 0; i < MANY; i++) {
        const char *p = unit_address(units[i]);
        if (i % 2 == 0)
            assert_at(is_zero(p, UNIT_SIZE), i);
        else
            assert_at(p[0] == 'x' && p[UNIT_SIZE - 1] == 'x', i);
    }
    bool zeroed = false;
    size_t again = take(1, &zeroed);
    assert_true(zeroed);
    units_give(again, 1, 0);
    give_the_others(units, MANY);
}

static void free_supers_go_back_to_the_region(void **state)
{
    (void)state;
    bool zeroed;
    size_t unit[4];
    supers_purge(0);
    for (size_t i = 0; i < ARRAY_LENGTH(unit); i++) {
        unit[i] = take(GRANULE_UNITS, &zeroed);
        soil(unit[i], 1);
    }
    size_t mapped = supers_mapped();
    for (size_t i = 0; i < ARRAY_LENGTH(unit); i++)
        units_give(unit[i], GRANULE_UNITS, 1);
    assert_int_equal(supers_mapped(), mapped);
    supers_purge(0);
    assert_true(supers_mapped() + ARRAY_LENGTH(unit) <= mapped);
    ptrdiff_t granule = region_take(1, 1, &zeroed);
    assert_true(granule >= 0);
    region_give((size_t)granule, 1, zeroed);
}

/* ---- threads ---- */

enum { WATCHED = 1 << 16, ROUNDS = 20000, HELD = 16 };

static _Atomic uintptr_t owners[WATCHED];
static _Atomic size_t clashes, purging;

static void mark(size_t first, size_t n, uintptr_t from, uintptr_t to)
{
    for (size_t i = first; i < first + n && i < WATCHED; i++) {
        if (!cas_relaxed(&owners[i], &from, to))
            add_relaxed(&clashes, 1);
    }
}

struct held {
    size_t unit;
    uint32_t n;
};

/* The first word carries the owner's number while it is taken: purging must not touch it. */
static void give(struct held *h, uintptr_t number)
{
    if (h->n == 0)
        return;
    if (*(uintptr_t *)unit_address(h->unit) != number)
        add_relaxed(&clashes, 1);
    mark(h->unit, h->n, number, 0);
    units_give(h->unit, h->n, 1);
    h->n = 0;
}

static void take_held(struct held *h, uint32_t n, uintptr_t number)
{
    bool zeroed;
    ptrdiff_t got = units_take(n, &zeroed);
    if (got < 0)
        return;
    *h = (struct held){(size_t)got, n};
    mark(h->unit, n, 0, number);
    uintptr_t *word = unit_address(h->unit);
    if (zeroed && *word != 0)
        add_relaxed(&clashes, 1);
    *word = number;
}

static void purge_now_and_then(uint32_t random)
{
    /* One purges at a time: that is the caller's affair. */
    if (random % 64 == 0 && exchange_acquire(&purging, 1) == 0) {
        supers_purge(8);
        store_release(&purging, 0);
    }
}

static void *take_and_give(void *number)
{
    uint32_t seed = (uint32_t)(uintptr_t)number;
    struct held held[HELD] = {{0}};
    for (int i = 0; i < ROUNDS; i++) {
        struct held *h = &held[next_random(&seed) % HELD];
        give(h, (uintptr_t)number);
        uint32_t random = next_random(&seed);
        take_held(h, random % 3 == 0 ? 1 : 1 + random % 9, (uintptr_t)number);
        purge_now_and_then(random);
    }
    for (int i = 0; i < HELD; i++)
        give(&held[i], (uintptr_t)number);
    return NULL;
}

static void a_whole_one_becomes_a_granule(void **state)
{
    (void)state;
    bool zeroed;
    supers_purge(0);
    assert_int_equal(supers_take_whole(), REGION_NONE); /* nothing is dirty */
    size_t unit = take(GRANULE_UNITS, &zeroed), mapped = supers_mapped();
    soil(unit, GRANULE_UNITS - 1);
    units_give(unit + 1, GRANULE_UNITS - 1, GRANULE_UNITS - 2);
    assert_int_equal(supers_take_whole(), REGION_NONE); /* one unit is in use */
    units_give(unit, 1, 1);
    assert_int_equal(supers_take_whole(), unit / GRANULE_UNITS);
    assert_int_equal(units_dirty(), 0);
    assert_int_equal(supers_mapped(), mapped - 1);
    assert_int_equal(*(char *)unit_address(unit), 'x');
    for (int i = 0; i < 3; i++) /* it is no SuperSlab any more */
        assert_true(take(1, &zeroed) / GRANULE_UNITS != unit / GRANULE_UNITS);
    region_give(unit / GRANULE_UNITS, 1, false);
}

/* One unit of the other kind's is in use at first, so that the SuperSlab stays that kind's. */
static void a_stretch_takes_over_what_another_kind_has_free_as_a_whole(void **state)
{
    (void)state;
    bool zeroed;
    size_t singles[GRANULE_UNITS], n, mapped;
    supers_purge(0);
    do { /* the first of a new one: all of that is ours to take */
        mapped = supers_mapped();
        singles[0] = take(1, &zeroed);
    } while (supers_mapped() == mapped);
    for (n = 1; n < GRANULE_UNITS; n++) {
        singles[n] = take(1, &zeroed);
        assert_at(singles[n] / GRANULE_UNITS == singles[0] / GRANULE_UNITS, n);
    }
    for (size_t i = 0; i < n; i++)
        soil(singles[i], 1);
    for (size_t i = 1; i < n; i++)
        units_give(singles[i], 1, 1);
    size_t before = take(GRANULE_UNITS / 2 + 1, &zeroed);
    assert_true(before / GRANULE_UNITS != singles[0] / GRANULE_UNITS);
    units_give(singles[0], 1, 1);
    mapped = supers_mapped();
    size_t unit = take(GRANULE_UNITS / 2 + 1, &zeroed);
    assert_int_equal(unit / GRANULE_UNITS, singles[0] / GRANULE_UNITS);
    assert_false(zeroed);
    assert_int_equal(supers_mapped(), mapped);
    assert_int_equal(units_dirty(), GRANULE_UNITS / 2 - 1);
    units_give(unit, GRANULE_UNITS / 2 + 1, 0);
    units_give(before, GRANULE_UNITS / 2 + 1, 0);
    supers_purge(0);
}

static void no_unit_has_two_owners(void **state)
{
    (void)state;
    run_threads(take_and_give);
    assert_int_equal(clashes, 0);
    supers_purge(0);
    assert_int_equal(units_dirty(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accounts_add_up),
        cmocka_unit_test(untouched_units_stay_clean),
        cmocka_unit_test(dirty_units_are_reused_first),
        cmocka_unit_test(dirty_stretches_serve_single_units),
        cmocka_unit_test(chance_decides_where_a_slab_lies_in_secure),
        cmocka_unit_test(singles_and_stretches_keep_apart),
        cmocka_unit_test(stretches_stay_within_a_super),
        cmocka_unit_test(purge_keeps_what_it_should),
        cmocka_unit_test(purged_units_are_zero_and_others_are_not),
        cmocka_unit_test(free_supers_go_back_to_the_region),
        cmocka_unit_test(a_whole_one_becomes_a_granule),
        cmocka_unit_test(a_stretch_takes_over_what_another_kind_has_free_as_a_whole),
        cmocka_unit_test(no_unit_has_two_owners),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
