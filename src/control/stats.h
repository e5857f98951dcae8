/* Numbers: what is live, what is held for reuse, and the counters. Read by locking one heap after
 * the other; exact when nothing else runs.
 *
 * Calls: heap, super, pages, big, purge, os. Called by: api. */
#ifndef HAK_STATS_H
#define HAK_STATS_H

#include "heap/heap.h"

struct numbers {
    size_t heaps, heaps_live;
    size_t small_blocks, small_bytes; /* live blocks up to 1 MiB, by block size */
    size_t magazine_blocks, magazine_bytes;
    size_t slabs, slab_bytes;
    size_t run_blocks, run_bytes;
    size_t big_blocks, big_bytes;
    size_t super_bytes; /* mapped for SuperSlabs */
    size_t ss_local;    /* blocks that came back to their slabs: what was taken and is not out */
    size_t supers_made; /* since the start: how often units needed stage 3 */
    size_t supers_collapsed;     /* likewise: those that were full and got a huge page */
    size_t dirty_bytes;          /* free units that may have pages */
    size_t big_cached;           /* freed big blocks with pages */
    size_t big_hits, big_misses; /* since the start: big blocks that it had one for, and others */
    size_t purged_bytes;         /* likewise */
    size_t heap_lock_waits, shared_lock_waits; /* likewise */
    struct class_numbers {
        size_t blocks, slabs, magazine;
    } classes[CLASS_COUNT];
    uint64_t counters[COUNTER_COUNT];
};

void numbers_read(struct numbers *n);

/* Writes them as text, line by line, to a descriptor. 0, or the errno. */
int numbers_print(const struct numbers *n, int fd);

/* Without pointers, which would have to be relocated as each program starts. */
enum { COUNTER_NAME_ROOM = 19 };
extern const char hak_counter_names[COUNTER_COUNT][COUNTER_NAME_ROOM]
    __attribute__((visibility("hidden")));

HAK_INLINE size_t numbers_live(const struct numbers *n)
{
    return n->small_bytes + n->run_bytes + n->big_bytes;
}

#endif
