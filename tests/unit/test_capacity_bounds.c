/* What bounds magazines' lengths: budgets, settings, and memory that is not there. */
#include "swings.h"

#include "control/options.h"
#include "mind/log.h"

static uint32_t heaps = 1;
uint32_t __wrap_registry_live_heaps(void);
uint32_t __wrap_registry_live_heaps(void)
{
    return heaps;
}

static bool has_no_slots;
void **__real_slots_take(struct heap *h, uint32_t length);
void **__wrap_slots_take(struct heap *h, uint32_t length);
void **__wrap_slots_take(struct heap *h, uint32_t length)
{
    return has_no_slots ? NULL : __real_slots_take(h, length);
}

static struct decision decided; /* the last that was logged, ... */
static int decisions;           /* ... of so many */
void __wrap_purge_log(const struct decision *d);
void __wrap_purge_log(const struct decision *d)
{
    decided = *d;
    decisions++;
}

static void magazines_grow_to_their_bound(void **state)
{
    (void)state;
    enum { BLOCKS = 600 };
    uint32_t class = class_for(48), most = 0;
    void *blocks[BLOCKS];
    forget_slots();
    hak_options.magazine_max = 20; /* as 16: slots come in powers of two */
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = alloc(class);
        assert_at(capacity(class) <= 16, i);
        most = most < capacity(class) ? capacity(class) : most;
    }
    assert_int_equal(most, 16);
    for (size_t i = 0; i < BLOCKS; i++)
        release(blocks[i]);
    hak_options.magazine_max = SLOTS_MOST;
    give_all_back(class);
}

/* Of all classes above SMALL_MAX that have long magazines. */
static size_t bytes_of_long_ones(void)
{
    size_t bytes = 0;
    for (uint32_t class = class_for(SMALL_MAX + 1); class < FIRST_PAGED; class ++) {
        size_t of_magazine = capacity(class) * (size_t)hak_classes[class].size;
        bytes += of_magazine > (32 << 10) && capacity(class) > 4 ? of_magazine : 0;
    }
    return bytes;
}

/* So many blocks of each class from 4 to 16 KiB come and go. */
static void swing_larger(int blocks, int turns)
{
    for (int i = 0; i < turns; i++) {
        for (uint32_t class = class_for(4097); class <= class_for(16384); class ++) {
            swing(class, (size_t)blocks);
            assert_true(capacity(class) != 0);
        }
    }
}

static void small_ones_have_the_whole_budget(uint32_t live)
{
    enum { TURNS = 40, SWING = 900, MOST = 32 << 20 /* of which blocks have come anew */ };
    uint32_t class = class_for(80);
    forget_slots();
    heaps = live;
    heap->taken_bytes = SIZE_MAX / 2;
    heap->magazine_bytes = MOST * 3 / 4;
    for (int i = 0; i < TURNS; i++)
        swing(class, SWING);
    assert_true(capacity(class) >= SWING);
    heap->magazine_bytes -= MOST * 3 / 4;
    heap->taken_bytes = 0;
    heaps = 1;
    give_all_back(class);
}

/* Of small ones any have all of it, and a few heaps have it each. */
static void long_magazines_of_small_blocks_have_the_whole_budget(void **state)
{
    (void)state;
    small_ones_have_the_whole_budget(1);
    small_ones_have_the_whole_budget(MANY_HEAPS);
}

/* Few of them are much memory, so long magazines of them get a part of the budget, which is small until the heap's blocks have come
 * anew several times. */
static void long_magazines_of_larger_blocks_have_half_of_the_budget(void **state)
{
    (void)state;
    enum { TURNS = 8, MANY = 64 };
    void *ballast[MANY]; /* so that the heap does not shrink to a quarter */
    forget_slots();
    for (int i = 0; i < MANY; i++)
        ballast[i] = alloc(class_for(UNIT_SIZE));
    for (int i = 0; i < TURNS; i++)
        swing(class_for(13000), MANY);
    assert_int_equal(capacity(class_for(13000)), 32); /* what has 512 KiB, as a power of two */
    give_all_back(class_for(13000));
    heap->taken_bytes = 0;
    swing_larger(MANY, 1);
    assert_in_range(bytes_of_long_ones(), 512 << 10, 3 << 19);
    heap->taken_bytes = SIZE_MAX / 2;
    swing_larger(4 * MANY, 3 * TURNS);
    assert_in_range(bytes_of_long_ones(), 12 << 20, 17 << 20);
    for (int i = 0; i < MANY; i++)
        release(ballast[i]);
    forget_slots();
}

/* Slots of a busy class of blocks of 13,000 bytes, of which many come and go, in one of so many heaps. */
static uint32_t longest_of(uint32_t live)
{
    enum { MANY = 400, TURNS = 40 };
    uint32_t class = class_for(13000);
    forget_slots();
    heaps = live;
    heap->classes[class].busy = true;
    for (int i = 0; i < TURNS; i++)
        swing(class, MANY);
    heap->classes[class].busy = false;
    heaps = 1;
    uint32_t longest = capacity(class);
    give_all_back(class);
    forget_slots();
    return longest;
}

/* So that none leaves the others without; but where the heap has little, each may have 512 KiB. */
static void a_magazine_of_larger_blocks_has_a_sixteenth_of_the_budget(void **state)
{
    (void)state;
    assert_int_equal(longest_of(1), 128); /* of 32 MiB 2, as a power of two */
    assert_int_equal(longest_of(16), 64);
    assert_int_equal(longest_of(64), 32);
}

/* What all heaps together may have is divided among them, first slots of larger blocks included. */
static void many_heaps_have_less_each(void **state)
{
    (void)state;
    enum { HEAPS = 200, MANY = 64 };
    forget_slots();
    heaps = HEAPS;
    for (uint32_t class = class_for(SMALL_MAX + 1); class < FIRST_PAGED; class ++) {
        swing(class, MANY);
        give_all_back(class);
    }
    size_t budget = (32 << 20) / HEAPS + (MANY * (64 << 10)) / 32;
    assert_in_range(heap->magazine_bytes, 1, 2 * budget);
    heaps = 1;
    forget_slots();
}

static size_t most_paged_bytes; /* that slots could hold meanwhile */

/* Slots for blocks of all classes of pages, as many as one of so many heaps gets. Returns the most bytes in use meanwhile. */
static size_t fill_slots_of_pages(uint32_t live)
{
    enum { MANY = 8 };
    size_t most = most_paged_bytes = 0;
    forget_slots();
    heap->paged_bytes = 0;
    heaps = live;
    for (uint32_t class = FIRST_PAGED; class < CLASS_COUNT; class ++) {
        void *blocks[MANY];
        for (int i = 0; i < MANY; i++)
            blocks[i] = alloc(class);
        most = largest_of(most, heap->used_bytes);
        most_paged_bytes = largest_of(most_paged_bytes, heap->paged_bytes);
        for (int i = 0; i < MANY; i++)
            release(blocks[i]);
    }
    heaps = 1;
    return most;
}

static void end_slots_of_pages(void)
{
    give_all_back(FIRST_PAGED);
    forget_slots();
    heap->paged_bytes = 0;
}

/* What slots could hold is no memory. */
static void a_few_heaps_have_more_for_blocks_of_pages(void **state)
{
    (void)state;
    size_t all = 0, most;
    for (uint32_t class = FIRST_PAGED; class < CLASS_COUNT; class ++)
        all += hak_classes[class].slots * (size_t)hak_classes[class].size;
    (void)fill_slots_of_pages(1);
    assert_int_equal(heap->paged_bytes, all);
    most = fill_slots_of_pages(MANY_HEAPS);
    assert_in_range(heap->paged_bytes, 1, (64 << 20) + most / 4);
    assert_true((64 << 20) + most / 4 < all);
    end_slots_of_pages();
}

/* A thread that sleeps keeps what it has in them. */
static void blocks_of_pages_have_a_budget_that_heaps_share(void **state)
{
    (void)state;
    enum { HEAPS = 200, TURNS = 32 };
    size_t most = fill_slots_of_pages(HEAPS);
    assert_in_range(most_paged_bytes, 1, (32 << 20) / HEAPS + most / 4);
    for (int i = 0; i < TURNS; i++) {
        for (uint32_t class = FIRST_PAGED; class < CLASS_COUNT; class ++)
            release(alloc(class));
    }
    for (uint32_t class = FIRST_PAGED; class < CLASS_COUNT; class ++)
        assert_true(capacity(class) != 0);
    end_slots_of_pages();
}

static uint32_t capacity_after_swings(size_t size, size_t blocks, const char *magazines, bool learn)
{
    enum { TURNS = 40 };
    uint32_t class = class_for(size);
    struct options before = hak_options;
    forget_slots();
    assert_null(option_set("magazines", strlen("magazines"), magazines, strlen(magazines)));
    hak_options.learn = learn;
    for (int i = 0; i < TURNS; i++)
        swing(class, blocks);
    uint32_t slots = capacity(class);
    give_all_back(class);
    hak_options = before;
    return slots;
}

static void how_long_magazines_become_is_a_setting(void **state)
{
    (void)state;
    uint32_t first = hak_classes[class_for(80)].slots;
    assert_int_equal(capacity_after_swings(80, 900, "fixed", true), first);
    assert_int_equal(capacity_after_swings(80, 900, "learnt", false), first);
    assert_int_equal(capacity_after_swings(80, 900, "learnt", true), 1024);
    assert_int_equal(capacity_after_swings(80, 900, "longest", false), 1024);
    assert_int_equal(capacity_after_swings(16, 9000, "learnt", true), SLOTS_MOST);
    assert_int_equal(capacity_after_swings(80, 900, "shadow", true), first);
}

static void a_shadow_says_once_what_would_grow(void **state)
{
    (void)state;
    uint32_t class = class_for(80), first = hak_classes[class].slots;
    decisions = 0;
    capacity_after_swings(80, 900, "shadow", true);
    assert_int_equal(decisions, 1);
    assert_true(decided.is_shadow);
    assert_int_equal(decided.key, class);
    assert_int_equal(decided.from, first);
    assert_int_equal(decided.to, 2 * first);
    capacity_after_swings(80, 900, "shadow", false);
    assert_int_equal(decisions, 1);
}

/* As many magazines grow as with what is learnt, but any. */
static void the_placebo_grows_other_magazines(void **state)
{
    (void)state;
    enum { SWING = 900, TURNS = 40 };
    uint32_t class = class_for(80), others[] = {class_for(160), class_for(320), class_for(640)};
    size_t grown = 0;
    forget_slots();
    hak_options.magazines = 3;
    for (int i = 0; i < TURNS; i++) {
        for (size_t k = 0; k < ARRAY_LENGTH(others); k++)
            swing(others[k], 1);
        swing(class, SWING);
    }
    for (size_t k = 0; k < ARRAY_LENGTH(others); k++)
        grown += magazine_of(heap, others[k])->swings;
    assert_true(grown > 0);
    hak_options.magazines = 2;
    for (size_t k = 0; k < ARRAY_LENGTH(others); k++)
        give_all_back(others[k]);
    give_all_back(class);
}

/* What a spill left behind is no evidence once the slots have gone. */
static void a_magazine_without_slots_is_refilled_as_a_new_one(void **state)
{
    (void)state;
    uint32_t class = class_for(160);
    forget_slots();
    heaps = 64; /* so that the budget is little */
    swing(class, 300);
    assert_int_not_equal(heap->classes[class].spilled, 0);
    uint32_t before = capacity(class);
    uint32_t others = class_for(1024) - class;
    for (uint32_t turn = 0; capacity(class) == before; turn++) { /* until the hand has come to it */
        assert_at(turn < 3 * others, turn);
        for (int i = 0; i < 40 && capacity(class) == before; i++)
            swing(class + 1 + turn % others, 300);
    }
    assert_int_equal(capacity(class), 0);
    assert_int_equal(heap->classes[class].spilled, 0);
    swing(class, 1);
    assert_int_equal(capacity(class), 8);
    give_all_back(class);
    heaps = 1;
}

/* Where no memory is left for a magazine there may be some for a block. */
static void blocks_are_had_without_slots(void **state)
{
    (void)state;
    uint32_t class = class_for(160);
    forget_slots();
    has_no_slots = true;
    size_t used = heap->classes[class].used;
    swing(class, 300);
    assert_int_equal(capacity(class), 0);
    give_all_back(class);
    assert_int_equal(heap->classes[class].used, used);
    has_no_slots = false;
    swing(class, 1);
    assert_int_equal(capacity(class), 8);
    give_all_back(class);
}

static void idle_magazines_make_room_in_the_budget(void **state)
{
    (void)state;
    uint32_t idle = class_for(1024), busy = class_for(960);
    forget_slots();
    heaps = 16; /* 2 MiB for each */
    for (int i = 0; i < 40; i++)
        swing(idle, 250);
    size_t was = capacity(idle);
    assert_true(was >= 128);
    /* Other classes ask for more than all may have, and go on asking. */
    for (int turn = 0; turn < 40; turn++) {
        for (uint32_t class = busy; class > busy - 24; class --)
            swing(class, 300);
    }
    assert_int_equal(capacity(idle), 0);
    size_t bytes = 0;
    for (uint32_t class = 0; class < CLASS_COUNT; class ++)
        bytes += capacity(class) * (size_t)hak_classes[class].size;
    assert_int_equal(bytes, heap->magazine_bytes);
    assert_true(bytes <= (2 << 20) + heap->used_bytes / 32);
    give_all_back(busy);
    heaps = 1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(magazines_grow_to_their_bound),
        cmocka_unit_test(long_magazines_of_small_blocks_have_the_whole_budget),
        cmocka_unit_test(long_magazines_of_larger_blocks_have_half_of_the_budget),
        cmocka_unit_test(a_magazine_of_larger_blocks_has_a_sixteenth_of_the_budget),
        cmocka_unit_test(many_heaps_have_less_each),
        cmocka_unit_test(blocks_of_pages_have_a_budget_that_heaps_share),
        cmocka_unit_test(a_few_heaps_have_more_for_blocks_of_pages),
        cmocka_unit_test(how_long_magazines_become_is_a_setting),
        cmocka_unit_test(a_shadow_says_once_what_would_grow),
        cmocka_unit_test(the_placebo_grows_other_magazines),
        cmocka_unit_test(a_magazine_without_slots_is_refilled_as_a_new_one),
        cmocka_unit_test(blocks_are_had_without_slots),
        cmocka_unit_test(idle_magazines_make_room_in_the_budget),
    };
    return cmocka_run_group_tests(tests, make_heap, abandon_heap);
}
