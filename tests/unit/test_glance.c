/* How often the clock is looked at where all is served from magazines and much may be free. */
#include "unit.h"

#include "control/options.h"
#include "front/front.h"
#include "os/os.h"

enum {
    SIZE = 1024,
    COUNTDOWN = (int)((LEFT_LEAST + 1) * sizeof(uint64_t)), /* bytes, where the clock has moved */
    COUNTDOWNS = 64
};

static uint64_t now_ms = 1000, step_ms;
static size_t looks;
static void **last_held; /* each begins with the address of the one before */

uint64_t __wrap_os_now_ms(void);
uint64_t __wrap_os_now_ms(void)
{
    looks++;
    return now_ms += step_ms;
}

/* While so many countdowns end, and the clock moves by so much at each look. */
static size_t looks_while(size_t countdowns, uint64_t ms)
{
    looks = 0;
    step_ms = ms;
    for (size_t i = 0; i < countdowns * COUNTDOWN / SIZE; i++)
        front_free(front_alloc(SIZE));
    return looks;
}

/* So many that much of it may be free, for all that is known without a look. */
static int hold_much(void **state)
{
    (void)state;
    for (size_t held = 0; held <= 2 * option(retain); held += SIZE) {
        void **p = front_alloc(SIZE);
        assert_non_null(p);
        *p = last_held;
        last_held = p;
    }
    return 0;
}

static void hold_no_more(void)
{
    while (last_held != NULL) {
        void *p = last_held;
        last_held = *last_held;
        front_free(p);
    }
}

static void one_that_is_seldom_is_at_each_end(void **state)
{
    (void)state;
    if (!HAK_INSIGHT)
        skip();                           /* nothing is counted down */
    (void)looks_while(COUNTDOWNS / 2, 1); /* the long countdowns of before are over */
    assert_in_range(looks_while(COUNTDOWNS, 1), COUNTDOWNS - 2, COUNTDOWNS + 2);
}

/* Countdowns become longer, up to sixteen times. */
static void one_that_would_be_at_once_comes_later(void **state)
{
    (void)state;
    if (!HAK_INSIGHT)
        skip();
    (void)looks_while(COUNTDOWNS, 0);
    assert_in_range(looks_while(COUNTDOWNS, 0), COUNTDOWNS / 16 - 1, COUNTDOWNS / 8);
    (void)looks_while(COUNTDOWNS / 2, 1);
    assert_in_range(looks_while(COUNTDOWNS, 1), COUNTDOWNS - 2, COUNTDOWNS + 2);
}

/* Much is freed, and what becomes of it is not to wait for a long countdown. */
static void where_a_heap_has_shrunk_one_comes_soon(void **state)
{
    (void)state;
    enum { BLOCKS = 4096 };
    static void *blocks[BLOCKS];
    if (!HAK_INSIGHT)
        skip();
    struct sampler *s = &hak_thread.heap->magazines.sampler;
    for (size_t i = 0; i < BLOCKS; i++)
        blocks[i] = front_alloc(SIZE);
    (void)looks_while(COUNTDOWNS, 0);
    assert_int_equal(s->at_once, LEFT_MOST);
    uint64_t before = load_relaxed(&hak_thread.heap->counters[COUNTER_flush_all]);
    hold_no_more();
    for (size_t i = 0; i < BLOCKS; i++)
        front_free(blocks[i]);
    assert_true(load_relaxed(&hak_thread.heap->counters[COUNTER_flush_all]) > before);
    assert_int_equal(s->at_once, LEFT_LEAST);
    assert_true(hak_thread.left <= LEFT_LEAST);
}

/* There is nothing to find. */
static void where_little_may_be_free_countdowns_are_long(void **state)
{
    (void)state;
    if (!HAK_INSIGHT)
        skip();
    size_t retain = option(retain);
    hak_options.retain = (size_t)1 << 40;
    assert_int_equal(looks_while(COUNTDOWNS, 1), 0);
    assert_int_equal(hak_thread.heap->magazines.sampler.at_once, LEFT_MOST);
    hak_options.retain = retain;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_is_seldom_is_at_each_end),
        cmocka_unit_test(one_that_would_be_at_once_comes_later),
        cmocka_unit_test(where_little_may_be_free_countdowns_are_long),
        cmocka_unit_test(where_a_heap_has_shrunk_one_comes_soon),
    };
    return cmocka_run_group_tests(tests, hold_much, NULL);
}
