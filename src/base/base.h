/* Words and constants that every layer uses. Nothing here has state. */
#ifndef HAK_BASE_H
#define HAK_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HAK_LIKELY(x) __builtin_expect(!!(x), 1)
#define HAK_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define HAK_COLD __attribute__((cold, noinline))
#define HAK_NOINLINE __attribute__((noinline))
#ifndef HAK_INLINE /* the build `coverage` has its own */
#define HAK_INLINE static inline __attribute__((always_inline))
#endif
#define HAK_EXPORT __attribute__((visibility("default")))
/* What nearly every call runs begins with a cache line, wherever the linker puts it. */
#define HAK_EXPORT_HOT __attribute__((visibility("default"), aligned(64)))

#ifndef __has_feature /* clang's way to say what gcc defines a macro for */
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__) ||                               \
    __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define HAK_SANITIZED 1
#else
#define HAK_SANITIZED 0
#endif

/* HAK_CHECKED: every allocation and free is checked against an exact map of live blocks. Set in
 * the build `debug`. */
#ifndef HAK_CHECKED
#define HAK_CHECKED 0
#endif

/* HAK_SECURE: blocks carry what shows whether they are live and were written past, and wait before they are used again.
 * Set in the build `secure`. */
#ifndef HAK_SECURE
#define HAK_SECURE 0
#endif

/* HAK_INSIGHT: requests are counted and sampled, and figures shown to others. 0 in a build to measure what that costs. */
#ifndef HAK_INSIGHT
#define HAK_INSIGHT 1
#endif

/* Whether programs serve themselves (include/hakmem/inline.h), or every call is made. */
#define HAK_SERVES_INLINE (!HAK_CHECKED && !HAK_SECURE && !HAK_SANITIZED)

/* A unit is the smallest piece of address space with an owner; a slab is one or more units. */
#define UNIT_SHIFT 16
#define UNIT_SIZE ((size_t)1 << UNIT_SHIFT)

/* A granule is what the region hands out: a SuperSlab is one, a big block is one or more. */
#define GRANULE_SHIFT 21
#define GRANULE_SIZE ((size_t)1 << GRANULE_SHIFT)
#define GRANULE_UNITS ((uint32_t)(GRANULE_SIZE / UNIT_SIZE))

#define SMALL_MAX ((size_t)1024)    /* A4 Tiny: served by the fast path */
#define SLAB_MAX ((size_t)1 << 20)  /* A11, A12 Mid, L2.5: served from slabs */
#define RUN_MAX SLAB_MAX            /* the same that no class suits: runs of pages */
#define BLOCK_ALIGN ((size_t)16)    /* of every block of 16 bytes and more */
#define ALIGN_MAX ((size_t)1 << 40) /* largest alignment that is tried at all */

HAK_INLINE size_t round_up(size_t n, size_t power_of_two)
{
    return (n + power_of_two - 1) & ~(power_of_two - 1);
}

HAK_INLINE bool is_power_of_two(size_t n)
{
    return n != 0 && (n & (n - 1)) == 0;
}

HAK_INLINE size_t least_of(size_t a, size_t b)
{
    return a < b ? a : b;
}

HAK_INLINE size_t largest_of(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* Of parts that are not of one moment, and may be less than nothing together. */
HAK_INLINE size_t not_negative(size_t sum)
{
    return sum <= PTRDIFF_MAX ? sum : 0;
}

/* Tells the processor that this is a spin loop. */
HAK_INLINE void cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Lowest set bit of a non-zero mask. */
HAK_INLINE uint32_t lowest_bit(uint64_t mask)
{
    return (uint32_t)__builtin_ctzll(mask);
}

#endif
