/* Keep-alive: what is learnt from the gaps between falls of demand and rises, and what is then kept. The state is
 * the process' own, so each test takes a key of its own and a time long after the one before. */
#include "unit.h"

#include "live/live.h"
#include "mind/falls.h"
#include "mind/keep.h"
#include "os/os.h"

enum { SECOND = 1000, HOUR = 3600 * SECOND };
static const size_t low = 64 * MIB, high = 192 * MIB;

static uint64_t now_ms;
static uint16_t key;
static struct options defaults;

static int make_area(void **state)
{
    (void)state;
    defaults = hak_options;
    store_relaxed(&hak_live.due, true);
    return live_make() != NULL ? 0 : -1;
}

static int next_key(void **state)
{
    (void)state;
    hak_options = defaults;
    hak_options.keep = KEEP_SIZE;
    hak_options.keep_worth = 4 * SECOND;
    now_ms += HOUR;
    key++;
    keep_look(low, key, now_ms);
    now_ms += HOUR;
    return 0;
}

static size_t look(size_t in_use, uint64_t after_ms)
{
    now_ms += after_ms;
    return keep_look(in_use, key, now_ms);
}

/* Demand is high, falls, and is low for so long. */
static void beat(uint64_t gap_ms)
{
    look(high, gap_ms);
    look(low, SECOND / 10);
}

static uint64_t decisions(void)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < LIVE_ROWS_decisions; i++) {
        uint64_t n = load_relaxed(&live_area()->decisions[i].number);
        most = n > most ? n : most;
    }
    return most;
}

/* ---- falls ---- */

static struct fall fall(size_t bytes, uint64_t ms, uint16_t of)
{
    return (struct fall){.bytes = bytes, .ms = ms, .key = of};
}

static void newest_falls_are_made_up_first(void **state)
{
    (void)state;
    struct falls f = {0};
    falls_push(&f, fall(10, 0, 1), 50);
    falls_push(&f, fall(20, 100, 1), 50);
    struct fall got = falls_pop(&f, 15);
    assert_int_equal(got.bytes, 15);
    assert_int_equal(got.ms, 100);
    got = falls_pop(&f, 15);
    assert_int_equal(got.bytes, 5);
    got = falls_pop(&f, 15);
    assert_int_equal(got.bytes, 10);
    assert_int_equal(got.ms, 0);
    assert_int_equal(falls_pop(&f, 1).bytes, 0);
}

static void a_part_of_a_fall_takes_what_is_kept_first(void **state)
{
    (void)state;
    struct falls f = {0};
    struct fall half = fall(20, 0, 1);
    half.kept = 10;
    falls_push(&f, half, 50);
    falls_push(&f, half, 50);
    assert_int_equal(falls_pop(&f, 15).kept, 15);
    struct fall got = falls_pop(&f, 15);
    assert_int_equal(got.kept, 5);
    assert_int_equal(got.bytes, 15);
    assert_int_equal(falls_pop(&f, 15).kept, 0);
}

static void falls_of_a_moment_are_one(void **state)
{
    (void)state;
    struct falls f = {0};
    falls_push(&f, fall(10, 0, 1), 50);
    falls_push(&f, fall(20, 49, 1), 50);
    assert_int_equal(f.count, 1);
    falls_push(&f, fall(20, 50, 1), 50);
    falls_push(&f, fall(20, 51, 2), 50);
    assert_int_equal(f.count, 3);
}

static void the_oldest_falls_become_one_when_there_are_too_many(void **state)
{
    (void)state;
    struct falls f = {0};
    for (uint64_t i = 0; i < 3 * FALLS_MOST; i++)
        falls_push(&f, fall(i + 1, 100 * i, 1), 50);
    assert_int_equal(f.count, FALLS_MOST);
    size_t sum = 0;
    for (uint32_t i = 0; i < f.count; i++)
        sum += f.at[i].bytes;
    assert_int_equal(sum, 3 * FALLS_MOST * (3 * FALLS_MOST + 1) / 2);
    for (uint32_t i = 1; i < f.count; i++)
        assert_at(f.at[i].ms == 100 * (2 * FALLS_MOST + i), i);
}

/* ---- what is kept ---- */

static void nothing_is_kept_of_what_fell_once(void **state)
{
    (void)state;
    look(high, SECOND);
    assert_int_equal(look(low, SECOND), 0);
    assert_int_equal(look(low, SECOND), 0);
}

static uint64_t shown_kib(void)
{
    uint64_t kib = 0;
    for (int i = 0; i < KEEP_TIMES; i++)
        kib += load_relaxed(&live_area()->rules[key].kib[i]);
    return kib;
}

/* Of three gaps half; then a fall that has been in vain, and a gap more. */
static void what_is_known_counts_half_after_a_minute(void **state)
{
    (void)state;
    const uint64_t each = (high - low) >> 10;
    for (int i = 0; i < 4; i++)
        beat(2 * SECOND);
    look(low, 61 * SECOND);
    assert_int_equal(shown_kib(), 3 * each); /* as it was decided on */
    beat(2 * SECOND);
    beat(2 * SECOND);
    look(low, SECOND);
    assert_int_equal(shown_kib(), 3 * each / 2 + 2 * each);
}

static void a_rhythm_is_kept_just_long_enough(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        beat(2200);
    assert_int_equal(look(low, 2200), high - low);
    assert_int_equal(look(low, 2 * SECOND), 0);
}

static void a_gap_that_is_not_worth_it_is_never_kept(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        beat(4500);
        assert_at(look(low, 1) == 0, i);
    }
}

static void what_it_is_worth_is_a_setting(void **state)
{
    (void)state;
    hak_options.keep_worth = 10 * SECOND;
    for (int i = 0; i < 3; i++)
        beat(5 * SECOND);
    assert_int_equal(look(low, 5 * SECOND), high - low);
}

static void a_rhythm_that_ends_is_dropped(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++)
        beat(SECOND + SECOND / 2);
    assert_int_equal(look(low, 1), high - low);
    for (int i = 0; i < 20; i++)
        beat(30 * SECOND);
    assert_int_equal(look(low, 1), 0);
}

static void a_gap_that_varies_changes_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++)
        beat(2200);
    uint64_t before = decisions();
    for (uint64_t i = 0; i < 100; i++)
        beat(2050 + 37 * i % 800);
    assert_true(decisions() <= before + 2);
}

static void small_changes_are_no_falls(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++) {
        look(low + low / 40, SECOND);
        look(low, SECOND);
    }
    assert_int_equal(look(low, 1), 0);
}

static void a_key_of_which_nothing_is_known_goes_by_all(void **state)
{
    (void)state;
    for (int i = 0; i < 40; i++)
        beat(SECOND + SECOND / 2);
    look(high, SECOND);
    now_ms += SECOND;
    assert_int_equal(keep_look(low, ++key, now_ms), high - low);
}

/* Small falls come back soon. One that is much deeper is kept as far as they were deep and a quarter beyond, until it comes back
 * as well. */
static void a_fall_deeper_than_any_that_came_back_is_not_kept(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++)
        look(low, 60 * SECOND); /* what was known counts nothing any more */
    for (int i = 0; i < 5; i++) {
        look(high, SECOND + SECOND / 2);
        look(high - 16 * MIB, SECOND / 10);
    }
    assert_int_equal(look(high - 16 * MIB, 1), 16 * MIB);
    assert_int_equal(look(low, SECOND / 10), 20 * MIB);
    assert_int_equal(look(low, SECOND), 20 * MIB);
    look(high, SECOND / 10);
    assert_int_equal(look(low, SECOND / 10), high - low);
}

static void fixed_keeps_all_for_its_time(void **state)
{
    (void)state;
    hak_options.keep = KEEP_FIXED;
    hak_options.keep_time = 3 * SECOND;
    look(high, SECOND);
    assert_int_equal(look(low, SECOND), high - low);
    assert_int_equal(look(low, 3 * SECOND - 1), high - low);
    assert_int_equal(look(low, SECOND / 10), 0);
}

static void without_learning_only_what_is_fixed_is_kept(void **state)
{
    static const enum keep_mode modes[] = {KEEP_SHADOW, KEEP_SIZE, KEEP_SITE, KEEP_SHUFFLED};
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(modes); i++) {
        hak_options.keep = modes[i];
        hak_options.learn = true;
        assert_at(keep_is_on() && keep_is_by_site() == (modes[i] >= KEEP_SITE), i);
        hak_options.learn = false;
        assert_at(!keep_is_on() && !keep_is_by_site(), i);
    }
    hak_options.keep = KEEP_FIXED;
    assert_true(keep_is_on() && !keep_is_by_site());
    hak_options.keep = KEEP_OFF;
    assert_false(keep_is_on());
    hak_options.learn = true;
    assert_false(keep_is_on());
}

static void a_shadow_decides_and_keeps_nothing(void **state)
{
    (void)state;
    hak_options.keep = KEEP_SHADOW;
    uint64_t before = decisions();
    for (int i = 0; i < 5; i++) {
        beat(2200);
        assert_at(look(low, 1) == 0, i);
    }
    assert_true(decisions() > before);
    assert_int_equal(
        load_relaxed(&live_area()->decisions[(decisions() - 1) % LIVE_ROWS_decisions].is_shadow),
        1);
}

static void what_was_kept_is_counted(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++)
        beat(2200);
    const struct live_rules *row = &live_area()->rules[key];
    uint64_t saved = load_relaxed(&row->saved_kib), vain = load_relaxed(&row->vain_kib);
    uint64_t held = load_relaxed(&row->held_kib_s);
    beat(2200);
    look(low, SECOND / 2);
    assert_int_equal(load_relaxed(&row->saved_kib) - saved, (high - low) >> 10);
    assert_int_equal(load_relaxed(&row->vain_kib), vain);
    assert_true(load_relaxed(&row->held_kib_s) - held >= 2 * (high - low) >> 10);
    look(low, 29 * SECOND);
    beat(SECOND);
    assert_true(load_relaxed(&row->vain_kib) - vain >= (high - low) >> 10);
}

/* ---- what was known before ---- */

static bool know(const struct keep_known *known)
{
    return keep_know(known, now_ms);
}

static void a_rule_known_before_keeps_what_falls_first(void **state)
{
    (void)state;
    assert_true(know(&(struct keep_known){.key = key, .keep_ms = 3000, .kib = {[6] = 1 << 20}}));
    look(high, SECOND);
    assert_int_equal(look(low, 1), high - low);
    assert_int_equal(look(low, 2 * SECOND), high - low);
    assert_int_equal(look(low, SECOND), 0);
    const struct live_rules *row = &live_area()->rules[key];
    assert_int_equal(load_relaxed(&row->loaded), 1);
    assert_int_equal(load_relaxed(&row->keep_ms), 3000);
    assert_true(load_relaxed(&row->kib[6]) >= 1 << 19);
}

static void a_rule_known_before_can_be_unlearnt(void **state)
{
    (void)state;
    know(&(struct keep_known){.key = key, .keep_ms = 3000, .kib = {[6] = 1 << 18}});
    for (int i = 0; i < 20; i++)
        beat(30 * SECOND);
    assert_int_equal(look(low, 1), 0);
}

static void what_evidence_says_goes_before_what_was_chosen(void **state)
{
    (void)state;
    know(&(struct keep_known){.key = key, .keep_ms = 16000, .kib = {1 << 18, [3] = 1 << 20}});
    look(high, SECOND);
    assert_int_equal(look(low, 1), high - low);
    look(low, SECOND / 2);
    assert_int_equal(look(low, SECOND), 0);
}

static void rules_by_size_are_not_for_call_sites(void **state)
{
    (void)state;
    struct keep_known by_size = {.key = key, .keep_ms = 3000},
                      by_site = {.key = key, .signature = 0x123, .keep_ms = 3000};
    assert_false(know(&by_site));
    hak_options.keep = KEEP_SITE;
    assert_false(know(&by_size));
    assert_true(know(&by_site));
    hak_options.keep = KEEP_FIXED;
    assert_false(know(&by_size));
    assert_false(know(&by_site));
}

static void a_rule_of_a_call_site_waits_for_it(void **state)
{
    (void)state;
    const uintptr_t own[] = {0x7f0000001234, 0x7f0000005678};
    hak_options.keep = KEEP_SITE;
    uint64_t signature = keep_signature_of(4 * MIB, own, 2);
    know(&(struct keep_known){.key = 5, .signature = signature, .keep_ms = 3000});
    key = keep_key_of_site(4 * MIB, own, 2);
    look(high, SECOND);
    assert_int_equal(look(low, 1), high - low);
    const struct live_rules *row = &live_area()->rules[key];
    assert_int_equal(load_relaxed(&row->loaded), 1);
    assert_true(load_relaxed(&row->stack) == signature);
    assert_int_equal(load_relaxed(&row->least_bytes), 4 * MIB);
}

/* Places are few, and each call stack's own may be another's. */
static void call_stacks_do_not_share_a_key_while_there_are_others(void **state)
{
    (void)state;
    bool taken[KEEP_KEYS] = {0};
    hak_options.keep = KEEP_SITE;
    for (uintptr_t i = 0; i < 16; i++) {
        uintptr_t frame = 0x10 + 0x20 * i;
        uint16_t k = keep_key_of_site(16 * MIB, &frame, 1);
        assert_at(!taken[k], i);
        assert_at(keep_key_of_site(16 * MIB, &frame, 1) == k, i);
        taken[k] = true;
    }
}

/* A process may have more of them than there are places: what is shown of a place stays its first one's. */
static void call_stacks_without_a_place_leave_anothers_as_it_is(void **state)
{
    (void)state;
    const uintptr_t own[] = {0x7f0000004321, 0x7f0000008765};
    hak_options.keep = KEEP_SITE;
    key = keep_key_of_site(4 * MIB, own, 2);
    size_t sharing = 0;
    for (uintptr_t i = 0; i < 32 * (uintptr_t)KEEP_KEYS; i++) {
        uintptr_t frame = 0x12 + 0x20 * i;
        sharing += keep_key_of_site(16 * MIB, &frame, 1) == key;
    }
    assert_true(sharing > 0);
    for (int i = 0; i < 4; i++)
        beat(2200);
    const struct live_rules *row = &live_area()->rules[key];
    assert_true(load_relaxed(&row->site) == own[0]);
    assert_int_equal(load_relaxed(&row->least_bytes), 4 * MIB);
    assert_true(load_relaxed(&row->stack) == keep_signature_of(4 * MIB, own, 2));
}

/* ---- keys ---- */

static void a_call_stack_is_known_wherever_it_is_loaded(void **state)
{
    (void)state;
    const uintptr_t here[] = {0x555500001abc, 0x7fff00002def},
                    moved[] = {0x555677773abc, 0x7fee12345def};
    const uintptr_t other[] = {0x555500001abd, 0x7fff00002def};
    assert_true(keep_signature_of(MIB, here, 2) == keep_signature_of(MIB, moved, 2));
    assert_true(keep_signature_of(MIB, here, 2) != keep_signature_of(MIB, other, 2));
    assert_true(keep_signature_of(MIB, here, 2) != keep_signature_of(MIB, here, 1));
    assert_true(keep_signature_of(MIB, here, 2) != keep_signature_of(4 * MIB, here, 2));
    assert_true(keep_signature_of(MIB, NULL, 0) != 0);
}

static void sizes_have_keys_by_powers_of_two(void **state)
{
    (void)state;
    assert_int_equal(keep_key_of_size(KEYS_FROM + 1), keep_key_of_size(2 * KEYS_FROM - 1));
    assert_int_equal(keep_key_of_size(KEYS_FROM), 1);
    assert_int_equal(keep_key_of_size(KEYS_FROM - 1), 0);
    assert_int_equal(keep_key_of_size(1), 0);
    assert_int_not_equal(keep_key_of_size(MIB), keep_key_of_size(2 * MIB));
    assert_true(keep_key_of_size(PTRDIFF_MAX) < KEEP_KEYS);
}

static void call_stacks_have_keys(void **state)
{
    (void)state;
    const uintptr_t here[] = {0x1010, 0x2020}, there[] = {0x1010, 0x3030};
    hak_options.keep = KEEP_SITE;
    uint16_t k = keep_key_of_site(MIB, here, 2);
    assert_true(k > 0 && k < KEEP_KEYS);
    assert_int_equal(keep_key_of_site(MIB, here, 2), k);
    assert_int_not_equal(keep_key_of_site(MIB, there, 2), k);
    assert_int_not_equal(keep_key_of_site(4 * MIB, here, 2), k);
    assert_true(keep_key_of_site(MIB, NULL, 0) > 0);
    assert_int_equal(keep_key_of_site(KEYS_FROM - 1, here, 2), 0);
}

/* Each stack's keys go to blocks of all. */
static void shuffled_keys_say_nothing(void **state)
{
    (void)state;
    enum { DRAWS = 4000, STACKS = 2 };
    size_t own = 0, given[KEEP_KEYS] = {0};
    uint16_t keys[STACKS];
    for (uintptr_t i = 0; i < STACKS; i++) {
        hak_options.keep = KEEP_SITE;
        keys[i] = keep_key_of_site(MIB, &i, 1);
    }
    hak_options.keep = KEEP_SHUFFLED;
    for (uintptr_t n = 0; n < DRAWS; n++) {
        uintptr_t i = n % STACKS;
        uint16_t k = keep_key_of_site(MIB, &i, 1);
        own += k == keys[i];
        given[k]++;
    }
    assert_int_not_equal(keys[0], keys[1]);
    assert_true(own > DRAWS / 3 && own < DRAWS * 2 / 3);
    assert_true(given[keys[0]] > DRAWS / 3 && given[keys[1]] > DRAWS / 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(newest_falls_are_made_up_first),
        cmocka_unit_test(a_part_of_a_fall_takes_what_is_kept_first),
        cmocka_unit_test(falls_of_a_moment_are_one),
        cmocka_unit_test(the_oldest_falls_become_one_when_there_are_too_many),
        cmocka_unit_test_setup(nothing_is_kept_of_what_fell_once, next_key),
        cmocka_unit_test_setup(a_rhythm_is_kept_just_long_enough, next_key),
        cmocka_unit_test_setup(a_gap_that_is_not_worth_it_is_never_kept, next_key),
        cmocka_unit_test_setup(what_it_is_worth_is_a_setting, next_key),
        cmocka_unit_test_setup(a_rhythm_that_ends_is_dropped, next_key),
        cmocka_unit_test_setup(a_gap_that_varies_changes_nothing, next_key),
        cmocka_unit_test_setup(small_changes_are_no_falls, next_key),
        cmocka_unit_test_setup(a_key_of_which_nothing_is_known_goes_by_all, next_key),
        cmocka_unit_test_setup(a_fall_deeper_than_any_that_came_back_is_not_kept, next_key),
        cmocka_unit_test_setup(fixed_keeps_all_for_its_time, next_key),
        cmocka_unit_test_setup(without_learning_only_what_is_fixed_is_kept, next_key),
        cmocka_unit_test_setup(a_shadow_decides_and_keeps_nothing, next_key),
        cmocka_unit_test_setup(what_was_kept_is_counted, next_key),
        cmocka_unit_test_setup(what_is_known_counts_half_after_a_minute, next_key),
        cmocka_unit_test_setup(a_rule_known_before_keeps_what_falls_first, next_key),
        cmocka_unit_test_setup(a_rule_known_before_can_be_unlearnt, next_key),
        cmocka_unit_test_setup(what_evidence_says_goes_before_what_was_chosen, next_key),
        cmocka_unit_test_setup(rules_by_size_are_not_for_call_sites, next_key),
        cmocka_unit_test_setup(a_rule_of_a_call_site_waits_for_it, next_key),
        cmocka_unit_test_setup(call_stacks_do_not_share_a_key_while_there_are_others, next_key),
        cmocka_unit_test(a_call_stack_is_known_wherever_it_is_loaded),
        cmocka_unit_test(sizes_have_keys_by_powers_of_two),
        cmocka_unit_test_setup(call_stacks_have_keys, next_key),
        cmocka_unit_test_setup(shuffled_keys_say_nothing, next_key),
        cmocka_unit_test_setup(call_stacks_without_a_place_leave_anothers_as_it_is,
                               next_key), /* last: no place is left */
    };
    return cmocka_run_group_tests(tests, make_area, NULL);
}
