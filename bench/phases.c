/* phases: memory filled with blocks of one size range, most of them freed at random, and the gaps
 * filled with blocks of another. */
#include "pieces.h"

#define KEPT_SHARE 10u /* one in so many outlives its phase */

struct range {
    uint32_t least;
    uint32_t most;
};

static const struct range ranges[] = {{32, 256}, {288, 768}, {64, 160}, {1024, 4096}};
#define RANGES (sizeof ranges / sizeof ranges[0])

static void fill(struct pieces *pieces, struct range range, uint64_t bytes, uint64_t *random)
{
    while (pieces->bytes < bytes) {
        pieces_add(pieces, (uint32_t)size_between(next_random(random), range.least, range.most));
    }
}

static void thin_out(struct pieces *pieces, uint64_t *random)
{
    uint32_t kept = pieces->count / KEPT_SHARE;
    while (pieces->count > kept) {
        pieces_remove_any(pieces, random);
    }
}

static void run_phase(struct pieces *pieces, uint64_t phase, uint64_t bytes, uint64_t *random)
{
    thin_out(pieces, random);
    fill(pieces, ranges[phase % RANGES], bytes, random);
}

enum { MIB, PHASES, SEED, PARAMETERS };

static struct parameter parameters[PARAMETERS] = {
    [MIB] = {"MIB", "live at the end of each phase", 1, 16384, NULL, 0, 0},
    [PHASES] = {"PHASES", "after the first, which is not timed", 1, 1000000, NULL, 0, 0},
    [SEED] = {"SEED", "of sizes and what is freed", 0, UINT32_MAX, NULL, 1, 1},
};

int main(int argc, char **argv)
{
    parse_arguments("Fills memory, frees 90 % at random, fills it with other sizes, and so on.",
                    parameters, PARAMETERS, argc, argv);
    uint64_t bytes = parameters[MIB].value << 20;
    uint64_t random = seeded(parameters[SEED].value, 0);
    struct pieces pieces;
    pieces_init(&pieces, bytes / 96 + 4096);
    fill(&pieces, ranges[0], bytes, &random);
    uint32_t born_before = pieces.born;

    uint64_t start = now_ns();
    for (uint64_t phase = 1; phase <= parameters[PHASES].value; phase++) {
        run_phase(&pieces, phase, bytes, &random);
    }
    uint64_t elapsed = now_ns() - start;
    report(pieces.born - born_before, elapsed);
    report_value("live_kib", (double)(bytes >> 10));
    pieces_remove_all(&pieces);
    report_value("rss_end_kib", (double)rss_now_kib());
    return 0;
}
