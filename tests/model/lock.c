/* The lock (os/lock.c): one holder at a time, who sees what the last one did; sleepers are woken. */
#include "model.h"

#include "os/lock.h"

static struct lock lock;
static int value;

static void setup(void)
{
    (void)load_relaxed(&lock.state);
    (void)load_relaxed(&lock.holder);
    (void)load_relaxed(&lock.lost);
    (void)load_relaxed(&lock.stalled);
}

static void add_one(void)
{
    value++;
    lock_release(&lock);
}

static void take(int index)
{
    (void)index;
    lock_take(&lock);
    model_assert(lock_is_mine(&lock));
    add_one();
}

static void check_two(void)
{
    model_assert(value == 2);
}

static void check_three(void)
{
    model_assert(value == 3);
}

static int done;

/* A visitor only tries: what it finds is whole, or it goes. */
static void try_or_take(int index)
{
    if (index == 0)
        take(index);
    else if (lock_try(&lock)) {
        done++;
        add_one();
    }
}

static void check_tried(void)
{
    model_assert(value == 1 + done);
}

const struct model_scenario lock_two = {"lock.two", 2, 0, 64, setup, take, check_two};
const struct model_scenario lock_three = {"lock.three", 3, 2, 64, setup, take, check_three};
const struct model_scenario lock_tried = {"lock.tried", 3, 0, 64, setup, try_or_take, check_tried};
