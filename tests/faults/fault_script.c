/* What runs while system calls fail. malloc may give NULL, with ENOMEM; nothing else may go wrong:
 * no byte of a live block changes, a block that could not be resized stays as it was, free keeps
 * errno.
 *
 *     fault_script start-up|threaded|swings [--recovers] [--descriptors N] [--signal-us N] [--wait-ms N]
 *
 * --recovers: only one call fails, so in the end every size must be had again. --descriptors: no file descriptor from N
 * on can be had. --signal-us: a timer sends signals, whose handler allocates. --wait-ms: lives on for so long.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include "support.h"

#include "alloc_names.h"

enum {
    OTHER_ERRNO = 4242,
    TABLE_SIZE = 24,
    TURNS = 160,
    THREADS = 3,
    SWINGS = 30,
    SWING_PARCELS = 400,
    SMALL_SIZES = 5,
    LARGE_EVERY = 64
};

static const size_t SIZES[] = {24,        100,        1000,       5000,        20 * 1024,
                               70 * 1024, 200 * 1024, 900 * 1024, 2500 * 1024, 6 * 1024 * 1024};
enum { SIZE_COUNT = sizeof SIZES / sizeof SIZES[0] };

static atomic_ulong requests_refused;

static void *refusal_checked(void *block, const char *what, size_t size)
{
    if (block == NULL && errno != ENOMEM) {
        fail("%s(%zu) gave NULL with errno %d, not ENOMEM", what, size, errno);
    }
    if (block == NULL) {
        atomic_fetch_add(&requests_refused, 1);
    }
    return block;
}

static struct parcel *get(size_t size, uint64_t id)
{
    errno = 0;
    return refusal_checked(parcel_try_new(size, id), "malloc", size);
}

static void *get_zeroed(size_t size)
{
    errno = 0;
    void *block = refusal_checked(calloc(1, size), "calloc", size);
    if (block != NULL) {
        zero_check(block, size);
    }
    return block;
}

static void *get_aligned(size_t alignment, size_t size)
{
    errno = 0;
    void *block = refusal_checked(memalign(alignment, size), "memalign", size);
    if ((uintptr_t)block % alignment != 0) {
        fail("memalign(%zu, %zu) gave %p", alignment, size, block);
    }
    return block;
}

static void put_plain(void *block)
{
    errno = OTHER_ERRNO;
    free(block);
    if (errno != OTHER_ERRNO) {
        fail("free changed errno to %d", errno);
    }
}

static void put(struct parcel *parcel)
{
    if (parcel != NULL) {
        parcel_check(parcel);
    }
    put_plain(parcel);
}

/* The parcel with another size, or, when refused, as it was. */
static struct parcel *resize(struct parcel *parcel, size_t size)
{
    errno = 0;
    struct parcel *moved = refusal_checked(parcel_try_resize(parcel, size), "realloc", size);
    if (moved == NULL) {
        parcel_check(parcel);
        return parcel;
    }
    return moved;
}

/* From small to large and back, as a growing buffer goes through every layer. */
static void grow_and_shrink(uint64_t id)
{
    struct parcel *buffer = get(SIZES[0], id);
    for (size_t i = 1; buffer != NULL && i < SIZE_COUNT; i++) {
        buffer = resize(buffer, SIZES[i]);
    }
    for (size_t i = SIZE_COUNT; buffer != NULL && i-- > 0;) {
        buffer = resize(buffer, SIZES[i]);
    }
    put(buffer);
}

/* Doubles a block that is a mapping of its own, beside another that may be in its way. */
static void grow_large(uint64_t id)
{
    struct parcel *buffer = get(4 * MIB, id);
    struct parcel *neighbour = get(4 * MIB, id + 1);
    for (size_t size = 8 * MIB; buffer != NULL && size <= 32 * MIB; size *= 2) {
        buffer = resize(buffer, size);
    }
    put(neighbour);
    put(buffer);
}

static void a_few_of_everything(void)
{
    struct parcel *parcels[SIZE_COUNT];
    void *zeroed[SIZE_COUNT];
    void *aligned[SIZE_COUNT];
    for (size_t i = 0; i < SIZE_COUNT; i++) {
        parcels[i] = get(SIZES[i], i);
        zeroed[i] = get_zeroed(SIZES[i] + 8);
        aligned[i] = get_aligned((size_t)64 << i, SIZES[i] / 2);
    }
    for (uint64_t i = 0; i < 4; i++) {
        grow_and_shrink(100 + i);
    }
    grow_large(200);
    for (size_t i = 0; i < SIZE_COUNT; i++) {
        put_plain(zeroed[i]);
        put(parcels[i]);
        put_plain(aligned[i]);
    }
    malloc_trim(0);
}

/* Twice, so that the second time meets memory that was given back. */
static void start_up(void)
{
    a_few_of_everything();
    a_few_of_everything();
}

static size_t mixed_size(struct rng *rng)
{
    size_t log_size = rng_log_size(rng, 4 * MIB);
    size_t from_table = SIZES[rng_below(rng, SIZE_COUNT)];
    size_t size = rng_below(rng, 2) == 0 ? log_size : from_table;
    return size > sizeof(struct parcel) ? size : sizeof(struct parcel);
}

/* A bounded run of mixed work that ends with everything freed. */
static void *mixed_work(void *argument)
{
    uint64_t number = *(const uint64_t *)argument;
    struct rng rng = rng_seeded(1, number);
    struct parcel *table[TABLE_SIZE] = {NULL};
    for (uint64_t turn = 0; turn < TURNS; turn++) {
        struct parcel **slot = &table[rng_below(&rng, TABLE_SIZE)];
        size_t size = mixed_size(&rng);
        if (*slot == NULL) {
            *slot = get(size, number * TURNS + turn);
        } else if (rng_below(&rng, 3) == 0) {
            *slot = resize(*slot, size);
        } else {
            put(*slot);
            *slot = NULL;
        }
    }
    grow_and_shrink(number);
    grow_large(number);
    for (size_t i = 0; i < TABLE_SIZE; i++) {
        put(table[i]);
    }
    return NULL;
}

static void threaded(void)
{
    static uint64_t numbers[THREADS] = {1, 2, 3};
    pthread_t threads[THREADS];
    bool started[THREADS];
    size_t refused = 0;
    pid_t starters[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        /* Starting a thread takes memory too, and may be refused: then its work is done here. */
        started[i] = pthread_create(&threads[i], NULL, mixed_work, &numbers[i]) == 0;
        starters[i] = getpid();
        if (!started[i]) {
            refused++;
            mixed_work(&numbers[i]);
        }
    }
    for (size_t i = 0; i < THREADS; i++) {
        /* In the child of a fork the parent's threads are not there. */
        if (started[i] && starters[i] == getpid()) {
            thread_join(threads[i]);
        }
    }
    malloc_trim(0);
    note("%zu threads refused", refused);
}

/* Demand goes up and down as a whole: what is kept for it, and for how long, is for the clock to say. */
static void swings(void)
{
    static struct parcel *parcels[SWING_PARCELS];
    struct rng rng = rng_seeded(2, 0);
    for (uint64_t swing = 0; swing < SWINGS; swing++) {
        for (size_t i = 0; i < SWING_PARCELS; i++) {
            parcels[i] = get(mixed_size(&rng) / 4 + sizeof(struct parcel), i);
        }
        for (size_t i = 0; i < SWING_PARCELS; i++) {
            put(parcels[i]);
        }
    }
}

/* ---- beside what fails ---- */

static void limit_descriptors(size_t count)
{
    struct rlimit limit = {.rlim_cur = count, .rlim_max = count};
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) {
        fail("cannot limit the file descriptors: %s", strerror(errno));
    }
}

static atomic_ulong signals_handled;

static void allocate_in_handler(int signal)
{
    int saved_errno = errno;
    uint64_t number = atomic_fetch_add(&signals_handled, 1);
    size_t kinds = number % LARGE_EVERY == 0 ? SIZE_COUNT : SMALL_SIZES;
    put(get(SIZES[number / LARGE_EVERY % kinds], number));
    errno = saved_errno;
    (void)signal;
}

static void start_signals(long every_us)
{
    struct sigaction action = {.sa_handler = allocate_in_handler, .sa_flags = SA_RESTART};
    struct itimerval timer = {{0, every_us}, {0, every_us}};
    if (sigaction(SIGALRM, &action, NULL) != 0 || setitimer(ITIMER_REAL, &timer, NULL) != 0) {
        fail("no timer: %s", strerror(errno));
    }
}

static void stop_signals(void)
{
    static const struct itimerval none;
    setitimer(ITIMER_REAL, &none, NULL);
    note("%lu signals handled", atomic_load(&signals_handled));
}

/* The one failure may come as late as here, but then the next try succeeds. */
static void check_recovery(void)
{
    for (size_t i = 0; i < SIZE_COUNT; i++) {
        struct parcel *parcel = get(SIZES[i], i);
        parcel = parcel != NULL ? parcel : get(SIZES[i], i);
        if (parcel == NULL) {
            fail("no block of %zu bytes although memory is there again", SIZES[i]);
        }
        put(parcel);
    }
}

int main(int argc, char **argv)
{
    size_t descriptors = option(argc, argv, "--descriptors", SIZE_MAX);
    long signal_us = (long)option(argc, argv, "--signal-us", 0);
    if (descriptors != SIZE_MAX) {
        limit_descriptors(descriptors);
    }
    if (signal_us != 0) {
        start_signals(signal_us);
    }
    if (flag(argc, argv, "start-up")) {
        start_up();
    } else if (flag(argc, argv, "threaded")) {
        threaded();
    } else if (flag(argc, argv, "swings")) {
        swings();
    } else {
        fail("which script: start-up, threaded or swings?");
    }
    sleep_ms((unsigned)option(argc, argv, "--wait-ms", 0));
    if (signal_us != 0) {
        stop_signals();
    }
    if (flag(argc, argv, "--recovers")) {
        check_recovery();
    }
    note("%lu requests refused", atomic_load(&requests_refused));
    return 0;
}
