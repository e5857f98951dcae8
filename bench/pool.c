/* pool: a pool of threads, of which most wait. Each now and then replaces some blocks of one table that all share, so what one
 * has made another frees, and what lives at a time stays the same. How much memory does the process have after a while? */
#include <pthread.h>
#include <time.h>

#include "common.h"
#include "lanes.h"

enum { IN_A_ROW = 20, MOST_PAUSE_US = 50000, LOCKS = 64 };

enum { THREADS, LIVE_MIB, LEAST, MOST, ROUNDS, WRITTEN, SEED, PARAMETERS };
enum { ENDS, PAGES };

static struct parameter parameters[PARAMETERS] = {
    [THREADS] = {"THREADS", "of the pool", 1, 20000, NULL, 0, 0},
    [LIVE_MIB] = {"LIVE_MIB", "of all blocks, about", 1, 65536, NULL, 0, 0},
    [LEAST] = {"LEAST", "bytes of a block, as many of each power of two", 8, 1048576, NULL, 0, 0},
    [MOST] = {"MOST", "bytes of a block", 8, 1048576, NULL, 0, 0},
    [ROUNDS] = {"ROUNDS", "in which each thread replaces 20 blocks and waits up to 50 ms", 1,
                1000000, NULL, 0, 0},
    [WRITTEN] = {"WRITTEN", "of a block", 0, 0, "ends pages", PAGES, 1},
    [SEED] = {"SEED", "of sizes, places and waits", 0, UINT32_MAX, NULL, 1, 1},
};

static void **table;
static uint32_t places;
static pthread_mutex_t locks[LOCKS];

/* As likely between each two powers of two, evenly within. */
static size_t draw_size(uint64_t bits)
{
    uint64_t least = parameters[LEAST].value, most = parameters[MOST].value;
    unsigned octaves = 0;
    while (least << (octaves + 1) <= most)
        octaves++;
    uint64_t from = least << below((uint32_t)bits, octaves + 1);
    uint64_t to = 2 * from - 1 < most ? 2 * from - 1 : most;
    return size_between(bits >> 16, from, to);
}

static void replace(uint64_t bits, size_t size)
{
    uint32_t at = below((uint32_t)(bits >> 32), places);
    void *made = take(size, at);
    if (parameters[WRITTEN].value == PAGES)
        touch_every_page(made, size);
    pthread_mutex_lock(&locks[at % LOCKS]);
    void *old = table[at];
    table[at] = made;
    pthread_mutex_unlock(&locks[at % LOCKS]);
    if (old != NULL)
        give_back(old, at);
}

static void wait_a_while(uint64_t bits)
{
    struct timespec pause = {0, (long)below((uint32_t)bits, MOST_PAUSE_US) * 1000};
    nanosleep(&pause, NULL);
}

struct worker {
    pthread_t thread;
    uint64_t random;
};

static void *work(void *argument)
{
    struct worker *w = argument;
    for (uint64_t round = parameters[ROUNDS].value; round > 0; round--) {
        for (int i = 0; i < IN_A_ROW; i++) {
            uint64_t bits = next_random(&w->random);
            replace(bits, draw_size(next_random(&w->random)));
        }
        wait_a_while(next_random(&w->random));
    }
    return NULL;
}

static uint32_t places_for(uint64_t bytes)
{
    enum { SAMPLES = 10000 };
    uint64_t random = seeded(0, 0), sum = 0;
    for (int i = 0; i < SAMPLES; i++)
        sum += draw_size(next_random(&random));
    uint64_t wanted = bytes / (sum / SAMPLES);
    return wanted == 0 ? 1 : (uint32_t)wanted;
}

int main(int argc, char **argv)
{
    parse_arguments("Threads that mostly wait replace blocks of one table.", parameters, PARAMETERS,
                    argc, argv);
    if (parameters[LEAST].value > parameters[MOST].value)
        refuse_arguments("LEAST is more than MOST");
    uint64_t threads = parameters[THREADS].value;
    places = places_for(parameters[LIVE_MIB].value << 20);
    table = harness_table(places * sizeof *table);
    struct worker *workers = harness_table(threads * sizeof *workers);
    for (int i = 0; i < LOCKS; i++)
        pthread_mutex_init(&locks[i], NULL);
    uint64_t begun = now_ns();
    for (uint64_t i = 0; i < threads; i++) {
        workers[i].random = seeded(parameters[SEED].value, i);
        start_small_thread(&workers[i].thread, work, &workers[i]);
    }
    for (uint64_t i = 0; i < threads; i++)
        pthread_join(workers[i].thread, NULL);
    uint64_t elapsed = now_ns() - begun;
    for (uint32_t i = 0; i < places; i++) {
        if (table[i] != NULL)
            give_back(table[i], i);
    }
    report(threads * parameters[ROUNDS].value * IN_A_ROW, elapsed);
    return 0;
}
