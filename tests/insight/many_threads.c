/* Many threads, each with its own mix of blocks, some of which it frees itself and some the thread beside
 * it. Then says what is live, and waits for the end of its input.
 *
 *     many_threads [--threads 300]
 *
 * Prints the bytes that are requested and usable, those of its own that each thread freed last ("own") and those of
 * the other's that may still wait to be sent there ("beside"); then "ready".
 */
#include <stdio.h>
#include <string.h>

#include "support.h"

#include "alloc_names.h"

enum { BLOCKS = 600, ROUNDS = 4 };
enum { PARCEL = 32 << 10 }; /* bytes that wait for another heap, at most */
enum { SPARSE = 40 };       /* of so many large blocks one is touched in part only */

struct block {
    unsigned char *at;
    size_t size;
};

struct holder {
    pthread_t thread;
    size_t number;
    struct block blocks[BLOCKS];
    struct holder *beside;
    size_t freed_own;    /* in the last round */
    size_t freed_beside; /* in all of them: a parcel waits until it is full */
};

static pthread_barrier_t barrier;

static size_t some_size(const struct holder *self, struct rng *rng)
{
    static const size_t most[] = {64, 512, 4096, 40960};
    uint64_t rare = rng_below(rng, 6000);
    if (rare == 0)
        return rng_size(rng, MIB + 1, 5 * MIB);
    if (rare < 7)
        return rng_size(rng, 64 * KIB, MIB);
    return rng_log_size(rng, most[self->number % 4]);
}

static void fill(const struct block *b, struct rng *rng)
{
    bool in_part = b->size >= 64 * KIB && rng_below(rng, SPARSE) == 0;
    memset(b->at, 1, in_part ? b->size / 3 : b->size);
}

static void allocate(struct holder *self, struct rng *rng)
{
    for (size_t i = 0; i < BLOCKS; i++) {
        struct block *b = &self->blocks[i];
        if (b->at != NULL)
            continue;
        b->size = some_size(self, rng);
        b->at = malloc(b->size);
        if (b->at == NULL)
            fail("no memory for %zu bytes", b->size);
        fill(b, rng);
    }
}

static size_t free_some(struct holder *of, uint64_t share, struct rng *rng)
{
    size_t freed = 0;
    for (size_t i = 0; i < BLOCKS; i++) {
        struct block *b = &of->blocks[i];
        if (b->at == NULL || rng_below(rng, share) != 0)
            continue;
        freed += malloc_usable_size(b->at);
        free(b->at);
        *b = (struct block){0};
    }
    return freed;
}

static void *work(void *argument)
{
    struct holder *self = argument;
    struct rng rng = rng_seeded(7, self->number);
    for (int round = 0; round < ROUNDS; round++) {
        allocate(self, &rng);
        self->freed_own = free_some(self, 3, &rng);
        pthread_barrier_wait(&barrier);
        self->freed_beside += free_some(self->beside, 5, &rng);
        pthread_barrier_wait(&barrier);
    }
    pthread_barrier_wait(&barrier); /* main counts */
    pthread_barrier_wait(&barrier); /* the end */
    return NULL;
}

static void say_what_is_live(const struct holder *holders, size_t n)
{
    size_t requested = 0, usable = 0, own = 0, beside = 0;
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < BLOCKS; k++) {
            const struct block *b = &holders[i].blocks[k];
            requested += b->size;
            usable += malloc_usable_size(b->at);
        }
        own += holders[i].freed_own;
        beside += holders[i].freed_beside < PARCEL ? holders[i].freed_beside : PARCEL;
    }
    printf("requested %zu usable %zu own %zu beside %zu\nready\n", requested, usable, own, beside);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    size_t n = option(argc, argv, "--threads", 300);
    struct holder *holders = pages_new(n * sizeof *holders);
    pthread_barrier_init(&barrier, NULL, (unsigned)n + 1);
    for (size_t i = 0; i < n; i++) {
        holders[i].number = i;
        holders[i].beside = &holders[(i + 1) % n];
    }
    for (size_t i = 0; i < n; i++)
        holders[i].thread = thread_start(work, &holders[i]);
    for (int i = 0; i < 2 * ROUNDS; i++)
        pthread_barrier_wait(&barrier);
    say_what_is_live(holders, n);
    while (getchar() != EOF)
        ;
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    for (size_t i = 0; i < n; i++)
        thread_join(holders[i].thread);
    return 0;
}
