/* hakmem's fast paths, compiled into a program that is linked with hakmem, shared or static. A block of up
 * to 1 KiB comes from the calling thread's magazine and goes back into it without a call; what that
 * cannot serve is a call of hak_malloc or hak_free_sized.
 *
 *     struct node *n = hak_malloc_inline(sizeof *n);
 *     hak_free_sized_inline(n, sizeof *n);
 *
 * The size given back must be the one that was asked for, of hak_malloc_inline, hak_malloc or hak_calloc,
 * and the block must not have been resized: nothing else says here what kind of block it is.
 *
 * What is compiled in is all behind the names that end in _v1. It does not change as long as a library
 * has these names; the size classes are no part of it. A library that works differently gives them
 * empty magazines, so that all is done by calls, or leaves the names out, so that programs that need
 * them do not start. The builds `debug` and `secure` do the former, and check every call.
 *
 * If HAK_INLINE_PATHS is defined as 0 before, or in a sanitizer's build, both functions are calls. */
#ifndef HAKMEM_INLINE_H
#define HAKMEM_INLINE_H

#include <hakmem/hakmem.h>

#if !defined(HAK_INLINE_PATHS) && defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||                         \
    __has_feature(memory_sanitizer)
#define HAK_INLINE_PATHS 0
#endif
#endif
#ifndef HAK_INLINE_PATHS
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define HAK_INLINE_PATHS 0
#else
#define HAK_INLINE_PATHS 1
#endif
#endif

#ifdef __cplusplus
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wold-style-cast" /* there is no other in C */
extern "C" {
#define HAK_INLINE_FUNCTION inline
#else
#define HAK_INLINE_FUNCTION static __inline__ /* which C89 has as well */
#endif

#define HAK_INLINE_MAX_V1 1024

/* A stack of free blocks that grows downwards. Its thread alone changes it. */
struct hak_magazine_v1 {
    void **top;   /* the newest block */
    void **end;   /* there is none from here on */
    void **start; /* there is no room below */
} __attribute__((__may_alias__));

/* The calling thread's magazines, and how many words of 8 bytes it may be given until the library looks whether the
 * profile is to have a sample: counted down here. */
struct hak_thread_v1 {
    char *magazines;
    int64_t left;
} __attribute__((__may_alias__));
extern __thread struct hak_thread_v1 hak_thread_v1 __attribute__((tls_model("initial-exec")));

/* How many bytes beyond the magazines that for a size is: [(size + 7) / 8]. */
extern const uint16_t hak_magazine_offset_v1[HAK_INLINE_MAX_V1 / 8 + 1];

HAK_INLINE_FUNCTION struct hak_magazine_v1 *hak_magazine_for_v1(char *magazines, size_t size)
{
    return (struct hak_magazine_v1 *)(void *)(magazines + hak_magazine_offset_v1[(size + 7) / 8]);
}

/* As hak_malloc, of what has been counted down; tells the library that blocks may come back without a call. */
void *hak_malloc_missed_v1(size_t size);

/* Before the top moves: a signal handler in between that finds no block left fills the slots anew. On x86-64 the compiler is told
 * where the block is best, or it would move it once more. */
#if defined(__x86_64__)
#define HAK_READ_FIRST_V1(block) __asm__ volatile("" : "+a"(block) : : "memory")
#else
#define HAK_READ_FIRST_V1(block) __atomic_signal_fence(__ATOMIC_SEQ_CST)
#endif

/* As hak_malloc. */
HAK_INLINE_FUNCTION void *hak_malloc_inline(size_t size)
{
    if (!HAK_INLINE_PATHS || size > HAK_INLINE_MAX_V1)
        return hak_malloc(size);
    /* Before the countdown: aarch64 loads the two as a pair. */
    char *magazines = hak_thread_v1.magazines;
    if (__builtin_expect((hak_thread_v1.left -= (int64_t)((size + 7) / 8)) >= 0, 1)) {
        struct hak_magazine_v1 *m = hak_magazine_for_v1(magazines, size);
        void **top = m->top;
        if (__builtin_expect((uintptr_t)top < (uintptr_t)m->end, 1)) {
            void *p = *top;
            HAK_READ_FIRST_V1(p);
            __atomic_store_n(&m->top, top + 1, __ATOMIC_RELAXED);
            return p;
        }
    }
    return hak_malloc_missed_v1(size);
}

/* As hak_free_sized, for the blocks named above. A block that is the newest free one already takes the
 * way on which it is found out. */
HAK_INLINE_FUNCTION void hak_free_sized_inline(void *p, size_t size)
{
    if (HAK_INLINE_PATHS && size <= HAK_INLINE_MAX_V1 && p != NULL) {
        struct hak_magazine_v1 *m = hak_magazine_for_v1(hak_thread_v1.magazines, size);
        void **top = m->top;
        if (__builtin_expect((uintptr_t)top > (uintptr_t)m->start && *top != p, 1)) {
            top[-1] = p;
            __atomic_store_n(&m->top, top - 1, __ATOMIC_RELAXED);
            return;
        }
    }
    hak_free_sized(p, size);
}

#ifdef __cplusplus
}
#pragma GCC diagnostic pop
#endif

#endif
