/* hakmem: the interface beyond malloc's own.
 *
 * Everything here is thread-safe. Sizes and alignments are in bytes. Blocks of 16 bytes and more
 * are aligned to 16 bytes, smaller ones to 8. A block of the standard interface and one of this are
 * the same thing, and either may free the other's, where hakmem is the program's malloc: linked or preloaded,
 * and not where only dlopen has brought it along. */
#ifndef HAKMEM_H
#define HAKMEM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HAK_VERSION_MAJOR 0
#define HAK_VERSION_MINOR 1
#define HAK_VERSION_PATCH 0

/* Behave like the standard functions of the same names without the prefix. NULL and errno ENOMEM if
 * there is no memory or a size (or product) exceeds PTRDIFF_MAX. hak_realloc(p, 0) frees p and
 * returns NULL, as glibc's does. hak_free keeps errno. */
void *hak_malloc(size_t size);
void hak_free(void *p);
void *hak_calloc(size_t count, size_t size);
void *hak_realloc(void *p, size_t size);
void *hak_reallocarray(void *p, size_t count, size_t size);

/* Alignment must be a power of two: otherwise NULL and errno EINVAL (hak_posix_memalign: also a
 * multiple of sizeof(void *), and returns EINVAL, leaving *out and errno alone). */
void *hak_aligned_alloc(size_t alignment, size_t size);
void *hak_memalign(size_t alignment, size_t size);
int hak_posix_memalign(void **out, size_t alignment, size_t size);
void *hak_valloc(size_t size);
void *hak_pvalloc(size_t size);

/* Bytes of the block that may be used, at least what was asked for; 0 for NULL. */
size_t hak_usable_size(const void *p);

/* C23: free with the size (and alignment) of the request. A size or alignment that the block does not have ends the
 * program; a size that is too small does so in the builds `debug` and `secure` alone. */
void hak_free_sized(void *p, size_t size);
void hak_free_aligned_sized(void *p, size_t alignment, size_t size);

/* A number for the place in the source where it stands. */
#define HAK_STRINGIZE_(x) #x
#define HAK_STRINGIZE(x) HAK_STRINGIZE_(x)
#define HAK_PLACE_ __FILE__ ":" HAK_STRINGIZE(__LINE__)
#ifdef __cplusplus
#define HAK_CALLSITE() (reinterpret_cast<uintptr_t>(HAK_PLACE_))
#else
#define HAK_CALLSITE() ((uintptr_t)(const void *)(HAK_PLACE_))
#endif

/* malloc for callers that name their call site: allocators of a program's own, interpreters, whatever is called by one function.
 * Heap profiles show the site as the function that called for the block, HAK_CALLSITE() by file and line, and with the setting
 * keep:site it counts instead of the call stack. 0 is none; below 64 KiB it is a number of the program's. What a signal handler
 * asks for meanwhile counts for the site as well. */
void *hak_alloc_at(size_t size, uintptr_t site);

/* Heaps of the program's own: what one part of it allocates is counted apart, and ends all at once if that is wanted, without
 * a free of each block. A heap may be used by any threads at the same time. Its blocks are blocks like any other: hak_free,
 * free, realloc (which leaves a block in its heap), malloc_usable_size and operator delete take them, from any thread; only
 * hak_free_sized_inline does not. Blocks of up to 1 KiB are mostly had and freed without a lock, larger ones with the
 * heap's; those of more than 64 KiB are served as by malloc. In a signal handler that has interrupted another operation
 * on the same heap there may be no memory to be had of it, what is freed there may be free from the next operation on, and an end of the
 * heap there may do nothing.
 *
 * The heap given must be one that has not ended: the library ends the program otherwise, where it can tell. */
typedef struct hak_heap hak_heap;

/* NULL and errno ENOMEM: no memory. A heap takes some 12 KiB, and is used again after its end; it is never given back, and each fork
 * looks at it. For parts of a program, not for objects. */
hak_heap *hak_heap_new(void);

/* As hak_malloc, hak_calloc and hak_aligned_alloc. */
void *hak_heap_malloc(hak_heap *heap, size_t size);
void *hak_heap_calloc(hak_heap *heap, size_t count, size_t size);
void *hak_heap_aligned_alloc(hak_heap *heap, size_t alignment, size_t size);

/* As hak_realloc; p is NULL or a block of this heap, or the program ends. */
void *hak_heap_realloc(hak_heap *heap, void *p, size_t size);

/* The heap of a live block; NULL: it belongs to none, or p is NULL. */
hak_heap *hak_heap_of(const void *p);

/* Ends the heap and all its blocks, which nobody may use any more. No other thread may be at it. NULL: does nothing. */
void hak_heap_destroy(hak_heap *heap);
/* Ends the heap. Its blocks live on, as any that hak_malloc has given. No other thread may be at it meanwhile, nor free or resize one
 * of its blocks: what is freed then may be lost or given out twice, and a realloc may fail. NULL: does nothing. */
void hak_heap_delete(hak_heap *heap);

struct hak_heap_stats {
    size_t live_bytes; /* blocks by the size of their class */
    size_t live_blocks;
    size_t held_bytes; /* address space of its slabs and larger blocks */
};

/* Fills as much of the structure as the caller knows (`size` is its sizeof). Returns the number of bytes filled in. Looks at every heap of
 * the process, threads' own among them. */
size_t hak_heap_stats_get(hak_heap *heap, struct hak_heap_stats *stats, size_t size);

/* Gives free memory back to the system: the calling thread's magazines, cached blocks, free pages, and of all threads' slabs the
 * pages on which no block lives. Returns the number of bytes given back. */
size_t hak_purge(void);

/* Numbers of the whole process. Bytes count blocks by the size of their class. */
struct hak_stats {
    size_t live_bytes; /* blocks in the program's hands */
    size_t live_blocks;
    size_t magazine_bytes; /* blocks that threads keep for their next requests */
    size_t slab_bytes;     /* address space of slabs, used or not */
    size_t super_bytes;    /* address space of SuperSlabs */
    size_t big_bytes;      /* live blocks above 1 MiB */
    /* Free memory that may still have pages. A unit counts as 64 KiB, whatever was touched of it. */
    size_t dirty_bytes;
    size_t purged_bytes; /* given back since the start */
    size_t heaps;
};

/* Fills as much of the structure as the caller knows (`size` is its sizeof). Returns the number of
 * bytes filled in. */
size_t hak_stats_get(struct hak_stats *stats, size_t size);

/* Reads and sets by name, in the manner of mallctl. Names:
 *   version                 const char *, read
 *   stats.FIELD             size_t, read; FIELD of struct hak_stats
 *   counter.NAME            uint64_t, read
 *   opt                     const char *, read; a line for each: NAME TYPE what it does
 *   opt.NAME                size_t, read and write; NAME as in HAKMEM_CONF. Read only: what counts at the
 *                           start alone, crash_log, live and worker, and texts, which are const char *
 *   purge                   no value: as hak_purge
 *   profile.write           const char *, write: the path of a file for the heap profile; %p in it becomes the process id
 * Returns 0, ENOENT (no such name), EINVAL (wrong length or value, no name), EPERM (cannot be set), or why a file
 * cannot be written. */
int hak_ctl(const char *name, void *old, size_t *old_size, const void *new_value, size_t new_size);

#ifdef __cplusplus
}
#endif

#endif
