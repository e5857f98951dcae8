/* sleepers: threads that work, free all of it and then wait. Nothing is live; how much does the process hold, and how much after
 * malloc_trim? */
#include <malloc.h>
#include <pthread.h>

#include "common.h"
#include "lanes.h"
#include "pieces.h"

enum { LEAST_SIZE = 16, PAGE = 4096 };

enum { THREADS, MOST, BLOCKS, TURNS, PARAMETERS };

static struct parameter parameters[PARAMETERS] = {
    [THREADS] = {"THREADS", "of them", 1, 2000, NULL, 0, 0},
    [MOST] = {"MOST", "bytes of a block", LEAST_SIZE, 16 << 20, NULL, 0, 0},
    [BLOCKS] = {"BLOCKS", "that each has at a time", 1, 100000, NULL, 100, 1},
    [TURNS] = {"TURNS", "of taking and freeing them", 1, 1000000, NULL, 20, 1},
};

static pthread_barrier_t all_wait;

struct sleeper {
    pthread_t thread;
    struct pieces blocks;
    uint64_t random;
};

static void add_written(struct sleeper *s)
{
    struct pieces *all = &s->blocks;
    pieces_add(all,
               (uint32_t)size_between(next_random(&s->random), LEAST_SIZE, parameters[MOST].value));
    const struct piece *newest = &all->piece[all->count - 1];
    for (size_t at = PAGE; at < newest->size - sizeof(uint64_t); at += PAGE) {
        ((char *)newest->block)[at] = 1;
    }
}

static void *sleeper(void *argument)
{
    struct sleeper *s = argument;
    for (uint64_t turn = 0; turn < parameters[TURNS].value; turn++) {
        while (s->blocks.count < s->blocks.most) {
            add_written(s);
        }
        pieces_remove_all(&s->blocks);
    }
    pthread_barrier_wait(&all_wait);
    pthread_barrier_wait(&all_wait);
    return NULL;
}

int main(int argc, char **argv)
{
    parse_arguments("Threads free all they have and wait.", parameters, PARAMETERS, argc, argv);
    uint64_t threads = parameters[THREADS].value, blocks = parameters[BLOCKS].value;
    struct sleeper *sleepers = harness_table(threads * sizeof *sleepers);
    if (pthread_barrier_init(&all_wait, NULL, (unsigned)threads + 1) != 0) {
        die("cannot make a barrier");
    }
    uint64_t begun = now_ns();
    for (uint64_t i = 0; i < threads; i++) {
        pieces_init(&sleepers[i].blocks, blocks);
        sleepers[i].random = seeded(1, i);
        start_small_thread(&sleepers[i].thread, sleeper, &sleepers[i]);
    }
    pthread_barrier_wait(&all_wait);
    uint64_t elapsed = now_ns() - begun;
    report_value("waiting_rss_kib", (double)rss_now_kib());
    malloc_trim(0);
    report_value("trimmed_rss_kib", (double)rss_now_kib());
    pthread_barrier_wait(&all_wait);
    for (uint64_t i = 0; i < threads; i++) {
        pthread_join(sleepers[i].thread, NULL);
    }
    report(threads * blocks * parameters[TURNS].value, elapsed);
    return 0;
}
