/* bench_core: what the shapes share. README.md says what each shape models. */
#ifndef BENCH_CORE_H
#define BENCH_CORE_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct options {
    uint64_t seed;
    double scale;   /* multiplies the number of operations */
    double limit_s; /* single-threaded loops stop at the first 64th past it */
    double idle_s;  /* pause of `peak` before its final RSS is read */
};

#define NO_STEADY_STATE (-1L)

struct outcome {
    uint64_t ops;
    double ns_per_pair;
    unsigned threads;
    uint64_t live_bytes; /* most that is live at a time; expected value where sizes are random */
    long faults_steady;  /* minor faults in the second half of the timed part, or NO_STEADY_STATE */
    long rss_start_kib;  /* before the first block, the harness' own tables in place */
};

/* Shapes. `argument` is the number after the name, 0 for a shape that takes none. */
void run_hot32(const struct options *, size_t argument, struct outcome *);
void run_lifo(const struct options *, size_t block_size, struct outcome *);
void run_random(const struct options *, size_t live, struct outcome *);
void run_cycle(const struct options *, size_t block_size, struct outcome *);
void run_cycle_fill(const struct options *, size_t block_size, struct outcome *);
void run_cycle8(const struct options *, size_t block_size, struct outcome *);
void run_peak(const struct options *, size_t argument, struct outcome *);
void run_pingpong(const struct options *, size_t argument, struct outcome *);
void run_produce(const struct options *, size_t argument, struct outcome *);

/* measure.c */
typedef void step_fn(void *state, uint64_t pairs);

/* Times `step` over about `pairs` pairs (a multiple of `granule`) in 64 equal calls; fills ops,
 * ns_per_pair, faults_steady. */
void measure_steps(const struct options *, step_fn *step, void *state, uint64_t pairs,
                   uint64_t granule, struct outcome *);
uint64_t scaled(const struct options *, uint64_t pairs);
uint64_t now_ns(void);
long minor_faults(void);
long rss_now_kib(void);
long rss_peak_kib(void);
/* The harness' own tables: from mmap and touched, so that they neither exercise the allocator nor
 * fault later. */
void *harness_table(size_t bytes);
_Noreturn void die(const char *what);
_Noreturn void die_no_memory(size_t size);
_Noreturn void die_corrupt(const void *block);

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
    return ((seed + 1) * 0x9E3779B97F4A7C15u ^ (stream + 1) * 0xD1B54A32D192ED03u) | 1;
}

/* Even spread over 0 .. bound-1 without a division. */
static inline uint32_t below(uint32_t bits, uint32_t bound)
{
    return (uint32_t)(((uint64_t)bits * bound) >> 32);
}

/* Differs by block and by owner, so that one block handed to two owners is noticed as well as
 * overwritten content. */
static inline uint64_t content_of(const void *block, uint64_t owner)
{
    return (uint64_t)(uintptr_t)block ^ owner * 0x9E3779B97F4A7C15u;
}

/* Allocates and writes the first and the last 8 bytes; size is at least 8. */
static inline void *take(size_t size, uint64_t owner)
{
    char *block = malloc(size);
    if (__builtin_expect(block == NULL, 0)) {
        die_no_memory(size);
    }
    uint64_t content = content_of(block, owner);
    memcpy(block + size - sizeof content, &content, sizeof content);
    memcpy(block, &content, sizeof content);
    return block;
}

/* Checks what take() wrote first, then frees. */
static inline void give_back(void *block, uint64_t owner)
{
    uint64_t content;
    __asm__ volatile("" ::: "memory"); /* read what is in memory, not what was just written */
    memcpy(&content, block, sizeof content);
    if (__builtin_expect(content != content_of(block, owner), 0)) {
        die_corrupt(block);
    }
    free(block);
}

#endif
