/* Arguments, results, clocks, resident memory, tables of the harness' own. */
#include "common.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static void print_usage(FILE *out, const char *summary, const struct parameter *parameters,
                        size_t count)
{
    fprintf(out, "usage: %s", program_invocation_short_name);
    for (size_t i = 0; i < count; i++) {
        fprintf(out, parameters[i].optional ? " [%s]" : " %s", parameters[i].name);
    }
    fprintf(out, "\n%s\n\n", summary);
    for (size_t i = 0; i < count; i++) {
        const struct parameter *p = &parameters[i];
        fprintf(out, "  %-12s %s: ", p->name, p->meaning);
        if (p->choices != NULL) {
            fprintf(out, "%s\n", p->choices);
            continue;
        }
        fprintf(out, "%" PRIu64 " to %" PRIu64, p->least, p->most);
        if (p->optional) {
            fprintf(out, " (%" PRIu64 ")", p->value);
        }
        fputc('\n', out);
    }
}

/* The place of `word` among the words of `choices`, or -1. */
static long place_of(const char *word, const char *choices)
{
    size_t length = strlen(word);
    for (long place = 0; *choices != '\0'; place++) {
        size_t end = strcspn(choices, " ");
        if (length == end && strncmp(word, choices, end) == 0) {
            return place;
        }
        choices += end;
        choices += strspn(choices, " ");
    }
    return -1;
}

static int parse_one(struct parameter *parameter, const char *text)
{
    if (parameter->choices != NULL) {
        long place = place_of(text, parameter->choices);
        parameter->value = (uint64_t)place;
        return place >= 0;
    }
    char *end;
    errno = 0;
    parameter->value = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && *end == '\0' && errno == 0 &&
           parameter->value >= parameter->least && parameter->value <= parameter->most;
}

static void refuse(const struct parameter *parameter, const char *text)
{
    fprintf(stderr, "%s: %s cannot be '%s'\n", program_invocation_short_name, parameter->name,
            text);
}

void parse_arguments(const char *summary, struct parameter *parameters, size_t count, int argc,
                     char **argv)
{
    size_t given = (size_t)argc - 1;
    if (given == 1 && strcmp(argv[1], "--help") == 0) {
        print_usage(stdout, summary, parameters, count);
        exit(0);
    }
    size_t needed = 0;
    while (needed < count && !parameters[needed].optional) {
        needed++;
    }
    int good = given >= needed && given <= count;
    if (!good) {
        fprintf(stderr, "%s: takes %zu to %zu arguments, not %zu\n", program_invocation_short_name,
                needed, count, given);
    }
    for (size_t i = 0; good && i < given; i++) {
        good = parse_one(&parameters[i], argv[i + 1]);
        if (!good) {
            refuse(&parameters[i], argv[i + 1]);
        }
    }
    if (!good) {
        print_usage(stderr, summary, parameters, count);
        exit(2);
    }
}

void refuse_arguments(const char *why)
{
    fprintf(stderr, "%s: %s\n", program_invocation_short_name, why);
    exit(2);
}

void report(uint64_t ops, uint64_t elapsed_ns)
{
    long peak = rss_peak_kib(); /* before the first print, which allocates a buffer */
    printf("ops %" PRIu64 "\ntime_s %.9f\npeak_rss_kib %ld\n", ops, (double)elapsed_ns / 1e9, peak);
}

void report_value(const char *key, double value)
{
    printf("%s %.3f\n", key, value);
}

uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
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
    fprintf(stderr, "%s: %s\n", program_invocation_short_name, what);
    _exit(1);
}

void die_no_memory(size_t size)
{
    fprintf(stderr, "%s: malloc(%zu) returned NULL\n", program_invocation_short_name, size);
    _exit(1);
}

void die_corrupt(const void *block)
{
    fprintf(stderr, "%s: content of block %p was changed by somebody else\n",
            program_invocation_short_name, block);
    _exit(1);
}
