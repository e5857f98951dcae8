/* Which granules are free, in windows that are no multiple of what is looked for, nor of a word. */
#include "unit.h"

#include "region/free_map.h"

static const size_t windows[] = {1, 32, 33, 63, 64, 65, 100, 128, 200, 1000};
static const size_t lengths[] = {1, 2, 3, 7, 30, 32, 50, 63, 64, 65, 100, 127, 128, 129};

static void set(size_t first, size_t n, bool is_free)
{
    for (size_t i = first; i < first + n; i++)
        free_map_set(i, is_free);
}

static void new_window(size_t granules)
{
    hak_region.base = GRANULE_SIZE;
    hak_region.granules = granules;
    set(0, granules, true);
}

/* Takes stretches of n until there is none; how many there were. */
static size_t fill(size_t n)
{
    size_t count = 0;
    for (ptrdiff_t at; (at = free_map_find(n, GRANULE_SIZE)) >= 0; count++) {
        assert_at((size_t)at + n <= hak_region.granules, n);
        assert_at((size_t)at == count * n, n); /* the lowest */
        set((size_t)at, n, false);
    }
    return count;
}

static void a_window_is_filled_to_its_end_and_no_further(void **state)
{
    (void)state;
    for (size_t w = 0; w < ARRAY_LENGTH(windows); w++) {
        for (size_t i = 0; i < ARRAY_LENGTH(lengths); i++) {
            new_window(windows[w]);
            size_t count = fill(lengths[i]);
            assert_at(count == windows[w] / lengths[i], windows[w] * 1000 + lengths[i]);
        }
    }
}

static bool is_free[1000];

static ptrdiff_t find_slowly(size_t n, size_t alignment)
{
    for (size_t at = 0; at + n <= hak_region.granules; at++) {
        size_t free = 0;
        while (free < n && is_free[at + free])
            free++;
        if (free == n && granule_is_aligned(at, alignment))
            return (ptrdiff_t)at;
    }
    return REGION_NONE;
}

static void the_lowest_that_fits_is_found(void **state)
{
    (void)state;
    uint32_t random = 1;
    for (size_t w = 0; w < ARRAY_LENGTH(windows); w++) {
        new_window(windows[w]);
        memset(is_free, true, sizeof is_free);
        for (int i = 0; i < 2000; i++) {
            size_t at = next_random(&random) % windows[w], n = 1 + next_random(&random) % 40;
            bool frees = next_random(&random) % 2 == 0;
            for (size_t g = at; g < at + n && g < windows[w]; g++) {
                is_free[g] = frees;
                free_map_set(g, frees);
            }
            size_t wanted = 1 + next_random(&random) % 90;
            size_t alignment = GRANULE_SIZE << next_random(&random) % 7;
            assert_at(free_map_find(wanted, alignment) == find_slowly(wanted, alignment), i);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_window_is_filled_to_its_end_and_no_further),
        cmocka_unit_test(the_lowest_that_fits_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
