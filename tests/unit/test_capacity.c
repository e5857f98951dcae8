/* How long magazines become, and when they lose what they have. */
#include "one_class.h"

#include "control/options.h"
#include "heap/capacity.h"
#include "mind/log.h"
#include "os/os.h"

static bool has_no_slots;
static uint32_t heaps = 1;
uint32_t __wrap_registry_live_heaps(void);
uint32_t __wrap_registry_live_heaps(void)
{
    return heaps;
}

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

enum { BLOCKS = 600, SWING_MIXED = 9000 };

static uint32_t capacity(uint32_t class)
{
    return magazine_of(heap, class)->cap;
}

/* All magazines as a new heap has them. */
static void forget_slots(void)
{
    lock_take(&heap->lock);
    heap_empty_magazines(heap, HAND_ALL);
    for (uint32_t class = 0; class < CLASS_COUNT; class ++) {
        struct magazine *m = magazine_of(heap, class);
        if (m->cap != 0)
            slots_give(heap, magazine_slots(m), m->cap);
        magazine_exchange(m, NULL, 0);
        heap->classes[class].spilled = heap->classes[class].lost = 0;
    }
    heap->magazine_bytes = 0;
    lock_release(&heap->lock);
}

/* Takes n blocks and gives them back. */
static void swing(uint32_t class, size_t n)
{
    static void *blocks[9000];
    assert_true(n <= sizeof blocks / sizeof blocks[0]);
    for (size_t i = 0; i < n; i++)
        blocks[i] = alloc(class);
    for (size_t i = 0; i < n; i++)
        release(blocks[i]);
}

static void magazines_grow_to_their_bound(void **state)
{
    (void)state;
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

/* What comes back in such numbers that it is spilled and then wanted again should be kept. */
static void a_magazine_grows_until_a_swing_fits(void **state)
{
    (void)state;
    enum { SWING = 900, TURNS = 40 };
    uint32_t class = class_for(80);
    forget_slots();
    for (int i = 0; i < TURNS; i++)
        swing(class, SWING);
    assert_true(capacity(class) >= SWING);
    uint64_t refills = counted(heap, COUNTER_refill), flushes = counted(heap, COUNTER_flush);
    for (int i = 0; i < TURNS; i++)
        swing(class, SWING);
    assert_int_equal(counted(heap, COUNTER_refill), refills);
    assert_int_equal(counted(heap, COUNTER_flush), flushes);
    give_all_back(class);
}

/* The same, slab by slab mixed: all slabs stay until the last blocks. */
static void swing_mixed(uint32_t class)
{
    enum { STEP = 4001 }; /* has no divisor in common with SWING_MIXED */
    static void *blocks[SWING_MIXED];
    for (size_t i = 0; i < SWING_MIXED; i++)
        blocks[i] = alloc(class);
    for (size_t i = 0; i < SWING_MIXED; i++)
        release(blocks[i * STEP % SWING_MIXED]);
}

/* Where few blocks of many slabs are left, all go back before the magazine runs dry. */
static void what_falls_and_grows_again_swings(void **state)
{
    (void)state;
    enum { TURNS = 40 };
    uint32_t class = class_for(80);
    forget_slots();
    uint64_t sparse = counted(heap, COUNTER_flush_sparse);
    for (int i = 0; i < TURNS; i++)
        swing_mixed(class);
    assert_true(counted(heap, COUNTER_flush_sparse) >= sparse + TURNS);
    assert_int_equal(capacity(class), 1024);
    give_all_back(class);
}

/* A class has few blocks left in many slabs: every `step`th of those in `blocks`; the others, which went, are NULL. */
static void leave_few(uint32_t class, void **blocks, size_t n, size_t step)
{
    for (size_t i = 0; i < n; i++)
        blocks[i] = alloc(class);
    for (size_t i = 0; i < n; i++) {
        if (i % step != 0) {
            release(blocks[i]);
            blocks[i] = NULL;
        }
    }
}

static void release_all(void **blocks, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (blocks[i] != NULL)
            release(blocks[i]);
    }
}

/* As many blocks as a walk at random comes to, within bounds wide enough for falls. */
static void a_mix_of_few_blocks_makes_no_long_magazine(void **state)
{
    (void)state;
    enum { FEW = 200, TURNS = 200000, FALLS = 20 };
    static void *left[SWING_MIXED], *mixed[FEW];
    uint32_t class = class_for(80), random = 1, n = 0;
    forget_slots();
    leave_few(class, left, SWING_MIXED, 30);
    uint64_t sparse = counted(heap, COUNTER_flush_sparse);
    for (int i = 0; i < TURNS; i++) {
        random = random * 1664525 + 1013904223;
        if ((random >> 31 != 0 && n < FEW) || n == 0) {
            mixed[n++] = alloc(class);
        } else {
            uint32_t one = (random >> 8) % n--;
            release(mixed[one]);
            mixed[one] = mixed[n];
        }
    }
    assert_true(counted(heap, COUNTER_flush_sparse) >= sparse + FALLS);
    assert_int_equal(capacity(class), hak_classes[class].slots);
    release_all(mixed, n);
    release_all(left, SWING_MIXED);
    give_all_back(class);
}

/* It falls again and again, and never rises by what a refill brings in the end. */
static void falls_alone_make_no_long_magazine(void **state)
{
    (void)state;
    enum { RISE = 10, FALL = 80, TURNS = 12, LEFT = 20 * FALL };
    static void *blocks[2 * SWING_MIXED], *left[LEFT], *risen[RISE];
    uint32_t class = class_for(80);
    forget_slots();
    leave_few(class, blocks, ARRAY_LENGTH(blocks), ARRAY_LENGTH(blocks) / LEFT);
    for (size_t i = 0, n = 0; i < ARRAY_LENGTH(blocks) && n < LEFT; i++) {
        if (blocks[i] != NULL) {
            left[n++] = blocks[i];
            blocks[i] = NULL;
        }
    }
    for (size_t turn = 0; turn < TURNS; turn++) {
        uint64_t sparse = counted(heap, COUNTER_flush_sparse);
        for (size_t i = 0; i < RISE; i++)
            risen[i] = alloc(class);
        release_all(risen, RISE);
        release_all(left + turn * FALL, FALL);
        assert_at(counted(heap, COUNTER_flush_sparse) > sparse, turn);
        assert_at(magazine_of(heap, class)->swings == 0, turn);
    }
    release_all(left + TURNS * FALL, LEFT - TURNS * FALL);
    release_all(blocks, ARRAY_LENGTH(blocks));
    give_all_back(class);
}

/* Blocks that come and go in another order while the magazine is half full or more, as in a queue, do not hide what
 * swings beside them. */
static void a_queue_beside_a_swing_does_not_hide_it(void **state)
{
    (void)state;
    enum { SWING = 900, TURNS = 60, MESSAGES = 16, STEPS = 30 };
    uint32_t class = class_for(80);
    void *waiting[MESSAGES], *sent[MESSAGES];
    forget_slots();
    for (size_t k = 0; k < MESSAGES; k++)
        waiting[k] = alloc(class);
    for (int i = 0; i < TURNS; i++) {
        swing(class, SWING);
        for (int step = 0; step < STEPS; step++) {
            for (size_t k = 0; k < MESSAGES; k++)
                sent[k] = alloc(class);
            for (size_t k = 0; k < MESSAGES; k++)
                release(waiting[k]);
            memcpy(waiting, sent, sizeof waiting);
        }
    }
    assert_true(capacity(class) >= SWING);
    for (size_t k = 0; k < MESSAGES; k++)
        release(waiting[k]);
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

/* Of small ones any have all of it. */
static void long_magazines_of_small_blocks_have_the_whole_budget(void **state)
{
    (void)state;
    enum { TURNS = 40, SWING = 900, MOST = 8 << 20 /* of which blocks have come anew */ };
    uint32_t class = class_for(80);
    forget_slots();
    heap->taken_bytes = SIZE_MAX / 2;
    heap->magazine_bytes = MOST * 3 / 4;
    for (int i = 0; i < TURNS; i++)
        swing(class, SWING);
    assert_true(capacity(class) >= SWING);
    heap->magazine_bytes -= MOST * 3 / 4;
    heap->taken_bytes = 0;
    give_all_back(class);
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
    swing_larger(MANY, TURNS);
    assert_in_range(bytes_of_long_ones(), 2 << 20, 9 << 19);
    for (int i = 0; i < MANY; i++)
        release(ballast[i]);
    forget_slots();
}

/* How long they became is for a demand that is gone. One whose demand goes up and down at once keeps them. */
static void a_heap_that_has_shrunk_loses_its_slots(void **state)
{
    (void)state;
    enum { TURNS = 8, MANY = 64 };
    uint32_t class = class_for(UNIT_SIZE);
    forget_slots();
    heap->emptied_ms = 0;
    heap->peak_bytes = heap->used_bytes;
    swing(class, MANY);
    assert_int_equal(capacity(class), 0);
    assert_int_equal(heap->magazine_bytes, 0);
    for (int i = 0; i < TURNS; i++)
        swing(class, MANY);
    if (heap_swings(heap)) /* else the machine was busy */
        assert_int_equal(capacity(class), hak_classes[class].slots);
    forget_slots();
}

/* As n refills do. Slots then. */
static uint32_t slots_after(uint32_t class, int n)
{
    lock_take(&heap->lock);
    empty_magazine(heap, class);
    while (n-- > 0)
        adjust_slots(heap, class);
    lock_release(&heap->lock);
    return capacity(class);
}

static void lose_all_slots(void)
{
    lock_take(&heap->lock);
    magazines_lose_slots(heap);
    lock_release(&heap->lock);
}

/* As where the heap has shrunk. */
static void learn_and_lose(uint32_t class)
{
    enum { SWING = 900, TURNS = 40 };
    forget_slots();
    for (int i = 0; i < TURNS; i++)
        swing(class, SWING);
    assert_int_equal(capacity(class), 1024);
    lose_all_slots();
    assert_int_equal(capacity(class), 0);
}

static void what_a_magazine_has_learnt_outlives_its_slots(void **state)
{
    (void)state;
    enum { FIRST = 1, DOUBLINGS = 7 /* from 8 to 1,024 */ };
    uint32_t class = class_for(80);
    learn_and_lose(class);
    assert_int_equal(slots_after(class, FIRST), 8);
    assert_int_equal(slots_after(class, DOUBLINGS - 1), 512);
    assert_int_equal(slots_after(class, 10), 1024);
    lose_all_slots();
    assert_int_equal(slots_after(class, FIRST), 8);
    lose_all_slots(); /* it was a short one meanwhile */
    assert_int_equal(slots_after(class, FIRST + DOUBLINGS), hak_classes[class].slots);
    forget_slots();
}

static void without_learning_what_was_learnt_does_not_count(void **state)
{
    (void)state;
    uint32_t class = class_for(80), plain = hak_classes[class].slots;
    struct options before = hak_options;
    learn_and_lose(class);
    hak_options.learn = 0;
    assert_int_equal(slots_after(class, 10), plain);
    hak_options.learn = 1;
    hak_options.magazines = 0;
    assert_int_equal(slots_after(class, 1), plain);
    hak_options.magazines = 2;
    assert_int_equal(slots_after(class, 1), 2 * plain);
    hak_options = before;
    forget_slots();
}

/* To more than twice what it had. */
static void only_what_has_grown_anew_swings(void **state)
{
    (void)state;
    size_t peak = heap->peak_bytes, emptied = heap->emptied_bytes;
    heap->emptied_ms = os_now_ms();
    heap->emptied_bytes = 1000;
    heap->peak_bytes = 2000;
    assert_false(heap_swings(heap));
    assert_true(heap->emptied_ms != 0);
    heap->peak_bytes = 2001;
    uint64_t then = heap->emptied_ms = os_now_ms();
    bool swings = heap_swings(heap);
    assert_true(swings || os_now_ms() - then >= 1000);
    heap->emptied_ms = os_now_ms() - 1000;
    assert_false(heap_swings(heap));
    heap->emptied_ms = 0;
    assert_false(heap_swings(heap));
    heap->peak_bytes = peak;
    heap->emptied_bytes = emptied;
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

/* A thread that sleeps keeps what it has in them. */
static void blocks_of_pages_have_a_budget_that_heaps_share(void **state)
{
    (void)state;
    enum { HEAPS = 200, MANY = 8, TURNS = 4 };
    forget_slots();
    heap->paged_bytes = 0;
    heaps = HEAPS;
    size_t most = 0;
    for (uint32_t class = FIRST_PAGED; class < CLASS_COUNT; class ++) {
        void *blocks[MANY];
        for (int i = 0; i < MANY; i++)
            blocks[i] = alloc(class);
        most = most < heap->used_bytes ? heap->used_bytes : most;
        for (int i = 0; i < MANY; i++)
            release(blocks[i]);
    }
    assert_in_range(heap->paged_bytes, 1, (32 << 20) / HEAPS + most / 4);
    heaps = 1;
    for (int i = 0; i < TURNS * MANY; i++) {
        for (uint32_t class = FIRST_PAGED; class < CLASS_COUNT; class ++)
            release(alloc(class));
    }
    for (uint32_t class = FIRST_PAGED; class < CLASS_COUNT; class ++)
        assert_true(capacity(class) != 0);
    give_all_back(FIRST_PAGED);
    forget_slots();
    heap->paged_bytes = 0;
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

/* A magazine that runs full and dry now and then, with frees and requests mixed, stays as it is. */
static void drifting_makes_no_long_magazine(void **state)
{
    (void)state;
    enum { LIVE = 2000, TURNS = 400000 };
    static void *blocks[LIVE];
    uint32_t class = class_for(176);
    uint64_t random = 88172645463325252U;
    forget_slots();
    for (int i = 0; i < TURNS; i++) {
        random ^= random << 13, random ^= random >> 7, random ^= random << 17;
        void **at = &blocks[random % LIVE];
        if (*at != NULL)
            release(*at);
        *at = *at == NULL ? alloc(class) : NULL;
    }
    assert_true(counted(heap, COUNTER_flush) > 0);
    assert_true(capacity(class) <= 64);
    for (size_t i = 0; i < LIVE; i++)
        release(blocks[i]);
    give_all_back(class);
}

static void growing_alone_makes_no_long_magazine(void **state)
{
    (void)state;
    uint32_t class = class_for(112);
    forget_slots();
    static void *blocks[4096];
    for (size_t i = 0; i < 4096; i++)
        blocks[i] = alloc(class);
    assert_int_equal(capacity(class), 64);
    for (size_t i = 0; i < 4096; i++)
        release(blocks[i]);
    assert_int_equal(capacity(class), 64);
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
        cmocka_unit_test(a_magazine_grows_until_a_swing_fits),
        cmocka_unit_test(what_falls_and_grows_again_swings),
        cmocka_unit_test(a_mix_of_few_blocks_makes_no_long_magazine),
        cmocka_unit_test(falls_alone_make_no_long_magazine),
        cmocka_unit_test(a_queue_beside_a_swing_does_not_hide_it),
        cmocka_unit_test(long_magazines_of_small_blocks_have_the_whole_budget),
        cmocka_unit_test(long_magazines_of_larger_blocks_have_half_of_the_budget),
        cmocka_unit_test(a_heap_that_has_shrunk_loses_its_slots),
        cmocka_unit_test(what_a_magazine_has_learnt_outlives_its_slots),
        cmocka_unit_test(without_learning_what_was_learnt_does_not_count),
        cmocka_unit_test(only_what_has_grown_anew_swings),
        cmocka_unit_test(many_heaps_have_less_each),
        cmocka_unit_test(blocks_of_pages_have_a_budget_that_heaps_share),
        cmocka_unit_test(how_long_magazines_become_is_a_setting),
        cmocka_unit_test(a_shadow_says_once_what_would_grow),
        cmocka_unit_test(the_placebo_grows_other_magazines),
        cmocka_unit_test(a_magazine_without_slots_is_refilled_as_a_new_one),
        cmocka_unit_test(blocks_are_had_without_slots),
        cmocka_unit_test(drifting_makes_no_long_magazine),
        cmocka_unit_test(growing_alone_makes_no_long_magazine),
        cmocka_unit_test(idle_magazines_make_room_in_the_budget),
    };
    return cmocka_run_group_tests(tests, make_heap, abandon_heap);
}
