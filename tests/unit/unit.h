/* Shared by the unit tests: cmocka with what it needs, checks inside loops, threads. */
#ifndef HAK_TESTS_UNIT_H
#define HAK_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <string.h>

#include "base/base.h"

#define ARRAY_LENGTH(array) (sizeof(array) / sizeof((array)[0]))
#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

/* A check that names the value at which it failed. */
#define assert_at(condition, value)                                                                \
    do {                                                                                           \
        if (!(condition))                                                                          \
            fail_msg("%s (at %s = %zu)", #condition, #value, (size_t)(value));                     \
    } while (0)

enum { THREADS = 4 };

/* Runs the same function in THREADS threads; its argument is the thread's number, from 1. */
static inline void run_threads(void *(*body)(void *number))
{
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, body, (void *)(i + 1)), 0);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
}

static inline bool is_filled(const void *p, size_t size, unsigned char with)
{
    const unsigned char *bytes = p;
    return size == 0 || (bytes[0] == with && memcmp(bytes, bytes + 1, size - 1) == 0);
}

static inline bool is_zero(const void *p, size_t size)
{
    return is_filled(p, size, 0);
}

static inline uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

#endif
