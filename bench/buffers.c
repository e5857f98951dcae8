/* json, mir, vm: one large buffer at a time, with the small blocks that accompany it. The program's
 * name says which: BUFFER_KIND is set where it is compiled. */
#include "common.h"

#define MOST_COMPANIONS 256u
#define WARM_ITERATIONS 8u

struct kind {
    const char *summary;
    size_t buffer;
    unsigned companions; /* freed before the buffer, the youngest first */
    size_t least;
    size_t most;
};

static const struct kind kinds[] = {
    {"A document's text of 64 KiB, and the nodes it is parsed into.", 65536, 32, 16, 96},
    {"A function's arena of 256 KiB, and the vectors of the pass over it.", 262144, 16, 64, 2048},
    {"A machine's heap of 2 MiB, and the tables beside it.", 2097152, 8, 256, 16384},
};

static void run_once(const struct kind *kind, uint64_t *random)
{
    void *companion[MOST_COMPANIONS];
    size_t size[MOST_COMPANIONS];
    void *buffer = take(kind->buffer, 0);
    touch_every_page(buffer, kind->buffer);
    for (unsigned i = 0; i < kind->companions; i++) {
        size[i] = size_between(next_random(random), kind->least, kind->most);
        companion[i] = take(size[i], i + 1);
    }
    for (unsigned i = kind->companions; i-- > 0;) {
        give_back_sized(companion[i], size[i], i + 1);
    }
    give_back_sized(buffer, kind->buffer, 0);
}

enum { ITERATIONS, SEED, PARAMETERS };

static struct parameter parameters[PARAMETERS] = {
    [ITERATIONS] = {"ITERATIONS", "buffers", 1, 1000000000, NULL, 0, 0},
    [SEED] = {"SEED", "of the small blocks' sizes", 0, UINT32_MAX, NULL, 1, 1},
};

int main(int argc, char **argv)
{
    const struct kind *kind = &kinds[BUFFER_KIND];
    parse_arguments(kind->summary, parameters, PARAMETERS, argc, argv);
    uint64_t iterations = parameters[ITERATIONS].value;
    uint64_t random = seeded(parameters[SEED].value, 0);
    for (unsigned i = 0; i < WARM_ITERATIONS; i++) {
        run_once(kind, &random);
    }
    uint64_t start = now_ns();
    for (uint64_t i = 0; i < iterations; i++) {
        run_once(kind, &random);
    }
    report(iterations * (kind->companions + 1), now_ns() - start);
    return 0;
}
