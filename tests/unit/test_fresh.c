/* How the pages of slabs come: of what is touched in part, as they are touched. */
#include "one_class.h"

#include "big/big.h"
#include "control/options.h"
#include "heap/fresh.h"
#include "os/os.h"
#include "pages/pages.h"
#include "purge/purge.h"
#include "super/super.h"

enum { SLABS = 192 /* with up to 16 blocks each */, BLOCKS_MOST = SLABS * 16 };

static struct {
    size_t prefaulted, dense; /* slabs, so far */
    size_t n;
    char *blocks[BLOCKS_MOST];
} seen;

bool __real_os_prefault(void *at, size_t size);
bool __wrap_os_prefault(void *at, size_t size);
bool __wrap_os_prefault(void *at, size_t size)
{
    seen.prefaulted++;
    return __real_os_prefault(at, size);
}

ptrdiff_t __real_units_take_dense(bool *zeroed);
ptrdiff_t __wrap_units_take_dense(bool *zeroed);
ptrdiff_t __wrap_units_take_dense(bool *zeroed)
{
    seen.dense++;
    return __real_units_take_dense(zeroed);
}

/* ---- a program that fills its blocks, or does not ---- */

static void begin(void)
{
    seen.n = 0;
    seen.prefaulted = seen.dense = 0;
    purge_everything();
}

/* Until the class has so many slabs more; writes the first `touched` bytes of each block. */
static void grow(size_t size, size_t touched, uint32_t slabs)
{
    const struct class_slabs *c = &heap->classes[class_for(size)];
    for (uint32_t enough = c->slabs + slabs; c->slabs < enough; seen.n++) {
        assert_true(seen.n < BLOCKS_MOST);
        seen.blocks[seen.n] = alloc_as(heap, size);
        memset(seen.blocks[seen.n], 1, touched);
    }
}

static void end(size_t size)
{
    for (size_t i = 0; i < seen.n; i++)
        release(seen.blocks[i]);
    give_all_back(class_for(size));
}

/* Of the slabs of the blocks there are. */
static size_t resident_bytes(void)
{
    size_t pages = 0, last = 0;
    for (size_t i = 0; i < seen.n; i++) {
        size_t unit = unit_of(seen.blocks[i]);
        if (unit != last)
            pages += os_resident_pages(unit_address(unit), UNIT_SIZE);
        last = unit;
    }
    return pages * hak_region.page_size;
}

static size_t page_and_more(size_t more)
{
    if (hak_region.page_size > 4096)
        skip(); /* slabs of units have no blocks larger than a page */
    return hak_region.page_size + more;
}

/* ---- tests ---- */

static void blocks_up_to_a_page_are_prefaulted(void **state)
{
    (void)state;
    begin();
    grow(4096, 1, SLABS);
    assert_int_equal(seen.prefaulted, SLABS - 64);
    end(4096);
}

static void what_is_filled_is_prefaulted_but_for_witnesses(void **state)
{
    (void)state;
    size_t size = page_and_more(1536);
    begin();
    grow(size, size, SLABS);
    assert_int_equal(seen.prefaulted, SLABS - 64 - (SLABS - 64) / 16);
    assert_true(seen.prefaulted > SLABS / 2);
    end(size);
}

static void what_is_touched_in_part_has_the_pages_it_touches(void **state)
{
    (void)state;
    size_t size = page_and_more(4096);
    begin();
    grow(size, 1, SLABS);
    assert_int_equal(seen.prefaulted, 0);
    assert_int_equal(resident_bytes(), seen.n * hak_region.page_size);
    end(size);
}

static void a_class_may_change(void **state)
{
    (void)state;
    size_t size = page_and_more(3072);
    begin();
    grow(size, 1, SLABS / 2);
    assert_int_equal(seen.prefaulted, 0);
    grow(size, size, 32);
    seen.prefaulted = 0;
    grow(size, size, 16);
    assert_int_equal(seen.prefaulted, 15);
    grow(size, 1, 32);
    seen.prefaulted = 0;
    grow(size, 1, 16);
    assert_int_equal(seen.prefaulted, 0);
    end(size);
}

static void huge_pages_are_for_what_is_filled(void **state)
{
    (void)state;
    size_t part = page_and_more(2048), whole = page_and_more(1024), huge_min = hak_options.huge_min;
    hak_options.huge_min = 0;
    begin();
    grow(part, 1, SLABS / 2);
    assert_int_equal(seen.dense, 0);
    end(part);
    begin();
    grow(whole, whole, SLABS / 2);
    assert_true(seen.dense > SLABS / 4);
    end(whole);
    hak_options.huge_min = huge_min;
}

/* The witness goes with its slab, which another heap or class may have since. */
static void a_witness_that_has_gone_says_nothing(void **state)
{
    (void)state;
    size_t size = page_and_more(2560);
    struct class_slabs *c = &heap->classes[class_for(size)];
    begin();
    grow(size, size, 10);
    uint32_t witness = c->witness;
    assert_int_not_equal(witness, 0);
    end(size);
    assert_null(slab_if_of(heap, class_for(size), witness));
    begin();
    grow(size, 1, SLABS / 2);
    assert_int_equal(seen.prefaulted, 0);
    assert_false(c->filled);
    end(size);
}

static size_t granule_of(const void *p)
{
    return unit_of(p) / GRANULE_UNITS;
}

static void grow_into(size_t granule)
{
    for (uint32_t i = 0; i < GRANULE_UNITS; i++) {
        grow(4096, 4096, 1);
        assert_int_equal(granule_of(seen.blocks[seen.n - 1]), granule);
    }
}

/* Of runs and of big blocks, where there are some SuperSlabs. */
static void slabs_grow_into_what_other_kinds_have_freed(void **state)
{
    (void)state;
    bool zeroed;
    size_t pages = GRANULE_SIZE >> page_shift();
    begin();
    grow(4096, 4096, 4 * GRANULE_UNITS);
    ptrdiff_t page = pages_take((uint32_t)pages, 1, &zeroed);
    char *big = big_alloc(GRANULE_SIZE, 1, BIG_PLAIN, &zeroed);
    assert_true(page >= 0 && big != NULL);
    memset(page_address((size_t)page), 1, GRANULE_SIZE);
    memset(big, 1, GRANULE_SIZE);
    pages_give((size_t)page, (uint32_t)pages);
    size_t first = granule_of(page_address((size_t)page));
    grow_into(first);
    assert_int_equal(pages_dirty(), 0);
    assert_true(big_free(unit_of(big)));
    grow_into(granule_of(big));
    assert_int_equal(big_cached_bytes(), 0);
    end(4096);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_up_to_a_page_are_prefaulted),
        cmocka_unit_test(what_is_filled_is_prefaulted_but_for_witnesses),
        cmocka_unit_test(what_is_touched_in_part_has_the_pages_it_touches),
        cmocka_unit_test(a_class_may_change),
        cmocka_unit_test(huge_pages_are_for_what_is_filled),
        cmocka_unit_test(a_witness_that_has_gone_says_nothing),
        cmocka_unit_test(slabs_grow_into_what_other_kinds_have_freed),
    };
    return cmocka_run_group_tests(tests, make_heap, abandon_heap);
}
