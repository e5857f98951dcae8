/* Blocks that are sent from one thread to one other. */
#ifndef BENCH_RING_H
#define BENCH_RING_H

#include <sched.h>
#include <stdatomic.h>

#include "common.h"

#define RING_BATCH 64u

/* Single producer, single consumer. Positions only grow; a slot's index is the position under the
 * mask. */
struct ring {
    void **slot; /* power of two of them */
    uint64_t mask;
    uint64_t most;                      /* blocks in flight at most */
    _Alignas(64) _Atomic uint64_t head; /* written by the consumer: next to take */
    _Alignas(64) _Atomic uint64_t tail; /* written by the producer: next to put */
    _Alignas(64) _Atomic int closed;    /* the producer has put its last block */
};

static inline void ring_init(struct ring *ring, uint64_t slots, uint64_t most)
{
    ring->slot = harness_table(slots * sizeof(void *));
    ring->mask = slots - 1;
    ring->most = most;
}

static inline uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

struct sender {
    struct ring *ring;
    uint64_t random;
    uint32_t size_spread; /* sizes from 16 to 15 + size_spread */
    uint64_t bytes;
};

/* Allocates and sends up to `most` blocks, as many as there is room for; one publication for all of
 * them. */
static inline uint64_t send_blocks(struct sender *sender, uint64_t most)
{
    struct ring *ring = sender->ring;
    uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_acquire);
    uint64_t count = least(least(most, RING_BATCH), ring->most - (tail - head));
    for (uint64_t i = 0; i < count; i++, tail++) {
        size_t size =
            16 + below((uint32_t)(next_random(&sender->random) >> 32), sender->size_spread);
        ring->slot[tail & ring->mask] = take(size, tail);
        sender->bytes += size;
    }
    atomic_store_explicit(&ring->tail, tail, memory_order_release);
    return count;
}

/* Receives, checks and frees what lies in the ring beyond `keep` blocks. */
static inline uint64_t receive_blocks(struct ring *ring, uint64_t keep)
{
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    uint64_t waiting = atomic_load_explicit(&ring->tail, memory_order_acquire) - head;
    uint64_t count = waiting > keep ? least(waiting - keep, RING_BATCH) : 0;
    for (uint64_t i = 0; i < count; i++, head++) {
        give_back(ring->slot[head & ring->mask], head);
    }
    atomic_store_explicit(&ring->head, head, memory_order_release);
    return count;
}

/* Spins a little, then lets others run: with fewer idle cores than threads, spinning would stop the
 * partner. */
static inline void wait_a_moment(unsigned *waits)
{
    if (++*waits % 128 == 0) {
        sched_yield();
    } else {
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#endif
    }
}

#endif
