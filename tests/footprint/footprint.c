/* How much memory a process holds beside what it asked for.
 *
 *     footprint start    a small program: at most 512 KiB more resident than under glibc
 *     footprint idle     600 MiB freed, then nothing done at all: after 2 s at most 4 MiB more
 *                        than at the start
 *     footprint peak     600 MiB freed, then a little work: below 10 % of the peak within 5 s
 *     footprint tiny     two million blocks of 8 bytes are little more resident than that
 *     footprint steady   replacing blocks at random takes no page faults
 *     footprint scattered  of what was built one block in ten stays, all over the place, and they are replaced by
 *                        and by: below half of the peak within 15 s
 *     footprint asleep   the same goes for a thread that sleeps while another works: three quarters of the peak;
 *                        asleep_worker: while nobody does, with worker:1
 *     footprint worker   with worker:1 and all kept for a while: what was freed goes while nothing is done at
 *                        all, in a fork's child as well
 *     footprint emptied  of many small blocks one in a thousand stays, and all that is done then comes from magazines: below half
 *                        of the peak within 15 s; emptied_heap: in a heap of the program's own
 *     footprint collapsed  with worker:1 a heap that stays full gets huge pages, and is no larger for that; what is freed goes
 *     footprint trickle  what two peaks have taught goes as well while a few small blocks are all that is asked for, and all of them
 *                        come from what the thread keeps
 *     footprint growing  the same of a large block while the program only grows, by small ones
 *     footprint swing    neither does demand that goes up and down; when it has stopped, what was kept
 *                        for it is bounded, and goes with a little work within 8 s
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "footprint.h"

#include "alloc_names.h"

enum {
    PEAK_MIB = 600,
    LARGEST_KIB = 256,
    START_SLACK_KIB = 512,
    IDLE_MS = 2000,
    PEAK_PERCENT = 10,
    PEAK_ROUNDS = 50, /* of 100 ms */
};

/* ---- start ---- */

/* A program that holds 100 KiB in small blocks, and says how much is resident. */
static void hold_and_report(void)
{
    struct rng rng = rng_seeded(1, 0);
    struct parcel *blocks[200];
    for (size_t i = 0; i < 200; i++) {
        blocks[i] = parcel_new(rng_size(&rng, 24, 1000), i);
    }
    char text[32];
    int length = snprintf(text, sizeof text, "%zu", rss_bytes());
    if (write(STDOUT_FILENO, text, (size_t)length) != length) {
        fail("cannot write the result");
    }
    for (size_t i = 0; i < 200; i++) {
        parcel_end(blocks[i]);
    }
}

/* The resident size that this program reports when started with this LD_PRELOAD. */
static size_t rss_when_started(const char *preload)
{
    int ends[2];
    if (pipe(ends) != 0) {
        fail("pipe: %s", strerror(errno));
    }
    pid_t child = fork();
    if (child < 0) {
        fail("fork: %s", strerror(errno));
    }
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        preload == NULL ? unsetenv("LD_PRELOAD") : setenv("LD_PRELOAD", preload, 1);
        execl("/proc/self/exe", "footprint", "hold", (char *)NULL);
        fail("exec: %s", strerror(errno));
    }
    close(ends[1]);
    char text[32] = "";
    ssize_t got = read(ends[0], text, sizeof text - 1);
    close(ends[0]);
    int status;
    if (waitpid(child, &status, 0) != child || status != 0 || got <= 0) {
        fail("the small program did not report its size");
    }
    return strtoul(text, NULL, 10);
}

static int by_size(const void *a, const void *b)
{
    size_t left = *(const size_t *)a, right = *(const size_t *)b;
    return (left > right) - (left < right);
}

/* Where the loader puts a library decides which of its pages come along: the middle of several runs. */
static size_t usual_rss_when_started(const char *preload)
{
    enum { RUNS = 9 };
    size_t bytes[RUNS];
    for (int i = 0; i < RUNS; i++) {
        bytes[i] = rss_when_started(preload);
    }
    qsort(bytes, RUNS, sizeof *bytes, by_size);
    return bytes[RUNS / 2];
}

static void check_start(void)
{
    const char *preload = getenv("LD_PRELOAD");
    if (preload == NULL || *preload == '\0') {
        skip("nothing is preloaded: nothing to compare with glibc");
    }
    size_t ours = usual_rss_when_started(preload);
    size_t glibc = usual_rss_when_started(NULL);
    note("a program that holds 100 KiB: %.2f MiB resident, under glibc %.2f MiB", in_mib(ours),
         in_mib(glibc));
    if (ours > glibc + START_SLACK_KIB * KIB) {
        fail("more than %d KiB above glibc", START_SLACK_KIB);
    }
}

/* ---- after a peak ---- */

struct heap {
    struct parcel **blocks;
    size_t count;
};

static struct heap heap_filled(void)
{
    struct heap heap = {
        .blocks = pages_new((size_t)PEAK_MIB * MIB / sizeof(struct parcel) * sizeof(void *))};
    struct rng rng = rng_seeded(1, 0);
    for (size_t made = 0; made < (size_t)PEAK_MIB * MIB;) {
        size_t size = 15 + rng_log_size(&rng, LARGEST_KIB * KIB - 15); /* 16 B to 256 KiB */
        heap.blocks[heap.count] = parcel_new(size, heap.count);
        made += heap.blocks[heap.count++]->size;
    }
    return heap;
}

/* Also gives back the table, which is not malloc's. */
static void heap_free(struct heap *heap)
{
    for (size_t i = 0; i < heap->count; i++) {
        parcel_end(heap->blocks[i]);
    }
    pages_end(heap->blocks, (size_t)PEAK_MIB * MIB / sizeof(struct parcel) * sizeof(void *));
}

static void check_idle(void)
{
    size_t before = rss_bytes();
    struct heap heap = heap_filled();
    size_t peak = rss_bytes();
    heap_free(&heap);
    size_t freed = rss_bytes();
    sleep_ms(IDLE_MS);
    size_t after = rss_bytes();
    note("resident %.1f MiB at the start, %.1f MiB at the peak, %.1f MiB when all was freed, "
         "%.1f MiB after 2 s without a call",
         in_mib(before), in_mib(peak), in_mib(freed), in_mib(after));
    if (after > before + IDLE_SLACK_KIB * KIB) {
        fail("more than %d KiB above the start", IDLE_SLACK_KIB);
    }
}

static void check_peak(void)
{
    struct rng rng = rng_seeded(1, 1);
    struct heap heap = heap_filled();
    size_t peak = rss_bytes();
    heap_free(&heap);
    size_t after = rss_bytes();
    for (int round = 0; round < PEAK_ROUNDS && after >= peak * PEAK_PERCENT / 100; round++) {
        for (uint64_t i = 0; i < 100; i++) {
            parcel_end(parcel_new(rng_log_size(&rng, 4 * KIB), i));
        }
        sleep_ms(100);
        after = rss_bytes();
    }
    note("resident %.1f MiB at the peak, %.1f MiB within 5 s of freeing it", in_mib(peak),
         in_mib(after));
    if (after >= peak * PEAK_PERCENT / 100) {
        fail("not below %d %% of the peak", PEAK_PERCENT);
    }
}

/* ---- steady state ---- */

enum {
    LIVE = 4096,
    OPERATIONS = 2000000,
    FAULTS_MOST = 20, /* one in 100,000 replacements, ... */
    /* ... and those of guarded samples (profile/guarded.c), which come by time: a machine that is busy takes
     * longer and has more. */
    GUARDED_IN_WINDOW = 9,
    WINDOW_MS = 128
};

static void replace_at_random(void **live, struct rng *rng, size_t operations)
{
    for (size_t i = 0; i < operations; i++) {
        size_t at = rng_below(rng, LIVE);
        size_t size = rng_size(rng, 16, 1040);
        free(live[at]);
        live[at] = malloc(size);
        if (live[at] == NULL) {
            fail("malloc(%zu) gave NULL", size);
        }
        memset(live[at], (int)size, size);
    }
}

long page_faults(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
}

long guard_faults(uint64_t started_ms, long pages)
{
    uint64_t windows = (now_ms() - started_ms) / WINDOW_MS;
    return getenv("HAKMEM_GUARDS") == NULL ? (long)windows * GUARDED_IN_WINDOW * pages : 0;
}

static void check_steady(void)
{
    static void *live[LIVE];
    struct rng rng = rng_seeded(1, 0);
    replace_at_random(live, &rng, OPERATIONS);
    long before = page_faults();
    uint64_t started = now_ms();
    replace_at_random(live, &rng, OPERATIONS);
    long faults = page_faults() - before;
    long most = FAULTS_MOST + guard_faults(started, 1);
    note("%ld page faults in %d replacements among %d blocks", faults, OPERATIONS, LIVE);
    for (size_t i = 0; i < LIVE; i++) {
        free(live[i]);
    }
    if (faults > most) {
        fail("more than %ld page faults in the steady state", most);
    }
}

/* ---- the smallest blocks ---- */

enum { TINY_BLOCKS = 2 << 20, TINY_SIZE = 8, TINY_PERCENT = 110 };

/* Their slabs are half as full as others, and the other half is not to be touched. */
static void check_tiny(void)
{
    static uint64_t *blocks[TINY_BLOCKS];
    memset(blocks, 1, sizeof blocks);
    size_t start = rss_bytes();
    for (size_t i = 0; i < TINY_BLOCKS; i++) {
        blocks[i] = malloc(TINY_SIZE);
        if (blocks[i] == NULL) {
            fail("no memory for block %zu", i);
        }
        *blocks[i] = i;
    }
    size_t grown = rss_bytes() - start, most = (size_t)TINY_BLOCKS * TINY_SIZE / 100 * TINY_PERCENT;
    note("%zu KiB for %zu KiB", grown >> 10, (size_t)TINY_BLOCKS * TINY_SIZE >> 10);
    for (size_t i = 0; i < TINY_BLOCKS; i++) {
        if (*blocks[i] != i) {
            fail("block %zu is not what was written", i);
        }
        free(blocks[i]);
    }
    if (grown > most) {
        fail("more than %d %%", TINY_PERCENT);
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } scenes[] = {{"start", check_start},
                  {"hold", hold_and_report},
                  {"idle", check_idle},
                  {"peak", check_peak},
                  {"tiny", check_tiny},
                  {"steady", check_steady},
                  {"trickle", check_trickle},
                  {"growing", check_growing},
                  {"swing", check_swing},
                  {"scattered", check_scattered},
                  {"worker", check_worker},
                  {"asleep", check_asleep},
                  {"asleep_worker", check_asleep_worker},
                  {"collapsed", check_collapsed},
                  {"emptied", check_emptied},
                  {"emptied_heap", check_emptied_heap}};
    for (size_t i = 0; i < sizeof scenes / sizeof scenes[0]; i++) {
        if (argc == 2 && strcmp(argv[1], scenes[i].name) == 0) {
            scenes[i].run();
            return 0;
        }
    }
    fail("which one: start, idle, peak, tiny, steady, trickle, growing, swing, scattered, asleep, "
         "asleep_worker, worker, collapsed, emptied or emptied_heap?");
}
