/* What capturing a call stack takes: prints nanoseconds, best of many, by walk, depth and place. Not a test. */
#include <execinfo.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "profile/stack.h"

enum { REPEATS = 2000, BATCH = 20 };
enum walk { POINTERS, TABLES, LIBC, WALKS };
static const char *const names[WALKS] = {"frame pointers", "tables", "backtrace()"};

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static unsigned walk_once(enum walk walk)
{
    uintptr_t found[STACK_MOST];
    if (walk == LIBC)
        return (unsigned)backtrace((void **)found, STACK_MOST);
    return stack_capture(found, STACK_MOST, walk == TABLES);
}

static void measure(enum walk walk, const char *place)
{
    double best = 1e18;
    unsigned frames = 0;
    for (int i = 0; i < REPEATS; i++) {
        double start = now_ns();
        for (int k = 0; k < BATCH; k++)
            frames = walk_once(walk);
        double each = (now_ns() - start) / BATCH;
        best = each < best ? each : best;
    }
    printf("%-18s %-14s %3u frames %6.0f ns\n", place, names[walk], frames, best);
}

__attribute__((noinline)) static void small_frames(int depth, enum walk walk, const char *place)
{
    if (depth == 0)
        measure(walk, place);
    else
        small_frames(depth - 1, walk, place);
    __asm__ volatile("" ::: "memory");
}

/* Three frames a page. */
__attribute__((noinline)) static void large_frames(int depth, enum walk walk, const char *place)
{
    volatile char room[1300];
    room[0] = 0;
    if (depth == 0)
        measure(walk, place);
    else
        large_frames(depth - 1, walk, place);
    __asm__ volatile("" ::"r"(room) : "memory");
}

static void *in_thread(void *unused)
{
    (void)unused;
    for (enum walk walk = 0; walk < WALKS; walk++) {
        small_frames(15, walk, "thread");
        large_frames(15, walk, "thread, large");
    }
    return NULL;
}

int main(void)
{
    for (enum walk walk = 0; walk < WALKS; walk++) {
        small_frames(1, walk, "main");
        small_frames(15, walk, "main");
    }
    pthread_t thread;
    if (pthread_create(&thread, NULL, in_thread, NULL) != 0)
        return EXIT_FAILURE;
    pthread_join(thread, NULL);
    return EXIT_SUCCESS;
}
