/* What ended threads have left is freed while another thread takes over the slabs it lies in.
 *
 *     adopted [--rounds 4000]
 */
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "support.h"

#include "alloc_names.h"

enum { LEFT = 600, TAKEN = 400, SIZE = 100 };

static struct parcel *left[LEFT];
static atomic_size_t round_freed, round_made; /* the last one that has been */

static void await(const atomic_size_t *done, size_t round)
{
    while (atomic_load(done) < round)
        sched_yield();
}

/* Every other block lives on, so that its slabs have room. */
static void *leave(void *first_id)
{
    struct parcel *between[LEFT];
    for (size_t i = 0; i < LEFT; i++) {
        left[i] = parcel_new(SIZE, (uintptr_t)first_id + i);
        between[i] = parcel_new(SIZE, i);
    }
    for (size_t i = 0; i < LEFT; i++)
        parcel_end(between[i]);
    return NULL;
}

static void *free_what_is_left(void *rounds)
{
    for (size_t round = 1; round <= (uintptr_t)rounds; round++) {
        await(&round_made, round);
        for (size_t i = 0; i < LEFT; i++)
            free(left[i]);
        atomic_store(&round_freed, round);
    }
    return NULL;
}

/* Beyond what its own slabs have room for. */
static void take(struct parcel **blocks)
{
    for (size_t i = 0; i < TAKEN; i++)
        blocks[i] = parcel_new(SIZE, i);
}

int main(int argc, char **argv)
{
    size_t rounds = option(argc, argv, "--rounds", 4000);
    struct parcel **taken = pages_new(rounds * TAKEN * sizeof *taken);
    pthread_t freer = thread_start(free_what_is_left, (void *)rounds);
    for (size_t round = 1; round <= rounds; round++) {
        thread_join(thread_start(leave, (void *)round));
        atomic_store(&round_made, round);
        take(taken + (round - 1) * TAKEN);
        await(&round_freed, round);
    }
    thread_join(freer);
    for (size_t i = 0; i < rounds * TAKEN; i++)
        parcel_end(taken[i]);
    note("%zu rounds", rounds);
    return 0;
}
