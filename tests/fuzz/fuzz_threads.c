/* Several threads whose turns the input decides: only the one that has the baton runs, so a run can be repeated.
 * Blocks are freed and resized by other threads than allocated them, threads end and others come after them, the
 * process forks in between. The model is the same as with one thread. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "heaps.h"

enum { WORKERS = 5, TURNS_MOST = 512, OTHER_ERRNO = 4242 };

/* What may be live beside the blocks of the model once all threads have ended: in inboxes that nobody has looked
 * into since. */
static const size_t UNDERWAY_MOST = (size_t)8 << 20;

struct worker {
    sem_t go;
    pthread_t thread;
    bool runs, ends; /* ends: with this turn */
};

static struct model model;
static struct heaps heaps;
static struct worker workers[WORKERS];
static struct input schedule; /* whoever has the baton reads on */
static sem_t back;            /* the baton returns */
static bool forked;           /* once per run */
static bool first = true;
static size_t base_blocks, base_bytes;

/* ---- what a thread does in its turn ---- */

static size_t slot_of(struct input *in)
{
    return input_take(in, 2) % SLOTS;
}

static void *allocated(struct input *in, size_t size, size_t *alignment)
{
    *alignment = ORDINARY;
    switch (input_take(in, 1) % 4) {
    case 0:
        return hak_calloc(1, size);
    case 1:
        *alignment = (size_t)1 << input_take(in, 1) % 20;
        return hak_memalign(*alignment, size);
    default:
        return hak_malloc(size);
    }
}

static void allocate(struct input *in, size_t slot, size_t size)
{
    size_t alignment;
    if (model.blocks[slot].at != NULL || size > GIANT || !model_has_room(&model, size))
        return;
    void *p = allocated(in, size, &alignment);
    if (p == NULL)
        refused(size, alignment);
    model_add(&model, slot, p, size, alignment, false);
}

/* Of a heap of the program's own. */
static void allocate_of_heap(struct input *in)
{
    size_t slot = slot_of(in), size = input_size(in);
    if (model.blocks[slot].at != NULL || size > GIANT || !model_has_room(&model, size))
        return;
    hak_heap *heap = heaps_any(&heaps, in);
    void *p = hak_heap_malloc(heap, size);
    if (p == NULL)
        refused(size, ORDINARY);
    model_add_of(&model, slot, p, size, ORDINARY, false, heap);
}

static void allocate_many(struct input *in)
{
    hak_heap *heap = input_take(in, 1) % 2 == 0 ? heaps_any(&heaps, in) : NULL;
    size_t slot = slot_of(in), count = input_take(in, 1), size = input_size(in) % 40000;
    for (size_t i = 0; i < count; i++) {
        size_t at = (slot + i) % SLOTS;
        if (model.blocks[at].at != NULL || !model_has_room(&model, size))
            continue;
        void *p = heaps_malloc(heap, size);
        if (p == NULL)
            refused(size, ORDINARY);
        model_add_of(&model, at, p, size, ORDINARY, false, heap);
    }
}

static void release(size_t slot)
{
    if (model.blocks[slot].at == NULL)
        return;
    struct block b = model_take(&model, slot);
    errno = OTHER_ERRNO;
    hak_free(b.at);
    if (errno != OTHER_ERRNO)
        broken("free changed errno to %d", errno);
}

static void release_many(struct input *in)
{
    size_t slot = slot_of(in), count = 2 * input_take(in, 1);
    size_t stride = 1 + 2 * (input_take(in, 1) % 4);
    for (size_t i = 0; i < count; i++)
        release((slot + i * stride) % SLOTS);
}

static void resize(size_t slot, size_t size)
{
    if (model.blocks[slot].at == NULL || size == 0 || size > GIANT || !model_has_room(&model, size))
        return;
    struct block old = model_take(&model, slot);
    void *p = hak_realloc(old.at, size);
    if (p == NULL)
        refused(size, ORDINARY);
    content_check(p, old.usable < size ? old.usable : size, old.usable, old.id);
    model_add_of(&model, slot, p, size, ORDINARY, false, old.heap);
}

/* A child has one thread, and all blocks are its own. */
static _Noreturn void child(void)
{
    for (size_t slot = 0; slot < SLOTS; slot += 2)
        release(slot);
    heaps_end_all(&heaps, &model);
    for (size_t slot = 1; slot < SLOTS; slot += 2)
        release(slot);
    for (size_t i = 0; i < SLOTS; i++)
        model_add(&model, i, hak_malloc(i * 64), i * 64, ORDINARY, false);
    for (size_t slot = 0; slot < SLOTS; slot++)
        release(slot);
    _exit(EXIT_SUCCESS);
}

static void fork_once(void)
{
    if (forked)
        return;
    forked = true;
    pid_t pid = fork();
    if (pid == 0)
        child();
    if (pid < 0 && errno == ENOMEM)
        refused(0, 1);
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
        broken("the child of a fork ended with status %#x", (unsigned)status);
}

static void operate(struct worker *w, struct input *in)
{
    switch (input_take(in, 1) % 24) {
    case 0:
    case 1:
    case 2: {
        size_t slot = slot_of(in), size = input_size(in);
        allocate(in, slot, size);
        break;
    }
    case 3:
    case 4:
        allocate_many(in);
        break;
    case 5:
    case 6:
    case 7:
        release_many(in);
        break;
    case 8: {
        size_t slot = slot_of(in), size = input_size(in);
        resize(slot, size);
        break;
    }
    case 9:
        hak_purge();
        break;
    case 10:
        w->ends = true;
        break;
    case 11:
        if (input_take(in, 1) < 16)
            fork_once();
        break;
    case 12:
    case 13:
    case 14:
    case 15:
        allocate_of_heap(in);
        break;
    case 16:
        heaps_end_any(&heaps, &model, in);
        break;
    case 17:
        heaps_check(&heaps, &model);
        break;
    default:
        release(slot_of(in));
    }
}

/* ---- the baton ---- */

static void await(sem_t *mine)
{
    while (sem_wait(mine) != 0) {
    }
}

static void *worker_runs(void *argument)
{
    struct worker *w = argument;
    for (;;) {
        await(&w->go);
        for (uint64_t left = input_take(&schedule, 1) % 8 + 1; left > 0 && !w->ends; left--)
            operate(w, &schedule);
        bool ends = w->ends;
        sem_post(&back);
        if (ends)
            return NULL;
    }
}

static void worker_starts(struct worker *w)
{
    w->runs = true;
    w->ends = false;
    if (pthread_create(&w->thread, NULL, worker_runs, w) != 0)
        broken("no thread");
}

static void turn(struct worker *w)
{
    if (!w->runs)
        worker_starts(w);
    sem_post(&w->go);
    await(&back);
    if (w->ends) { /* who comes next finds what it left */
        pthread_join(w->thread, NULL);
        w->runs = false;
    }
}

static void end_all(void)
{
    for (size_t i = 0; i < WORKERS; i++) {
        workers[i].ends = true;
        if (workers[i].runs)
            turn(&workers[i]);
    }
}

/* ---- a run ---- */

static void set_up(void)
{
    sem_init(&back, 0, 0);
    for (size_t i = 0; i < WORKERS; i++)
        sem_init(&workers[i].go, 0, 0);
}

/* Where hakmem is the program's malloc as well, what the program itself and glibc have comes and goes; in the build `secure` freed
 * blocks wait. */
static void statistics_check(const char *when, size_t beside_bytes)
{
    struct hak_stats s;
    hak_stats_get(&s, sizeof s);
    if (first) {
        first = false;
        base_blocks = s.live_blocks;
        base_bytes = s.live_bytes;
    }
    if (HAK_INTERPOSE || HAK_SECURE)
        return;
    size_t blocks = s.live_blocks - base_blocks, bytes = s.live_bytes - base_bytes;
    if (blocks < model.live_blocks || bytes < model.usable_bytes)
        broken("%s: %zu blocks live, %zu counted", when, model.live_blocks, blocks);
    if (bytes - model.usable_bytes > beside_bytes)
        broken("%s: %zu bytes live, %zu counted", when, model.usable_bytes, bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const size_t intervals[] = {512 << 10, 4096, 64};
    schedule = (struct input){data, data + size};
    if (first)
        set_up();
    statistics_check("before", UNDERWAY_MOST);
    forked = false;
    size_t interval = intervals[input_take(&schedule, 1) % 3];
    (void)hak_ctl("opt.profile_interval", NULL, NULL, &interval, sizeof interval);
    for (size_t i = 0; i < TURNS_MOST && schedule.at < schedule.end; i++)
        turn(&workers[input_take(&schedule, 1) % WORKERS]);
    statistics_check("between", SIZE_MAX);
    end_all();
    heaps_check(&heaps, &model);
    heaps_end_all(&heaps, &model);
    for (size_t slot = 0; slot < SLOTS; slot++)
        release(slot);
    hak_purge();
    statistics_check("after", UNDERWAY_MOST);
    return 0;
}
