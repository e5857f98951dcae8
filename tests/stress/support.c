#define _GNU_SOURCE
#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "alloc_names.h"

static const uint64_t GOLDEN = 0x9E3779B97F4A7C15u;

/* ---- random numbers ---- */

static uint64_t mixed(uint64_t value)
{
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9u;
    value = (value ^ (value >> 27)) * 0x94D049BB133111EBu;
    return value ^ (value >> 31);
}

struct rng rng_seeded(uint64_t seed, uint64_t stream)
{
    uint64_t state = mixed(seed * GOLDEN + mixed(stream + 1));
    return (struct rng){.state = state != 0 ? state : GOLDEN}; /* xorshift must not start at 0 */
}

uint64_t rng_next(struct rng *rng)
{
    uint64_t x = rng->state;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    rng->state = x;
    return x * 0x2545F4914F6CDD1Du;
}

uint64_t rng_below(struct rng *rng, uint64_t limit)
{
    return (rng_next(rng) >> 16) % limit;
}

size_t rng_size(struct rng *rng, size_t low, size_t high)
{
    return low + rng_below(rng, high - low + 1);
}

size_t rng_log_size(struct rng *rng, size_t high)
{
    unsigned powers = 64u - (unsigned)__builtin_clzl(high);
    uint64_t one = rng_below(rng, powers);
    uint64_t other = rng_below(rng, powers);
    size_t base = (size_t)1 << (one < other ? one : other);
    size_t size = base + rng_below(rng, base);
    return size < high ? size : high;
}

/* ---- patterns ---- */

static uint64_t pattern_seed(size_t length, uint64_t id)
{
    return mixed(id * GOLDEN + length);
}

void pattern_fill(void *block, size_t length, uint64_t id)
{
    unsigned char *bytes = block;
    uint64_t word = pattern_seed(length, id);
    size_t at = 0;
    for (; at + sizeof word <= length; at += sizeof word, word += GOLDEN) {
        memcpy(bytes + at, &word, sizeof word);
    }
    memcpy(bytes + at, &word, length - at);
}

static _Noreturn void pattern_fail(const void *block, size_t from, size_t length, uint64_t id,
                                   uint64_t word)
{
    const unsigned char *bytes = block;
    unsigned char wanted[sizeof word];
    memcpy(wanted, &word, sizeof word);
    size_t at = 0;
    while (at + 1 < sizeof word && bytes[from + at] == wanted[at]) {
        at++;
    }
    fail("block %p (id %llu, %zu bytes): byte %zu is %02x, not %02x", block, (unsigned long long)id,
         length, from + at, bytes[from + at], wanted[at]);
}

void pattern_check(const void *block, size_t count, size_t length, uint64_t id)
{
    const unsigned char *bytes = block;
    uint64_t word = pattern_seed(length, id);
    uint64_t found;
    size_t at = 0;
    for (; at + sizeof word <= count; at += sizeof word, word += GOLDEN) {
        memcpy(&found, bytes + at, sizeof found);
        if (found != word) {
            pattern_fail(block, at, length, id, word);
        }
    }
    if (memcmp(bytes + at, &word, count - at) != 0) {
        pattern_fail(block, at, length, id, word);
    }
}

void zero_check(const void *block, size_t count)
{
    const unsigned char *bytes = block;
    /* All bytes equal the one before, and the first is 0. */
    if (count != 0 && (bytes[0] != 0 || memcmp(bytes, bytes + 1, count - 1) != 0)) {
        fail("calloc(%zu): block %p is not all zero", count, block);
    }
}

void alignment_check(const void *block, size_t size)
{
    uintptr_t wanted = size >= 16 ? 16 : 8;
    if ((uintptr_t)block % wanted != 0) {
        fail("block %p of %zu bytes is not aligned to %zu", block, size, (size_t)wanted);
    }
}

/* ---- parcels ---- */

struct parcel *parcel_in(void *block, size_t size, uint64_t id)
{
    struct parcel *parcel = block;
    *parcel = (struct parcel){.id = id, .size = size};
    alignment_check(parcel, size);
    pattern_fill(parcel + 1, size - sizeof *parcel, id);
    return parcel;
}

struct parcel *parcel_try_new(size_t size, uint64_t id)
{
    size_t whole = size > sizeof(struct parcel) ? size : sizeof(struct parcel);
    void *block = malloc(whole);
    return block != NULL ? parcel_in(block, whole, id) : NULL;
}

struct parcel *parcel_try_resize(struct parcel *parcel, size_t size)
{
    size_t whole = size > sizeof *parcel ? size : sizeof *parcel;
    size_t old_length = parcel->size - sizeof *parcel;
    size_t length = whole - sizeof *parcel;
    struct parcel *moved = realloc(parcel, whole);
    if (moved == NULL) {
        return NULL;
    }
    pattern_check(moved + 1, length < old_length ? length : old_length, old_length, moved->id);
    return parcel_in(moved, whole, moved->id);
}

struct parcel *parcel_new(size_t size, uint64_t id)
{
    struct parcel *parcel = parcel_try_new(size, id);
    if (parcel == NULL) {
        fail("malloc(%zu) gave NULL: %s", size, strerror(errno));
    }
    return parcel;
}

void parcel_check(const struct parcel *parcel)
{
    size_t length = parcel->size - sizeof *parcel;
    if (parcel->size < sizeof *parcel || parcel->size > malloc_usable_size((void *)parcel)) {
        fail("block %p: its length was overwritten (now %zu)", (const void *)parcel, parcel->size);
    }
    pattern_check(parcel + 1, length, length, parcel->id);
}

void parcel_end(struct parcel *parcel)
{
    if (parcel != NULL) {
        parcel_check(parcel);
        free(parcel);
    }
}

/* ---- outcome ---- */

/* By write(), so that it works in a child of fork and without memory. */
static void say(const char *prefix, const char *format, va_list arguments)
{
    char line[400];
    size_t used = strlen(prefix);
    memcpy(line, prefix, used);
    int wanted = vsnprintf(line + used, sizeof line - used - 1, format, arguments);
    if (wanted > 0) {
        size_t room = sizeof line - used - 2;
        used += (size_t)wanted < room ? (size_t)wanted : room;
    }
    line[used++] = '\n';
    ssize_t written = write(STDERR_FILENO, line, used);
    (void)written; /* there is nowhere else to say it */
}

void fail(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say("FAILED: ", format, arguments);
    va_end(arguments);
    _exit(EXIT_FAILURE);
}

void skip(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say("skipped: ", format, arguments);
    va_end(arguments);
    _exit(EXIT_SKIPPED);
}

void note(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    say("", format, arguments);
    va_end(arguments);
}

/* ---- the process and the machine ---- */

uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void sleep_ms(unsigned milliseconds)
{
    struct timespec left = {.tv_sec = milliseconds / 1000,
                            .tv_nsec = (long)(milliseconds % 1000) * 1000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

/* Start of a file as a string; false if it cannot be read. */
static bool file_start(const char *path, char *text, size_t room)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return false;
    }
    size_t used = 0;
    ssize_t got;
    while (used + 1 < room && (got = read(file, text + used, room - 1 - used)) > 0) {
        used += (size_t)got;
    }
    close(file);
    text[used] = '\0';
    return used > 0;
}

size_t rss_bytes(void)
{
    char text[2048];
    if (file_start("/proc/self/smaps_rollup", text, sizeof text)) {
        const char *line = strstr(text, "\nRss:");
        if (line != NULL) {
            return strtoul(line + strlen("\nRss:"), NULL, 10) * KIB;
        }
    }
    unsigned long total, resident;
    if (!file_start("/proc/self/statm", text, sizeof text) ||
        sscanf(text, "%lu %lu", &total, &resident) != 2) {
        fail("cannot read the resident size");
    }
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

size_t map_count(void)
{
    char chunk[16384];
    int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        fail("cannot read /proc/self/maps: %s", strerror(errno));
    }
    size_t lines = 0;
    ssize_t got;
    while ((got = read(file, chunk, sizeof chunk)) > 0) {
        for (ssize_t at = 0; at < got; at++) {
            lines += chunk[at] == '\n';
        }
    }
    close(file);
    return lines;
}

uint64_t number_in_file(const char *path, uint64_t otherwise)
{
    char text[64];
    if (!file_start(path, text, sizeof text) || text[0] < '0' || text[0] > '9') {
        return otherwise;
    }
    return strtoull(text, NULL, 10);
}

void *pages_new(size_t bytes)
{
    void *pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) {
        fail("cannot map %zu bytes for the test's own table: %s", bytes, strerror(errno));
    }
    return pages;
}

void pages_end(void *pages, size_t bytes)
{
    munmap(pages, bytes);
}

double in_mib(size_t bytes)
{
    return (double)bytes / (double)MIB;
}

/* ---- arguments and threads ---- */

uint64_t option(int argc, char **argv, const char *name, uint64_t otherwise)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], name) != 0) {
            continue;
        }
        char *end = NULL;
        uint64_t value = i + 1 < argc ? strtoull(argv[i + 1], &end, 10) : 0;
        if (end == NULL || end == argv[i + 1] || *end != '\0') {
            fail("%s wants a number", name);
        }
        return value;
    }
    return otherwise;
}

bool flag(int argc, char **argv, const char *name)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], name) == 0) {
            return true;
        }
    }
    return false;
}

pthread_t thread_start(void *(*body)(void *), void *argument)
{
    pthread_t thread;
    int error = pthread_create(&thread, NULL, body, argument);
    if (error != 0) {
        fail("pthread_create: %s", strerror(error));
    }
    return thread;
}

int thread_start_small(pthread_t *thread, void *(*body)(void *), void *argument)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 64 * KIB);
    int error = pthread_create(thread, &attributes, body, argument);
    pthread_attr_destroy(&attributes);
    return error;
}

void thread_join(pthread_t thread)
{
    int error = pthread_join(thread, NULL);
    if (error != 0) {
        fail("pthread_join: %s", strerror(error));
    }
}
