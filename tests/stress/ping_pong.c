/* Two threads that hand every block they allocate to each other: none dies where it was made.
 *
 *     ping_pong [--blocks 2000000] [--depth 128] [--seed 1]
 */
#define _GNU_SOURCE
#include "ring.h"
#include "support.h"

#include "alloc_names.h"

struct player {
    struct ring *to_other;
    struct ring *from_other;
    uint64_t blocks;
    uint64_t lead; /* blocks sent before the first is received */
    struct rng rng;
    uint64_t first_id;
};

static size_t any_size(struct rng *rng)
{
    return rng_below(rng, 64) == 0 ? rng_log_size(rng, 256 * KIB) : rng_size(rng, 16, 1040);
}

static void *play(void *argument)
{
    struct player *player = argument;
    for (uint64_t i = 0; i < player->blocks + player->lead; i++) {
        if (i < player->blocks) {
            size_t size = any_size(&player->rng);
            ring_send(player->to_other, parcel_new(size, player->first_id + i));
        }
        if (i >= player->lead) {
            parcel_end(ring_receive(player->from_other));
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    uint64_t blocks = option(argc, argv, "--blocks", 2000000);
    uint64_t depth = option(argc, argv, "--depth", 128);
    uint64_t seed = option(argc, argv, "--seed", 1);
    if (depth < 2) {
        fail("--depth must be at least 2");
    }
    struct ring rings[2] = {ring_new(depth), ring_new(depth)};
    struct player players[2];
    pthread_t threads[2];
    for (size_t i = 0; i < 2; i++) {
        players[i] = (struct player){.to_other = &rings[i],
                                     .from_other = &rings[1 - i],
                                     .blocks = blocks,
                                     .lead = depth / 2,
                                     .rng = rng_seeded(seed, i),
                                     .first_id = (uint64_t)i << 48};
        threads[i] = thread_start(play, &players[i]);
    }
    for (size_t i = 0; i < 2; i++) {
        thread_join(threads[i]);
    }
    note("each of two threads handed %llu blocks to the other", (unsigned long long)blocks);
    return 0;
}
