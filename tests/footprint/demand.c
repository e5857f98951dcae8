/* Demand that goes up and down, or stops: with little work, or with the worker alone. */
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "footprint.h"

#include "alloc_names.h"

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

void check_swing(void)
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

void check_trickle(void)
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

/* ---- growing ---- */

enum { LARGE = 256 << 20, GROWING_STEPS = 1500, GROWING_EACH = 128 };

static size_t most_beside(size_t live)
{
    return live + live / 2 + LARGE / 32;
}

/* After a peak a program only grows, without a pause that would be told from work: what the peak has left is not kept for long. */
void check_growing(void)
{
    for (int i = 0; i < 4; i++) {
        char *block = malloc(LARGE);
        if (block == NULL) {
            fail("malloc(%d) gave NULL", LARGE);
        }
        memset(block, 1, LARGE);
        free(block);
    }
    size_t stopped = rss_bytes(), after = stopped, live = 0;
    for (int i = 0; i < GROWING_STEPS && after > most_beside(live); i++) {
        for (int k = 0; k < GROWING_EACH; k++) {
            char *volatile block = malloc(TRICKLE_SIZE); /* stays */
            if (block == NULL) {
                fail("malloc(%d) gave NULL", TRICKLE_SIZE);
            }
            memset(block, 1, TRICKLE_SIZE);
        }
        live += GROWING_EACH * TRICKLE_SIZE;
        sleep_ms(10);
        after = rss_bytes();
    }
    note("resident %.1f MiB after the peak, then %.1f MiB with %.1f MiB of new blocks",
         in_mib(stopped), in_mib(after), in_mib(live));
    if (stopped < LARGE) {
        fail("nothing was kept: this says nothing");
    }
    if (after > most_beside(live) || live > LARGE / 3) {
        fail("more than half of them and %d MiB beside them, or only once they had taken its place",
             LARGE / 32 >> 20);
    }
}

/* ---- worker ---- */

size_t rss_when_at_most(size_t most)
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

void check_worker(void)
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
