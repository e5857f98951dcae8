/* A relay: one data set, which each of several threads in turn reads and replaces by its own form of it, item by item,
 * as the stages of a pipeline do with a batch. What lives stays the same all the time; who allocated it, and in
 * which sizes, changes with each leg. Beside them a reader hands over buffers, which the runner of the leg fills from
 * and frees. Every byte is written and checked.
 *
 *     relay [--mib 96] [--legs 12] [--runners 4] [--seed 1]
 *
 * Prints the most bytes that lived at a time, as they were asked for. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "support.h"

#include "alloc_names.h"

enum {
    RUNNERS_MOST = 16,
    WINDOW_SHARE = 32, /* of the data set: what a stage still looks back at */
    BUFFER_SHARE = 64, /* of the data set: a buffer that is handed over */
    BUFFERS_PER_LEG = 32,
    PAGE_ITEMS = 4000,
};

/* What the forms of the data set are made of, leg by leg. */
static const struct {
    size_t low, high;
} forms[] = {{64, 480}, {200, 3000}, {32, 200}, {2000, 30000}, {48, 1000}};

static _Atomic size_t live, peak;

static void note_live(size_t more, size_t less)
{
    size_t now = atomic_fetch_add(&live, more - less) + more - less, before = atomic_load(&peak);
    while (now > before && !atomic_compare_exchange_weak(&peak, &before, now))
        ;
}

static struct parcel *item_new(size_t size, uint64_t id)
{
    struct parcel *p = parcel_new(size, id);
    note_live(p->size, 0);
    return p;
}

static void item_end(struct parcel *p)
{
    note_live(0, p->size);
    parcel_end(p);
}

/* ---- the data set: a queue of items, in pages of pointers ---- */

struct page {
    struct page *next;
    struct parcel *items[PAGE_ITEMS];
};

struct data {
    struct page *first, *last;
    size_t from, to; /* of the first page's, and of the last one's, items */
    size_t bytes;    /* of the items */
};

static void add_page(struct data *data)
{
    struct page *page = malloc(sizeof *page);
    if (page == NULL) {
        fail("malloc gave NULL");
    }
    note_live(sizeof *page, 0);
    page->next = NULL;
    if (data->last != NULL)
        data->last->next = page;
    else
        data->first = page;
    data->last = page;
    data->to = 0;
}

static void data_add(struct data *data, struct rng *rng, size_t form)
{
    if (data->last == NULL || data->to == PAGE_ITEMS)
        add_page(data);
    struct parcel *item = item_new(rng_size(rng, forms[form].low, forms[form].high), rng_next(rng));
    data->last->items[data->to++] = item;
    data->bytes += item->size;
}

/* The oldest item's end. */
static size_t data_drop(struct data *data)
{
    struct page *page = data->first;
    struct parcel *item = page->items[data->from++];
    size_t size = item->size;
    data->bytes -= size;
    item_end(item);
    if (data->from == PAGE_ITEMS || (page == data->last && data->from == data->to)) {
        data->first = page->next;
        data->last = data->first != NULL ? data->last : NULL;
        data->from = 0;
        note_live(0, sizeof *page);
        free(page);
    }
    return size;
}

/* ---- a leg ---- */

struct relay {
    struct data now;
    size_t bytes, legs, runners;
    struct rng rng;
    pthread_mutex_t mutex;
    pthread_cond_t turn;
    size_t leg;
    struct parcel *buffer; /* from the reader; NULL: taken */
    bool ended;
};

/* Waits for a buffer, as it comes from a file or a socket. */
static void use_buffer(struct relay *r)
{
    pthread_mutex_lock(&r->mutex);
    while (r->buffer == NULL)
        pthread_cond_wait(&r->turn, &r->mutex);
    struct parcel *buffer = r->buffer;
    r->buffer = NULL;
    pthread_cond_broadcast(&r->turn);
    pthread_mutex_unlock(&r->mutex);
    item_end(buffer);
}

static void *read_buffers(void *argument)
{
    struct relay *r = argument;
    for (uint64_t id = 0;; id++) {
        struct parcel *buffer = item_new(r->bytes / BUFFER_SHARE - id % 8 * KIB, id);
        pthread_mutex_lock(&r->mutex);
        while (r->buffer != NULL && !r->ended)
            pthread_cond_wait(&r->turn, &r->mutex);
        if (r->ended) {
            pthread_mutex_unlock(&r->mutex);
            item_end(buffer);
            return NULL;
        }
        r->buffer = buffer;
        pthread_cond_broadcast(&r->turn);
        pthread_mutex_unlock(&r->mutex);
    }
}

/* The new form grows as the old one goes, which it is a window ahead of. */
static void run_leg(struct relay *r, size_t form)
{
    struct data next = {NULL, NULL, 0, 0, 0};
    size_t window = r->bytes / WINDOW_SHARE, freed = 0;
    for (size_t used = 0; r->now.first != NULL;) {
        for (; used < freed / (r->bytes / BUFFERS_PER_LEG); used++)
            use_buffer(r);
        while (next.bytes < freed + window && next.bytes < r->bytes)
            data_add(&next, &r->rng, form);
        freed += data_drop(&r->now);
    }
    r->now = next;
}

struct runner {
    struct relay *relay;
    size_t number;
};

static void *run(void *argument)
{
    const struct runner *me = argument;
    struct relay *r = me->relay;
    for (size_t leg = me->number; leg < r->legs; leg += r->runners) {
        pthread_mutex_lock(&r->mutex);
        while (r->leg != leg)
            pthread_cond_wait(&r->turn, &r->mutex);
        pthread_mutex_unlock(&r->mutex);
        run_leg(r, leg % (sizeof forms / sizeof forms[0]));
        pthread_mutex_lock(&r->mutex);
        r->leg++;
        pthread_cond_broadcast(&r->turn);
        pthread_mutex_unlock(&r->mutex);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    struct relay relay = {.bytes = option(argc, argv, "--mib", 96) * MIB,
                          .legs = option(argc, argv, "--legs", 12),
                          .runners = option(argc, argv, "--runners", 4),
                          .rng = rng_seeded(option(argc, argv, "--seed", 1), 0)};
    if (relay.runners == 0 || relay.runners > RUNNERS_MOST) {
        fail("--runners: 1 to %d", RUNNERS_MOST);
    }
    pthread_mutex_init(&relay.mutex, NULL);
    pthread_cond_init(&relay.turn, NULL);
    while (relay.now.bytes < relay.bytes) {
        data_add(&relay.now, &relay.rng, sizeof forms / sizeof forms[0] - 1);
    }
    pthread_t reader = thread_start(read_buffers, &relay), threads[RUNNERS_MOST];
    struct runner runners[RUNNERS_MOST];
    for (size_t i = 0; i < relay.runners; i++) {
        runners[i] = (struct runner){&relay, i};
        threads[i] = thread_start(run, &runners[i]);
    }
    for (size_t i = 0; i < relay.runners; i++) {
        thread_join(threads[i]);
    }
    pthread_mutex_lock(&relay.mutex);
    relay.ended = true;
    pthread_cond_broadcast(&relay.turn);
    pthread_mutex_unlock(&relay.mutex);
    thread_join(reader);
    note("most bytes live: %zu", atomic_load(&peak));
    return 0;
}
