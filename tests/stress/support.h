/* What the stress, fault and footprint programs share. Nothing here allocates, except parcel_new
 * and parcel_end, which are there to. */
#ifndef HAK_TEST_SUPPORT_H
#define HAK_TEST_SUPPORT_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EXIT_SKIPPED = 77 };

static const size_t KIB = 1024;
static const size_t MIB = 1024 * 1024;

/* ---- random numbers: xorshift64*, one state per thread, so that a seed repeats a run ---- */

struct rng {
    uint64_t state;
};

struct rng rng_seeded(uint64_t seed, uint64_t stream);
uint64_t rng_next(struct rng *rng);
/* 0 to limit - 1 */
uint64_t rng_below(struct rng *rng, uint64_t limit);
/* low to high, every size as likely */
size_t rng_size(struct rng *rng, size_t low, size_t high);
/* 1 to high; every power of two gets a share, the small ones the larger shares */
size_t rng_log_size(struct rng *rng, size_t high);

/* ---- patterns: every byte of a block follows from its id and length ---- */

void pattern_fill(void *block, size_t length, uint64_t id);
/* The first `count` bytes of a block that was filled with (length, id); fails the test if not. */
void pattern_check(const void *block, size_t count, size_t length, uint64_t id);
void zero_check(const void *block, size_t count);
/* Fails the test unless the address is aligned as malloc promises for this size. */
void alignment_check(const void *block, size_t size);

/* ---- parcels: blocks that carry their id and length, to be checked and freed by anyone ---- */

struct parcel {
    uint64_t id;
    size_t size; /* of the whole block, this header included */
};

/* NULL only if malloc gave NULL. A size below the header's is raised to it. */
struct parcel *parcel_try_new(size_t size, uint64_t id);
struct parcel *parcel_new(size_t size, uint64_t id);
/* Makes a parcel of a block of `size` bytes, at least the header's, however it was allocated. */
struct parcel *parcel_in(void *block, size_t size, uint64_t id);
/* The parcel with another size, by realloc, its bytes as they were as far as they go. NULL only if realloc gave NULL:
 * then it is as before. */
struct parcel *parcel_try_resize(struct parcel *parcel, size_t size);
void parcel_check(const struct parcel *parcel);
/* Checks every byte, then frees; NULL is ignored. */
void parcel_end(struct parcel *parcel);

/* ---- outcome ---- */

_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void skip(const char *format, ...) __attribute__((format(printf, 1, 2)));
void note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- the process and the machine ---- */

uint64_t now_ms(void);
void sleep_ms(unsigned milliseconds);
/* Resident bytes, counted from the page tables where the kernel offers that. */
size_t rss_bytes(void);
/* Lines of /proc/self/maps. */
size_t map_count(void);
/* The number in a one-line file such as /proc/sys/vm/max_map_count; `otherwise` if there is none.
 */
uint64_t number_in_file(const char *path, uint64_t otherwise);
/* Untouched memory that does not come from malloc, for tables of pointers. */
void *pages_new(size_t bytes);
void pages_end(void *pages, size_t bytes);
double in_mib(size_t bytes);

/* ---- arguments ("--name VALUE" and "--name") and threads ---- */

uint64_t option(int argc, char **argv, const char *name, uint64_t otherwise);
bool flag(int argc, char **argv, const char *name);
pthread_t thread_start(void *(*body)(void *), void *argument);
/* A thread with a 64 KiB stack; returns pthread_create's error. */
int thread_start_small(pthread_t *thread, void *(*body)(void *), void *argument);
void thread_join(pthread_t thread);

#endif
