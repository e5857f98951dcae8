/* bench_core: time, memory and page faults of malloc and free in a few elementary shapes. One shape
 * per process, so that none inherits what another left behind; one JSON line on standard output. */
#include "bench_core.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>

#define MOST_ARGUMENTS 4

struct shape {
    const char *name;
    void (*run)(const struct options *, size_t argument, struct outcome *);
    size_t arguments[MOST_ARGUMENTS]; /* those of the standard set; none at all: the shape takes no
                                         argument */
};

static const struct shape shapes[] = {
    {"hot32", run_hot32, {0}},
    {"lifo", run_lifo, {16, 64, 512, 1024}},
    {"random", run_random, {256, 4096, 65536, 1000000}},
    {"flags", run_flags, {4096, 65536}},
    {"tree", run_tree, {8191, 524287}},
    {"pingpong", run_pingpong, {0}},
    {"cycle", run_cycle, {65536, 262144, 2097152}},
    {"cycle_fill", run_cycle_fill, {65536, 262144, 2097152}},
    {"cycle8", run_cycle8, {65536, 262144, 2097152}},
    {"produce", run_produce, {0}},
    {"peak", run_peak, {0}},
};

#define SHAPES (sizeof shapes / sizeof shapes[0])

static void list_standard_set(void)
{
    for (size_t i = 0; i < SHAPES; i++) {
        if (shapes[i].arguments[0] == 0) {
            puts(shapes[i].name);
        }
        for (size_t k = 0; k < MOST_ARGUMENTS && shapes[i].arguments[k] != 0; k++) {
            printf("%s %zu\n", shapes[i].name, shapes[i].arguments[k]);
        }
    }
}

static void print_usage(FILE *out)
{
    fputs("usage: bench_core SHAPE [ARGUMENT] [OPTION VALUE]...\n"
          "       bench_core --list\n"
          "\n"
          "  hot32          lifo SIZE        random LIVE      flags LIVE     tree LIVE\n"
          "  pingpong       cycle SIZE       cycle_fill SIZE  cycle8 SIZE    produce\n"
          "  peak\n"
          "\n"
          "  --list         the standard set, one shape and argument per line\n"
          "  --seed N       of the random sizes and slots (1)\n"
          "  --scale F      times the usual number of operations (1.0)\n"
          "  --limit S      single-threaded loops end after about so many seconds (4)\n"
          "  --idle S       how long `peak` idles before its last look at the RSS (5)\n"
          "\n"
          "example: LD_PRELOAD=build/release/libhakmem.so build/release/bench/bench_core random "
          "4096\n",
          out);
}

static _Noreturn void usage_error(const char *what, const char *value)
{
    fprintf(stderr, "bench_core: %s: %s\n", what, value);
    print_usage(stderr);
    exit(2);
}

static const struct shape *find_shape(const char *name)
{
    for (size_t i = 0; i < SHAPES; i++) {
        if (strcmp(shapes[i].name, name) == 0) {
            return &shapes[i];
        }
    }
    usage_error("no such shape", name);
}

static uint64_t parse_whole(const char *text)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end != '\0' || errno != 0) {
        usage_error("not a whole number", text);
    }
    return value;
}

static double parse_positive(const char *text)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end != '\0' || !(value > 0.0 && value < 1e6)) {
        usage_error("not a positive number", text);
    }
    return value;
}

static void parse_option(struct options *options, const char *name, const char *value)
{
    if (value == NULL) {
        usage_error("missing value", name);
    }
    if (strcmp(name, "--seed") == 0) {
        options->seed = parse_whole(value);
    } else if (strcmp(name, "--scale") == 0) {
        options->scale = parse_positive(value);
    } else if (strcmp(name, "--limit") == 0) {
        options->limit_s = parse_positive(value);
    } else if (strcmp(name, "--idle") == 0) {
        options->idle_s = parse_positive(value);
    } else {
        usage_error("unknown option", name);
    }
}

/* A library that cannot be preloaded is ignored by the dynamic linker: say whose malloc was
 * measured. */
static const char *malloc_object(void)
{
    Dl_info info;
    void *symbol = dlsym(RTLD_DEFAULT, "malloc");
    return symbol != NULL && dladdr(symbol, &info) != 0 ? info.dli_fname : "";
}

static void print_json_string(const char *text)
{
    putchar('"');
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\') {
            putchar('\\');
        }
        putchar(*text);
    }
    putchar('"');
}

struct totals {
    long minor_faults;
    long peak_rss_kib;
    long rss_end_kib;
};

static void print_result(const struct shape *shape, size_t argument, const struct options *options,
                         const struct outcome *outcome, const struct totals *totals)
{
    printf("{\"benchmark\": \"%s\", \"arguments\": [", shape->name);
    if (argument != 0) {
        printf("%zu", argument);
    }
    printf("], \"seed\": %llu, \"threads\": %u, \"malloc_object\": ",
           (unsigned long long)options->seed, outcome->threads);
    print_json_string(malloc_object());
    printf(", \"ops\": %llu, \"ns_per_pair\": %.3f, \"live_kib\": %llu",
           (unsigned long long)outcome->ops, outcome->ns_per_pair,
           (unsigned long long)(outcome->live_bytes / 1024));
    printf(", \"peak_rss_kib\": %ld, \"rss_start_kib\": %ld, \"rss_end_kib\": %ld",
           totals->peak_rss_kib, outcome->rss_start_kib, totals->rss_end_kib);
    printf(", \"minor_faults\": %ld, \"faults_steady\": ", totals->minor_faults);
    if (outcome->faults_steady == NO_STEADY_STATE) {
        puts("null}");
    } else {
        printf("%ld}\n", outcome->faults_steady);
    }
}

int main(int argc, char **argv)
{
    struct options options = {.seed = 1, .scale = 1.0, .limit_s = 4.0, .idle_s = 5.0};
    if (argc < 2) {
        print_usage(stderr);
        return 2;
    }
    if (strcmp(argv[1], "--help") == 0) {
        print_usage(stdout);
        return 0;
    }
    if (strcmp(argv[1], "--list") == 0) {
        list_standard_set();
        return 0;
    }

    const struct shape *shape = find_shape(argv[1]);
    size_t argument = 0;
    int next = 2;
    if (shape->arguments[0] != 0) {
        argument = next < argc ? parse_whole(argv[next++]) : 0;
        if (argument < 16) {
            usage_error("needs a number of at least 16", shape->name);
        }
    }
    for (; next < argc; next += 2) {
        parse_option(&options, argv[next], argv[next + 1]);
    }

    struct outcome outcome = {.threads = 1};
    long faults_before = minor_faults();
    shape->run(&options, argument, &outcome);
    /* In this order: the first print would allocate a buffer. */
    struct totals totals = {
        .minor_faults = minor_faults() - faults_before,
        .rss_end_kib = rss_now_kib(),
        .peak_rss_kib = rss_peak_kib(),
    };
    print_result(shape, argument, &options, &outcome, &totals);
    return 0;
}
