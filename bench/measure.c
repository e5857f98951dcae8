/* Clocks, faults, resident memory, and the timed loop. */
#include "bench_core.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define STEPS 64

uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

long minor_faults(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_minflt;
}

/* read(2) into the caller's buffer: stdio would allocate. */
static int read_small_file(const char *path, char *buffer, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    ssize_t got = read(fd, buffer, size - 1);
    close(fd);
    if (got <= 0) {
        return -1;
    }
    buffer[got] = '\0';
    return 0;
}

static long status_field_kib(const char *field)
{
    char text[8192];
    if (read_small_file("/proc/self/status", text, sizeof text) != 0) {
        return -1;
    }
    const char *at = strstr(text, field);
    return at == NULL ? -1 : strtol(at + strlen(field), NULL, 10);
}

long rss_now_kib(void)
{
    return status_field_kib("VmRSS:");
}

long rss_peak_kib(void)
{
    /* ru_maxrss starts at the parent's peak, which exec hands on: a few MiB of Python would hide a
     * small process. */
    long peak = status_field_kib("VmHWM:");
    if (peak >= 0) {
        return peak;
    }
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

void *harness_table(size_t bytes)
{
    void *table = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (table == MAP_FAILED) {
        die("cannot map the harness' own table");
    }
    return table;
}

void die(const char *what)
{
    fprintf(stderr, "bench_core: %s\n", what);
    _exit(1);
}

void die_no_memory(size_t size)
{
    fprintf(stderr, "bench_core: malloc(%zu) returned NULL\n", size);
    _exit(1);
}

void die_corrupt(const void *block)
{
    fprintf(stderr, "bench_core: content of block %p was changed by somebody else\n", block);
    _exit(1);
}

uint64_t scaled(const struct options *options, uint64_t pairs)
{
    double wanted = (double)pairs * options->scale;
    return wanted < 1.0 ? 1 : (uint64_t)wanted;
}

void measure_steps(const struct options *options, step_fn *step, void *state, uint64_t pairs,
                   uint64_t granule, struct outcome *outcome)
{
    long faults[STEPS + 1];
    uint64_t limit_ns = (uint64_t)(options->limit_s * 1e9);
    uint64_t granules = scaled(options, pairs) / STEPS / granule;
    uint64_t per_step = (granules == 0 ? 1 : granules) * granule;
    uint64_t elapsed = 0;
    unsigned done = 0;

    faults[0] = minor_faults();
    uint64_t start = now_ns();
    do {
        step(state, per_step);
        elapsed = now_ns() - start;
        faults[++done] = minor_faults();
    } while (done < STEPS && elapsed < limit_ns);

    outcome->ops = per_step * done;
    outcome->ns_per_pair = (double)elapsed / (double)outcome->ops;
    outcome->faults_steady = faults[done] - faults[done / 2];
}
