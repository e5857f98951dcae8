/* rhythm: memory that is wanted now and then. Each workload is a few bands; a band builds its blocks every so
 * often, writes to all of them, holds them for a while and frees them. Between the bands small work goes on. For
 * how long an allocator keeps what is free decides what it costs: held for nothing, or touched anew. */
#include <time.h>

#include "common.h"

enum {
    TICK_MS = 10,
    BANDS = 4,
    GAPS = 3,
    BLOCKS_MOST = 4096,
    SMALL = 4096,
    SMALL_PER_TICK = 400,
    MS = 1000000,
    PAGE = 4096,
    LINE = 64,
    SPREAD = 37 /* of touched pages over a block */
};

struct band {
    uint32_t from_ms, to_ms; /* of the run */
    uint32_t every_ms[GAPS]; /* in turn; 0 ends the list */
    uint32_t hold_ms;
    uint32_t blocks;
    uint32_t least_kib, most_kib;
    int site;         /* whose call it is */
    uint32_t percent; /* of each block's pages that are touched */
};

enum { ALWAYS = UINT32_MAX };

#define WORKLOADS "frames buffers batch phases hostile exports callers tables steady"

static const struct band workloads[][BANDS] = {
    /* frames: a pipeline of 2 to 8 MiB frames in scenes, with pauses between them */
    {{0, ALWAYS, {40, 40, 40}, 120, 1, 2048, 8192, 0, 100},
     {0, ALWAYS, {2200}, 700, 12, 2048, 8192, 1, 100}},
    /* buffers: a server whose clients come at once, each with two buffers of 64 KiB */
    {{0, ALWAYS, {2500}, 200, 1500, 60, 64, 0, 100}, {0, ALWAYS, {300}, 30, 30, 60, 64, 0, 100}},
    /* batch: a job every few seconds, of blocks of many sizes */
    {{0, ALWAYS, {2600, 2200, 3000}, 400, 300, 100, 1000, 0, 100}},
    /* phases: such a job for the first half of the run, then never again */
    {{0, 13000, {2000, 1800, 2200}, 300, 40, 3000, 5000, 0, 100}},
    /* hostile: as soon as a rhythm is learnt the next gap is a little longer */
    {{0, ALWAYS, {2300, 2300, 4600}, 200, 40, 3000, 3400, 0, 100}},
    /* exports: frequent work on small frames, now and then a large export of other sizes */
    {{0, ALWAYS, {1800}, 200, 24, 2100, 3900, 0, 100},
     {900, ALWAYS, {6100}, 250, 12, 17000, 30000, 1, 100}},
    /* callers: the same with one size for both */
    {{0, ALWAYS, {1800}, 200, 24, 4100, 4200, 0, 100},
     {900, ALWAYS, {6100}, 250, 64, 4100, 4200, 1, 100}},
    /* tables: large ones of which little is used, beside frames that are filled */
    {{0, ALWAYS, {1500}, 300, 6, 24000, 40000, 0, 5},
     {0, ALWAYS, {1900}, 200, 10, 8200, 16000, 1, 100}},
    /* steady: nothing large at all */
    {{0, 1, {1000}, 0, 1, 1, 1, 0, 100}},
};

struct playing {
    const struct band *band;
    void *held[BLOCKS_MOST];
    size_t sizes[BLOCKS_MOST];
    uint64_t next_ms, release_ms;
    uint32_t turn;
};

static struct playing playing[BANDS];
static uint64_t checksum;

__attribute__((noinline)) static void *build_here(size_t size)
{
    void *p = malloc(size);
    if (!p) {
        die_no_memory(size);
    }
    return p;
}

__attribute__((noinline)) static void *build_there(size_t size)
{
    void *p = malloc(size);
    if (!p) {
        die_no_memory(size);
    }
    checksum++;
    return p;
}

/* Of a block of `size` bytes, how many from `at` on are to be touched: a page or none, or all. */
static size_t touched_from(const struct band *band, size_t at, size_t size)
{
    size_t length = size - at < PAGE ? size - at : PAGE;
    if (band->percent == 100) {
        return size - at;
    }
    return at / PAGE * SPREAD % 100 < band->percent ? length : 0;
}

static void fill(struct playing *p, uint32_t i)
{
    for (size_t at = 0, length = PAGE; at < p->sizes[i]; at += length) {
        size_t touched = touched_from(p->band, at, p->sizes[i]);
        memset((char *)p->held[i] + at, (int)i, touched);
        length = touched > PAGE ? touched : PAGE;
    }
}

static void use(const struct playing *p, uint32_t i)
{
    const unsigned char *bytes = p->held[i];
    for (size_t at = 0; at < p->sizes[i]; at += LINE) {
        if (touched_from(p->band, at / PAGE * PAGE, p->sizes[i])) {
            checksum += bytes[at];
        }
    }
}

static void build(struct playing *p, uint64_t *random)
{
    const struct band *band = p->band;
    for (uint32_t i = 0; i < band->blocks; i++) {
        size_t size = size_between(next_random(random), band->least_kib, band->most_kib) << 10;
        p->held[i] = band->site ? build_there(size) : build_here(size);
        p->sizes[i] = size;
        fill(p, i);
    }
}

static void release(struct playing *p)
{
    for (uint32_t i = 0; i < p->band->blocks; i++) {
        use(p, i);
        free(p->held[i]);
    }
}

/* A band's next blocks may be due while it holds the last ones: then they come when those have gone. */
static void play(struct playing *p, uint64_t ms, uint64_t *random)
{
    if (p->release_ms && ms >= p->release_ms) {
        release(p);
        p->release_ms = 0;
    }
    if (!p->band->blocks || p->release_ms || ms < p->next_ms || ms >= p->band->to_ms) {
        return;
    }
    build(p, random);
    p->release_ms = ms + p->band->hold_ms;
    if (p->turn == GAPS || !p->band->every_ms[p->turn]) {
        p->turn = 0;
    }
    p->next_ms = ms + p->band->every_ms[p->turn++];
}

static void small_work(void **small, uint64_t *random)
{
    for (int i = 0; i < SMALL_PER_TICK; i++) {
        uint64_t bits = next_random(random);
        void **slot = &small[below((uint32_t)bits, SMALL)];
        free(*slot);
        size_t size = size_between(bits >> 32, 16, 2000);
        *slot = malloc(size);
        if (!*slot) {
            die_no_memory(size);
        }
        memset(*slot, 1, 16);
    }
}

enum { WORKLOAD, RUN_MS, SEED, PARAMETERS };

static struct parameter parameters[PARAMETERS] = {
    [WORKLOAD] = {"WORKLOAD", "which bands", 0, 0, WORKLOADS, 0, 0},
    [RUN_MS] = {"MS", "length of the run", 1, 3600000, NULL, 26000, 1},
    [SEED] = {"SEED", "of sizes", 0, UINT32_MAX, NULL, 1, 1},
};

int main(int argc, char **argv)
{
    parse_arguments("Builds and frees memory now and then.", parameters, PARAMETERS, argc, argv);
    uint64_t random = seeded(parameters[SEED].value, 0);
    void **small = harness_table(SMALL * sizeof *small);
    for (int i = 0; i < BANDS; i++) {
        playing[i].band = &workloads[parameters[WORKLOAD].value][i];
        playing[i].next_ms = playing[i].band->from_ms;
    }
    uint64_t start = now_ns(), ticks = parameters[RUN_MS].value / TICK_MS;
    for (uint64_t tick = 0; tick < ticks; tick++) {
        struct timespec pause = {0, (long)TICK_MS * MS};
        for (int i = 0; i < BANDS; i++) {
            play(&playing[i], tick * TICK_MS, &random);
        }
        small_work(small, &random);
        nanosleep(&pause, NULL);
    }
    report(ticks, now_ns() - start);
    report_value("checksum", (double)(checksum % 1000003));
    return 0;
}
