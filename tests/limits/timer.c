/* The C library's thread for timers waits for a signal of the library's own that must stay blocked in it, whatever the thread's first
 * malloc does. Run under preload.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "support.h"

enum { TIMES = 3, PATIENCE = 60 };

static _Atomic int fired;

static void on_time(union sigval value)
{
    (void)value;
    free(malloc(100));
    atomic_fetch_add(&fired, 1);
}

int main(void)
{
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = on_time};
    struct itimerspec soon = {.it_value.tv_nsec = 1000000, .it_interval.tv_nsec = 1000000};
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) != 0 ||
        timer_settime(timer, 0, &soon, NULL) != 0)
        skip("there are no timers");
    for (int i = 0; i < PATIENCE * 1000 && atomic_load(&fired) < TIMES; i++)
        usleep(1000);
    if (atomic_load(&fired) < TIMES)
        fail("the timer fired %d times in a minute", atomic_load(&fired));
    puts("timers fire");
    return 0;
}
