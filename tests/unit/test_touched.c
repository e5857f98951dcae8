/* How much programs touch of their blocks of pages, and what a thread keeps by that. */
#include "one_class.h"

#include "heap/paged.h"
#include "heap/touched.h"
#include "os/os.h"
#include "pages/pages.h"

enum { SIZE = 128 << 10, BLOCKS = 4 * LOOK_EVERY };

static size_t looks;
static bool told = true;

size_t __real_os_resident_pages(void *at, size_t size);
size_t __wrap_os_resident_pages(void *at, size_t size);
size_t __wrap_os_resident_pages(void *at, size_t size)
{
    looks++;
    return told ? __real_os_resident_pages(at, size) : 0;
}

static size_t kept(size_t size)
{
    return magazine_kept(magazine_of(heap, class_for(size)));
}

static void make_fresh(void)
{
    give_all_back(class_for(SIZE));
    (void)pages_purge(0);
    assert_false(pages_have_touched(1));
}

/* That many blocks at a time, of each of which so many pages are written to. */
static void use(size_t blocks, size_t pages)
{
    static void *p[BLOCKS];
    for (size_t i = 0; i < blocks; i++) {
        p[i] = alloc(class_for(SIZE));
        for (size_t k = 0; k < pages; k++)
            ((char *)p[i])[k * hak_region.page_size] = 1;
    }
    for (size_t i = 0; i < blocks; i++)
        release(p[i]);
}

static int learn(size_t pages)
{
    make_fresh();
    use(BLOCKS, pages);
    make_fresh();
    return 0;
}

static int whole_blocks(void **state)
{
    (void)state;
    return learn(pages_for(SIZE));
}

static int blocks_in_part(void **state)
{
    (void)state;
    return learn(1);
}

static void it_is_seen_when_they_are_freed(void **state)
{
    (void)state;
    assert_false(touched_little());
    use(BLOCKS, 1);
    assert_true(touched_little());
    make_fresh();
    use(BLOCKS, pages_for(SIZE));
    assert_false(touched_little());
}

/* At one in LOOK_FRESH that is made of fresh pages, not at once. */
static void few_are_looked_at(void **state)
{
    (void)state;
    looks = 0;
    use(BLOCKS, 1);
    assert_in_range(looks, BLOCKS / LOOK_FRESH - 1, BLOCKS / LOOK_FRESH + BLOCKS / 16);
}

/* Not only those whose pages go back. */
static void blocks_that_stay_are_looked_at(void **state)
{
    (void)state;
    enum { KEPT = 16 };
    void *held[BLOCKS], *blocks[KEPT];
    for (size_t i = 0; i < BLOCKS; i++)
        held[i] = alloc(class_for(SIZE));
    for (size_t i = 0; i < KEPT; i++)
        blocks[i] = alloc(class_for(SIZE));
    for (size_t i = 0; i < KEPT; i++)
        *(char *)blocks[i] = 1;
    uint64_t releases = counted(heap, COUNTER_slab_release);
    heap->looks_owed = 0; /* the next one that counts is looked at */
    looks = 0;
    for (size_t i = 0; i < KEPT; i++)
        release(blocks[i]);
    assert_int_equal(counted(heap, COUNTER_slab_release), releases);
    assert_int_equal(kept(SIZE), KEPT);
    assert_true(looks > 0);
    for (size_t i = 0; i < BLOCKS; i++)
        release(held[i]);
}

/* Others have touched them. */
static void blocks_of_used_pages_tell_nothing(void **state)
{
    (void)state;
    use(BLOCKS, 1);
    give_all_back(class_for(SIZE));
    assert_true(pages_have_touched(pages_for(SIZE)));
    looks = 0;
    heap->looks_owed = 0; /* the next one that counts is looked at */
    use(BLOCKS / 8, 1);
    assert_int_equal(looks, 0);
}

static void what_the_kernel_does_not_tell_changes_nothing(void **state)
{
    (void)state;
    told = false;
    use(BLOCKS, 1);
    told = true;
    assert_false(touched_little());
}

/* What is free of another class is left alone, and what is asked for gets fresh pages. */
static void where_little_is_touched_a_class_keeps_its_blocks(void **state)
{
    (void)state;
    enum { LARGER = SIZE + SIZE / 8 };
    void *blocks[6], *held[8];
    bool zeroed;
    for (size_t i = 0; i < 8; i++)
        held[i] = alloc(class_for(SIZE));
    for (size_t i = 0; i < 6; i++)
        blocks[i] = alloc(class_for(i % 2 != 0 ? SIZE : LARGER));
    for (size_t i = 0; i < 6; i++)
        release(blocks[i]);
    size_t before = kept(SIZE) + kept(LARGER);
    assert_true(before * SIZE > PAGED_KEPT_MIN);
    (void)pages_purge(0);
    assert_false(pages_have_touched(1));
    lock_take(&heap->lock);
    void *p = paged_refill(heap, class_for(LARGER), &zeroed);
    lock_release(&heap->lock);
    assert_int_equal(kept(SIZE) + kept(LARGER), before);
    assert_true(zeroed);
    release(p);
    for (size_t i = 0; i < 8; i++)
        release(held[i]);
}

/* The most that is kept while blocks of four sizes are freed, in parts of what may be where all is touched; -1: beyond what may be. */
static int most_kept(void)
{
    enum { SIZES = 4, EACH = 24 };
    static const size_t kib[SIZES] = {128, 160, 192, 256};
    void *blocks[EACH * SIZES];
    size_t fold = touched_little() ? TOUCHED_LITTLE : 1, parts = touched_little() ? 2 : 1, most = 0;
    heap->emptied_ms = 0; /* it does not swing */
    for (size_t i = 0; i < EACH * SIZES; i++)
        blocks[i] = alloc(class_for(kib[i % SIZES] << 10));
    uint64_t flushes = counted(heap, COUNTER_flush);
    for (size_t i = 0; i < EACH * SIZES; i++) {
        size_t bytes = 0, used = heap->used_bytes;
        release(blocks[i]);
        for (size_t k = 0; k < SIZES; k++)
            bytes += kept(kib[k] << 10) * kib[k] << 10;
        bool looked = counted(heap, COUNTER_flush) != flushes;
        flushes = counted(heap, COUNTER_flush);
        if (looked && bytes > fold * largest_of(PAGED_KEPT_MIN, parts * used / PAGED_KEPT_SHARE))
            return -1;
        if (looked && bytes > PAGED_KEPT_MIN)
            most = largest_of(most, bytes * PAGED_KEPT_SHARE / used);
    }
    return (int)most;
}

static void where_all_is_touched_few_stay(void **state)
{
    (void)state;
    assert_false(touched_little());
    assert_in_range(most_kept(), 0, 1);
}

static void where_little_is_touched_more_stay(void **state)
{
    (void)state;
    assert_true(touched_little());
    assert_in_range(most_kept(), 4, 2 * TOUCHED_LITTLE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(it_is_seen_when_they_are_freed, whole_blocks),
        cmocka_unit_test_setup(few_are_looked_at, whole_blocks),
        cmocka_unit_test_setup(blocks_that_stay_are_looked_at, whole_blocks),
        cmocka_unit_test_setup(blocks_of_used_pages_tell_nothing, whole_blocks),
        cmocka_unit_test_setup(what_the_kernel_does_not_tell_changes_nothing, whole_blocks),
        cmocka_unit_test_setup(where_little_is_touched_a_class_keeps_its_blocks, blocks_in_part),
        cmocka_unit_test_setup(where_little_is_touched_more_stay, blocks_in_part),
        cmocka_unit_test_setup(where_all_is_touched_few_stay, whole_blocks),
    };
    return cmocka_run_group_tests(tests, make_heap, abandon_heap);
}
