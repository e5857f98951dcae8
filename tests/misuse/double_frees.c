/* Blocks that are given back once more: when, by whom, by which call. */
#include "misuse.h"

#include <pthread.h>

enum { FEW = 10, MANY = 5000 };

static void free_newest(const struct how *how)
{
    void *block = announce(block_of(how->size));
    free(block);
    free(opaque(block));
}

/* The first of several blocks freed, and again when the others lie on top of it. */
static void free_again_after(size_t size, size_t others)
{
    void *other[FEW];
    CHECK(others <= FEW);
    void *block = announce(block_of(size));
    for (size_t i = 0; i < others; i++) {
        other[i] = block_of(size);
    }
    free(block);
    free_all(other, others);
    free(opaque(block));
}

static void free_after_one(const struct how *how)
{
    free_again_after(how->size, 1);
}

static void free_older(const struct how *how)
{
    free_again_after(how->size, FEW);
}

/* Every other block stays, so that the memory around the freed one stays what it is. */
static void free_flushed(const struct how *how)
{
    static void *other[MANY];
    const size_t many = how->size <= KIB ? MANY : MANY / 10;
    for (size_t i = 0; i < many / 2; i++) {
        other[i] = block_of(how->size);
    }
    void *block = announce(block_of(how->size));
    for (size_t i = many / 2; i < many; i++) {
        other[i] = block_of(how->size);
    }
    free(block);
    for (size_t i = 0; i < many; i += 2) {
        free(other[i]);
    }
    free(opaque(block));
}

/* The block has another owner by the time of the second free, who frees it as well. */
static void free_reused(const struct how *how)
{
    void *block = announce(block_of(how->size));
    free(block);
    void *next = block_of(how->size);
    void *last = block_of(how->size);
    free(opaque(block));
    free(last);
    free(next);
}

static void other_thread_first(const struct how *how)
{
    void *block = announce(block_of(how->size));
    free_in_thread(block);
    free(opaque(block));
}

static void other_thread_second(const struct how *how)
{
    void *block = announce(block_of(how->size));
    free(block);
    free_in_thread(opaque(block));
}

static void two_other_threads(const struct how *how)
{
    void *block = announce(block_of(how->size));
    free_in_thread(block);
    free_in_thread(opaque(block));
}

/* realloc has moved the block, and the old pointer is still in use. */
static void free_moved(const struct how *how)
{
    void *block = announce(block_of(how->size));
    void *behind = block_of(how->size);
    void *moved = resized(block, how->size * 3);
    free(opaque(block));
    free(moved);
    free(behind);
}

static void free_by_other_call(const struct how *how)
{
    void *other = block_of(how->size);
    void *block = announce(block_of(how->size));
    free(block);
    free(other);
    free_by(how->variant->call, opaque(block), how->size);
}

static void *thread_that_allocates(void *size)
{
    void *block = block_of(*(size_t *)size);
    free(block_of(*(size_t *)size));
    return block;
}

/* The thread the block comes from has ended. */
static void owner_ended(const struct how *how)
{
    pthread_t thread;
    size_t size = how->size;
    void *block = NULL, *other = block_of(size);
    CHECK(pthread_create(&thread, NULL, thread_that_allocates, &size) == 0);
    CHECK(pthread_join(thread, &block) == 0);
    free(announce(block));
    free(other);
    free(opaque(block));
}

static void free_aligned(const struct how *how)
{
    void *other = block_of(how->size), *block = opaque(aligned_alloc(256, how->size));
    CHECK(block != NULL);
    free(announce(block));
    free(other);
    free(opaque(block));
}

static void usable_size_freed(const struct how *how)
{
    void *block = announce(block_of(how->size));
    free(block);
    opaque_size(malloc_usable_size(opaque(block)));
}

static const struct variant calls[] = {
    {"realloc", "by realloc", 0, "realloc"},
    {"free_sized", "by free_sized", 0, "free_sized"},
    {"delete", "by operator delete", 0, "_ZdlPv"},
    {"delete_sized", "by sized operator delete", 0, "_ZdlPvm"},
};

const struct form double_frees[] = {
    {"double free", "double_free_newest", "the block that was freed last is freed", free_newest,
     ALL_SIZES, NULL, 0},
    {"double free", "double_free_after_one", "freed again after one other", free_after_one,
     ALL_SIZES, NULL, 0},
    {"double free", "double_free_older", "freed again after several others", free_older, ALL_SIZES,
     NULL, 0},
    {"double free", "double_free_flushed", "freed again after it left the thread's cache",
     free_flushed, SLAB_SIZES, NULL, 0},
    {"double free", "double_free_reused", "freed again when it is another's, who frees it too",
     free_reused, ALL_SIZES, NULL, 0},
    {"double free", "double_free_moved", "freed after realloc has moved it", free_moved,
     SMALL | LARGER | MID | RUN | BIG, NULL, 0},
    {"double free", "double_free", "freed again", free_by_other_call, SMALL | LARGER | MID | RUN,
     VARIANTS(calls)},
    {"double free across threads", "double_free_thread_first", "another thread has freed it",
     other_thread_first, ALL_SIZES, NULL, 0},
    {"double free across threads", "double_free_thread_second", "another thread frees it again",
     other_thread_second, ALL_SIZES, NULL, 0},
    {"double free across threads", "double_free_two_threads", "two other threads free it",
     two_other_threads, SMALL | MID | RUN, NULL, 0},
    {"double free across threads", "double_free_owner_ended", "its thread has ended", owner_ended,
     SMALL | LARGER | MID | RUN, NULL, 0},
    {"double free", "double_free_aligned", "a block of aligned_alloc is freed again", free_aligned,
     SMALL | LARGER | MID | RUN, NULL, 0},
    {"question about a freed block", "usable_size_freed", "malloc_usable_size of a freed block",
     usable_size_freed, SMALL | MID | RUN | BIG, NULL, 0},
};
const size_t double_frees_count = ARRAY_LENGTH(double_frees);
