/* Few blocks are left, in slabs that were full of them. */
#include <pthread.h>
#include <string.h>

#include <hakmem/hakmem.h>

#include "footprint.h"

#include "alloc_names.h"

/* ---- few blocks left in much memory ---- */

enum {
    SCATTERED = 120000, /* some 60 MiB */
    STAYS = 10,         /* one in so many */
    REPLACED = 2000,    /* in each round of 100 ms */
    SCATTERED_ROUNDS = 150,
    SCATTERED_PERCENT = 50,
    ASLEEP_PERCENT = 75 /* four pages in ten have no block */
};

static struct {
    struct parcel *blocks[SCATTERED];
    struct rng rng;
    size_t peak;
} scattered;

/* All but one block in STAYS end. */
static void build_and_scatter(void)
{
    scattered.rng = rng_seeded(1, 3);
    for (size_t i = 0; i < SCATTERED; i++) {
        scattered.blocks[i] = parcel_new(rng_size(&scattered.rng, 24, 1024), i);
    }
    scattered.peak = rss_bytes();
    for (size_t i = 0; i < SCATTERED; i++) {
        if (i % STAYS != 0) {
            parcel_end(scattered.blocks[i]);
        }
    }
}

static void end_scattered(void)
{
    for (size_t i = 0; i < SCATTERED; i += STAYS) {
        parcel_end(scattered.blocks[i]);
    }
}

static void replace_some(void)
{
    for (int i = 0; i < REPLACED; i++) {
        size_t at = rng_below(&scattered.rng, SCATTERED / STAYS) * STAYS;
        parcel_end(scattered.blocks[at]);
        scattered.blocks[at] = parcel_new(rng_size(&scattered.rng, 24, 1024), at);
    }
}

/* After some rounds of `work`. */
static void expect_shrunk_to(int percent, void (*work)(void))
{
    size_t after = scattered.peak, enough = scattered.peak * (size_t)percent / 100;
    int rounds = 0;
    for (; rounds < SCATTERED_ROUNDS && after >= enough; rounds++) {
        work();
        sleep_ms(100);
        after = rss_bytes();
    }
    note("resident %.1f MiB at the peak, %.1f MiB after %d rounds with what has stayed",
         in_mib(scattered.peak), in_mib(after), rounds);
    if (after >= enough) {
        fail("not below %d %% of the peak", percent);
    }
}

void check_scattered(void)
{
    build_and_scatter();
    expect_shrunk_to(SCATTERED_PERCENT, replace_some);
    end_scattered();
}

static pthread_barrier_t turn;

/* Sleeps until the others have seen what became of its memory. */
static void *build_and_sleep(void *nothing)
{
    build_and_scatter();
    pthread_barrier_wait(&turn);
    pthread_barrier_wait(&turn);
    end_scattered();
    return nothing;
}

static void expect_shrunk_asleep(void (*work)(void))
{
    pthread_barrier_init(&turn, NULL, 2);
    pthread_t thread = thread_start(build_and_sleep, NULL);
    pthread_barrier_wait(&turn);
    expect_shrunk_to(ASLEEP_PERCENT, work);
    pthread_barrier_wait(&turn);
    thread_join(thread);
}

/* Of this thread alone. */
static void replace_own(void)
{
    static struct parcel *own[REPLACED];
    for (size_t i = 0; i < REPLACED; i++) {
        own[i] = parcel_new(rng_log_size(&scattered.rng, 4 * KIB), i);
    }
    for (size_t i = 0; i < REPLACED; i++) {
        parcel_end(own[i]);
    }
}

static void do_nothing(void) {}

void check_asleep(void)
{
    expect_shrunk_asleep(replace_own);
}

void check_asleep_worker(void)
{
    expect_shrunk_asleep(do_nothing);
}

/* ---- slabs that are nearly empty ---- */

enum { EMPTIED = 700000, EMPTIED_SIZE = 64, EMPTIED_STAYS = 1000, DONE = 200, DONE_SIZE = 200 };

#pragma weak hak_heap_new
#pragma weak hak_heap_malloc
static hak_heap *own_heap; /* NULL: malloc's */

static void *take(size_t size)
{
    void *block = own_heap != NULL ? hak_heap_malloc(own_heap, size) : malloc(size);
    if (block == NULL) {
        fail("no memory");
    }
    return memset(block, 1, size);
}

static void take_and_free_some(void)
{
    for (size_t i = 0; i < DONE; i++) {
        free(take(DONE_SIZE + i));
    }
}

void check_emptied(void)
{
    static void *blocks[EMPTIED];
    for (size_t i = 0; i < EMPTIED; i++) {
        blocks[i] = take(EMPTIED_SIZE);
    }
    scattered.peak = rss_bytes();
    for (size_t i = 0; i < EMPTIED; i++) {
        if (i % EMPTIED_STAYS != 0) {
            free(blocks[i]);
        }
    }
    expect_shrunk_to(SCATTERED_PERCENT, take_and_free_some);
}

void check_emptied_heap(void)
{
    if (hak_heap_new == NULL) {
        fail("hakmem is not there");
    }
    own_heap = hak_heap_new();
    check_emptied();
}
