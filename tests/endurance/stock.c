#define _GNU_SOURCE
#include "stock.h"

#include <errno.h>
#include <string.h>

#include "alloc_names.h"

enum { HOT_SHARE = 16, SHORT_SHARE = 16, ALIGNMENTS = 13, STEPS_PER_RESIZE = 5 };

struct stock stock_new(void)
{
    return (struct stock){.slots = pages_new(STOCK_SLOTS * sizeof(struct parcel *))};
}

static size_t live_bytes(const struct stock *stock)
{
    return atomic_load_explicit(&stock->live, memory_order_relaxed);
}

bool stock_is_short(const struct stock *stock, const struct habit *habit)
{
    return live_bytes(stock) < habit->live - habit->live / SHORT_SHARE;
}

static bool is_above(const struct stock *stock, const struct habit *habit)
{
    return live_bytes(stock) > habit->live;
}

/* Once there are enough, three quarters of the steps meet a sixteenth of the slots: most parcels live for a short time,
 * some for long. */
static size_t any_slot(const struct stock *stock, const struct habit *habit, struct rng *rng)
{
    bool anywhere = stock_is_short(stock, habit) || rng_below(rng, 4) == 0;
    return rng_below(rng, anywhere ? habit->slots : habit->slots / HOT_SHARE);
}

static size_t any_size(const struct habit *habit, struct rng *rng)
{
    return habit->low + rng_log_size(rng, habit->high - habit->low);
}

static struct parcel *any_parcel(size_t size, struct rng *rng)
{
    uint64_t dice = rng_below(rng, 16);
    if (dice >= 5) {
        return parcel_new(size, rng_next(rng));
    }
    size_t alignment = (size_t)16 << rng_below(rng, ALIGNMENTS);
    void *block = dice >= 1 ? calloc(1, size) : memalign(alignment, size);
    if (block == NULL) {
        fail("no block of %zu bytes: %s", size, strerror(errno));
    }
    if (dice >= 1) {
        zero_check(block, size);
    } else if ((uintptr_t)block % alignment != 0) {
        fail("block %p is not aligned to %zu", block, alignment);
    }
    return parcel_in(block, size, rng_next(rng));
}

/* NULL empties the slot. */
static void put(struct stock *stock, size_t at, struct parcel *parcel)
{
    size_t more = parcel != NULL ? parcel->size : 0;
    struct parcel *old = atomic_exchange_explicit(&stock->slots[at], parcel, memory_order_acq_rel);
    size_t less = old != NULL ? old->size : 0;
    atomic_fetch_add_explicit(&stock->live, more - less, memory_order_relaxed);
    parcel_end(old);
}

static void resize(struct stock *stock, size_t at, size_t size)
{
    struct parcel *parcel = atomic_exchange_explicit(&stock->slots[at], NULL, memory_order_acq_rel);
    if (parcel == NULL) {
        return;
    }
    atomic_fetch_sub_explicit(&stock->live, parcel->size, memory_order_relaxed);
    parcel_check(parcel);
    struct parcel *moved = parcel_try_resize(parcel, size);
    if (moved == NULL) {
        fail("realloc to %zu bytes gave NULL: %s", size, strerror(errno));
    }
    put(stock, at, moved);
}

void stock_step(struct stock *stock, const struct habit *habit, struct rng *rng)
{
    size_t at = any_slot(stock, habit, rng);
    if (is_above(stock, habit)) {
        put(stock, at, NULL);
    } else if (rng_below(rng, STEPS_PER_RESIZE) == 0) {
        resize(stock, at, any_size(habit, rng));
    } else {
        put(stock, at, any_parcel(any_size(habit, rng), rng));
    }
}

static size_t occupied_slot(const struct stock *stock, size_t from)
{
    size_t at = from;
    while (atomic_load(&stock->slots[at]) == NULL) {
        at = (at + 1) % STOCK_SLOTS;
    }
    return at;
}

void stock_settle(struct stock *stock, const struct habit *habit, struct rng *rng)
{
    while (is_above(stock, habit)) {
        put(stock, occupied_slot(stock, rng_below(rng, STOCK_SLOTS)), NULL);
    }
    for (size_t at = 0; at < STOCK_SLOTS; at++) {
        size_t missing = habit->live - atomic_load(&stock->live);
        if (missing < sizeof(struct parcel)) {
            return;
        }
        if (atomic_load(&stock->slots[at]) == NULL) {
            put(stock, at,
                parcel_new(missing < habit->high ? missing : habit->high, rng_next(rng)));
        }
    }
    fail("every slot is full and %zu bytes are missing", habit->live - atomic_load(&stock->live));
}

void stock_empty(struct stock *stock, size_t from, size_t to)
{
    for (size_t at = from; at < to; at++) {
        put(stock, at, NULL);
    }
}

void stock_end(struct stock *stock)
{
    stock_empty(stock, 0, STOCK_SLOTS);
    if (atomic_load(&stock->live) != 0) {
        fail("%zu bytes are still counted as live", atomic_load(&stock->live));
    }
    pages_end((void *)stock->slots, STOCK_SLOTS * sizeof(struct parcel *));
}
