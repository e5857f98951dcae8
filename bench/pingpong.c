/* pingpong: two threads that send each other blocks and free what they receive. */
#include "lanes.h"
#include "ring.h"

#define PLACES 1024u
#define SIZE_SPREAD 497u /* 16 .. 512 */

struct player {
    struct sender sender;
    struct ring *in;
    uint64_t blocks; /* to send, and to receive */
};

static void play(void *lane)
{
    struct player *player = lane;
    uint64_t sent = 0;
    uint64_t received = 0;
    unsigned waits = 0;
    while (sent < player->blocks || received < player->blocks) {
        uint64_t out = send_blocks(&player->sender, player->blocks - sent);
        uint64_t in = receive_blocks(player->in, 0);
        if (out + in == 0) {
            wait_a_moment(&waits);
        }
        sent += out;
        received += in;
    }
}

enum { BLOCKS, SEED, PARAMETERS };

static struct parameter parameters[PARAMETERS] = {
    [BLOCKS] = {"BLOCKS", "sent in all", 2, UINT64_C(10000000000), NULL, 0, 0},
    [SEED] = {"SEED", "of sizes", 0, UINT32_MAX, NULL, 1, 1},
};

int main(int argc, char **argv)
{
    static struct ring ring[2];
    static struct player player[2];
    parse_arguments("Two threads send each other blocks and free what they receive.", parameters,
                    PARAMETERS, argc, argv);
    uint64_t share = parameters[BLOCKS].value / 2;
    for (unsigned i = 0; i < 2; i++) {
        ring_init(&ring[i], PLACES, PLACES);
        player[i].sender.ring = &ring[i];
        player[i].sender.random = seeded(parameters[SEED].value, i);
        player[i].sender.size_spread = SIZE_SPREAD;
        player[i].in = &ring[1 - i];
        player[i].blocks = share;
    }
    uint64_t elapsed = run_lanes(
        &(struct lanes){.count = 2, .state = player, .size = sizeof *player, .body = play});
    report(2 * share, elapsed);
    return 0;
}
