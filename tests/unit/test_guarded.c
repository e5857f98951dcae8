/* Guarded samples: where they lie, what around them is closed and when, how many there are, and what becomes of them
 * where the kernel refuses. The clock stands still but for what a test adds. */
#include "unit.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "control/options.h"
#include "control/place.h"
#include "front/secure.h"
#include "live_here.h"
#include "os/os.h"
#include "profile/arena.h"
#include "profile/guarded.h"
#include "profile/rate.h"

enum { SECOND = 1000, WINDOW = 128, SLOTS = 31 /* of a granule */, PLENTY = 8192 };

static uint64_t now_ms = SECOND;

static struct {
    bool commit, close;
} refused;

uint64_t __wrap_os_now_ms(void);
bool __wrap_os_commit(void *at, size_t size), __real_os_commit(void *at, size_t size);
bool __wrap_os_close(void *at, size_t size), __real_os_close(void *at, size_t size);

uint64_t __wrap_os_now_ms(void)
{
    return __atomic_load_n(&now_ms, __ATOMIC_RELAXED);
}

bool __wrap_os_commit(void *at, size_t size)
{
    return !refused.commit && __real_os_commit(at, size);
}

bool __wrap_os_close(void *at, size_t size)
{
    return !refused.close && __real_os_close(at, size);
}

/* No sample that a test has not asked for. */
__attribute__((constructor)) static void hardly_any_samples(void)
{
    hak_options.profile_interval = (size_t)1 << 40;
}

static void let_pass(uint64_t ms)
{
    __atomic_fetch_add(&now_ms, ms, __ATOMIC_RELAXED);
}

static void allow(size_t guards, size_t rate)
{
    hak_options.guards = guards;
    hak_options.profile_rate = rate;
    let_pass(WINDOW);
}

enum { AT_START = 0, AT_END = 1 };

static char *take(size_t size, uint64_t chance)
{
    return guarded_take(class_for(size), chance);
}

static bool is_closed(const char *from, size_t size)
{
    for (size_t i = 0; i < size; i += 8) {
        if (os_readable(from + i))
            return false;
    }
    return true;
}

static char *base_of(const char *p)
{
    return (char *)((uintptr_t)p & ~(UNIT_SIZE - 1));
}

/* ---- one block ---- */

static void check_block(uint32_t class, uint64_t chance)
{
    size_t size = hak_classes[class].size, natural = size & (0 - size);
    size_t page = hak_region.page_size, pages = round_up(size, page);
    char *p = guarded_take(class, chance);
    if (pages >= UNIT_SIZE) {
        assert_null(p);
        return;
    }
    assert_at(p != NULL && is_zero(p, size), class);
    assert_at(guarded_owns(p) && guarded_usable(p) == size && guarded_usable(p + 16) == 0, class);
    assert_at(((uintptr_t)p & (natural - 1)) == 0 && unit_word(unit_of(p)) == WORD_SAMPLED, class);
    memset(p, 0xff, size);
    assert_at(guarded_damage(p) == NULL, class);
    if (chance == AT_START)
        assert_at((uintptr_t)p % page == 0, class);
    else
        assert_at((uintptr_t)(p + size) % page == 0, class);
    assert_at(is_closed(base_of(p) - page, page), class);
    assert_at(is_closed(base_of(p) + pages, UNIT_SIZE - pages), class);
    guarded_give(p);
    assert_at(is_closed(base_of(p), UNIT_SIZE) && guarded_usable(p) == 0, class);
    assert_int_equal(os_resident_pages(base_of(p), UNIT_SIZE), 0);
}

static void blocks_are_like_their_classes_between_closed_pages(void **state)
{
    (void)state;
    allow(PLENTY, 1000000);
    for (uint32_t class = 0; class < FIRST_PAGED; class ++) {
        check_block(class, AT_END);
        check_block(class, AT_START);
    }
    assert_int_equal(guarded_sums().bytes, 0);
}

static void most_lie_at_the_end(void **state)
{
    (void)state;
    allow(PLENTY, 1000000);
    int at_end = 0;
    for (uint64_t chance = 0; chance < 16; chance++) {
        char *p = take(100, chance);
        at_end += (uintptr_t)p % hak_region.page_size != 0;
        guarded_give(p);
    }
    assert_int_equal(at_end, 12);
}

static const char *damage_by(char *block, char *at, char value)
{
    char was = *at;
    *at = value;
    const char *damage = guarded_damage(block);
    *at = was;
    return damage;
}

/* Where the page goes on, in front of a block or behind, a byte is enough; so is one that is zero. */
static void what_is_written_beside_a_block_is_seen(void **state)
{
    (void)state;
    allow(PLENTY, 1000000);
    for (size_t size = 16; size < 10000; size += size / 2) {
        char *p = take(size, AT_START), *end = p + guarded_usable(p);
        for (char *at = end; (uintptr_t)at % hak_region.page_size != 0; at++)
            assert_string_equal(damage_by(p, at, 0), "the block was written past its end");
        assert_null(guarded_damage(p));
        guarded_give(p);
        p = take(size, AT_END);
        for (char *at = base_of(p); at < p; at++)
            assert_non_null(strstr(damage_by(p, at, 1), "before the start"));
        assert_null(guarded_damage(p));
        guarded_give(p);
    }
}

/* ---- which slot ---- */

static void a_slot_waits_for_all_others(void **state)
{
    (void)state;
    enum { ROUNDS = 3, ALL = SLOTS * ROUNDS };
    char *units[ALL];
    allow(16, 1000000);
    for (int i = 0; i < ALL; i++) {
        char *p = take(100, AT_END);
        assert_non_null(p);
        units[i] = base_of(p);
        guarded_give(p);
        for (int k = i; k > 0 && k > i - SLOTS + 1; k--)
            assert_ptr_not_equal(units[k - 1], units[i]);
    }
    assert_ptr_equal(units[ALL - 1], units[ALL - 1 - SLOTS]);
}

static size_t mappings(void)
{
    static char text[1 << 20];
    size_t lines = 0, length = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    assert_non_null(maps);
    length = fread(text, 1, sizeof text, maps);
    assert_true(length < sizeof text);
    fclose(maps);
    for (size_t i = 0; i < length; i++)
        lines += text[i] == '\n';
    return lines;
}

/* Of slots that wait nothing is left, neither pages nor mappings; a live block costs two. */
static void closed_slots_are_one_mapping(void **state)
{
    (void)state;
    enum { BLOCKS = 20 };
    char *blocks[BLOCKS];
    allow(PLENTY, 1000000);
    guarded_give(take(100, AT_END));
    size_t before = mappings();
    for (int i = 0; i < BLOCKS; i++)
        memset(blocks[i] = take(100, AT_END), 1, 100);
    assert_in_range(mappings(), before + BLOCKS, before + 2 * BLOCKS + 2);
    for (int i = 0; i < BLOCKS; i++)
        guarded_give(blocks[i]);
    assert_in_range(mappings(), before - 2, before + 2);
}

/* ---- how many ---- */

static void places_come_with_time(void **state)
{
    (void)state;
    static const struct {
        uint64_t age_ms;
        uint32_t places;
    } table[] = {{0, 2},        {999, 2},      {1000, 4},       {4000, 6},
                 {16000, 8},    {64000, 10},   {256000, 12},    {1024000, 14},
                 {4095999, 14}, {4096000, 16}, {UINT64_MAX, 16}};
    for (size_t i = 0; i < ARRAY_LENGTH(table); i++)
        assert_at(guarded_places(table[i].age_ms, 16) == table[i].places, i);
    assert_int_equal(guarded_places(0, 0), 0);
    assert_int_equal(guarded_places(0, 1), 1);
}

static void no_more_are_live_than_there_are_places(void **state)
{
    (void)state;
    char *blocks[8];
    size_t n = 0;
    allow(8, 1000000);
    let_pass((uint64_t)4096 * SECOND); /* whenever the first one was asked for */
    for (; n < ARRAY_LENGTH(blocks); n++)
        assert_non_null(blocks[n] = take(100, AT_END));
    assert_null(take(100, AT_END));
    guarded_give(blocks[--n]);
    assert_non_null(blocks[n++] = take(100, AT_END));
    while (n > 0)
        guarded_give(blocks[--n]);
    hak_options.guards = 0;
    assert_null(take(100, AT_END));
}

static void so_many_in_a_window(void **state)
{
    (void)state;
    enum { RATE = 500, ALLOWED = RATE * WINDOW / 1000 / 8 + 1 };
    now_ms = now_ms / WINDOW * WINDOW;
    allow(PLENTY, RATE);
    for (int window = 0; window < 3; window++, let_pass(WINDOW)) {
        for (int i = 0; i < ALLOWED; i++) {
            char *p = take(100, AT_END);
            assert_non_null(p);
            guarded_give(p);
        }
        assert_null(take(100, AT_END));
    }
}

/* ---- where the kernel refuses ---- */

static void a_slot_that_does_not_open_is_tried_again(void **state)
{
    (void)state;
    allow(16, 1000000);
    refused.commit = true;
    assert_null(take(100, AT_END));
    refused.commit = false;
    char *p = take(100, AT_END);
    assert_non_null(p);
    memset(p, 1, 100);
    guarded_give(p);
}

static void a_slot_that_does_not_close_is_never_used_again(void **state)
{
    (void)state;
    allow(16, 1000000);
    char *lost = take(100, AT_END);
    memset(lost, 1, 100);
    refused.close = true;
    guarded_give(lost);
    refused.close = false;
    assert_true(is_zero(lost, 100));
    for (int i = 0; i < 2 * SLOTS; i++) {
        char *p = take(100, AT_END);
        assert_ptr_not_equal(base_of(p), base_of(lost));
        guarded_give(p);
    }
}

static void a_granule_that_does_not_close_is_given_back(void **state)
{
    (void)state;
    bool zeroed;
    allow(PLENTY, 1000000);
    char *blocks[2 * SLOTS];
    ptrdiff_t free = region_take(1, GRANULE_SIZE, &zeroed);
    region_give((size_t)free, 1, zeroed);
    refused.close = true;
    size_t n = 0;
    while (n < ARRAY_LENGTH(blocks) && (blocks[n] = take(100, AT_END)) != NULL)
        n++;
    refused.close = false;
    ptrdiff_t still = region_take(1, GRANULE_SIZE, &zeroed);
    assert_int_equal(still, free);
    region_give((size_t)still, 1, zeroed);
    while (n > 0)
        guarded_give(blocks[--n]);
}

/* ---- what an address belongs to ---- */

static bool is_near(const char *at, const char *block, bool is_live)
{
    struct guarded_block b = guarded_near((uintptr_t)at);
    return guarded_owns(at) && b.address == (uintptr_t)block && b.is_live == is_live;
}

/* Two blocks in neighbouring slots, the lower one first. */
static void take_neighbours(char *pair[2])
{
    pair[0] = take(100, AT_END);
    for (;;) {
        pair[1] = take(100, AT_END);
        assert_non_null(pair[1]);
        if (pair[1] == pair[0] + UNIT_SIZE)
            return;
        guarded_give(pair[0]);
        pair[0] = pair[1];
    }
}

static void the_nearer_block_is_meant(void **state)
{
    (void)state;
    allow(PLENTY, 1000000);
    char *pair[2], *low, *high;
    take_neighbours(pair);
    low = pair[0], high = pair[1];
    assert_true(is_near(low, low, true) && is_near(low + 111, low, true));
    assert_true(is_near(low + 112, low, true) && is_near(low + 30000, low, true));
    assert_true(is_near(base_of(high) - 1, high, true) && is_near(high - 3000, high, true));
    guarded_give(low);
    assert_true(is_near(low + 24, low, false) && is_near(base_of(high) - 1, high, true));
    guarded_give(high);
    assert_true(is_near(high, high, false));
    assert_null(guarded_past((uintptr_t)high));
    struct freed_block freed = {.address = (uintptr_t)high, .size = 99};
    guarded_remember(&freed);
    assert_int_equal(guarded_past((uintptr_t)high)->size, 99);
    int variable;
    assert_false(guarded_owns(&variable) || guarded_owns(NULL));
}

static void what_was_known_goes_with_the_next_block(void **state)
{
    (void)state;
    allow(16, 1000000);
    char *first = take(100, AT_END), *p;
    guarded_give(first);
    struct freed_block freed = {.address = (uintptr_t)first, .size = 100};
    guarded_remember(&freed);
    assert_non_null(guarded_past((uintptr_t)first));
    do {
        p = take(100, AT_END);
        assert_non_null(p);
        guarded_give(p);
    } while (p != first);
    assert_null(guarded_past((uintptr_t)first));
}

/* ---- as the program has them ---- */

static void guard_all(uint64_t seed)
{
    struct sampler *s = &hak_thread.heap->magazines.sampler;
    hak_options.profile = 1;
    hak_options.profile_interval = 1;
    s->random = seed;
    rate_draw(s);
}

static int guard_none(void **state)
{
    (void)state;
    hak_options.profile_interval = (size_t)1 << 40;
    rate_draw(&hak_thread.heap->magazines.sampler);
    return 0;
}

static void resized_zeroed_and_aligned(void **state)
{
    (void)state;
    allow(PLENTY, 1000000);
    guard_all(1);
    size_t old = 16;
    char *p = front_alloc(old);
    memset(p, 7, old);
    for (size_t size = 24; size < 60000; old = size, size += size / 3) {
        assert_true(guarded_owns(p));
        p = front_realloc(p, size);
        for (size_t i = 0; i < old; i++)
            assert_at(p[i] == 7, size);
        memset(p, 7, size);
    }
    assert_ptr_equal(front_realloc(p, old - 8), p);
    front_free(p);
    for (size_t size = 16; size < 60000; size += size / 3) {
        char *z = front_alloc_zeroed(secure_request(size));
        assert_at(guarded_owns(z) && is_zero(z, size), size);
        memset(z, 7, size);
        front_free(z);
        char *a = front_alloc_aligned(256, size);
        assert_at(guarded_owns(a) && (uintptr_t)a % 256 == 0, size);
        front_free(a);
    }
}

static void samples_add_up(void **state)
{
    (void)state;
    enum { BLOCKS = 50, SIZE = 1000 };
    char *blocks[BLOCKS];
    size_t before_count, before_bytes, count, bytes;
    const struct live_process *shown = live_area()->process;
    allow(PLENTY, 1000000);
    guard_all(2);
    uint64_t live = load_relaxed(&shown->sampled_live), guarded = load_relaxed(&shown->guarded);
    sampled_live(&before_count, &before_bytes);
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = front_alloc(SIZE);
    sampled_live(&count, &bytes);
    assert_int_equal(count - before_count, BLOCKS);
    assert_int_equal(bytes - before_bytes, BLOCKS * hak_classes[class_for(SIZE)].size);
    assert_int_equal(load_relaxed(&shown->sampled_live) - live, BLOCKS * SIZE);
    assert_int_equal(load_relaxed(&shown->guarded) - guarded, BLOCKS);
    assert_int_equal(load_relaxed(&shown->guarded_bytes), guarded_sums().bytes);
    for (int i = 0; i < BLOCKS; i++)
        front_free(blocks[i]);
    sampled_live(&count, &bytes);
    assert_int_equal(count, before_count);
    assert_int_equal(bytes, before_bytes);
    assert_int_equal(load_relaxed(&shown->sampled_live), live);
}

static void the_story_names_both_threads(void **state)
{
    (void)state;
    struct block_story story;
    allow(PLENTY, 1000000);
    guard_all(3);
    char *p = front_alloc(100);
    assert_true(sampled_story((uintptr_t)p + 150, &story));
    assert_true(!story.is_freed && story.size == 100 && story.address == (uintptr_t)p);
    assert_int_equal(story.allocated.tid, os_thread_id());
    front_free(p);
    assert_true(sampled_story((uintptr_t)p + 24, &story));
    assert_true(story.is_freed && story.size == 100 && story.address == (uintptr_t)p);
    assert_int_equal(story.freed.tid, os_thread_id());
}

static void an_address_is_told_with_its_misuse(void **state)
{
    (void)state;
    struct place p;
    char text[200];
    if (HAK_SECURE) /* there a block that was not allocated by malloc's name is one that waits */
        skip();
    allow(PLENTY, 1000000);
    guard_all(4);
    char *block = front_alloc(100);
    place_find(&p, (uintptr_t)block + 150);
    place_text(&p, text, sizeof text);
    assert_non_null(strstr(text, "50 bytes past the end of a live block of 100 bytes"));
    assert_string_equal(place_misuse(&p), "past the end of a block");
    place_find(&p, (uintptr_t)block + 50);
    assert_null(place_misuse(&p));
    front_free(block);
    place_find(&p, (uintptr_t)block + 50);
    assert_string_equal(place_misuse(&p), "use after free");
    place_find(&p, (uintptr_t)block + 150);
    place_text(&p, text, sizeof text);
    assert_non_null(strstr(text, "50 bytes past the end of a free block of 100 bytes"));
    assert_null(place_misuse(&p));
}

/* As in a handler that has interrupted the sampler. */
static void a_free_that_may_not_wait_is_done_later(void **state)
{
    (void)state;
    allow(PLENTY, 1000000);
    guard_all(5);
    char *p = front_alloc(100);
    lock_take(sampler_lock());
    thread_enter();
    front_free(p);
    thread_leave();
    lock_release(sampler_lock());
    assert_true(os_readable(p));
    front_free(front_alloc(100));
    assert_true(is_closed(p, 96));
}

static void a_child_goes_on_with_its_blocks(void **state)
{
    (void)state;
    allow(PLENTY, 1000000);
    guard_all(6);
    char *p = front_alloc(1000);
    memset(p, 7, 1000);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        bool kept = p[0] == 7 && p[999] == 7;
        p[0] = 8;
        front_free(front_alloc(5000));
        front_free(p);
        char *q = front_alloc(100);
        _exit(kept && is_closed(base_of(p), UNIT_SIZE) && guarded_owns(q) ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(p[0], 7);
    front_free(p);
}

enum { EXCHANGED = 16, ROUNDS = 3000 };
static _Atomic(unsigned char *) exchanged[EXCHANGED];

/* The first byte says what all others are. */
static void *exchange_blocks(void *number)
{
    uint32_t random = (uint32_t)(uintptr_t)number;
    for (int i = 0; i < ROUNDS; i++) {
        size_t size = 16 + next_random(&random) % 5000;
        unsigned char *p = front_alloc(size);
        memset(p, i & 0xff, size);
        p = exchange_acq_rel(&exchanged[next_random(&random) % EXCHANGED], p);
        if (p == NULL)
            continue;
        if (memcmp(p, p + 1, 15) != 0)
            return number;
        front_free(p);
    }
    return NULL;
}

static void threads_exchange_them(void **state)
{
    (void)state;
    allow(64, 1000000);
    uint64_t before = guarded_sums().taken;
    hak_options.profile = 1;
    hak_options.profile_interval = 2000;
    run_threads(exchange_blocks);
    for (int i = 0; i < EXCHANGED; i++)
        front_free(exchange_acq_rel(&exchanged[i], NULL));
    assert_true(guarded_sums().taken > before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slot_waits_for_all_others), /* of the first granule alone */
        cmocka_unit_test(blocks_are_like_their_classes_between_closed_pages),
        cmocka_unit_test(most_lie_at_the_end),
        cmocka_unit_test(what_is_written_beside_a_block_is_seen),
        cmocka_unit_test(closed_slots_are_one_mapping),
        cmocka_unit_test(places_come_with_time),
        cmocka_unit_test(no_more_are_live_than_there_are_places),
        cmocka_unit_test(so_many_in_a_window),
        cmocka_unit_test(a_slot_that_does_not_open_is_tried_again),
        cmocka_unit_test(a_slot_that_does_not_close_is_never_used_again),
        cmocka_unit_test(a_granule_that_does_not_close_is_given_back),
        cmocka_unit_test(the_nearer_block_is_meant),
        cmocka_unit_test(what_was_known_goes_with_the_next_block),
        cmocka_unit_test_teardown(resized_zeroed_and_aligned, guard_none),
        cmocka_unit_test_teardown(samples_add_up, guard_none),
        cmocka_unit_test_teardown(the_story_names_both_threads, guard_none),
        cmocka_unit_test_teardown(an_address_is_told_with_its_misuse, guard_none),
        cmocka_unit_test_teardown(a_free_that_may_not_wait_is_done_later, guard_none),
        cmocka_unit_test_teardown(a_child_goes_on_with_its_blocks, guard_none),
        cmocka_unit_test_teardown(threads_exchange_them, guard_none),
    };
    return cmocka_run_group_tests(tests, make_live_area, NULL);
}
