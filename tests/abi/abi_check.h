/* Shared by the programs in this folder: checks, proof of the allocator in use, fill patterns. */
#ifndef HAK_TESTS_ABI_CHECK_H
#define HAK_TESTS_ABI_CHECK_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* musl's header lacks it, hakmem has it. */
#ifndef __GLIBC__
void *pvalloc(size_t size);
#endif

/* Where a sanitizer owns malloc, the same tests run on hakmem's own names. */
#ifdef HAK_TEST_LINKED
#include <hakmem/hakmem.h>
#define malloc hak_malloc
#define free hak_free
#define calloc hak_calloc
#define realloc hak_realloc
#define reallocarray hak_reallocarray
#define aligned_alloc hak_aligned_alloc
#define posix_memalign hak_posix_memalign
#define memalign hak_memalign
#define valloc hak_valloc
#define pvalloc hak_pvalloc
#define malloc_usable_size hak_usable_size
#endif

/* dprintf and _exit, because the heap and stdio may be what is broken. */
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            dprintf(STDERR_FILENO, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition);         \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

/* The same with the value that made it fail, for checks inside loops over sizes. */
#define CHECK_AT(condition, value)                                                                 \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            dprintf(STDERR_FILENO, "%s:%d: failed: %s (at %s = %llu)\n", __FILE__, __LINE__,       \
                    #condition, #value, (unsigned long long)(value));                              \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

#define KIB ((size_t)1024)
#define MIB (KIB * 1024)
#define GIB (MIB * 1024)
#define ARRAY_LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* Trying the tests themselves on another allocator: only then may hakmem's own symbols be absent.
 */
static inline bool any_malloc_allowed(void)
{
    return getenv("HAK_TEST_ANY_MALLOC") != NULL;
}

static inline const void *object_defining(const char *symbol)
{
    const void *address = dlsym(RTLD_DEFAULT, symbol);
    Dl_info info;
    if (address == NULL || dladdr(address, &info) == 0) {
        return NULL;
    }
    return info.dli_fbase;
}

/* Having hak_malloc loaded is not enough: the program's own malloc must come from the same object.
 */
static inline void require_malloc_of_hakmem(void)
{
#ifndef HAK_TEST_LINKED
    if (any_malloc_allowed()) {
        return;
    }
    const void *object = object_defining("hak_malloc");
    CHECK(object != NULL);
    CHECK(object == object_defining("malloc"));
    CHECK(object == object_defining("free"));
#endif
}

static inline void require_hakmem(void)
{
    require_malloc_of_hakmem();
#ifndef HAK_TEST_LINKED
    CHECK(any_malloc_allowed() || object_defining("hak_malloc") == object_defining("_Znwm"));
#endif
}

/* Hides a pointer's origin from the compiler, which would otherwise drop unused blocks or warn. */
static inline void *opaque(void *pointer)
{
    __asm__ volatile("" : "+r"(pointer) : : "memory");
    return pointer;
}

static inline size_t opaque_size(size_t size)
{
    __asm__ volatile("" : "+r"(size));
    return size;
}

/* realloc for tests to which its failure is the end. */
static inline void *resized(void *block, size_t size)
{
    void *moved = realloc(block, size);
    CHECK_AT(moved != NULL, size);
    return moved;
}

static inline bool is_aligned(const void *pointer, size_t alignment)
{
    return ((uintptr_t)pointer & (alignment - 1)) == 0;
}

/* Alignment that every block of a size has to have without being asked. */
static inline size_t natural_alignment(size_t size)
{
    return size >= 16 ? 16 : 8;
}

static inline unsigned char pattern_byte(size_t index, unsigned seed)
{
    return (unsigned char)(index * 31u + (index >> 8) * 7u + seed);
}

/* A prime stride keeps large blocks affordable while every page is still hit at varying offsets. */
static inline size_t pattern_stride(size_t size)
{
    return size <= 256 * KIB ? 1 : 509;
}

static inline void fill_pattern(void *block, size_t size, unsigned seed)
{
    unsigned char *bytes = (unsigned char *)block;
    const size_t stride = pattern_stride(size);
    for (size_t i = 0; i < size; i += stride) {
        bytes[i] = pattern_byte(i, seed);
    }
    if (size > 0) {
        bytes[size - 1] = pattern_byte(size - 1, seed);
    }
}

/* Checks the first `kept` bytes of a block that was filled when it had `filled` bytes. */
static inline bool has_pattern(const void *block, size_t filled, size_t kept, unsigned seed)
{
    const unsigned char *bytes = (const unsigned char *)block;
    const size_t stride = pattern_stride(filled);
    for (size_t i = 0; i < kept; i += stride) {
        if (bytes[i] != pattern_byte(i, seed)) {
            return false;
        }
    }
    return filled == 0 || kept < filled || bytes[filled - 1] == pattern_byte(filled - 1, seed);
}

static inline size_t page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* Read without stdio, which would allocate. */
static inline size_t resident_bytes(void)
{
    char text[128] = {0};
    const int file = open("/proc/self/statm", O_RDONLY);
    CHECK(file >= 0);
    CHECK(read(file, text, sizeof(text) - 1) > 0);
    close(file);
    char *second = strchr(text, ' ');
    CHECK(second != NULL);
    return (size_t)strtoul(second, NULL, 10) * page_size();
}

static inline size_t round_up(size_t value, size_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/* Visits every size while they are small, then steps of about 1/16 and their neighbours. */
static inline size_t next_size(size_t size, size_t dense_until)
{
    if (size < dense_until) {
        return size + 1;
    }
    const size_t step = size / 16;
    return size % 2 == 0 ? size + 1 : size + step;
}

#endif
