/* Numbers: they add up. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>

#include "control/stats.h"
#include "front/front.h"
#include "pages/pages.h"
#include "super/super.h"

/* How many of the sizes are such, the first ones and the last; runs for their alignment. */
enum { RUNS = 3, BIGS = 2 };

static const size_t sizes[] = {70000, 300000,       RUN_MAX,  1,           8,
                               9,     100,          1000,     1025,        5000,
                               60000, SLAB_MAX / 4, SLAB_MAX, RUN_MAX + 1, 7 * MIB};

enum { EACH = 50 };

static void *blocks[ARRAY_LENGTH(sizes)][EACH];

static size_t alloc_all(void)
{
    size_t bytes = 0;
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        for (int j = 0; j < EACH; j++) {
            blocks[i][j] =
                i < RUNS ? front_alloc_aligned(UNIT_SIZE, sizes[i]) : front_alloc(sizes[i]);
            bytes += front_usable(blocks[i][j], "test");
        }
    }
    return bytes;
}

static void free_all(void)
{
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        for (int j = 0; j < EACH; j++)
            front_free(blocks[i][j]);
    }
}

static size_t live_blocks(const struct numbers *n)
{
    return n->small_blocks + n->run_blocks + n->big_blocks;
}

static void live_bytes_are_those_of_live_blocks(void **state)
{
    (void)state;
    static struct numbers before, during, after;
    numbers_read(&before);
    size_t bytes = alloc_all();
    numbers_read(&during);
    free_all();
    numbers_read(&after);
    assert_int_equal(numbers_live(&during) - numbers_live(&before), bytes);
    assert_int_equal(live_blocks(&during) - live_blocks(&before), ARRAY_LENGTH(sizes) * EACH);
    assert_int_equal(during.run_blocks - before.run_blocks, RUNS * EACH);
    assert_int_equal(during.big_blocks - before.big_blocks, BIGS * EACH);
    assert_int_equal(numbers_live(&after), numbers_live(&before));
    assert_int_equal(live_blocks(&after), live_blocks(&before));
}

static void sums_are_those_of_the_classes(void **state)
{
    (void)state;
    static struct numbers n;
    alloc_all();
    numbers_read(&n);
    free_all();
    size_t count_of_blocks = 0, bytes = 0, kept = 0, kept_bytes = 0, slabs = 0, slab_bytes = 0;
    for (uint32_t class = 0; class < CLASS_COUNT; class ++) {
        const struct class_numbers *c = &n.classes[class];
        const struct class_info *info = &hak_classes[class];
        assert_at(c->blocks + c->magazine <= c->slabs * info->capacity, class);
        count_of_blocks += c->blocks;
        bytes += c->blocks * info->size;
        kept += c->magazine;
        kept_bytes += c->magazine * info->size;
        slabs += c->slabs;
        slab_bytes += c->slabs * class_slab_bytes(class);
    }
    assert_int_equal(n.small_blocks, count_of_blocks);
    assert_int_equal(n.small_bytes, bytes);
    assert_int_equal(n.magazine_blocks, kept);
    assert_int_equal(n.magazine_bytes, kept_bytes);
    assert_int_equal(n.slabs, slabs);
    assert_int_equal(n.slab_bytes, slab_bytes);
}

/* Every unit in use is a slab's or a heap's (in the build `secure` with one on either side), a live one's or a kept one's, and all pages are runs' or slabs'. */
static void memory_in_use_is_all_accounted_for(void **state)
{
    (void)state;
    static struct numbers n;
    alloc_all();
    numbers_read(&n);
    size_t in_use = units_in_use() * UNIT_SIZE + pages_in_use();
    assert_int_equal(n.run_blocks, RUNS * EACH); /* nobody else has any */
    assert_int_equal(in_use,
                     n.slab_bytes + n.run_bytes + n.heaps * UNIT_SIZE * (HAK_SECURE ? 3 : 1));
    assert_true(n.super_bytes >= in_use);
    assert_true(n.supers_made >= supers_mapped());
    free_all();
}

static void magazines_are_not_live(void **state)
{
    (void)state;
    static struct numbers before, after;
    uint32_t class = class_for(4321);
    numbers_read(&before);
    void *p = front_alloc(4321), *q = front_alloc(4321);
    front_free(p);
    numbers_read(&after);
    assert_int_equal(after.classes[class].blocks, before.classes[class].blocks + 1);
    assert_true(after.classes[class].magazine >= 1);
    front_free(q);
    front_trim();
    numbers_read(&after);
    assert_int_equal(after.classes[class].blocks, before.classes[class].blocks);
    assert_int_equal(after.classes[class].magazine, 0);
}

/* ---- threads ---- */

static void *left_behind[THREADS];

static void *leave_one_behind(void *number)
{
    for (int i = 0; i < 1000; i++)
        front_free(front_alloc((size_t)i));
    left_behind[(uintptr_t)number - 1] = front_alloc(777);
    return NULL;
}

static void ended_threads_count(void **state)
{
    (void)state;
    static struct numbers before, after;
    uint32_t class = class_for(777);
    numbers_read(&before);
    run_threads(leave_one_behind);
    numbers_read(&after);
    assert_int_equal(after.classes[class].blocks, before.classes[class].blocks + THREADS);
    assert_true(after.heaps >= before.heaps && after.heaps_live >= before.heaps_live);
    assert_true(after.counters[COUNTER_refill] > before.counters[COUNTER_refill]);
    for (size_t i = 0; i < THREADS; i++)
        front_free(left_behind[i]);
    front_trim();
}

/* ---- text ---- */

static char *print_to_text(const struct numbers *n)
{
    static char text[16384];
    FILE *file = tmpfile();
    assert_non_null(file);
    numbers_print(n, fileno(file));
    rewind(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    return text;
}

static size_t value_of(const char *text, const char *name)
{
    char line[64];
    snprintf(line, sizeof line, "\n%s ", name);
    const char *at = strstr(text, line);
    assert_non_null(at);
    return strtoull(at + strlen(line), NULL, 10);
}

static void the_text_says_the_same(void **state)
{
    (void)state;
    static struct numbers n;
    alloc_all();
    numbers_read(&n);
    free_all();
    const char *text = print_to_text(&n);
    assert_int_equal(value_of(text, "live_bytes"), numbers_live(&n));
    assert_int_equal(value_of(text, "small_blocks"), n.small_blocks);
    assert_int_equal(value_of(text, "run_bytes"), n.run_bytes);
    assert_int_equal(value_of(text, "big_bytes"), n.big_bytes);
    assert_int_equal(value_of(text, "purged_bytes"), n.purged_bytes);
    for (int i = 0; i < COUNTER_COUNT; i++)
        assert_int_equal(value_of(text, hak_counter_names[i]), n.counters[i]);
    assert_non_null(strstr(text, "\nclass 1024 blocks "));
    assert_int_equal(text[strlen(text) - 1], '\n');
}

/* Another thread's magazine was looked at while it had blocks that have gone home since. */
static void blocks_that_went_home_meanwhile_are_not_less_than_none(void **state)
{
    (void)state;
    static struct numbers before, between;
    uint32_t class = class_for(1000);
    front_free(front_alloc(1000));
    struct heap *h = hak_thread.heap;
    numbers_read(&before);
    size_t used = h->classes[class].used;
    assert_true(used > 0 && before.classes[class].magazine > 0);
    h->classes[class].used = 0;
    numbers_read(&between);
    h->classes[class].used = used;
    assert_int_equal(between.classes[class].blocks, 0);
    assert_int_equal(between.small_blocks, before.small_blocks - before.classes[class].blocks);
    assert_true(numbers_live(&between) <= numbers_live(&before));
    assert_true(between.ss_local <= before.ss_local + before.classes[class].blocks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(live_bytes_are_those_of_live_blocks),
        cmocka_unit_test(blocks_that_went_home_meanwhile_are_not_less_than_none),
        cmocka_unit_test(sums_are_those_of_the_classes),
        cmocka_unit_test(memory_in_use_is_all_accounted_for),
        cmocka_unit_test(magazines_are_not_live),
        cmocka_unit_test(ended_threads_count),
        cmocka_unit_test(the_text_says_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
