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
    for (size_t held = 0; held <= 2 * option(retain); held += SIZE)
        assert_non_null(front_alloc(SIZE));
    return 0;
}

static void one_that_is_seldom_is_at_each_end(void **state)
{
    (void)state;
    if (!HAK_INSIGHT)
        skip();                           /* nothing is counted down */
    (void)looks_while(COUNTDOWNS / 2, 1); /* what was left out before is over */
    assert_in_range(looks_while(COUNTDOWNS, 1), COUNTDOWNS - 2, COUNTDOWNS + 2);
}

static void one_that_would_be_at_once_is_left_out(void **state)
{
    (void)state;
    if (!HAK_INSIGHT)
        skip();
    (void)looks_while(COUNTDOWNS, 0);
    assert_in_range(looks_while(COUNTDOWNS, 0), COUNTDOWNS / 16 - 1, COUNTDOWNS / 8);
    (void)looks_while(COUNTDOWNS / 2, 1);
    assert_in_range(looks_while(COUNTDOWNS, 1), COUNTDOWNS - 2, COUNTDOWNS + 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_is_seldom_is_at_each_end),
        cmocka_unit_test(one_that_would_be_at_once_is_left_out),
    };
    return cmocka_run_group_tests(tests, hold_much, NULL);
}
