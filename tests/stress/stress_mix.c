/* Everything at once: threads allocate, resize and free blocks of 1 B to 4 MiB in one shared table
 * of slots, so that most blocks die in a thread that did not make them. Every byte of every block
 * is filled, and checked when the block is resized or freed.
 *
 *     stress_mix [--threads 4] [--slots 1024] [--seconds 10] [--ops PER_THREAD] [--seed 1]
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "support.h"

#include "alloc_names.h"

static const size_t LARGEST = 4 * 1024 * 1024;

struct slot {
    atomic_bool taken; /* whoever set it owns the rest until it clears it */
    void *block;
    size_t size;
    uint64_t id;
};

struct run {
    struct slot *slots;
    size_t slot_count;
    uint64_t seed;
    uint64_t ops;      /* per thread; 0: until the deadline */
    uint64_t deadline; /* on the clock of now_ms */
};

struct worker {
    pthread_t thread;
    const struct run *run;
    struct rng rng;
    uint64_t next_id;
    uint64_t done; /* operations */
};

static struct slot *slot_take(struct worker *worker)
{
    size_t at = rng_below(&worker->rng, worker->run->slot_count);
    for (;;) {
        struct slot *slot = &worker->run->slots[at];
        if (!atomic_exchange_explicit(&slot->taken, true, memory_order_acquire)) {
            return slot;
        }
        at = (at + 1) % worker->run->slot_count;
    }
}

static void slot_release(struct slot *slot)
{
    atomic_store_explicit(&slot->taken, false, memory_order_release);
}

static void *aligned_block(struct rng *rng, size_t size)
{
    size_t alignment = (size_t)16 << rng_below(rng, 13); /* to 64 KiB */
    void *block = NULL;
    switch (rng_below(rng, 3)) {
    case 0:
        block = memalign(alignment, size);
        break;
    case 1:
        block = aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
        break;
    default:
        errno = posix_memalign(&block, alignment, size);
        break;
    }
    if ((uintptr_t)block % alignment != 0) {
        fail("block %p is not aligned to %zu", block, alignment);
    }
    return block;
}

static void *any_block(struct rng *rng, size_t size)
{
    uint64_t dice = rng_below(rng, 100);
    if (dice < 50) {
        return malloc(size);
    }
    if (dice < 75) {
        void *block = calloc(1, size);
        if (block != NULL) {
            zero_check(block, size);
        }
        return block;
    }
    return dice < 90 ? aligned_block(rng, size) : realloc(NULL, size);
}

static void slot_fill(struct worker *worker, struct slot *slot, void *block, size_t size)
{
    if (block == NULL) {
        fail("no block of %zu bytes: %s", size, strerror(errno));
    }
    alignment_check(block, size);
    if (malloc_usable_size(block) < size) {
        fail("usable size of block %p is %zu, asked for %zu", block, malloc_usable_size(block),
             size);
    }
    slot->block = block;
    slot->size = size;
    slot->id = worker->next_id++;
    pattern_fill(block, size, slot->id);
}

static void slot_allocate(struct worker *worker, struct slot *slot)
{
    size_t size = rng_log_size(&worker->rng, LARGEST);
    slot_fill(worker, slot, any_block(&worker->rng, size), size);
}

static void slot_resize(struct worker *worker, struct slot *slot)
{
    /* Half of them a little larger or smaller, as a growing buffer is; half to any size. */
    size_t size = rng_below(&worker->rng, 2) == 0 ? rng_size(&worker->rng, 1, slot->size * 2)
                                                  : rng_log_size(&worker->rng, LARGEST);
    size = size < LARGEST ? size : LARGEST;
    size_t old_size = slot->size;
    uint64_t old_id = slot->id;
    pattern_check(slot->block, old_size, old_size, old_id);
    void *block = realloc(slot->block, size);
    if (block != NULL) {
        pattern_check(block, size < old_size ? size : old_size, old_size, old_id);
    }
    slot_fill(worker, slot, block, size);
}

static void slot_empty(struct slot *slot)
{
    pattern_check(slot->block, slot->size, slot->size, slot->id);
    free(slot->block);
    slot->block = NULL;
}

static void one_operation(struct worker *worker)
{
    struct slot *slot = slot_take(worker);
    if (slot->block == NULL) {
        slot_allocate(worker, slot);
    } else if (rng_below(&worker->rng, 3) == 0) {
        slot_resize(worker, slot);
    } else {
        slot_empty(slot);
    }
    slot_release(slot);
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    const struct run *run = worker->run;
    while (run->ops != 0 ? worker->done < run->ops : now_ms() < run->deadline) {
        one_operation(worker);
        worker->done++;
    }
    return NULL;
}

static uint64_t run_workers(const struct run *run, size_t threads)
{
    struct worker *workers = pages_new(threads * sizeof *workers);
    for (size_t i = 0; i < threads; i++) {
        workers[i] = (struct worker){
            .run = run, .rng = rng_seeded(run->seed, i), .next_id = (uint64_t)(i + 1) << 48};
        workers[i].thread = thread_start(work, &workers[i]);
    }
    uint64_t done = 0;
    for (size_t i = 0; i < threads; i++) {
        thread_join(workers[i].thread);
        done += workers[i].done;
    }
    return done;
}

int main(int argc, char **argv)
{
    size_t threads = option(argc, argv, "--threads", 4);
    struct run run = {
        .slot_count = option(argc, argv, "--slots", 1024),
        .seed = option(argc, argv, "--seed", 1),
        .ops = option(argc, argv, "--ops", 0),
        .deadline = now_ms() + 1000 * option(argc, argv, "--seconds", 10),
    };
    if (run.slot_count < threads) {
        fail("--slots must be at least --threads");
    }
    run.slots = pages_new(run.slot_count * sizeof *run.slots);
    uint64_t done = run_workers(&run, threads);
    for (size_t i = 0; i < run.slot_count; i++) {
        if (run.slots[i].block != NULL) {
            slot_empty(&run.slots[i]);
        }
    }
    note("%llu operations in %zu threads, every byte as it should be", (unsigned long long)done,
         threads);
    return 0;
}
