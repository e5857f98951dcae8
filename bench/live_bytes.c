/* live_bytes: preloaded into a program, it prints the most bytes that were live at a time.
 *
 * Two lines on standard output when the program ends: `peak_live_kib`, bytes asked for and not yet
 * freed, and `tables_kib`, the harness' own tables, which come from mmap with MAP_POPULATE. Blocks
 * are glibc's; each is 8 bytes longer than asked for and keeps its size in its last 8 bytes.
 */
#include <errno.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
void __libc_free(void *);

#define PUBLIC __attribute__((visibility("default")))
#define TAIL sizeof(size_t)

/* Every thread adds; the peak is only ever raised. Relaxed: no other data depends on either. */
static _Atomic size_t live;
static _Atomic size_t peak;
static _Atomic size_t tables;

static char *tail_of(void *block)
{
    return (char *)block + malloc_usable_size(block) - TAIL;
}

static size_t size_of(void *block)
{
    size_t size;
    memcpy(&size, tail_of(block), sizeof size);
    return size;
}

static void *born(void *block, size_t size)
{
    if (block == NULL) {
        return NULL;
    }
    memcpy(tail_of(block), &size, sizeof size);
    size_t now = atomic_fetch_add_explicit(&live, size, memory_order_relaxed) + size;
    size_t before = atomic_load_explicit(&peak, memory_order_relaxed);
    while (now > before && !atomic_compare_exchange_weak_explicit(
                               &peak, &before, now, memory_order_relaxed, memory_order_relaxed)) {
    }
    return block;
}

static void gone(size_t size)
{
    atomic_fetch_sub_explicit(&live, size, memory_order_relaxed);
}

static int too_long(size_t size)
{
    if (size <= PTRDIFF_MAX - TAIL) {
        return 0;
    }
    errno = ENOMEM;
    return 1;
}

PUBLIC void *malloc(size_t size)
{
    return too_long(size) ? NULL : born(__libc_malloc(size + TAIL), size);
}

PUBLIC void free(void *block)
{
    if (block != NULL) {
        gone(size_of(block));
        __libc_free(block);
    }
}

PUBLIC void *calloc(size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return too_long(bytes) ? NULL : born(__libc_calloc(1, bytes + TAIL), bytes);
}

PUBLIC void *realloc(void *block, size_t size)
{
    if (block == NULL || size == 0) {
        free(block);
        return block == NULL ? malloc(size) : NULL;
    }
    if (too_long(size)) {
        return NULL;
    }
    size_t before = size_of(block);
    void *moved = __libc_realloc(block, size + TAIL);
    if (moved != NULL) {
        gone(before);
    }
    return born(moved, size);
}

PUBLIC void *memalign(size_t alignment, size_t size)
{
    return too_long(size) ? NULL : born(__libc_memalign(alignment, size + TAIL), size);
}

PUBLIC void *aligned_alloc(size_t alignment, size_t size)
{
    return memalign(alignment, size);
}

PUBLIC int posix_memalign(void **block, size_t alignment, size_t size)
{
    if (alignment < sizeof(void *) || (alignment & (alignment - 1)) != 0) {
        return EINVAL;
    }
    int before = errno;
    void *found = memalign(alignment, size);
    errno = before;
    if (found == NULL) {
        return ENOMEM;
    }
    *block = found;
    return 0;
}

PUBLIC void *mmap(void *at, size_t size, int access, int flags, int file, off_t offset)
{
    void *found = (void *)syscall(SYS_mmap, at, size, access, flags, file, offset);
    if (found != MAP_FAILED && (flags & MAP_POPULATE) != 0) {
        atomic_fetch_add_explicit(&tables, size, memory_order_relaxed);
    }
    return found;
}

__attribute__((destructor)) static void say(void)
{
    char line[96];
    int length = snprintf(line, sizeof line, "peak_live_kib %.3f\ntables_kib %.3f\n",
                          (double)peak / 1024, (double)tables / 1024);
    /* Programs that have closed their output end as they would without this. */
    ssize_t written = write(STDOUT_FILENO, line, (size_t)length);
    (void)written;
}
