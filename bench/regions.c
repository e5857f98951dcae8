/* regions: tasks that allocate, and whose blocks all end with them. How long does a block take, from its request to its end,
 * if each task has a heap of its own, which is destroyed as a whole, and if each block is freed? The heaps are hakmem's or
 * mimalloc's, whichever is the allocator that the program runs on. */
#include <dlfcn.h>
#include <pthread.h>

#include "common.h"
#include "lanes.h"

enum { THREADS, TASKS, BLOCKS, LEAST, MOST, WAY, SEED, PARAMETERS };
enum { BY_HEAPS, BY_FREES, BY_FREES_IN_HEAPS };

static struct parameter parameters[PARAMETERS] = {
    [THREADS] = {"THREADS", "that work on tasks of their own", 1, 1024, NULL, 0, 0},
    [TASKS] = {"TASKS", "of a thread, one after the other", 1, 100000000, NULL, 0, 0},
    [BLOCKS] = {"BLOCKS", "of a task", 1, 10000000, NULL, 0, 0},
    [LEAST] = {"LEAST", "bytes of a block", 8, 1048576, NULL, 0, 0},
    [MOST] = {"MOST", "bytes of a block", 8, 1048576, NULL, 0, 0},
    [WAY] = {"WAY",
             "heaps: a heap for each task; frees: none, each block is freed; both: each is "
             "freed before its heap ends",
             0, 0, "heaps frees both", BY_HEAPS, 1},
    [SEED] = {"SEED", "of the sizes", 0, UINT32_MAX, NULL, 1, 1},
};

static struct {
    void *(*make)(void);
    void *(*take)(void *heap, size_t size);
    void (*destroy)(void *heap);
} heaps;

static void *function(const char *prefix, const char *name)
{
    char full[64];
    snprintf(full, sizeof full, "%s_heap_%s", prefix, name);
    return dlsym(RTLD_DEFAULT, full);
}

static int find_heaps(const char *prefix)
{
    void *found[] = {function(prefix, "new"), function(prefix, "malloc"),
                     function(prefix, "destroy")};
    memcpy(&heaps.make, &found[0], sizeof found[0]);
    memcpy(&heaps.take, &found[1], sizeof found[1]);
    memcpy(&heaps.destroy, &found[2], sizeof found[2]);
    return found[0] != NULL && found[1] != NULL && found[2] != NULL;
}

struct worker {
    pthread_t thread;
    uint64_t random, number;
    void **blocks;
};

static void *take_from(void *heap, size_t size, uint64_t owner)
{
    void *block = heap != NULL ? heaps.take(heap, size) : malloc(size);
    if (block == NULL)
        die_no_memory(size);
    stamp(block, size, owner);
    return block;
}

static void do_task(struct worker *w)
{
    void *heap = parameters[WAY].value != BY_FREES ? heaps.make() : NULL;
    uint64_t blocks = parameters[BLOCKS].value;
    for (uint64_t i = 0; i < blocks; i++) {
        size_t size =
            size_between(next_random(&w->random), parameters[LEAST].value, parameters[MOST].value);
        w->blocks[i] = take_from(heap, size, w->number);
    }
    for (uint64_t i = 0; i < blocks; i++) {
        check_at(w->blocks[i], 0, w->number);
        if (parameters[WAY].value != BY_HEAPS)
            free(w->blocks[i]);
    }
    if (heap != NULL)
        heaps.destroy(heap);
}

static void *work(void *argument)
{
    struct worker *w = argument;
    for (uint64_t task = parameters[TASKS].value; task > 0; task--)
        do_task(w);
    return NULL;
}

int main(int argc, char **argv)
{
    parse_arguments("Tasks whose blocks end with them.", parameters, PARAMETERS, argc, argv);
    if (parameters[LEAST].value > parameters[MOST].value)
        refuse_arguments("LEAST is more than MOST");
    if (parameters[WAY].value != BY_FREES && !find_heaps("hak") && !find_heaps("mi"))
        refuse_arguments(
            "the allocator that is preloaded has no heaps: neither hak_heap_new nor mi_heap_new");
    uint64_t threads = parameters[THREADS].value;
    struct worker *workers = harness_table(threads * sizeof *workers);
    uint64_t begun = now_ns();
    for (uint64_t i = 0; i < threads; i++) {
        workers[i].random = seeded(parameters[SEED].value, i);
        workers[i].number = i;
        workers[i].blocks = harness_table(parameters[BLOCKS].value * sizeof(void *));
        start_small_thread(&workers[i].thread, work, &workers[i]);
    }
    for (uint64_t i = 0; i < threads; i++)
        pthread_join(workers[i].thread, NULL);
    report(threads * parameters[TASKS].value * parameters[BLOCKS].value, now_ns() - begun);
    return 0;
}
