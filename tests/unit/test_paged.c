/* Blocks of more than a unit that a thread keeps: what becomes of them when memory is to be taken that has no pages. */
#include "one_class.h"

#include "control/stats.h"
#include "heap/capacity.h"
#include "heap/hollow.h"
#include "heap/paged.h"
#include "heap/runs.h"
#include "os/os.h"
#include "pages/pages.h"
#include "pressure/pressure.h"
#include "purge/purge.h"

enum { SLOTS = 4 }; /* of those that a magazine has */

static size_t kept(size_t size)
{
    return magazine_kept(magazine_of(heap, class_for(size)));
}

/* n blocks of each of the sizes, taken in turn, so that no class is idle, and freed when all are there. No page
 * besides has been touched. */
static void keep(const size_t *kib, size_t sizes, size_t n, void *blocks[][SLOTS])
{
    for (size_t i = 0; i < sizes * n; i++)
        blocks[i % sizes][i / sizes] = alloc(class_for(kib[i % sizes] * KIB));
    for (size_t i = 0; i < sizes * n; i++)
        release(blocks[i % sizes][i / sizes]);
    for (size_t i = 0; i < sizes; i++)
        assert_int_equal(kept(kib[i] * KIB), n);
    (void)pages_purge(0);
    assert_false(pages_have_touched(1));
}

static int empty_all(void **state)
{
    (void)state;
    give_all_back(FIRST_PAGED);
    lock_take(&heap->lock);
    magazines_lose_slots(heap);
    lock_release(&heap->lock);
    assert_int_equal(heap->paged_bytes, 0);
    return 0;
}

enum { HELD = 80 };
static void *held[HELD];

/* So that more may be kept than these tests have. */
static int hold_much(void **state)
{
    (void)state;
    for (size_t i = 0; i < HELD; i++)
        held[i] = alloc(class_for(256 * KIB));
    give_all_back(FIRST_PAGED);
    return 0;
}

static int release_all(void **state)
{
    for (size_t i = 0; i < HELD; i++)
        release(held[i]);
    heap->emptied_ms = 0; /* it does not swing */
    return empty_all(state);
}

/* Of any of these classes, the first as well: they have a budget of their own. */
static void their_slots_are_counted_by_themselves(void **state)
{
    (void)state;
    size_t before = heap->magazine_bytes, could_hold = 0;
    for (uint32_t class = FIRST_PAGED; class < CLASS_COUNT; class ++) {
        release(alloc(class));
        assert_true(magazine_of(heap, class)->cap != 0);
        could_hold += magazine_of(heap, class)->cap * (size_t)hak_classes[class].size;
    }
    assert_int_equal(heap->magazine_bytes, before);
    assert_int_equal(heap->paged_bytes, could_hold);
}

/* As many as share nothing: each may have the slots of all classes. */
static void a_few_heaps_have_as_many_slots_as_one(void **state)
{
    struct heap *others[MANY_HEAPS];
    size_t n = 0;
    while (load_relaxed(&hak_live_heaps) < MANY_HEAPS)
        others[n++] = new_heap();
    their_slots_are_counted_by_themselves(state);
    while (n > 0)
        registry_abandon(others[--n]);
}

enum { OF_EACH = 8 };
static void *of_each[CLASS_COUNT][OF_EACH];

static void take_of_each(void)
{
    for (uint32_t class = FIRST_PAGED; class < CLASS_COUNT; class ++)
        for (size_t i = 0; i < OF_EACH; i++)
            of_each[class][i] = alloc(class);
    heap->peak_bytes = 0; /* or it would have shrunk when they are freed */
}

/* In turn, so that no class is idle. Returns how many bytes of them are kept. */
static size_t release_of_each(void)
{
    size_t bytes = 0;
    for (size_t i = 0; i < OF_EACH; i++)
        for (uint32_t class = FIRST_PAGED; class < CLASS_COUNT; class ++)
            release(of_each[class][i]);
    for (uint32_t class = FIRST_PAGED; class < CLASS_COUNT; class ++)
        bytes += magazine_kept(magazine_of(heap, class)) * hak_classes[class].size;
    return bytes;
}

/* Where every class has slots and no free of any comes to the slow path for itself. */
static void what_is_kept_is_bounded_in_bytes(void **state)
{
    (void)state;
    take_of_each(); /* so that they have their slots */
    (void)release_of_each();
    give_all_back(FIRST_PAGED);
    take_of_each();
    heap->emptied_ms = 0; /* it does not swing */
    size_t most = largest_of(PAGED_KEPT_MIN, heap->used_bytes / PAGED_KEPT_SHARE);
    for (uint32_t class = FIRST_PAGED; class < CLASS_COUNT; class ++)
        most += largest_of(PAGED_STEP, hak_classes[class].size);
    assert_in_range(release_of_each(), 1, most);
}

static void near_a_limit_nothing_is_kept(void **state)
{
    (void)state;
    store_relaxed(&hak_pressure.level, (uint32_t)PRESSURE_NEAR);
    take_of_each();
    size_t bytes = release_of_each();
    store_relaxed(&hak_pressure.level, (uint32_t)PRESSURE_NONE);
    assert_int_equal(bytes, 0);
}

static void the_oldest_of_the_next_larger_goes_back_first(void **state)
{
    (void)state;
    void *blocks[3][SLOTS];
    bool zeroed;
    keep((size_t[]){128, 224, 256}, 3, SLOTS, blocks);
    void *p = run_alloc(heap, 200 * KIB, 1, &zeroed);
    assert_non_null(p);
    assert_false(zeroed);
    assert_int_equal(kept(128 * KIB), SLOTS);
    assert_int_equal(kept(224 * KIB), SLOTS - 1);
    assert_int_equal(kept(256 * KIB), SLOTS);
    for (size_t i = SLOTS; --i > 0;) /* the newest is still the first to be had */
        assert_ptr_equal(alloc(class_for(224 * KIB)), blocks[1][i]);
    for (size_t i = 1; i < SLOTS; i++)
        release(blocks[1][i]);
    assert_true(run_free(heap, unit_of(p)));
}

/* Nor is it a slab made, nor does what it grows by in fresh pages ask for looks that nobody may pay. */
static void a_block_resized_is_not_taken(void **state)
{
    (void)state;
    uint32_t small = class_for(128 * KIB), large = class_for(640 * KIB);
    void *p = alloc(large);
    struct slab *s = slab_of_unit(unit_of(p));
    size_t taken = heap->taken_bytes, used = heap->used_bytes;
    uint64_t made = counted(heap, COUNTER_pool_stage2), blocks = counted(heap, COUNTER_ss_taken);
    int32_t looks = heap->looks_owed;
    assert_true(paged_resize(heap, s, small));
    assert_int_equal(heap->used_bytes, used - hak_classes[large].size + hak_classes[small].size);
    assert_int_equal(heap->classes[large].slabs + heap->classes[large].used, 0);
    assert_int_equal(heap->classes[small].slabs + heap->classes[small].used, 2);
    assert_true(paged_resize(heap, s, large)); /* what it gave away is still free */
    assert_int_equal(heap->used_bytes, used);
    assert_true(heap->peak_bytes >= used);
    assert_int_equal(heap->taken_bytes, taken);
    assert_int_equal(counted(heap, COUNTER_pool_stage2), made);
    assert_int_equal(counted(heap, COUNTER_ss_taken), blocks);
    assert_int_equal(heap->looks_owed, looks);
    release(p);
}

static void a_block_of_a_class_takes_their_place_too(void **state)
{
    (void)state;
    void *blocks[2][SLOTS];
    keep((size_t[]){224, 256}, 2, SLOTS, blocks);
    void *p = alloc(class_for(160 * KIB));
    assert_ptr_equal(p, blocks[0][0]); /* the oldest, whose end is free now */
    assert_true(pages_have_touched(1));
    assert_int_equal(kept(224 * KIB), SLOTS - 1);
    assert_int_equal(kept(256 * KIB), SLOTS);
    release(p);
}

#if !HAK_CHECKED
/* It stays of its class, and goes back to those of it. */
static void one_that_is_somewhat_larger_serves_as_it_is(void **state)
{
    (void)state;
    void *blocks[2][SLOTS];
    keep((size_t[]){208, 224}, 2, SLOTS, blocks);
    size_t slabs = heap->classes[class_for(192 * KIB)].slabs;
    for (size_t i = SLOTS; i-- > 0;) {
        void *p = alloc(class_for(192 * KIB));
        assert_ptr_equal(p, blocks[0][i]);
        assert_int_equal(class_of_word(unit_word(unit_of(p))), class_for(208 * KIB));
    }
    assert_ptr_equal(alloc(class_for(192 * KIB)), blocks[1][SLOTS - 1]);
    assert_int_equal(heap->classes[class_for(192 * KIB)].slabs, slabs);
    for (size_t i = 0; i < SLOTS; i++)
        release(blocks[0][i]);
    release(blocks[1][SLOTS - 1]);
    assert_int_equal(kept(208 * KIB), SLOTS);
    assert_int_equal(kept(224 * KIB), SLOTS);
}
#endif

static void one_is_cut_to_size_where_touched_pages_are_free(void **state)
{
    (void)state;
    void *blocks[1][SLOTS];
    keep((size_t[]){208}, 1, SLOTS, blocks);
    lock_take(&heap->lock);
    paged_give_back(heap, pages_for(208 * KIB), 0);
    lock_release(&heap->lock);
    size_t left = kept(208 * KIB);
    void *p = alloc(class_for(192 * KIB));
    assert_int_equal(class_of_word(unit_word(unit_of(p))), class_for(192 * KIB));
    assert_int_equal(kept(208 * KIB), left);
    release(p);
}

static void smaller_ones_go_back_until_they_suffice(void **state)
{
    (void)state;
    void *blocks[3][SLOTS];
    bool zeroed;
    keep((size_t[]){256, 224, 192}, 3, SLOTS, blocks);
    void *p = run_alloc(heap, 320 * KIB, 1, &zeroed);
    assert_non_null(p);
    assert_false(zeroed);
    assert_true(kept(256 * KIB) < SLOTS);
    assert_int_equal(kept(192 * KIB), SLOTS);
    assert_true(run_free(heap, unit_of(p)));
}

/* Else two sizes in turn would each wait for the other's memory. */
static void few_stay(void **state)
{
    (void)state;
    void *blocks[2][SLOTS];
    bool zeroed;
    keep((size_t[]){192, 256}, 2, 1, blocks);
    void *p = run_alloc(heap, 100 * KIB, 1, &zeroed);
    assert_true(zeroed);
    assert_int_equal(kept(192 * KIB), 1);
    assert_int_equal(kept(256 * KIB), 1);
    assert_true(run_free(heap, unit_of(p)));
}

/* Looked at whenever one is freed that its magazine has no room for. */
static void fewer_are_kept_when_fewer_are_in_use(void **state)
{
    (void)state;
    enum { SIZES = 4, EACH = 24 };
    static const size_t kib[SIZES] = {128, 160, 192, 256};
    void *blocks[EACH * SIZES];
    heap->emptied_ms = 0; /* it does not swing */
    for (size_t i = 0; i < EACH * SIZES; i++)
        blocks[i] = alloc(class_for(kib[i % SIZES] * KIB));
    uint64_t flushes = counted(heap, COUNTER_flush);
    for (size_t i = 0; i < EACH * SIZES; i++) {
        size_t bytes = 0, used = heap->used_bytes;
        release(blocks[i]);
        for (size_t k = 0; k < SIZES; k++)
            bytes += kept(kib[k] * KIB) * kib[k] * KIB;
        if (counted(heap, COUNTER_flush) != flushes)
            assert_at(bytes <= PAGED_KEPT_MIN || bytes <= used / PAGED_KEPT_SHARE, i);
        flushes = counted(heap, COUNTER_flush);
    }
    assert_true(heap->used_bytes < 3 * PAGED_KEPT_MIN);
}

/* Also where touched pages are free: what one thread keeps is not made up for by what others gave back. */
static void a_request_finds_no_more_kept_either(void **state)
{
    (void)state;
    enum { SIZES = 4, PAGES = 200 };
    static const size_t kib[SIZES] = {128, 160, 192, 256};
    void *blocks[SIZES][SLOTS];
    bool zeroed;
    heap->emptied_ms = 0; /* it does not swing */
    keep(kib, SIZES, SLOTS, blocks);
    ptrdiff_t first = pages_take(PAGES, 1, &zeroed);
    assert_true(first >= 0);
    pages_give((size_t)first, PAGES);
    assert_true(pages_have_touched(PAGES));
    size_t bytes = 0, used = heap->used_bytes;
    assert_true(used > PAGED_KEPT_SHARE * PAGED_KEPT_MIN);
    void *p = alloc(class_for(224 * KIB));
    for (size_t i = 0; i < SIZES; i++)
        bytes += kept(kib[i] * KIB) * kib[i] * KIB;
    assert_in_range(bytes, 1, used / PAGED_KEPT_SHARE);
    release(p);
}

enum { MANY = 24 };

/* How much of 256 KiB blocks is kept of MANY that were freed when so much might be free besides. */
static size_t kept_of_many(size_t room)
{
    void *blocks[MANY];
    for (size_t i = 0; i < MANY; i++)
        blocks[i] = alloc(class_for(256 * KIB));
    store_relaxed(&hak_purge_allowed, room + purge_dirty_bytes());
    for (size_t i = 0; i < MANY; i++)
        release(blocks[i]);
    return kept(256 * KIB) * 256 * KIB;
}

static void begin_swing(struct heap *h)
{
    h->emptied_ms = os_now_ms(); /* and grown to as much since */
    h->emptied_bytes = 0;
}

/* What is noted for it, now. */
static size_t noted_kept(void)
{
    lock_take(&heap->lock);
    paged_limit(heap, FIRST_PAGED, NULL);
    lock_release(&heap->lock);
    return heap->paged_kept;
}

/* What one heap keeps another may not. */
static void check_kept_by_another(struct heap *first, size_t room)
{
    size_t first_kept = noted_kept();
    if (!heap_swings(first))
        return; /* the machine was busy */
    assert_int_equal(first_kept, MANY * 256 * KIB);
    heap = new_heap();
    begin_swing(heap);
    size_t kept_then = kept_of_many(room);
    if (heap_swings(heap)) /* else the machine was busy */
        assert_in_range(kept_then, 1, room - first_kept + PAGED_STEP);
    give_all_back(FIRST_PAGED);
    assert_int_equal(heap->paged_kept, 0);
    registry_abandon(heap);
    heap = first;
}

/* And are not counted any more. */
static void check_idle_ones_go(struct heap *h)
{
    enum { LOOKS = 16 };
    for (int i = 0; i < LOOKS && kept(256 * KIB) != 0;
         i++) { /* each that finds less than the last leaves it */
        h->hollow.idle_ms = 0;
        hollow_look_unlocked(h);
    }
    assert_int_equal(kept(256 * KIB), 0);
    assert_int_equal(h->paged_kept, 0);
}

/* Not beyond what may be free with its pages, whoever keeps it. */
static void more_is_kept_where_demand_swings(void **state)
{
    (void)state;
    size_t allowed = load_relaxed(&hak_purge_allowed), room = 8 * 1024 * KIB;
    size_t retain = hak_options.retain;
    hak_options.retain = (size_t)1 << 30; /* so that nobody looks at what is allowed */
    heap->emptied_ms = 0;                 /* long ago */
    assert_in_range(kept_of_many(room), 0, PAGED_KEPT_MIN);
    give_all_back(FIRST_PAGED);
    begin_swing(heap);
    size_t kept_then = kept_of_many(room);
    if (heap_swings(heap)) { /* else the machine was busy */
        assert_int_equal(kept_then, MANY * 256 * KIB);
        check_kept_by_another(heap, room);
        check_idle_ones_go(heap);
    }
    give_all_back(FIRST_PAGED);
    assert_in_range(kept_of_many(0), 0, PAGED_KEPT_MIN);
    heap->emptied_ms = 0;
    hak_options.retain = retain;
    store_relaxed(&hak_purge_allowed, allowed);
}

/* A thread is asked what it keeps after some blocks, and at each one as long as that is too much. */
static void who_keeps_too_much_is_asked_at_each(void **state)
{
    (void)state;
    enum { SIZE = 72 << 10, STEP = PAGED_STEP / SIZE, EACH = 3 * STEP };
    size_t size = SIZE;
    void *blocks[EACH];
    for (size_t i = 0; i < EACH; i++)
        blocks[i] = alloc(class_for(size));
    uint64_t flushes = counted(heap, COUNTER_flush);
    for (size_t i = 0; i < STEP; i++)
        release(blocks[i]);
    assert_int_equal(counted(heap, COUNTER_flush), flushes);
    for (size_t i = STEP; i < EACH; i++) {
        release(blocks[i]);
        assert_at(kept(size) * size <= PAGED_KEPT_MIN, i);
        assert_at(counted(heap, COUNTER_flush) == flushes + 1 + i - STEP, i);
    }
    flushes = counted(heap, COUNTER_flush);
    release(alloc(class_for(size)));
    assert_int_equal(counted(heap, COUNTER_flush), flushes);
}

/* Another heap's go home then, but what is kept is asked for as well. */
static void other_heaps_blocks_are_kept_to_the_same_limit(void **state)
{
    (void)state;
    enum { EACH = 24 };
    size_t size = hak_classes[FIRST_PAGED].size;
    struct heap *owner = new_heap();
    void *blocks[EACH];
    alloc_each_as(heap, size, blocks, EACH); /* for which there is a magazine then, ... */
    free_each_as(heap, blocks, EACH);
    give_all_back(FIRST_PAGED);
    release(alloc(FIRST_PAGED)); /* ... which is open */
    alloc_each_as(owner, size, blocks, EACH);
    heap->emptied_ms = 0; /* it does not swing */
    free_each_as(heap, blocks, EACH);
    assert_in_range(kept(size) * size, 1, PAGED_KEPT_MIN);
    give_all_back(FIRST_PAGED);
    registry_abandon(owner);
}

/* Blocks of slabs are no pages. */
static void no_other_class_gives(void **state)
{
    (void)state;
    void *blocks[1][SLOTS], *unit = alloc(class_for(64 * KIB));
    release(unit);
    keep((size_t[]){72}, 1, SLOTS, blocks);
    size_t kept_units = kept(64 * KIB);
    assert_true(kept_units != 0);
    lock_take(&heap->lock);
    assert_true(paged_give_back(heap, 1, 0));
    (void)paged_give_back(heap, UINT32_MAX, 0);
    lock_release(&heap->lock);
    assert_int_equal(kept(72 * KIB), 0);
    assert_int_equal(kept(64 * KIB), kept_units);
}

static void only_fresh_pages_are_growth(void **state)
{
    (void)state;
    uint32_t class = class_for(256 * KIB);
    (void)pages_purge(0);
    assert_false(pages_have_touched(1));
    heap->grown_bytes = 0;
    release(alloc(class));
    assert_int_equal(heap->grown_bytes, 256 * KIB);
    give_all_back(class);
    assert_true(pages_have_touched(1));
    release(alloc(class));
    assert_int_equal(heap->grown_bytes, 256 * KIB);
}

/* Of a class with two blocks in all, `n` of which are kept. */
static void check_two(uint32_t class, size_t n, size_t runs, size_t in_use)
{
    size_t bytes, count;
    runs_live(&bytes, &count);
    assert_int_equal(kept(hak_classes[class].size), n);
    assert_int_equal(count, runs);
    assert_int_equal(heap->classes[class].slabs, 2 - runs);
    assert_int_equal(heap->classes[class].used, 2 - runs);
    assert_int_equal(pages_in_use(), in_use);
}

/* As a sample does: it has pages that were touched already. */
static void one_that_is_kept_becomes_a_run_and_is_kept_again(void **state)
{
    (void)state;
    void *blocks[1][SLOTS];
    uint32_t class = class_for(256 * KIB);
    keep((size_t[]){256}, 1, 2, blocks);
    size_t in_use = pages_in_use(), used = heap->used_bytes;
    void *p = run_of_kept(heap, class);
    assert_ptr_equal(p, blocks[0][1]);
    assert_int_equal(unit_word(unit_of(p)), WORD_RUN);
    check_two(class, 1, 1, in_use);
    assert_int_equal(heap->used_bytes, used - 256 * KIB);
    assert_true(run_to_kept(heap, unit_of(p)));
    assert_true(magazine_newest_is(magazine_of(heap, class), p));
    assert_int_equal(unit_word(unit_of(p)), (uintptr_t)magazine_of(heap, class));
    check_two(class, 2, 0, in_use);
    assert_int_equal(heap->used_bytes, used);
    assert_false(run_to_kept(heap, unit_of(p))); /* it is none any more */
    assert_null(run_of_kept(heap, class_for(320 * KIB)));
}

/* Where there is no room for it its pages go back, as they do near a memory limit and of a size that no class has. */
static void a_run_is_not_always_kept(void **state)
{
    (void)state;
    void *blocks[1][SLOTS];
    bool zeroed;
    size_t in_use = pages_in_use();
    uint32_t class = class_for(256 * KIB);
    keep((size_t[]){256}, 1, 2, blocks);
    void *p = run_of_kept(heap, class), *q = run_alloc(heap, 257 * KIB, 1, &zeroed);
    assert_false(run_to_kept(heap, unit_of(q)));
    assert_true(run_free(heap, unit_of(q)));
    store_relaxed(&hak_pressure.level, (uint32_t)PRESSURE_NEAR);
    bool is_kept = run_to_kept(heap, unit_of(p));
    store_relaxed(&hak_pressure.level, (uint32_t)PRESSURE_NONE);
    assert_false(is_kept);
    magazine_seem_full_after(magazine_of(heap, class), 0);
    assert_true(run_to_kept(heap, unit_of(p)));
    assert_int_equal(kept(256 * KIB), 1);
    assert_int_equal(pages_in_use(), in_use + 256 * KIB);
}

/* A slab's books are its heap's. */
static void another_heaps_becomes_no_run(void **state)
{
    (void)state;
    struct heap *owner = new_heap();
    uint32_t class = class_for(256 * KIB);
    void *p;
    alloc_each_as(owner, 256 * KIB, &p, 1);
    release(alloc(class)); /* so that it has slots, ... */
    give_all_back(class);
    release(alloc(class)); /* ... and is open */
    assert_true(magazine_push(magazine_of(heap, class), p));
    assert_null(run_of_kept(heap, class));
    assert_int_equal(kept(256 * KIB), 1);
    trim_as(heap);
    trim_as(owner);
    assert_int_equal(owner->classes[class].used, 0);
    registry_abandon(owner);
}

static void check_is_of(const char *p, size_t kib, size_t in_use, size_t used)
{
    uint32_t class = class_for(kib * KIB);
    assert_int_equal(slab_at(unit_of(p))->class, class);
    assert_int_equal(unit_word(unit_of(p)), (uintptr_t)magazine_of(heap, class));
    assert_int_equal(heap->classes[class].used, 1);
    assert_int_equal(heap->classes[class].slabs, 1);
    assert_int_equal(heap->classes[class].touched, kib * KIB / os_page_size());
    assert_int_equal(pages_in_use(), in_use + kib * KIB);
    assert_int_equal(heap->used_bytes, used + kib * KIB);
}

/* What it gives back is free for it again, but not what another takes meanwhile. */
static void one_in_use_becomes_one_of_another_class(void **state)
{
    (void)state;
    size_t in_use = pages_in_use(), used = heap->used_bytes;
    char *p = alloc(class_for(512 * KIB));
    struct slab *s = slab_at(unit_of(p));
    memset(p, 'x', 512 * KIB);
    assert_true(paged_resize(heap, s, class_for(320 * KIB)));
    check_is_of(p, 320, in_use, used);
    assert_int_equal(heap->classes[class_for(512 * KIB)].slabs, 0);
    assert_true(paged_resize(heap, s, class_for(512 * KIB)));
    check_is_of(p, 512, in_use, used);
    assert_false(s->zeroed);
    assert_true(p[0] == 'x' && p[320 * KIB - 1] == 'x');
    assert_true(paged_resize(heap, s, class_for(320 * KIB)));
    char *behind = alloc(class_for(192 * KIB));
    assert_ptr_equal(behind, p + 320 * KIB);
    assert_false(paged_resize(heap, s, class_for(512 * KIB)));
    release(behind);
    check_is_of(p, 320, in_use + 192 * KIB, used + 192 * KIB);
    release(p);
    give_all_back(FIRST_PAGED);
    assert_int_equal(pages_in_use(), in_use);
    assert_int_equal(heap->used_bytes, used);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(one_in_use_becomes_one_of_another_class, empty_all),
        cmocka_unit_test_teardown(their_slots_are_counted_by_themselves, empty_all),
        cmocka_unit_test_teardown(a_few_heaps_have_as_many_slots_as_one, empty_all),
        cmocka_unit_test_setup_teardown(the_oldest_of_the_next_larger_goes_back_first, hold_much,
                                        release_all),
        cmocka_unit_test_setup_teardown(a_block_of_a_class_takes_their_place_too, hold_much,
                                        release_all),
        cmocka_unit_test_setup_teardown(one_is_cut_to_size_where_touched_pages_are_free, hold_much,
                                        release_all),
#if !HAK_CHECKED
        cmocka_unit_test_setup_teardown(one_that_is_somewhat_larger_serves_as_it_is, hold_much,
                                        release_all),
#endif
        cmocka_unit_test_setup_teardown(smaller_ones_go_back_until_they_suffice, hold_much,
                                        release_all),
        cmocka_unit_test_teardown(few_stay, empty_all),
        cmocka_unit_test_teardown(what_is_kept_is_bounded_in_bytes, empty_all),
        cmocka_unit_test_teardown(near_a_limit_nothing_is_kept, empty_all),
        cmocka_unit_test_teardown(a_block_resized_is_not_taken, empty_all),
        cmocka_unit_test_teardown(only_fresh_pages_are_growth, empty_all),
        cmocka_unit_test_teardown(one_that_is_kept_becomes_a_run_and_is_kept_again, empty_all),
        cmocka_unit_test_teardown(a_run_is_not_always_kept, empty_all),
        cmocka_unit_test_teardown(another_heaps_becomes_no_run, empty_all),
        cmocka_unit_test_teardown(no_other_class_gives, empty_all),
        cmocka_unit_test_teardown(who_keeps_too_much_is_asked_at_each, empty_all),
        cmocka_unit_test_teardown(other_heaps_blocks_are_kept_to_the_same_limit, empty_all),
        cmocka_unit_test_teardown(fewer_are_kept_when_fewer_are_in_use, empty_all),
        cmocka_unit_test_setup_teardown(a_request_finds_no_more_kept_either, hold_much,
                                        release_all),
        cmocka_unit_test_teardown(more_is_kept_where_demand_swings, empty_all),
    };
    return cmocka_run_group_tests(tests, make_heap, abandon_heap);
}
