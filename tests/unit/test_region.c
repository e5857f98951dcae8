/* The window and its granules. */
#include "../strict.h"
#include "unit.h"

#include <sys/mman.h>

#include "os/os.h"
#include "region/region.h"
#include "slab/slab.h"

/* The kernel has no mapping left. */
static bool is_refused;
static int maps_left = -1; /* so many are not refused; below 0: none is */
static void *refused_at;   /* the first time */
enum os_result __real_os_map_at(void *at, size_t size);
enum os_result __wrap_os_map_at(void *at, size_t size);
enum os_result __wrap_os_map_at(void *at, size_t size)
{
    if (is_refused || maps_left == 0) {
        refused_at = refused_at != NULL ? refused_at : at;
        return OS_NO_MEMORY;
    }
    maps_left -= maps_left > 0;
    return __real_os_map_at(at, size);
}

/* What is unmapped makes room. */
static bool room_is_made;
bool __real_os_unmap(void *at, size_t size);
bool __wrap_os_unmap(void *at, size_t size);
bool __wrap_os_unmap(void *at, size_t size)
{
    is_refused = is_refused && !room_is_made;
    return __real_os_unmap(at, size);
}

static int set_up(void **state)
{
    (void)state;
    return region_init() ? 0 : -1;
}

static size_t take(size_t n, size_t alignment)
{
    bool zeroed;
    ptrdiff_t got = region_take(n, alignment, &zeroed);
    assert_true(got >= 0);
    return (size_t)got;
}

static void window_is_laid_out_as_promised(void **state)
{
    (void)state;
    assert_int_equal(hak_region.base % GRANULE_SIZE, 0);
    assert_int_equal(hak_region.units, hak_region.granules * GRANULE_UNITS);
    assert_int_equal(hak_region.page_size, os_page_size());
    assert_int_equal(unit_of(granule_address(3)), 3 * GRANULE_UNITS);
    assert_ptr_equal(unit_address(3 * GRANULE_UNITS), granule_address(3));
    assert_int_equal(unit_of((char *)unit_address(5) + UNIT_SIZE - 1), 5);
    /* What is not ours lies behind the bound, NULL and what stands before the window included. */
    assert_true(unit_of(NULL) >= hak_region.units);
    assert_true(unit_of((char *)granule_address(0) - 1) >= hak_region.units);
    assert_true(unit_of(granule_address(hak_region.granules)) >= hak_region.units);
}

/* In a window of which little has been used: more has an entry of supers than of the other arrays. */
static void granules_come_before_what_describes_them(void **state)
{
    (void)state;
    if (!region_can_forget())
        skip();
    enum { SOME = 100, MORE = 400 };
    bool zeroed;
    region_give(take(SOME, 1), SOME, true);
    maps_left = 0;
    assert_int_equal(region_take(MORE, 1, &zeroed), REGION_NONE);
    maps_left = -1;
    assert_true(unit_of(refused_at) < hak_region.units);
}

static void words_of_untouched_units_are_none(void **state)
{
    (void)state;
    assert_int_equal(unit_word(hak_region.units - 1), WORD_NONE);
    size_t g = take(1, 1);
    assert_int_equal(unit_word(g * GRANULE_UNITS), WORD_NONE);
    region_give(g, 1, false);
}

static void new_granules_are_zeroed_and_writable(void **state)
{
    (void)state;
    bool zeroed = false;
    size_t first = region_top() + 1; /* not handed out before, with one to spare */
    ptrdiff_t got = region_take(first, 1, &zeroed);
    assert_true(got >= 0);
    assert_true(region_top() >= (size_t)got + first);
    char *last = granule_address((size_t)got + first - 1);
    assert_true(is_zero(last, GRANULE_SIZE));
    memset(last, 'x', GRANULE_SIZE);
    region_give((size_t)got, first, false);
}

static void lowest_granule_is_reused_first(void **state)
{
    (void)state;
    size_t g[4];
    for (size_t i = 0; i < ARRAY_LENGTH(g); i++) {
        g[i] = take(1, 1);
        assert_at(i == 0 || g[i] > g[i - 1], i);
    }
    region_give(g[2], 1, false);
    region_give(g[0], 1, false);
    region_give(g[1], 1, false);
    for (size_t i = 0; i < ARRAY_LENGTH(g) - 1; i++)
        assert_int_equal(take(1, 1), g[i]);
    for (size_t i = 0; i < ARRAY_LENGTH(g); i++)
        region_give(g[i], 1, false);
}

static void zeroed_tells_the_truth(void **state)
{
    (void)state;
    size_t g = take(1, 1);
    memset(granule_address(g), 'x', GRANULE_SIZE);
    region_give(g, 1, false);
    bool zeroed = true;
    assert_int_equal(region_take(1, 1, &zeroed), g);
    assert_false(zeroed);
    assert_true(os_purge(granule_address(g), GRANULE_SIZE));
    region_give(g, 1, true);
    assert_int_equal(region_take(1, 1, &zeroed), g);
    assert_true(zeroed);
    assert_true(is_zero(granule_address(g), GRANULE_SIZE));
    /* One used granule is enough to spoil a range. */
    size_t pair = take(2, 1);
    assert_true(os_purge(granule_address(pair), 2 * GRANULE_SIZE));
    region_give(pair, 1, true);
    region_give(pair + 1, 1, false);
    assert_int_equal(region_take(2, 1, &zeroed), pair);
    assert_false(zeroed);
    region_give(pair, 2, false);
    region_give(g, 1, false);
}

static void alignments_are_kept(void **state)
{
    (void)state;
    for (size_t alignment = 1; alignment <= (size_t)1 << 30; alignment *= 2) {
        size_t g = take(3, alignment);
        assert_at((uintptr_t)granule_address(g) % alignment == 0, alignment);
        region_give(g, 3, false);
    }
}

static void extend_takes_what_is_behind(void **state)
{
    (void)state;
    bool zeroed;
    size_t g = take(4, 1);
    region_give(g + 2, 2, false);
    assert_true(region_extend(g + 2, 1, &zeroed));
    assert_false(zeroed);
    assert_false(region_extend(g + 2, 1, &zeroed)); /* taken by now */
    assert_false(region_extend(g + 1, 2, &zeroed));
    assert_true(region_extend(g + 3, 1, &zeroed));
    region_give(g, 4, false);
    assert_false(region_extend(hak_region.granules - 1, 2, &zeroed));
}

static void more_than_there_is_fails(void **state)
{
    (void)state;
    bool zeroed;
    assert_int_equal(region_take(hak_region.granules + 1, 1, &zeroed), REGION_NONE);
    assert_int_equal(region_take(SIZE_MAX >> GRANULE_SHIFT, 1, &zeroed), REGION_NONE);
    size_t g = take(1, 1);
    region_give(g, 1, false);
    assert_int_equal(region_take(hak_region.granules, 1, &zeroed), REGION_NONE);
    assert_true(os_is_mapped(granule_address(g), GRANULE_SIZE)); /* it costs nobody anything */
}

static void forgotten_granules_are_mapped_anew(void **state)
{
    (void)state;
    size_t g = take(1, 1);
    memset(granule_address(g), 'x', GRANULE_SIZE);
    assert_true(os_unmap(granule_address(g), GRANULE_SIZE));
    region_forget(g, 1);
    bool zeroed = false;
    assert_int_equal(region_take(1, 1, &zeroed), g);
    assert_true(zeroed);
    assert_true(is_zero(granule_address(g), GRANULE_SIZE));
    region_give(g, 1, true);
}

static void what_is_mapped_serves_where_the_kernel_maps_no_more(void **state)
{
    (void)state;
    if (!region_can_forget())
        skip();
    bool zeroed;
    size_t low = take(1, 1), high = take(2, 1);
    os_unmap(granule_address(low), GRANULE_SIZE);
    region_forget(low, 1);
    region_give(high, 2, true);
    is_refused = true;
    ptrdiff_t one = region_take(1, 1, &zeroed), other = region_take(1, 1, &zeroed);
    ptrdiff_t more = region_take(region_top(), 1, &zeroed);
    is_refused = false;
    assert_true(one >= 0 && other >= 0 && more < 0);
    *(char *)granule_address((size_t)one) = *(char *)granule_address((size_t)other) = 'x';
    assert_int_not_equal(one, low);
    region_give((size_t)one, 1, false);
    region_give((size_t)other, 1, false);
    assert_int_equal(take(1, 1), low);
    region_give(low, 1, false);
}

static void foreign_mappings_are_avoided(void **state)
{
    (void)state;
    size_t foreign = region_top() + 1;
    char *at = granule_address(foreign);
    at += GRANULE_SIZE / 2;
    char *mine = mmap(at, UNIT_SIZE, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (mine != at)
        skip(); /* the window is reserved here: nobody else gets into it */
    memset(mine, 'f', UNIT_SIZE);
    size_t runs[8];
    for (size_t i = 0; i < ARRAY_LENGTH(runs); i++) {
        runs[i] = take(3, 1);
        assert_at(runs[i] > foreign || runs[i] + 3 <= foreign, i);
        memset(granule_address(runs[i]), 0, 3 * GRANULE_SIZE);
    }
    bool zeroed;
    assert_false(region_extend(foreign, 1, &zeroed));
    for (size_t i = 0; i < ARRAY_LENGTH(runs); i++)
        region_give(runs[i], 3, false);
    assert_int_equal(mine[0], 'f');
    assert_int_equal(mine[UNIT_SIZE - 1], 'f');
}

/* ---- threads ---- */

enum { WATCHED = 4096, ROUNDS = 300 };

static _Atomic uintptr_t owners[WATCHED];
static _Atomic size_t clashes;

static void mark(size_t first, size_t n, uintptr_t from, uintptr_t to)
{
    for (size_t i = first; i < first + n && i < WATCHED; i++) {
        if (!cas_relaxed(&owners[i], &from, to))
            add_relaxed(&clashes, 1);
    }
}

static void *take_and_give(void *number)
{
    uint32_t seed = (uint32_t)(uintptr_t)number;
    size_t held[8] = {0}, length[8] = {0};
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t slot = next_random(&seed) % 8;
        if (length[slot] != 0) {
            mark(held[slot], length[slot], (uintptr_t)number, 0);
            region_give(held[slot], length[slot], false);
        }
        bool zeroed;
        size_t n = 1 + next_random(&seed) % 4;
        ptrdiff_t got = region_take(n, 1, &zeroed);
        length[slot] = got < 0 ? 0 : n;
        held[slot] = (size_t)got;
        mark(held[slot], length[slot], 0, (uintptr_t)number);
    }
    for (int slot = 0; slot < 8; slot++) {
        mark(held[slot], length[slot], (uintptr_t)number, 0);
        if (length[slot] != 0)
            region_give(held[slot], length[slot], false);
    }
    return NULL;
}

/* By the granules' states, which the search does not look at. */
static size_t lowest_fit(size_t n, size_t granules_apart)
{
    size_t run = 0;
    for (size_t end = 1;; end++) {
        run = end > region_top() || region_is_free(end - 1) ? run + 1 : 0;
        for (size_t first = end - run; first + n <= end; first++) {
            if ((uintptr_t)granule_address(first) % (granules_apart * GRANULE_SIZE) == 0)
                return first;
        }
    }
}

static void the_lowest_that_fits_is_taken(void **state)
{
    (void)state;
    static const size_t lengths[] = {1, 1, 2, 3, 5, 31, 63, 64, 65, 130, 200};
    static const size_t apart[] = {1, 1, 1, 2, 8, 64, 128};
    size_t held[64], length[64] = {0};
    uint32_t seed = 7;
    bool zeroed;
    for (size_t i = 0; i < 2000; i++) {
        size_t slot = next_random(&seed) % ARRAY_LENGTH(held);
        if (length[slot] != 0)
            region_give(held[slot], length[slot], false);
        size_t n = lengths[next_random(&seed) % ARRAY_LENGTH(lengths)];
        size_t step = apart[next_random(&seed) % ARRAY_LENGTH(apart)];
        size_t fit = lowest_fit(n, step);
        length[slot] = n;
        held[slot] = take(n, step * GRANULE_SIZE);
        assert_at(held[slot] == fit, i);
        bool is_next_free = fit + n >= region_top() || region_is_free(fit + n);
        assert_at(region_extend(fit, 1, &zeroed) == false, i);
        assert_at(region_extend(fit + n, 1, &zeroed) == is_next_free, i);
        length[slot] += is_next_free;
    }
    for (size_t slot = 0; slot < ARRAY_LENGTH(held); slot++) {
        if (length[slot] != 0)
            region_give(held[slot], length[slot], false);
    }
}

/* Nothing describes it, and its address space is free again. */
static void what_is_refused_leaves_nothing(void **state)
{
    (void)state;
    if (!region_can_forget())
        skip();
    enum { STEP = 256 };
    bool zeroed;
    size_t top = region_top(), far = top + STEP + 1;
    char *behind = granule_address(round_up(far, STEP));
    maps_left = 0;
    assert_int_equal(region_take(far, 1, &zeroed), REGION_NONE);
    maps_left = 1; /* what would describe it is */
    assert_int_equal(region_take(far, 1, &zeroed), REGION_NONE);
    maps_left = -1;
    assert_int_equal(region_top(), top);
    assert_false(os_is_mapped(behind, GRANULE_SIZE));
    assert_int_equal(__real_os_map_at(unit_map(far * GRANULE_UNITS, FIRST_PAGED), MIB), OS_OK);
    os_unmap(unit_map(far * GRANULE_UNITS, FIRST_PAGED), MIB);
}

/* Free granules that are not what is wanted give their address space. */
static void what_is_free_makes_room(void **state)
{
    (void)state;
    if (!region_can_forget())
        skip();
    bool zeroed = false;
    size_t many = region_top() + 1; /* more than are free and mapped */
    region_give(take(1, 1), 1, false);
    is_refused = room_is_made = true;
    ptrdiff_t got = region_take(many, 1, &zeroed);
    is_refused = room_is_made = false;
    assert_true(got >= 0 && zeroed);
    assert_true(is_zero(granule_address((size_t)got + many - 1), GRANULE_SIZE));
    region_give((size_t)got, many, true);
}

/* Where side arrays cannot grow as a whole they do not at all, and may the next time. */
static void arrays_grow_or_stay(void **state)
{
    (void)state;
    enum { STEP = 256, ATTEMPTS = 16 };
    size_t far = region_top() + STEP + 1; /* beyond what there is of them */
    bool zeroed;
    int attempts = 0;
    ptrdiff_t got = REGION_NONE;
    while (got < 0 && attempts < ATTEMPTS) {
        maps_left = attempts++;
        got = region_take(far, 1, &zeroed);
    }
    maps_left = -1;
    if (got < 0 && overcommit_is_strict())
        skip();
    assert_true(got >= 0);
    assert_true(attempts > (region_can_forget() ? 4 : 0));
    size_t last = (size_t)got + far - 1;
    *(char *)granule_address(last) = 'x';
    unit_set_word((last + 1) * GRANULE_UNITS - 1, WORD_NONE);
    slab_at((last + 1) * GRANULE_UNITS - 1)->size = 1;
    *unit_map((last + 1) * GRANULE_UNITS - 1, FIRST_PAGED) = 0;
    *unit_map((last + 1) * GRANULE_UNITS - 1, 0) = 0;
    region_give((size_t)got, far, false);
}

static void no_granule_has_two_owners(void **state)
{
    (void)state;
    run_threads(take_and_give);
    assert_int_equal(clashes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(window_is_laid_out_as_promised),
        cmocka_unit_test(granules_come_before_what_describes_them),
        cmocka_unit_test(words_of_untouched_units_are_none),
        cmocka_unit_test(new_granules_are_zeroed_and_writable),
        cmocka_unit_test(lowest_granule_is_reused_first),
        cmocka_unit_test(zeroed_tells_the_truth),
        cmocka_unit_test(alignments_are_kept),
        cmocka_unit_test(extend_takes_what_is_behind),
        cmocka_unit_test(more_than_there_is_fails),
        cmocka_unit_test(forgotten_granules_are_mapped_anew),
        cmocka_unit_test(what_is_mapped_serves_where_the_kernel_maps_no_more),
        cmocka_unit_test(the_lowest_that_fits_is_taken), /* while there are no foreign ones */
        cmocka_unit_test(foreign_mappings_are_avoided),
        cmocka_unit_test(what_is_refused_leaves_nothing),
        cmocka_unit_test(what_is_free_makes_room),
        cmocka_unit_test(arrays_grow_or_stay),
        cmocka_unit_test(no_granule_has_two_owners),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
