/* Records which sizes a program asks for. Preloaded, it passes every request on to glibc's malloc with
 * a header in front of the block that remembers the size, and when the process ends writes
 * $HAKMEM_HISTOGRAMS/PROGRAM-PID: by size and alignment the number of allocations, and of the blocks that
 * were alive when their bytes were most (within 1/256; other threads go on while that is noted).
 * A resized block counts as a new one. */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *p, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);
extern void __libc_free(void *p);

/* ---- sizes ---- */

/* Sizes are rounded up to 8 bytes up to 1 KiB, to 1/128 of their doubling above. */
enum { STEPS = 128, FINE_MAX = 1024, DOUBLINGS = 30, SIZES = STEPS * (DOUBLINGS + 1) + 1 };
/* By power of two: up to 16, which every block has, then 32 .. 4096 and more. */
enum { ALIGNMENTS = 9 };

static uint32_t size_index(size_t size)
{
    if (size <= FINE_MAX)
        return size == 0 ? 1 : (uint32_t)((size + 7) / 8);
    uint32_t doubling = 53 - (uint32_t)__builtin_clzll(size - 1);
    if (doubling >= DOUBLINGS)
        return SIZES - 1;
    uint32_t step = (uint32_t)((size - 1) >> (doubling + 3)) - STEPS;
    return STEPS + 1 + doubling * STEPS + step;
}

static size_t size_at(uint32_t index)
{
    if (index <= STEPS)
        return (size_t)index * 8;
    uint32_t doubling = (index - STEPS - 1) / STEPS, step = (index - STEPS - 1) % STEPS;
    return (size_t)(STEPS + step + 1) << (doubling + 3);
}

static uint32_t alignment_index(size_t alignment)
{
    if (alignment <= 16)
        return 0;
    uint32_t index = (uint32_t)__builtin_ctzll(alignment) - 4;
    return index < ALIGNMENTS ? index : ALIGNMENTS - 1;
}

/* ---- counts ---- */

static struct {
    _Atomic uint64_t allocated[ALIGNMENTS][SIZES], live[ALIGNMENTS][SIZES];
    _Atomic uint64_t live_bytes, threads;
    /* Live bytes from which the peak is noted anew. */
    _Atomic uint64_t threshold;
    atomic_flag noting;
    /* By whoever holds `noting`. */
    uint64_t peak[ALIGNMENTS][SIZES];
    uint64_t peak_bytes;
    const char *folder;
} now = {.noting = ATOMIC_FLAG_INIT};

static __attribute__((noinline)) void note_peak(uint64_t bytes)
{
    if (atomic_flag_test_and_set_explicit(&now.noting, memory_order_acquire))
        return;
    if (bytes >= atomic_load(&now.threshold)) {
        now.peak_bytes = bytes;
        for (uint32_t a = 0; a < ALIGNMENTS; a++)
            for (uint32_t s = 0; s < SIZES; s++)
                now.peak[a][s] = atomic_load_explicit(&now.live[a][s], memory_order_relaxed);
        atomic_store(&now.threshold, bytes + bytes / 256 + 256);
    }
    atomic_flag_clear_explicit(&now.noting, memory_order_release);
}

static void note_thread(void)
{
    static _Thread_local bool seen __attribute__((tls_model("initial-exec")));
    if (!seen)
        atomic_fetch_add_explicit(&now.threads, 1, memory_order_relaxed);
    seen = true;
}

static void count_in(size_t size, uint32_t alignment)
{
    uint32_t index = size_index(size);
    note_thread();
    atomic_fetch_add_explicit(&now.allocated[alignment][index], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&now.live[alignment][index], 1, memory_order_relaxed);
    uint64_t bytes = atomic_fetch_add_explicit(&now.live_bytes, size, memory_order_relaxed) + size;
    if (bytes >= atomic_load_explicit(&now.threshold, memory_order_relaxed))
        note_peak(bytes);
}

static void count_out(size_t size, uint32_t alignment)
{
    atomic_fetch_sub_explicit(&now.live[alignment][size_index(size)], 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&now.live_bytes, size, memory_order_relaxed);
}

/* ---- blocks ---- */

/* Stands in front of a block. */
struct header {
    size_t size;
    uint32_t lead; /* bytes from what glibc returned to the block */
    uint32_t check;
};

_Static_assert(sizeof(struct header) == 16, "blocks stay aligned to 16 bytes");

static uint32_t check_of(const struct header *h)
{
    return (uint32_t)(((uintptr_t)h >> 4) * 2654435761U) ^ h->lead;
}

static void *put_header(void *start, size_t lead, size_t size)
{
    struct header *h = (struct header *)(void *)((char *)start + lead) - 1;
    h->size = size;
    h->lead = (uint32_t)lead;
    h->check = check_of(h);
    return h + 1;
}

/* NULL: not a block of ours. */
static struct header *header_of(void *p)
{
    struct header *h = (struct header *)p - 1;
    return h->check == check_of(h) ? h : NULL;
}

static uint32_t alignment_of(const struct header *h)
{
    return alignment_index(h->lead);
}

static void *start_of(struct header *h)
{
    return (char *)(h + 1) - h->lead;
}

static void *no_memory(void)
{
    errno = ENOMEM;
    return NULL;
}

static void *finish(void *start, size_t lead, size_t size)
{
    if (start == NULL)
        return NULL;
    count_in(size, alignment_index(lead));
    return put_header(start, lead, size);
}

static void *aligned(size_t alignment, size_t size)
{
    size_t lead = alignment < sizeof(struct header) ? sizeof(struct header) : alignment;
    if (size > PTRDIFF_MAX - lead || lead > UINT32_MAX)
        return no_memory();
    return finish(__libc_memalign(lead, size + lead), lead, size);
}

void *malloc(size_t size)
{
    if (size > PTRDIFF_MAX - sizeof(struct header))
        return no_memory();
    return finish(__libc_malloc(size + sizeof(struct header)), sizeof(struct header), size);
}

void *calloc(size_t count, size_t size)
{
    size_t total;
    if (__builtin_mul_overflow(count, size, &total) || total > PTRDIFF_MAX - sizeof(struct header))
        return no_memory();
    return finish(__libc_calloc(1, total + sizeof(struct header)), sizeof(struct header), total);
}

void free(void *p)
{
    if (p == NULL)
        return;
    struct header *h = header_of(p);
    if (h == NULL) {
        __libc_free(p);
        return;
    }
    count_out(h->size, alignment_of(h));
    h->check = ~h->check;
    __libc_free(start_of(h));
}

void *realloc(void *p, size_t size)
{
    if (p == NULL)
        return malloc(size);
    struct header *h = header_of(p);
    if (h == NULL)
        return __libc_realloc(p, size);
    if (size == 0) {
        free(p);
        return NULL;
    }
    if (size > PTRDIFF_MAX - sizeof *h)
        return no_memory();
    size_t old = h->size;
    if (h->lead == sizeof *h) {
        void *start = __libc_realloc(h, size + sizeof *h);
        if (start != NULL)
            count_out(old, 0);
        return finish(start, sizeof *h, size);
    }
    void *q = malloc(size);
    if (q != NULL) {
        memcpy(q, p, old < size ? old : size);
        free(p);
    }
    return q;
}

void *reallocarray(void *p, size_t count, size_t size)
{
    size_t total;
    return __builtin_mul_overflow(count, size, &total) ? no_memory() : realloc(p, total);
}

void *memalign(size_t alignment, size_t size)
{
    return aligned(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return aligned(alignment, size);
}

int posix_memalign(void **out, size_t alignment, size_t size)
{
    if (alignment % sizeof(void *) != 0 || alignment == 0 || (alignment & (alignment - 1)) != 0)
        return EINVAL;
    int saved = errno;
    void *p = aligned(alignment, size);
    errno = saved;
    if (p == NULL)
        return ENOMEM;
    *out = p;
    return 0;
}

void *valloc(size_t size)
{
    return aligned((size_t)sysconf(_SC_PAGESIZE), size);
}

size_t malloc_usable_size(void *p)
{
    struct header *h = p == NULL ? NULL : header_of(p);
    return h == NULL ? 0 : h->size;
}

/* ---- a process's life ---- */

static void child_of_fork(void)
{
    atomic_flag_clear(&now.noting); /* another thread of the parent may have been at it */
}

__attribute__((constructor)) static void begin(void)
{
    const char *folder = getenv("HAKMEM_HISTOGRAMS");
    now.folder = folder == NULL ? NULL : strdup(folder); /* the program may overwrite it */
    pthread_atfork(NULL, NULL, child_of_fork);
}

static void write_rows(FILE *out)
{
    fprintf(out, "# %s: %lu threads, %lu bytes live at the peak\n", program_invocation_short_name,
            (unsigned long)now.threads, (unsigned long)now.peak_bytes);
    fputs("size,alignment,allocations,peak_blocks\n", out);
    for (uint32_t a = 0; a < ALIGNMENTS; a++)
        for (uint32_t s = 0; s < SIZES; s++)
            if (now.allocated[a][s] != 0)
                fprintf(out, "%zu,%u,%lu,%lu\n", size_at(s), 16U << a,
                        (unsigned long)now.allocated[a][s], (unsigned long)now.peak[a][s]);
}

__attribute__((destructor)) static void end(void)
{
    if (now.folder == NULL || atomic_flag_test_and_set_explicit(&now.noting, memory_order_acquire))
        return;
    char path[4096];
    snprintf(path, sizeof path, "%s/%s-%d", now.folder, program_invocation_short_name, getpid());
    FILE *out = fopen(path, "we");
    if (out == NULL)
        return;
    write_rows(out);
    fclose(out);
}
