/* What threads do when they end: leave blocks alive that others free later, allocate and free in
 * the destructors of thread-specific data (some of which run after the allocator's own), end
 * detached; and at last the main thread ends before the others.
 *
 *     thread_exit [--threads 2000] [--seed 1]
 */
#define _GNU_SOURCE
#include <limits.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>

#include "support.h"

#include "alloc_names.h"

enum { BLOCKS_LEFT = 32, EARLY_KEYS = 2, KEYS = 4 };

struct life {
    uint64_t seed;
    uint64_t number;
    struct parcel *left[BLOCKS_LEFT]; /* alive after the thread, for another to free */
};

/* What a destructor finds: how often it was already called for this thread, and a live block. */
struct remains {
    int rounds;
    struct parcel *block;
};

static pthread_key_t keys[KEYS];
static atomic_size_t destructor_calls;
static sem_t detached_done;

static struct remains *remains_new(int rounds, uint64_t id)
{
    struct remains *remains = malloc(sizeof *remains);
    if (remains == NULL) {
        fail("malloc gave NULL in a destructor or a new thread");
    }
    *remains = (struct remains){.rounds = rounds, .block = parcel_new(200 + id % 5000, id)};
    return remains;
}

/* Frees what an earlier life of the thread made and sets the key again, so that the last call
 * comes in the last round the system allows. */
static void bury(pthread_key_t key, struct remains *remains)
{
    int rounds = remains->rounds + 1;
    atomic_fetch_add(&destructor_calls, 1);
    parcel_end(remains->block);
    free(remains);
    parcel_end(parcel_new(64 * KIB, 7));
    parcel_end(parcel_new(24, 8));
    if (rounds < PTHREAD_DESTRUCTOR_ITERATIONS) {
        pthread_setspecific(key, remains_new(rounds, (uint64_t)rounds));
    }
}

static void bury_0(void *value)
{
    bury(keys[0], value);
}

static void bury_1(void *value)
{
    bury(keys[1], value);
}

static void bury_2(void *value)
{
    bury(keys[2], value);
}

static void bury_3(void *value)
{
    bury(keys[3], value);
}

/* Without hakmem's first allocation in between, or after it: keys on both sides of its own. */
static void make_keys(size_t from, size_t to)
{
    static void (*const destructors[KEYS])(void *) = {bury_0, bury_1, bury_2, bury_3};
    for (size_t i = from; i < to; i++) {
        int error = pthread_key_create(&keys[i], destructors[i]);
        if (error != 0) {
            fail("pthread_key_create: %s", strerror(error));
        }
    }
}

static void live(struct life *life)
{
    struct rng rng = rng_seeded(life->seed, life->number);
    for (size_t i = 0; i < KEYS; i++) {
        pthread_setspecific(keys[i], remains_new(0, life->number));
    }
    for (size_t i = 0; i < BLOCKS_LEFT; i++) {
        size_t size = rng_log_size(&rng, 128 * KIB);
        life->left[i] = parcel_new(size, life->number * BLOCKS_LEFT + i);
    }
}

static void *live_joined(void *argument)
{
    live(argument);
    return NULL;
}

static void *live_detached(void *argument)
{
    pthread_detach(pthread_self());
    live(argument);
    sem_post(&detached_done); /* the blocks are there; the thread may still be ending */
    return NULL;
}

static void clear(struct life *life)
{
    for (size_t i = 0; i < BLOCKS_LEFT; i++) {
        parcel_end(life->left[i]);
    }
}

static void *clear_elsewhere(void *argument)
{
    clear(argument);
    return NULL;
}

static void one_life(struct life *life)
{
    if (life->number % 4 == 3) {
        thread_start(live_detached, life);
        while (sem_wait(&detached_done) != 0) {
        }
        clear(life); /* while the thread ends */
    } else {
        thread_join(thread_start(live_joined, life));
        if (life->number % 4 == 0) {
            clear(life);
        } else {
            thread_join(thread_start(clear_elsewhere, life));
        }
    }
}

struct finale {
    pthread_t main_thread;
    struct life main_life;
    size_t calls_wanted;
};

/* Outlives the main thread, frees what that left, and ends the process. */
static void *after_main(void *argument)
{
    struct finale *finale = argument;
    thread_join(finale->main_thread);
    clear(&finale->main_life);
    /* Detached threads may still be in their destructors: wait for them. */
    while (atomic_load(&destructor_calls) < finale->calls_wanted) {
        sleep_ms(1);
    }
    note("%zu destructors allocated and freed, the last after main", finale->calls_wanted);
    exit(EXIT_SUCCESS);
}

int main(int argc, char **argv)
{
    static struct finale finale;
    size_t threads = option(argc, argv, "--threads", 2000);
    uint64_t seed = option(argc, argv, "--seed", 1);
    sem_init(&detached_done, 0, 0);
    make_keys(0, EARLY_KEYS);
    parcel_end(parcel_new(100, 1));
    make_keys(EARLY_KEYS, KEYS);
    for (size_t i = 0; i < threads; i++) {
        struct life life = {.seed = seed, .number = i};
        one_life(&life);
    }
    finale.main_thread = pthread_self();
    finale.main_life = (struct life){.seed = seed, .number = threads};
    finale.calls_wanted = (threads + 1) * KEYS * PTHREAD_DESTRUCTOR_ITERATIONS;
    thread_start(after_main, &finale);
    live(&finale.main_life);
    pthread_exit(NULL);
}
