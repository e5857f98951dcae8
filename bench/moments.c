/* moments: what single calls take, and what stays resident, in shapes that the suite does not have. Each is where this allocator
 * was found to do badly, or did (docs/decisions/0115, 0116, docs/limits.md). */
#include "common.h"

#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

enum { SHAPE, COUNT, BYTES, PARAMETERS };

static struct parameter parameters[PARAMETERS] = {
    [SHAPE] = {"SHAPE", "what is looked at", 0, 0, "keys parcels trim swing grow burst aligned", 0,
               0},
    [COUNT] = {"COUNT",
               "of blocks: of each thread, in a swing, that grow or are wanted; of threads", 1,
               10000000, NULL, 0, 0},
    [BYTES] = {"BYTES", "of a block, its alignment, what it grows by, or the most", 1, 1u << 26,
               NULL, 0, 0},
};

static size_t count, bytes;
static void **blocks;

static double ms_since(uint64_t start)
{
    return (double)(now_ns() - start) / 1e6;
}

static double cpu_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void take_all(void **to, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        to[i] = malloc(bytes);
        if (to[i] == NULL) {
            die_no_memory(bytes);
        }
        memset(to[i], 1, bytes);
    }
}

static void drop_all(void **from, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(from[i]);
    }
}

static pthread_t started(void *(*body)(void *), void *argument)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, body, argument) != 0) {
        die("cannot create a thread");
    }
    return thread;
}

static void raise_to(_Atomic double *longest, uint64_t start)
{
    double took = ms_since(start);
    if (took > *longest) {
        *longest = took;
    }
}

/* ---- keys: a destructor of a thread key frees what the thread has, and allocates ---- */

static pthread_key_t key;

static double ns_each(uint64_t start)
{
    return (double)(now_ns() - start) / (double)count;
}

static void end_of_thread(void *unused)
{
    (void)unused;
    uint64_t start = now_ns();
    drop_all(blocks, count);
    report_value("free_in_destructor_ns", ns_each(start));
    start = now_ns();
    take_all(blocks, count);
    report_value("malloc_in_destructor_ns", ns_each(start));
    drop_all(blocks, count);
}

static void *thread_with_key(void *unused)
{
    take_all(blocks, count);
    uint64_t start = now_ns();
    drop_all(blocks, count);
    report_value("free_in_thread_ns", ns_each(start));
    take_all(blocks, count);
    if (pthread_setspecific(key, blocks) != 0) {
        die("cannot set a key");
    }
    return unused;
}

static void keys(void)
{
    free(malloc(1)); /* the allocator has its key */
    if (pthread_key_create(&key, end_of_thread) != 0) {
        die("cannot create a key");
    }
    pthread_join(started(thread_with_key, NULL), NULL);
}

/* ---- parcels: one thread frees what many have allocated, and goes on with other sizes ---- */

enum { PRODUCERS = 24, ROUNDS = 120, ROUND_US = 20000 };
static pthread_barrier_t all_taken, all_done;

static void *produce(void *own)
{
    take_all(own, count);
    pthread_barrier_wait(&all_taken);
    pthread_barrier_wait(&all_done);
    return NULL;
}

static void shuffle(uint64_t *random)
{
    for (size_t i = PRODUCERS * count - 1; i > 0; i--) {
        size_t other = next_random(random) % (i + 1);
        void *p = blocks[i];
        blocks[i] = blocks[other];
        blocks[other] = p;
    }
}

static void work_in_other_sizes(uint64_t *random)
{
    void *own[64] = {NULL};
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < 3000; i++) {
            size_t at = next_random(random) % 64;
            free(own[at]);
            own[at] = malloc(2000 + next_random(random) % 3000);
        }
        usleep(ROUND_US);
    }
    drop_all(own, 64);
}

static void parcels(void)
{
    uint64_t random = seeded(1, 0);
    pthread_t threads[PRODUCERS];
    pthread_barrier_init(&all_taken, NULL, PRODUCERS + 1);
    pthread_barrier_init(&all_done, NULL, PRODUCERS + 1);
    for (size_t i = 0; i < PRODUCERS; i++) {
        threads[i] = started(produce, blocks + i * count);
    }
    pthread_barrier_wait(&all_taken);
    shuffle(&random);
    drop_all(blocks, PRODUCERS * count);
    work_in_other_sizes(&random);
    report_value("rss_later_kib", (double)rss_now_kib());
    pthread_barrier_wait(&all_done);
    for (size_t i = 0; i < PRODUCERS; i++) {
        pthread_join(threads[i], NULL);
    }
    malloc_trim(0);
    report_value("rss_trimmed_kib", (double)rss_now_kib());
}

/* ---- trim: malloc_trim beside a thread with much memory of which little lives ---- */

enum { LIVES = 20, SMALL = 200, SMALL_BLOCKS = 4000 };
static _Atomic bool is_thin, ends;
static _Atomic int trims; /* which of `longest` counts */
static _Atomic double longest[2];

static void *work_thinly(void *unused)
{
    void *small[SMALL_BLOCKS];
    take_all(blocks, count);
    for (size_t i = 0; i < count; i++) {
        if (i % LIVES != 0) {
            free(blocks[i]);
        }
    }
    is_thin = true;
    while (!ends) {
        for (int i = 0; i < SMALL_BLOCKS; i++) {
            uint64_t start = now_ns();
            small[i] = malloc(SMALL);
            raise_to(&longest[trims], start);
        }
        drop_all(small, SMALL_BLOCKS);
    }
    return unused;
}

static void trim(void)
{
    pthread_t thread = started(work_thinly, NULL);
    while (!is_thin) {
        usleep(1000);
    }
    usleep(100000);
    trims = 1;
    report_value("rss_before_kib", (double)rss_now_kib());
    uint64_t start = now_ns();
    malloc_trim(0);
    report_value("trim_ms", ms_since(start));
    report_value("rss_after_kib", (double)rss_now_kib());
    usleep(1000);
    ends = true;
    pthread_join(thread, NULL);
    report_value("longest_before_ms", longest[0]);
    report_value("longest_meanwhile_ms", longest[1]);
}

/* ---- swing: what was kept for demand that does not come again goes back ---- */

enum { SWINGS = 4, LOOKS = 9, LOOK_US = 600000, FREED = 300000 };

static void swing(void)
{
    for (int i = 0; i < SWINGS; i++) {
        take_all(blocks, count);
        drop_all(blocks, count);
    }
    report_value("rss_after_swings_kib", (double)rss_now_kib());
    for (int look = 0; look < LOOKS; look++) {
        usleep(LOOK_US);
        for (int i = 0; i < 200; i++) {
            void *p = malloc(FREED);
            uint64_t start = now_ns();
            free(p);
            raise_to(&longest[0], start);
        }
    }
    report_value("longest_free_ms", longest[0]);
    report_value("rss_later_kib", (double)rss_now_kib());
}

/* ---- grow: blocks that grow in turn ---- */

#define GROWN ((size_t)128 << 20)

static void grow(void)
{
    double start = cpu_ms();
    for (size_t size = bytes; size <= GROWN; size += bytes) {
        for (size_t i = 0; i < count; i++) {
            blocks[i] = realloc(blocks[i], size);
            if (blocks[i] == NULL) {
                die_no_memory(size);
            }
            ((char *)blocks[i])[size - 1] = 1;
        }
    }
    report_value("cpu_ms", cpu_ms() - start);
}

/* ---- burst: one thread's pairs after so many threads have ended ---- */

enum { PAIRS = 2000, WARM = 20, TIMED = 2000 };

static void *allocate_and_meet(void *barrier)
{
    free(malloc(32));
    pthread_barrier_wait(barrier);
    return NULL;
}

static void end_many(void)
{
    pthread_t *threads = harness_table(count * sizeof *threads);
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, (unsigned)count);
    for (size_t i = 0; i < count; i++) {
        threads[i] = started(allocate_and_meet, &barrier);
    }
    for (size_t i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
    }
}

static void pairs(int rounds, uint64_t *random)
{
    void *p[PAIRS];
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < PAIRS; i++) {
            p[i] = malloc(16 + next_random(random) % bytes);
            *(char *)p[i] = 1;
        }
        drop_all(p, PAIRS);
    }
}

static void burst(void)
{
    uint64_t random = seeded(1, 0);
    end_many();
    pairs(WARM, &random);
    double start = cpu_ms();
    pairs(TIMED, &random);
    report_value("pair_ns", (cpu_ms() - start) * 1e6 / (PAIRS * TIMED));
}

/* ---- aligned: blocks aligned to their size, until there are no more ---- */

static void aligned(void)
{
    size_t got = 0;
    while (got < count && aligned_alloc(bytes, bytes) != NULL) {
        got++;
    }
    report_value("mb", (double)(got * bytes) / 1e6);
}

int main(int argc, char **argv)
{
    static void (*const shapes[])(void) = {keys, parcels, trim, swing, grow, burst, aligned};
    parse_arguments("What single calls take, and what stays resident, in shapes of their own.",
                    parameters, PARAMETERS, argc, argv);
    count = parameters[COUNT].value;
    bytes = parameters[BYTES].value;
    blocks = harness_table((parameters[SHAPE].value == 1 ? PRODUCERS : 1) * count * sizeof *blocks);
    shapes[parameters[SHAPE].value]();
    return 0;
}
