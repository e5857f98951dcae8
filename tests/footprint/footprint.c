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
 *     footprint swing    neither does demand that goes up and down; when it has stopped, what was kept
 *                        for it is bounded, and goes with a little work within 8 s
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <hakmem/hakmem.h>

#include "support.h"

#include "alloc_names.h"

enum {
    PEAK_MIB = 600,
    LARGEST_KIB = 256,
    START_SLACK_KIB = 512,
    IDLE_SLACK_KIB = 4096,
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

/* ---- few blocks left in much memory ---- */

enum {
    SCATTERED = 120000, /* some 60 MiB */
    STAYS = 10,         /* one in so many */
    REPLACED = 2000,    /* in each round of 100 ms */
    SCATTERED_ROUNDS = 150,
    SCATTERED_PERCENT = 50,
    ASLEEP_PERCENT = 75 /* four pages in ten have no block */
};

static struct {
    struct parcel *blocks[SCATTERED];
    struct rng rng;
    size_t peak;
} scattered;

/* All but one block in STAYS end. */
static void build_and_scatter(void)
{
    scattered.rng = rng_seeded(1, 3);
    for (size_t i = 0; i < SCATTERED; i++) {
        scattered.blocks[i] = parcel_new(rng_size(&scattered.rng, 24, 1024), i);
    }
    scattered.peak = rss_bytes();
    for (size_t i = 0; i < SCATTERED; i++) {
        if (i % STAYS != 0) {
            parcel_end(scattered.blocks[i]);
        }
    }
}

static void end_scattered(void)
{
    for (size_t i = 0; i < SCATTERED; i += STAYS) {
        parcel_end(scattered.blocks[i]);
    }
}

static void replace_some(void)
{
    for (int i = 0; i < REPLACED; i++) {
        size_t at = rng_below(&scattered.rng, SCATTERED / STAYS) * STAYS;
        parcel_end(scattered.blocks[at]);
        scattered.blocks[at] = parcel_new(rng_size(&scattered.rng, 24, 1024), at);
    }
}

/* After some rounds of `work`. */
static void expect_shrunk_to(int percent, void (*work)(void))
{
    size_t after = scattered.peak, enough = scattered.peak * (size_t)percent / 100;
    int rounds = 0;
    for (; rounds < SCATTERED_ROUNDS && after >= enough; rounds++) {
        work();
        sleep_ms(100);
        after = rss_bytes();
    }
    note("resident %.1f MiB at the peak, %.1f MiB after %d rounds with what has stayed",
         in_mib(scattered.peak), in_mib(after), rounds);
    if (after >= enough) {
        fail("not below %d %% of the peak", percent);
    }
}

static void check_scattered(void)
{
    build_and_scatter();
    expect_shrunk_to(SCATTERED_PERCENT, replace_some);
    end_scattered();
}

static pthread_barrier_t turn;

/* Sleeps until the others have seen what became of its memory. */
static void *build_and_sleep(void *nothing)
{
    build_and_scatter();
    pthread_barrier_wait(&turn);
    pthread_barrier_wait(&turn);
    end_scattered();
    return nothing;
}

static void expect_shrunk_asleep(void (*work)(void))
{
    pthread_barrier_init(&turn, NULL, 2);
    pthread_t thread = thread_start(build_and_sleep, NULL);
    pthread_barrier_wait(&turn);
    expect_shrunk_to(ASLEEP_PERCENT, work);
    pthread_barrier_wait(&turn);
    thread_join(thread);
}

/* Of this thread alone. */
static void replace_own(void)
{
    static struct parcel *own[REPLACED];
    for (size_t i = 0; i < REPLACED; i++) {
        own[i] = parcel_new(rng_log_size(&scattered.rng, 4 * KIB), i);
    }
    for (size_t i = 0; i < REPLACED; i++) {
        parcel_end(own[i]);
    }
}

static void do_nothing(void) {}

static void check_asleep(void)
{
    expect_shrunk_asleep(replace_own);
}

static void check_asleep_worker(void)
{
    expect_shrunk_asleep(do_nothing);
}

/* ---- slabs that are nearly empty ---- */

enum { EMPTIED = 700000, EMPTIED_SIZE = 64, EMPTIED_STAYS = 1000, DONE = 200, DONE_SIZE = 200 };

#pragma weak hak_heap_new
#pragma weak hak_heap_malloc
static hak_heap *own_heap; /* NULL: malloc's */

static void *take(size_t size)
{
    void *block = own_heap != NULL ? hak_heap_malloc(own_heap, size) : malloc(size);
    if (block == NULL) {
        fail("no memory");
    }
    return memset(block, 1, size);
}

static void take_and_free_some(void)
{
    for (size_t i = 0; i < DONE; i++) {
        free(take(DONE_SIZE + i));
    }
}

static void check_emptied(void)
{
    static void *blocks[EMPTIED];
    for (size_t i = 0; i < EMPTIED; i++) {
        blocks[i] = take(EMPTIED_SIZE);
    }
    scattered.peak = rss_bytes();
    for (size_t i = 0; i < EMPTIED; i++) {
        if (i % EMPTIED_STAYS != 0) {
            free(blocks[i]);
        }
    }
    expect_shrunk_to(SCATTERED_PERCENT, take_and_free_some);
}

static void check_emptied_heap(void)
{
    if (hak_heap_new == NULL) {
        fail("hakmem is not there");
    }
    own_heap = hak_heap_new();
    check_emptied();
}

/* ---- steady state ---- */

enum {
    LIVE = 4096,
    OPERATIONS = 2000000,
    FAULTS_MOST = 20, /* one in 100,000 replacements, ... */
    /* ... and those of guarded samples (profile/guarded.c), which come by time: a machine that is busy takes
     * longer and has more. */
    GUARDED_IN_WINDOW = 9,
    WINDOW_MS = 128,
    GUARDED_PAGES = 15
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

static long page_faults(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
}

/* Those that guarded samples of so many pages at most may have taken since then. */
static long guard_faults(uint64_t started_ms, long pages)
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

/* ---- demand that goes up and down ---- */

enum {
    SWING_BLOCKS = 400,
    SWING_LARGEST_KIB = 4096,
    SWINGS = 40,
    SWING_FAULTS_MOST =
        1000,            /* in half of them, of some 20,000 pages each; guarded samples' beside */
    SWING_SLOW_MS = 500, /* each: demand is judged by the second, so slower ones say nothing */
    CALM_ROUNDS = 80,    /* of 100 ms */
};

/* The same blocks each time. */
static size_t swing(void)
{
    static struct parcel *blocks[SWING_BLOCKS];
    struct rng rng = rng_seeded(1, 2);
    size_t bytes = 0;
    for (size_t i = 0; i < SWING_BLOCKS; i++) {
        size_t size = rng_below(&rng, 16) == 0 ? rng_size(&rng, 256 * KIB, SWING_LARGEST_KIB * KIB)
                                               : rng_size(&rng, 16, 64 * KIB);
        blocks[i] = parcel_new(size, i);
        bytes += size;
    }
    for (size_t i = 0; i < SWING_BLOCKS; i++) {
        parcel_end(blocks[i]);
    }
    return bytes;
}

/* Enough that not all of it is served by what a thread keeps for itself. */
static void work_a_little(struct rng *rng)
{
    struct parcel *blocks[100];
    for (uint64_t i = 0; i < 100; i++) {
        blocks[i] = parcel_new(rng_size(rng, 2 * KIB, 4 * KIB), i);
    }
    for (uint64_t i = 0; i < 100; i++) {
        parcel_end(blocks[i]);
    }
}

/* Demand is judged by the second: who had less than three quarters of a processor since then swung too slowly to be judged. */
static bool was_held_up(uint64_t start_ms, clock_t start)
{
    uint64_t worked_ms = (uint64_t)(clock() - start) * 1000 / CLOCKS_PER_SEC;
    return 4 * worked_ms < 3 * (now_ms() - start_ms);
}

static void check_swing(void)
{
    struct rng rng = rng_seeded(1, 3);
    work_a_little(&rng);
    size_t before = rss_bytes(), bytes = 0;
    for (int i = 0; i < SWINGS / 2; i++) {
        bytes = swing();
    }
    long faults = page_faults();
    uint64_t start = now_ms();
    clock_t worked = clock();
    for (int i = 0; i < SWINGS / 2; i++) {
        swing();
    }
    faults = page_faults() - faults;
    long most = SWING_FAULTS_MOST + guard_faults(start, GUARDED_PAGES);
    bool slow = now_ms() - start > SWING_SLOW_MS * SWINGS / 2 || was_held_up(start, worked);
    size_t stopped = rss_bytes(), after = stopped;
    for (int round = 0; round < CALM_ROUNDS && after > before + IDLE_SLACK_KIB * KIB; round++) {
        work_a_little(&rng);
        sleep_ms(100);
        after = rss_bytes();
    }
    note(
        "%ld page faults in %d swings of %.1f MiB; resident %.1f MiB at the start, %.1f MiB when they "
        "stopped, %.1f MiB within 8 s",
        faults, SWINGS / 2, in_mib(bytes), in_mib(before), in_mib(stopped), in_mib(after));
    if (slow) {
        note("the machine was too busy to judge the page faults");
    } else if (faults > most) {
        fail("more than %ld page faults", most);
    }
    if (stopped > before + 2 * bytes) {
        fail("more than twice what the swings needed is kept");
    }
    if (after > before + IDLE_SLACK_KIB * KIB) {
        fail("more than %d KiB above the start", IDLE_SLACK_KIB);
    }
}

/* ---- trickle ---- */

enum { TRICKLE_BLOCKS = 200000, TRICKLE_SIZE = 1000, TRICKLE_ROUNDS = 100, TRICKLE_EACH = 100 };

static void peak_of_small_blocks(void)
{
    static void *blocks[TRICKLE_BLOCKS];
    for (size_t i = 0; i < TRICKLE_BLOCKS; i++) {
        blocks[i] = malloc(TRICKLE_SIZE);
        if (blocks[i] == NULL) {
            fail("malloc(%d) gave NULL", TRICKLE_SIZE);
        }
        memset(blocks[i], 1, TRICKLE_SIZE);
    }
    for (size_t i = 0; i < TRICKLE_BLOCKS; i++) {
        free(blocks[i]);
    }
}

static void check_trickle(void)
{
    size_t before = rss_bytes();
    peak_of_small_blocks();
    peak_of_small_blocks();
    size_t stopped = rss_bytes(), after = stopped;
    for (int i = 0; i < TRICKLE_ROUNDS && after > before + IDLE_SLACK_KIB * KIB; i++) {
        for (int k = 0; k < TRICKLE_EACH; k++) {
            free(malloc(TRICKLE_SIZE));
        }
        sleep_ms(100);
        after = rss_bytes();
    }
    note("resident %.1f MiB at the start, %.1f MiB after the second peak, %.1f MiB within 10 s",
         in_mib(before), in_mib(stopped), in_mib(after));
    if (after > before + IDLE_SLACK_KIB * KIB) {
        fail("more than %d KiB above the start", IDLE_SLACK_KIB);
    }
}

/* ---- worker ---- */

enum { WORKER_PATIENCE_MS = 60000 };

/* The worker alone does something meanwhile. */
static size_t rss_when_at_most(size_t most)
{
    size_t rss = rss_bytes();
    for (uint64_t start = now_ms(); now_ms() - start < WORKER_PATIENCE_MS && rss > most;) {
        sleep_ms(100);
        rss = rss_bytes();
    }
    return rss;
}

static void swing_and_idle(const char *who)
{
    size_t before = rss_bytes();
    swing();
    size_t stopped = rss_bytes(), after = rss_when_at_most(before + IDLE_SLACK_KIB * KIB);
    note("%s: resident %.1f MiB at the start, %.1f MiB when all was freed, %.1f MiB later", who,
         in_mib(before), in_mib(stopped), in_mib(after));
    if (stopped <= before + IDLE_SLACK_KIB * KIB) {
        fail("nothing was kept: this says nothing of the worker");
    }
    if (after > before + IDLE_SLACK_KIB * KIB) {
        fail("more than %d KiB above the start after a minute", IDLE_SLACK_KIB);
    }
}

static void check_worker(void)
{
    swing_and_idle("process");
    pid_t child = fork();
    if (child == 0) {
        swing_and_idle("child");
        _exit(0);
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        fail("the child failed");
    }
}

/* ---- huge pages ---- */

enum {
    FULL_MIB = 32,
    FULL_BLOCKS_MOST = FULL_MIB * 1024,
    COLLAPSED_MIB = 8,
    MISSING_SHARE = 16, /* of what becomes huge so much may have been missing */
    HUGE_PAGE = 2 << 20,
    COLLAPSE = 25 /* MADV_COLLAPSE */
};

static bool kernel_collapses(void)
{
    char *map =
        mmap(NULL, 2 * HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) {
        fail("mmap: %s", strerror(errno));
    }
    char *at = map + (-(uintptr_t)map & (HUGE_PAGE - 1));
    madvise(at, HUGE_PAGE, MADV_NOHUGEPAGE);
    memset(at, 1, HUGE_PAGE);
    madvise(at, HUGE_PAGE, MADV_HUGEPAGE);
    bool does = madvise(at, HUGE_PAGE, COLLAPSE) == 0;
    munmap(map, 2 * HUGE_PAGE);
    return does;
}

static size_t huge_bytes(void)
{
    char line[256];
    size_t kib = 0;
    FILE *file = fopen("/proc/self/smaps_rollup", "re");
    if (file == NULL) {
        fail("/proc/self/smaps_rollup: %s", strerror(errno));
    }
    while (fgets(line, sizeof line, file) != NULL &&
           sscanf(line, "AnonHugePages: %zu", &kib) != 1) {
    }
    fclose(file);
    return kib * KIB;
}

static size_t huge_bytes_when_at_least(size_t least)
{
    size_t huge = huge_bytes();
    for (uint64_t start = now_ms(); now_ms() - start < WORKER_PATIENCE_MS && huge < least;) {
        sleep_ms(100);
        huge = huge_bytes();
    }
    return huge;
}

static void check_collapsed(void)
{
    static struct parcel *full[FULL_BLOCKS_MOST];
    if (!kernel_collapses()) {
        skip("the kernel makes no huge pages of small ones when it is asked");
    }
    struct rng rng = rng_seeded(1, 0);
    size_t start = rss_bytes(), least = (size_t)COLLAPSED_MIB << 20, count = 0;
    for (size_t bytes = 0; bytes < (size_t)FULL_MIB << 20; bytes += full[count++]->size) {
        full[count] = parcel_new(rng_size(&rng, KIB, 2 * KIB), count);
    }
    size_t before = rss_bytes(), huge = huge_bytes_when_at_least(least), after = rss_bytes();
    for (size_t i = 0; i < count; i++) {
        parcel_end(full[i]);
    }
    size_t freed = rss_when_at_most(start + IDLE_SLACK_KIB * KIB);
    note(
        "resident %.1f MiB at the start, %.1f MiB when full, %.1f MiB with %.1f MiB of huge pages, "
        "%.1f MiB when all was freed",
        in_mib(start), in_mib(before), in_mib(after), in_mib(huge), in_mib(freed));
    if (huge < least) {
        fail("less than %d MiB of huge pages after a minute", COLLAPSED_MIB);
    }
    if (after > before + before / MISSING_SHARE) {
        fail("more than one part in %d above what there was", MISSING_SHARE);
    }
    if (freed > start + IDLE_SLACK_KIB * KIB) {
        fail("more than %d KiB above the start after a minute", IDLE_SLACK_KIB);
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
    fail("which one: start, idle, peak, tiny, steady, trickle, swing, scattered, asleep, "
         "asleep_worker, worker, collapsed, emptied or emptied_heap?");
}
