/* Blocks that cross threads: pingpong, produce. */
#include "bench_core.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "ring.h"

static void start_partner(pthread_t *thread, void *(*body)(void *), void *argument)
{
    if (pthread_create(thread, NULL, body, argument) != 0) {
        die("cannot create a thread");
    }
}

/* Both threads count up and wait for each other, so that thread creation is not timed. */
static void meet(_Atomic unsigned *arrived)
{
    unsigned waits = 0;
    atomic_fetch_add(arrived, 1);
    while (atomic_load(arrived) < 2) {
        wait_a_moment(&waits);
    }
}

#define PINGPONG_BLOCKS UINT64_C(10000000) /* in each direction */
#define PINGPONG_RING 1024u
#define PINGPONG_SPREAD 497u /* 16 .. 512 */
#define PINGPONG_MEAN 264u

struct player {
    struct sender sender;
    struct ring *in;
    uint64_t blocks;
    long faults_at_half;
    _Atomic unsigned *arrived;
};

static void play(struct player *player)
{
    uint64_t sent = 0;
    uint64_t received = 0;
    unsigned waits = 0;
    meet(player->arrived);
    while (sent < player->blocks || received < player->blocks) {
        uint64_t out = send_blocks(&player->sender, player->blocks - sent);
        uint64_t in = receive_blocks(player->in, 0);
        if (out + in == 0) {
            wait_a_moment(&waits);
        }
        if (sent < player->blocks / 2 && sent + out >= player->blocks / 2) {
            player->faults_at_half = minor_faults();
        }
        sent += out;
        received += in;
    }
}

static void *play_thread(void *player)
{
    play(player);
    return NULL;
}

void run_pingpong(const struct options *options, size_t argument, struct outcome *outcome)
{
    (void)argument;
    static struct ring there;
    static struct ring back;
    static _Atomic unsigned arrived;
    uint64_t blocks = scaled(options, PINGPONG_BLOCKS);
    ring_init(&there, PINGPONG_RING, PINGPONG_RING);
    ring_init(&back, PINGPONG_RING, PINGPONG_RING);
    struct player here = {
        .sender = {.ring = &there,
                   .random = seeded(options->seed, 0),
                   .size_spread = PINGPONG_SPREAD},
        .in = &back,
        .blocks = blocks,
        .arrived = &arrived,
    };
    struct player other = {
        .sender = {.ring = &back,
                   .random = seeded(options->seed, 1),
                   .size_spread = PINGPONG_SPREAD},
        .in = &there,
        .blocks = blocks,
        .arrived = &arrived,
    };

    outcome->rss_start_kib = rss_now_kib();
    pthread_t thread;
    start_partner(&thread, play_thread, &other);
    while (atomic_load(&arrived) == 0) {
        sched_yield();
    }
    uint64_t start = now_ns();
    play(&here);
    pthread_join(thread, NULL);
    uint64_t elapsed = now_ns() - start;

    outcome->threads = 2;
    outcome->ops = 2 * blocks;
    outcome->ns_per_pair = (double)elapsed / (double)outcome->ops;
    outcome->faults_steady = minor_faults() - here.faults_at_half;
    outcome->live_bytes = 2 * PINGPONG_RING * PINGPONG_MEAN;
}

#define PRODUCE_BYTES (UINT64_C(1) << 30)
#define PRODUCE_BACKLOG 65536u /* blocks that wait before the first is freed */
#define PRODUCE_AHEAD 4096u    /* how far the producer may run beyond that */
#define PRODUCE_SPREAD 1025u   /* 16 .. 1040 */
#define PRODUCE_MEAN 528u

struct consumer {
    struct ring *ring;
    _Atomic unsigned *arrived;
};

/* Never allocates: all it does is free the oldest block of a backlog, and the backlog itself in the
 * end. */
static void *consume_thread(void *argument)
{
    struct consumer *consumer = argument;
    struct ring *ring = consumer->ring;
    unsigned waits = 0;
    meet(consumer->arrived);
    for (;;) {
        int closed = atomic_load_explicit(&ring->closed, memory_order_acquire);
        if (receive_blocks(ring, closed ? 0 : PRODUCE_BACKLOG) > 0) {
            continue;
        }
        if (closed) {
            return NULL;
        }
        wait_a_moment(&waits);
    }
}

void run_produce(const struct options *options, size_t argument, struct outcome *outcome)
{
    (void)argument;
    static struct ring ring;
    static _Atomic unsigned arrived;
    uint64_t wanted = scaled(options, PRODUCE_BYTES);
    ring_init(&ring, 2 * PRODUCE_BACKLOG, PRODUCE_BACKLOG + PRODUCE_AHEAD);
    struct sender sender = {
        .ring = &ring, .random = seeded(options->seed, 0), .size_spread = PRODUCE_SPREAD};
    struct consumer consumer = {.ring = &ring, .arrived = &arrived};

    outcome->rss_start_kib = rss_now_kib();
    pthread_t thread;
    start_partner(&thread, consume_thread, &consumer);
    meet(&arrived);
    uint64_t start = now_ns();
    uint64_t blocks = 0;
    long faults_at_half = 0;
    unsigned waits = 0;
    while (sender.bytes < wanted) {
        uint64_t bytes_before = sender.bytes;
        uint64_t sent = send_blocks(&sender, RING_BATCH);
        if (sent == 0) {
            wait_a_moment(&waits);
        }
        if (bytes_before < wanted / 2 && sender.bytes >= wanted / 2) {
            faults_at_half = minor_faults();
        }
        blocks += sent;
    }
    outcome->faults_steady = minor_faults() - faults_at_half;
    atomic_store_explicit(&ring.closed, 1, memory_order_release);
    pthread_join(thread, NULL);
    uint64_t elapsed = now_ns() - start;

    outcome->threads = 2;
    outcome->ops = blocks;
    outcome->ns_per_pair = (double)elapsed / (double)blocks;
    outcome->live_bytes = least(wanted, (PRODUCE_BACKLOG + PRODUCE_AHEAD) * (uint64_t)PRODUCE_MEAN);
}
