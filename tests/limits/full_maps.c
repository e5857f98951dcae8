/* The process has as many mappings as the system allows (vm.max_map_count), so that no further can
 * be made or split. In every range of sizes an allocation then succeeds or gives ENOMEM, every byte
 * of what was alive stays as it was, free works, and afterwards there is memory again.
 *
 *     full_maps [--rounds 2000] [--seed 1]
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support.h"

#include "alloc_names.h"

enum { LIVE_COUNT = 256, MAP_COUNT_MOST = 300000 };

static struct parcel *live[LIVE_COUNT];
static uint64_t next_id;
static size_t allowed, refused;

/* Mappings that differ from their neighbours are not merged: every second page has no access. */
struct filler {
    char *pages;
    size_t count, page;
};

static struct filler fill_maps(size_t limit)
{
    struct filler filler = {.count = limit + limit % 2, .page = (size_t)sysconf(_SC_PAGESIZE)};
    filler.pages = mmap(NULL, filler.count * filler.page, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (filler.pages == MAP_FAILED) {
        fail("mmap: %s", strerror(errno));
    }
    for (size_t i = 1; i < filler.count; i += 2) {
        if (mprotect(filler.pages + i * filler.page, filler.page, PROT_READ) != 0) {
            return filler;
        }
    }
    fail("%zu mappings and still not too many", limit);
}

static size_t any_size(struct rng *rng)
{
    return rng_log_size(rng, rng_below(rng, 16) == 0 ? 16 * MIB : 256 * KIB);
}

static void exchange(struct rng *rng)
{
    struct parcel **slot = &live[rng_below(rng, LIVE_COUNT)];
    parcel_end(*slot);
    errno = 0;
    *slot = parcel_try_new(any_size(rng), next_id++);
    if (*slot != NULL) {
        allowed++;
    } else if (errno == ENOMEM) {
        refused++;
    } else {
        fail("malloc gave NULL with errno %d, not ENOMEM", errno);
    }
}

/* realloc of the largest kind moves pages, aligned requests leave gaps. */
static void exchange_unusually(struct rng *rng)
{
    size_t size = any_size(rng);
    char *block = calloc(1, size);
    if (block != NULL) {
        zero_check(block, size);
        char *grown = realloc(block, 2 * size);
        if (grown != NULL) {
            zero_check(grown, size);
        }
        free(grown != NULL ? grown : block);
    }
    void *aligned = NULL;
    int error = posix_memalign(&aligned, 4 * MIB, size);
    if (error == 0) {
        free(aligned);
    } else if (error != ENOMEM) {
        fail("posix_memalign returned %d, not ENOMEM", error);
    }
}

static void *exchange_in_a_thread(void *argument)
{
    for (int i = 0; i < 100; i++) {
        exchange(argument);
        exchange_unusually(argument);
    }
    return NULL;
}

/* The thread's own stack cannot be mapped either, so it waits from before. */
struct late_thread {
    pthread_t thread;
    pthread_barrier_t barrier;
    struct rng rng;
};

static void *late(void *argument)
{
    struct late_thread *me = argument;
    pthread_barrier_wait(&me->barrier); /* the mappings are full now */
    exchange_in_a_thread(&me->rng);
    pthread_barrier_wait(&me->barrier);
    return NULL;
}

static void check_recovered(struct rng *rng)
{
    refused = 0;
    for (size_t i = 0; i < LIVE_COUNT; i++) {
        exchange(rng);
    }
    if (refused != 0) {
        fail("%zu of %d requests refused after the mappings were given back", refused, LIVE_COUNT);
    }
    thread_join(thread_start(exchange_in_a_thread, rng));
}

int main(int argc, char **argv)
{
    size_t rounds = option(argc, argv, "--rounds", 2000);
    struct rng rng = rng_seeded(option(argc, argv, "--seed", 1), 0);
    size_t limit = number_in_file("/proc/sys/vm/max_map_count", 65530);
    if (limit > MAP_COUNT_MOST) {
        skip("vm.max_map_count is %zu: filling it would take long", limit);
    }
    struct late_thread thread = {.rng = rng_seeded(2, 0)};
    pthread_barrier_init(&thread.barrier, NULL, 2);
    thread.thread = thread_start(late, &thread);
    for (size_t i = 0; i < LIVE_COUNT / 2; i++) {
        exchange(&rng);
    }
    struct filler filler = fill_maps(limit);
    allowed = refused = 0;
    pthread_barrier_wait(&thread.barrier); /* one at a time: `live` has no lock */
    pthread_barrier_wait(&thread.barrier);
    for (size_t i = 0; i < rounds; i++) {
        exchange(&rng);
        exchange_unusually(&rng);
    }
    size_t maps = map_count();
    note("%zu of at most %zu mappings: %zu requests answered, %zu refused", maps, limit, allowed,
         refused);
    if (maps + 1 < limit) {
        fail("only %zu of %zu mappings: this tested nothing", maps, limit);
    }
    thread_join(thread.thread);
    munmap(filler.pages, filler.count * filler.page);
    check_recovered(&rng);
    for (size_t i = 0; i < LIVE_COUNT; i++) {
        parcel_end(live[i]);
    }
    return 0;
}
