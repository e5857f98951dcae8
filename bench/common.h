/* What every benchmark program shares: arguments, random numbers, time, tables of the harness' own,
 * stamped blocks, result lines. C11 and C++17. */
#ifndef BENCH_COMMON_H
#define BENCH_COMMON_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A number, or one of several words; given on the command line by position. */
struct parameter {
    const char *name;
    const char *meaning;
    uint64_t least;
    uint64_t most;
    const char *choices; /* words separated by blanks; `value` is then the place of the one given */
    uint64_t value;      /* of one that may be left out, also its default */
    int optional;
};

/* Fills the values; `--help` ends the process with 0, anything wrong with 2. */
void parse_arguments(const char *summary, struct parameter *parameters, size_t count, int argc,
                     char **argv);

/* For what no single parameter shows to be wrong: one line, status 2. */
__attribute__((noreturn)) void refuse_arguments(const char *why);

/* Lines `key value`: how many operations took how long, the most memory ever resident. */
void report(uint64_t ops, uint64_t elapsed_ns);
void report_value(const char *key, double value);

uint64_t now_ns(void);
long rss_now_kib(void);
long rss_peak_kib(void);

/* The harness' own tables: from mmap and touched, so that they neither exercise the allocator nor
 * fault later. */
void *harness_table(size_t bytes);

__attribute__((noreturn)) void die(const char *what);
__attribute__((noreturn)) void die_no_memory(size_t size);
__attribute__((noreturn)) void die_corrupt(const void *block);

/* xorshift64: three shifts, no multiplication; its state must not be zero. */
static inline uint64_t next_random(uint64_t *state)
{
    uint64_t x = *state;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    return *state = x;
}

static inline uint64_t seeded(uint64_t seed, uint64_t stream)
{
    /* Spread small seeds over all bits; `| 1` keeps the state from being zero. */
    return (((seed + 1) * UINT64_C(0x9E3779B97F4A7C15)) ^
            ((stream + 1) * UINT64_C(0xD1B54A32D192ED03))) |
           1;
}

/* Even spread over 0 .. bound-1 without a division. */
static inline uint32_t below(uint32_t bits, uint32_t bound)
{
    return (uint32_t)(((uint64_t)bits * bound) >> 32);
}

/* Even spread over least .. most; the upper half of `bits` remains for another choice. */
static inline size_t size_between(uint64_t bits, size_t least, size_t most)
{
    return least + below((uint32_t)bits, (uint32_t)(most - least + 1));
}

/* Differs by block and by owner, so that one block handed to two owners is noticed as well as
 * overwritten content. */
static inline uint64_t content_of(const void *block, uint64_t owner)
{
    return (uint64_t)(uintptr_t)block ^ (owner * UINT64_C(0x9E3779B97F4A7C15));
}

/* Writes the first and the last 8 bytes; size is at least 8. */
static inline void stamp(void *block, size_t size, uint64_t owner)
{
    uint64_t content = content_of(block, owner);
    memcpy((char *)block + size - sizeof content, &content, sizeof content);
    memcpy(block, &content, sizeof content);
}

static inline void check_at(const void *block, size_t offset, uint64_t owner)
{
    uint64_t content;
    __asm__ volatile("" ::: "memory"); /* read what is in memory, not what was just written */
    memcpy(&content, (const char *)block + offset, sizeof content);
    if (__builtin_expect(content != content_of(block, owner), 0)) {
        die_corrupt(block);
    }
}

static inline void *allocate(size_t size)
{
    void *block = malloc(size);
    if (__builtin_expect(block == NULL, 0)) {
        die_no_memory(size);
    }
    return block;
}

/* Allocates and stamps. */
static inline void *take(size_t size, uint64_t owner)
{
    void *block = allocate(size);
    stamp(block, size, owner);
    return block;
}

/* Checks what take() wrote first, then frees. */
static inline void give_back(void *block, uint64_t owner)
{
    check_at(block, 0, owner);
    free(block);
}

/* Checks both ends; for who remembers the size. */
static inline void give_back_sized(void *block, size_t size, uint64_t owner)
{
    check_at(block, size - sizeof(uint64_t), owner);
    give_back(block, owner);
}

/* Writes a byte in every page, so that the kernel has to supply them all; the stamps stay. */
static inline void touch_every_page(void *block, size_t size)
{
    for (size_t at = 2048; at + 16 < size; at += 4096) {
        ((volatile char *)block)[at] = 1;
    }
}

#ifdef __cplusplus
}
#endif

#endif
