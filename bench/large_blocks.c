/* large_blocks: large blocks of random size and lifetime, a page of each touched at a time. */
#include "pieces.h"

#define WARM_ROUNDS 4u

/* Every power of two in the range is as likely as the next. */
static uint32_t draw_size(uint64_t bits, uint64_t least, uint64_t most)
{
    unsigned doublings = 0;
    while (least << (doublings + 1) <= most) {
        doublings++;
    }
    if (doublings == 0) {
        return (uint32_t)size_between(bits, least, most);
    }
    uint64_t base = least << below((uint32_t)(bits >> 32), doublings);
    return (uint32_t)size_between(bits, base, 2 * base);
}

struct range {
    uint64_t least;
    uint64_t most;
};

static void add(struct pieces *pieces, const struct range *range, uint64_t *random)
{
    pieces_add(pieces, draw_size(next_random(random), range->least, range->most));
    const struct piece *fresh = &pieces->piece[pieces->count - 1];
    touch_every_page(fresh->block, fresh->size);
}

static void replace(struct pieces *pieces, const struct range *range, uint64_t times,
                    uint64_t *random)
{
    for (uint64_t i = 0; i < times; i++) {
        pieces_remove_any(pieces, random);
        add(pieces, range, random);
    }
}

enum { LEAST_KIB, MOST_KIB, LIVE, REPLACEMENTS, SEED, PARAMETERS };

static struct parameter parameters[PARAMETERS] = {
    [LEAST_KIB] = {"LEAST_KIB", "the smallest block", 4, 1048576, NULL, 0, 0},
    [MOST_KIB] = {"MOST_KIB", "the largest block", 4, 1048576, NULL, 0, 0},
    [LIVE] = {"LIVE", "blocks at a time", 1, 100000, NULL, 0, 0},
    [REPLACEMENTS] = {"REPLACEMENTS", "of a random block", 1, 1000000000, NULL, 0, 0},
    [SEED] = {"SEED", "of sizes and lifetimes", 0, UINT32_MAX, NULL, 1, 1},
};

int main(int argc, char **argv)
{
    parse_arguments("Large blocks of random size and lifetime, every page touched.", parameters,
                    PARAMETERS, argc, argv);
    struct range range = {parameters[LEAST_KIB].value << 10, parameters[MOST_KIB].value << 10};
    if (range.least > range.most) {
        refuse_arguments("LEAST_KIB is more than MOST_KIB");
    }
    uint64_t random = seeded(parameters[SEED].value, 0);
    uint64_t live = parameters[LIVE].value;
    struct pieces pieces;
    pieces_init(&pieces, live);
    for (uint64_t i = 0; i < live; i++) {
        add(&pieces, &range, &random);
    }
    replace(&pieces, &range, WARM_ROUNDS * live, &random);

    uint64_t start = now_ns();
    replace(&pieces, &range, parameters[REPLACEMENTS].value, &random);
    report(parameters[REPLACEMENTS].value, now_ns() - start);
    pieces_remove_all(&pieces);
    report_value("rss_end_kib", (double)rss_now_kib());
    return 0;
}
