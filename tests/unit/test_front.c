/* What every malloc and free runs, without the interface's names around it. */
#include "aborts.h"

#include <errno.h>

#include "control/options.h"
#include "front/secure.h"
#include "heap/runs.h"
#include "mind/keep.h"
#include "purge/purge.h"

/* Sizes densely while they are small, then about 16 steps per doubling. */
static size_t next_size(size_t size)
{
    return size < 2 * KIB ? size + 1 : size + size / 16 + 1;
}

static void fill(void *p, size_t size, unsigned char seed)
{
    memset(p, seed, size);
}

static void blocks_fit_and_are_aligned(void **state)
{
    (void)state;
    for (size_t size = 0; size <= 5 * MIB; size = next_size(size)) {
        void *p = front_alloc(size);
        assert_at(p != NULL, size);
        size_t usable = front_usable(p, "test");
        assert_at(usable >= size && usable == front_usable_for(1, size), size);
        assert_at((uintptr_t)p % (usable < BLOCK_ALIGN ? 8 : BLOCK_ALIGN) == 0, size);
        fill(p, usable, 'x');
        front_free(p);
    }
}

static void live_blocks_do_not_overlap(void **state)
{
    (void)state;
    enum { LIVE = 1000 };
    static unsigned char *blocks[LIVE];
    static size_t sizes[LIVE];
    uint32_t seed = 7;
    for (size_t round = 0; round < 10 * LIVE; round++) {
        size_t i = next_random(&seed) % LIVE;
        if (blocks[i] != NULL) {
            assert_at(is_filled(blocks[i], sizes[i], (unsigned char)i), round);
            front_free(blocks[i]);
        }
        uint32_t shift = next_random(&seed) % 17;
        sizes[i] = next_random(&seed) % ((uint32_t)1 << shift);
        blocks[i] = front_alloc(sizes[i]);
        assert_at(blocks[i] != NULL, round);
        fill(blocks[i], sizes[i], (unsigned char)i);
    }
    for (size_t i = 0; i < LIVE; i++) {
        assert_at(blocks[i] == NULL || is_filled(blocks[i], sizes[i], (unsigned char)i), i);
        front_free(blocks[i]);
    }
}

/* A small part of it may have been another's. */
static void what_is_zero_already_stays_without_pages(void **state)
{
    (void)state;
    size_t some = 1500 * KIB, much = 256 * MIB, step = 2 * MIB, pages = 0;
    void *p = front_alloc(secure_request(some));
    memset(p, 'x', some);
    front_free(p);
    p = front_alloc_zeroed(secure_request(much));
    assert_non_null(p);
    for (size_t at = 0; at < much; at += step)
        pages += os_resident_pages((char *)p + at, step);
    assert_true(pages * hak_region.page_size <= 4 * MIB);
    assert_true(is_zero(p, 4 * MIB));
    front_free(p);
}

static void zeroed_blocks_are_zero(void **state)
{
    (void)state;
    for (size_t size = 1; size <= 5 * MIB; size = next_size(size)) {
        void *dirty = front_alloc(size);
        assert_at(dirty != NULL, size);
        fill(dirty, size, 'x');
        front_free(dirty);
        void *p = front_alloc_zeroed(secure_request(size));
        assert_at(p != NULL && is_zero(p, size), size);
        fill(p, size, 'x');
        front_free(p);
    }
}

/* Of 32 granules some tell whether they are written again or given back; the others are zero as well. */
static void large_sparse_blocks_are_zero_and_stay_sparse(void **state)
{
    (void)state;
    enum { GRANULES = 32 };
    const size_t size = GRANULES * GRANULE_SIZE - 100;
    for (size_t written = 0; written < GRANULES; written += 5) {
        char *p = front_alloc(size);
        assert_non_null(p);
        p[0] = 1;
        fill(p + written * GRANULE_SIZE, GRANULE_SIZE - 100, 'x');
        front_free(p);
        p = front_alloc_zeroed(secure_request(size));
        assert_non_null(p);
        assert_at(os_resident_pages(p, size) <= GRANULE_SIZE / hak_region.page_size, written);
        assert_at(is_zero(p, size), written);
        front_free(p);
    }
}

/* In the build `secure` a free of the block behind may look at it meanwhile. */
static void the_last_word_is_not_cleared(void **state)
{
    (void)state;
    if (!HAK_SECURE)
        skip();
    for (size_t size = 1; size <= 5 * KIB; size++) {
        char *p = front_alloc(secure_request(size));
        char *last = p + front_usable(p, "test") - 8;
        fill(last, 8, 'x');
        front_free(p);
        assert_at(front_alloc_zeroed(secure_request(size)) == p, size);
        assert_at(is_zero(p, size) && is_filled(last, 8, 'x'), size);
        front_free(p);
    }
}

static void alignments_are_kept(void **state)
{
    (void)state;
    for (size_t alignment = 1; alignment <= 64 * MIB; alignment *= 2) {
        for (size_t size = 0; size <= 3 * MIB; size = size * 3 + 1) {
            void *p = front_alloc_aligned(alignment, size);
            assert_at(p != NULL && (uintptr_t)p % alignment == 0, alignment);
            assert_at(front_usable(p, "test") == front_usable_for(alignment, size), size);
            fill(p, size, 'x');
            front_free(p);
        }
    }
}

static size_t table_of(size_t size)
{
    return hak_thread.heap->offset_of_words[words_of(size)];
}

/* Above SMALL_MAX the fast path serves what has been served before. */
static void sizes_are_learnt(void **state)
{
    (void)state;
    static const size_t sizes[] = {SMALL_MAX + 1, 5000, 5001, SERVED_MOST * 8 - 7, SERVED_MOST * 8};
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        size_t offset = magazine_offset(class_for(sizes[i]));
        sampler_let(&hak_thread.heap->magazines.sampler, LEFT_MOST, INT64_MAX);
        front_free(front_alloc(sizes[i]));
        for (int j = 0; j < 2; j++) {
            void *p = front_alloc(sizes[i]);
            assert_at(front_usable(p, "test") == hak_classes[class_for(sizes[i])].size, i);
            assert_at(table_of(sizes[i]) == offset, i);
            front_free(p);
        }
    }
    static const size_t not_served[] = {SERVED_MOST * 8 + 1, 2 * SERVED_MOST * 8, LEFT_MOST * 8,
                                        LEFT_MOST * 8 + 1, 0};
    for (size_t i = 0; i < ARRAY_LENGTH(not_served); i++) {
        for (int j = 0; j < 3; j++) {
            sampler_let(&hak_thread.heap->magazines.sampler, LEFT_MOST, INT64_MAX);
            /* What lies behind the table is no entry, whatever it says. */
            uint8_t *behind = hak_thread.heap->up_to_page;
            uint16_t small = (uint16_t)magazine_offset(class_for(16));
            front_free(front_alloc(16));
            memcpy(behind, &small, sizeof small);
            void *p = front_alloc(not_served[i]);
            memset(behind, 0, sizeof small);
            assert_at(front_usable(p, "test") >= not_served[i], i);
            front_free(p);
        }
    }
    assert_int_equal(table_of(0), 0);
    for (size_t i = 0; i < sizeof hak_thread.heap->up_to_page; i++)
        assert_int_equal(hak_thread.heap->up_to_page[i], 0);
}

/* So that the lower half of a register tells whether a request that it lets pass is served. */
static void the_countdown_has_a_bound(void **state)
{
    (void)state;
    struct sampler *s = &hak_thread.heap->magazines.sampler;
    static const int64_t words[] = {0, 1, LEFT_MOST, LEFT_MOST + 1, 10 * LEFT_MOST, INT64_MAX};
    for (size_t i = 0; i < ARRAY_LENGTH(words); i++) {
        sampler_let(s, LEFT_MOST, words[i]);
        assert_at(hak_thread.left + s->rest == words[i] && hak_thread.left <= LEFT_MOST, i);
        for (int64_t left = words[i]; left >= 0 && left > words[i] - 20 * LEFT_MOST; left -= 1000) {
            assert_at(s->rest >= 0 && hak_thread.left <= LEFT_MOST, i);
            bool goes_on = count_words(1000) || sampler_goes_on(s);
            assert_at(goes_on == (left >= 1000), i);
        }
    }
    sampler_let(s, LEFT_MOST, INT64_MAX);
}

static void too_much_fails_with_enomem(void **state)
{
    (void)state;
    /* From SIZE_MAX - 6 on the words wrap. */
    static const size_t sizes[] = {(size_t)PTRDIFF_MAX,
                                   (size_t)PTRDIFF_MAX + 1,
                                   (size_t)PTRDIFF_MAX + 9,
                                   SIZE_MAX - 4096,
                                   SIZE_MAX - 7,
                                   SIZE_MAX - 6,
                                   SIZE_MAX};
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        front_free(front_alloc(0));
        errno = 0;
        assert_null(front_alloc(sizes[i]));
        assert_int_equal(errno, ENOMEM);
        assert_at(hak_thread.left >= 0 && hak_thread.left <= LEFT_MOST, i);
        errno = 0;
        assert_null(front_alloc_zeroed(sizes[i]));
        assert_int_equal(errno, ENOMEM);
        errno = 0;
        assert_null(front_alloc_aligned(4096, sizes[i]));
        assert_int_equal(errno, ENOMEM);
    }
    errno = 0;
    assert_null(front_alloc_aligned((size_t)1 << 62, 16));
    assert_int_equal(errno, ENOMEM);
}

static void what_never_fits_costs_nothing_that_is_kept(void **state)
{
    (void)state;
    size_t retain = load_relaxed(&hak_options.retain);
    store_relaxed(&hak_options.retain, 16 * MIB);
    front_free(memset(front_alloc(8 * MIB), 1, 8 * MIB));
    size_t dirty = purge_dirty_bytes(), purged = purge_total();
    assert_true(dirty >= 8 * MIB);
    assert_null(front_alloc(hak_region.granules << GRANULE_SHIFT));
    assert_int_equal(purge_dirty_bytes(), dirty);
    assert_int_equal(purge_total(), purged);
    store_relaxed(&hak_options.retain, retain);
}

static void free_keeps_errno(void **state)
{
    (void)state;
    static const size_t sizes[] = {16, 30 * KIB, 500 * KIB, 80 * MIB};
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        void *p = front_alloc(sizes[i]);
        assert_non_null(p);
        errno = 4711;
        front_free(p);
        assert_int_equal(errno, 4711);
    }
    front_free(NULL);
    assert_int_equal(errno, 4711);
}

static void a_free_may_name_all_the_block_has_or_less(void **state)
{
    (void)state;
    for (size_t size = 0; size <= 5 * MIB; size = next_size(size)) {
        size_t usable = front_usable_for(1, size), named[] = {usable, size, size / 2, 0};
        for (size_t i = 0; i < ARRAY_LENGTH(named); i++) {
            void *p = front_alloc(size);
            assert_at(p != NULL, size);
            front_free_sized(p, named[i]);
        }
    }
    front_free_sized(NULL, MIB);
}

static void a_free_that_names_more_ends_the_program(void **state)
{
    (void)state;
    static const size_t sizes[] = {8, 48, 1000, 20 * KIB, 100 * KIB, 3 * MIB};
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        void *p = front_alloc(sizes[i]);
        size_t usable = front_usable(p, "test");
        assert_at(!ends_by_abort(front_free_sized, p, usable), sizes[i]);
        assert_at(ends_by_abort(front_free_sized, p, usable + 1), sizes[i]);
        assert_at(ends_by_abort(front_free_sized, p, SIZE_MAX), sizes[i]);
        front_free(p);
    }
}

static void trim_leaves_nothing_dirty(void **state)
{
    (void)state;
    static const size_t sizes[] = {16, 3000, 30 * KIB, 500 * KIB, 8 * MIB};
    void *p[ARRAY_LENGTH(sizes)];
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        p[i] = front_alloc(sizes[i]);
        assert_non_null(p[i]);
        fill(p[i], sizes[i], 'x');
    }
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++)
        front_free(p[i]);
    assert_true(front_trim() >= 8 * MIB);
    struct heap *h = hak_thread.heap;
    for (uint32_t class = 0; class < CLASS_COUNT; class ++)
        assert_at(magazine_kept(magazine_of(h, class)) == 0, class);
    assert_int_equal(front_trim(), 0);
}

/* glibc's malloc_trim does, and programs call it for that. */
static void trim_takes_pages_between_blocks(void **state)
{
    (void)state;
    enum { BLOCKS = 20000, SIZE = 1000, KEPT = 64 };
    static void *blocks[BLOCKS];
    if (hak_region.page_size > (size_t)KEPT * SIZE / 2)
        skip(); /* a block lives on each page */
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = front_alloc(SIZE);
        fill(blocks[i], SIZE, 'x');
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        if (i % KEPT != 0)
            front_free(blocks[i]);
    }
    (void)front_trim();
    assert_true(front_purge_slabs() > (size_t)BLOCKS * SIZE / 2);
    assert_int_equal(front_purge_slabs(), 0);
    for (size_t i = 0; i < BLOCKS; i += KEPT) {
        assert_true(is_filled(blocks[i], SIZE, 'x'));
        front_free(blocks[i]);
    }
    (void)front_trim();
}

/* A sample is a run. With the block beside it that was freed before, one buffer would be two. */
static void a_sample_takes_the_pages_of_a_block_that_is_kept(void **state)
{
    (void)state;
    enum { SIZE = 256 * 1024 };
    struct heap *h = hak_thread.heap;
    const struct magazine *m = magazine_of(h, class_for(SIZE));
    (void)front_trim();
    sampler_let(&h->magazines.sampler, LEFT_MOST, INT64_MAX);
    void *p = front_alloc(SIZE);
    front_free(p);
    assert_int_equal(magazine_kept(m), 1);
    sampler_let(&h->magazines.sampler, LEFT_MOST, 0);
    void *sample = front_alloc(SIZE);
    assert_int_equal(unit_word(unit_of(sample)), WORD_RUN);
    assert_int_equal(magazine_kept(m), 0);
    front_free(sample);
}

/* ---- sites that the caller names ---- */

static uint16_t key_of_big(uintptr_t site)
{
    front_name_site(site);
    void *p = front_alloc(3 * MIB);
    front_name_site(0);
    assert_non_null(p);
    uint16_t key = slab_at(unit_of(p))->key;
    front_free(p);
    return key;
}

static void a_named_site_counts_instead_of_the_call_stack(void **state)
{
    (void)state;
    size_t before = hak_options.keep;
    hak_options.keep = KEEP_SITE;
    uintptr_t site = 42;
    uint16_t named = key_of_big(site), again = key_of_big(site);
    uint16_t other = key_of_big(43), none = key_of_big(0);
    hak_options.keep = before;
    assert_true(named > 0);
    assert_int_equal(again, named);
    assert_int_equal(keep_key_of_site(3 * MIB, &site, 1), named);
    assert_int_not_equal(other, named);
    assert_int_not_equal(none, named);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_fit_and_are_aligned),
        cmocka_unit_test(live_blocks_do_not_overlap),
        cmocka_unit_test(what_is_zero_already_stays_without_pages),
        cmocka_unit_test(zeroed_blocks_are_zero),
        cmocka_unit_test(large_sparse_blocks_are_zero_and_stay_sparse),
        cmocka_unit_test(the_last_word_is_not_cleared),
        cmocka_unit_test(alignments_are_kept),
        cmocka_unit_test(what_never_fits_costs_nothing_that_is_kept),
        cmocka_unit_test(sizes_are_learnt),
        cmocka_unit_test(the_countdown_has_a_bound),
        cmocka_unit_test(too_much_fails_with_enomem),
        cmocka_unit_test(free_keeps_errno),
        cmocka_unit_test(a_free_may_name_all_the_block_has_or_less),
        cmocka_unit_test(a_free_that_names_more_ends_the_program),
        cmocka_unit_test(trim_leaves_nothing_dirty),
        cmocka_unit_test(trim_takes_pages_between_blocks),
        cmocka_unit_test(a_sample_takes_the_pages_of_a_block_that_is_kept),
        cmocka_unit_test(a_named_site_counts_instead_of_the_call_stack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
