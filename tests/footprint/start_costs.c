/* What hakmem costs a program that does next to nothing, counted in the same program with and without it.
 *
 *     start_costs pages    pages of its own in a process that holds 100 KiB, before the profile's first sample
 *     start_costs sampled  the same after samples
 *     start_costs ended    pages of the library itself where that has ended, samples included
 *     start_costs calls    system calls, before main and for the first allocations, without and with profile and
 *                          live area
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

#define LIBRARY "libhakmem"
#define OWN_SMAPS "/proc/self/smaps"

enum {
    BLOCKS = 100,
    PASSING = 16384,    /* blocks, 32 times as much as the mean distance of two samples */
    CALLS_TO_LOAD = 13, /* the loader's, for a library of five segments */
    CALLS_BEFORE_MAIN = 2,
    CALLS_TO_ALLOCATE = 8,
    CALLS_FOR_LIVE_AREA = 9,
    PAGE = 4096
};

struct pages {
    /* KiB: anonymous ones and the library's, neither the live area's nor the loader's. */
    size_t own;
    size_t area;
    size_t library; /* its segments alone */
};

enum { LIBRARY_AT_END = 76 }; /* KiB */

static const struct pages most = {72, 12, 52}, most_sampled = {112, 28, 76};

/* ---- the small program ---- */

static char *volatile blocks[BLOCKS];

static void hold(void)
{
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(1024);
        if (blocks[i] == NULL) {
            fail("malloc gave NULL");
        }
        memset(blocks[i], i + 1, 1024);
    }
}

static void let_pass(void)
{
    for (int i = 0; i < PASSING; i++) {
        free(blocks[i % BLOCKS]);
        blocks[i % BLOCKS] = malloc(1024);
    }
}

/* Anonymous pages, the stack's apart, the library's file pages, and what is attached. Nothing is allocated meanwhile. */
static struct pages resident(const char *smaps)
{
    static char text[1 << 18];
    memset(text, 0, sizeof text); /* or more mappings would make more of it resident */
    int file = open(smaps, O_RDONLY | O_CLOEXEC);
    size_t length = 0;
    for (ssize_t got; (got = read(file, text + length, sizeof text - 1 - length)) > 0;) {
        length += (size_t)got;
    }
    if (file < 0 || length == 0 || length == sizeof text - 1) {
        fail("%s: %s", smaps, strerror(errno));
    }
    close(file);
    struct pages sum = {0, 0, 0};
    size_t kib;
    bool is_library = false, is_stack = false, is_area = false;
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        if (strchr("0123456789abcdef", line[0]) != NULL) { /* names of fields begin with capitals */
            is_library = strstr(line, LIBRARY) != NULL;
            is_stack = strstr(line, "[stack]") != NULL;
            is_area = strstr(line, "/SYSV") != NULL;
        } else if (sscanf(line, "Rss: %zu", &kib) == 1 && is_area) {
            sum.area += kib;
        } else if ((sscanf(line, "Rss: %zu", &kib) == 1 && is_library) ||
                   (sscanf(line, "Anonymous: %zu", &kib) == 1 && !is_library && !is_stack &&
                    !is_area)) {
            sum.own += kib;
            sum.library += is_library ? kib : 0;
        }
    }
    return sum;
}

static size_t present_kib(int pagemap, uintptr_t first, uintptr_t end)
{
    size_t kib = 0;
    for (uintptr_t page = first / PAGE; page <= (end - 1) / PAGE; page++) {
        uint64_t entry;
        if (pread(pagemap, &entry, sizeof entry, (off_t)(page * sizeof entry)) != sizeof entry) {
            fail("/proc/self/pagemap: %s", strerror(errno));
        }
        kib += entry >> 63 != 0 ? PAGE / 1024 : 0;
    }
    return kib;
}

static int add_segments(struct dl_phdr_info *object, size_t size, void *kib)
{
    (void)size;
    if (strstr(object->dlpi_name, LIBRARY) == NULL) {
        return 0;
    }
    int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    for (size_t i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
        if (segment->p_type == PT_LOAD) {
            uintptr_t first = object->dlpi_addr + segment->p_vaddr;
            *(size_t *)kib += present_kib(pagemap, first, first + segment->p_memsz);
        }
    }
    close(pagemap);
    return 1;
}

/* Pages of the library's segments, with what follows them; 0 without it. */
static size_t resident_segments(void)
{
    size_t kib = 0;
    dl_iterate_phdr(add_segments, &kib);
    return kib;
}

/* What is there as main begins, the library's segments apart, is the loader's: it keeps names and descriptions of what it
 * loaded in pages of its own, and if that is a page more depends on the length of paths. hakmem maps nothing before main. */
static size_t loaders;

static void note_loaders(void)
{
    loaders = resident(OWN_SMAPS).own - resident_segments();
}

static struct pages own_pages(void)
{
    struct pages pages = resident(OWN_SMAPS);
    pages.own -= loaders;
    return pages;
}

/* ---- the small program seen from outside ---- */

static void become(const char *scene, const char *preload)
{
    preload == NULL ? unsetenv("LD_PRELOAD") : setenv("LD_PRELOAD", preload, 1);
    execl("/proc/self/exe", "start_costs", scene, (char *)NULL);
    fail("exec: %s", strerror(errno));
}

static struct pages pages_with(const char *scene, const char *preload)
{
    int ends[2];
    pid_t child = pipe(ends) == 0 ? fork() : -1;
    if (child < 0) {
        fail("pipe or fork: %s", strerror(errno));
    }
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        become(scene, preload);
    }
    close(ends[1]);
    struct pages pages = {0, 0, 0};
    ssize_t got = read(ends[0], &pages, sizeof pages);
    close(ends[0]);
    int status;
    if (waitpid(child, &status, 0) != child || status != 0 || got != (ssize_t)sizeof pages) {
        fail("the small program did not report");
    }
    return pages;
}

static pid_t start_traced(const char *scene, const char *preload)
{
    pid_t child = fork();
    if (child < 0) {
        fail("fork: %s", strerror(errno));
    }
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) {
            _exit(EXIT_SKIPPED);
        }
        become(scene, preload);
    }
    return child;
}

/* Its next stop. False: it has ended. */
static bool await_stop(pid_t child, int *status)
{
    if (waitpid(child, status, 0) != child) {
        fail("waitpid: %s", strerror(errno));
    }
    if (WIFEXITED(*status) && WEXITSTATUS(*status) == EXIT_SKIPPED) {
        skip("processes may not be traced here");
    }
    return WIFSTOPPED(*status);
}

static void trace_on(pid_t child, enum __ptrace_request how)
{
    if (ptrace(how, child, NULL, NULL) != 0) {
        skip("ptrace: %s", strerror(errno));
    }
}

static size_t calls_with(const char *scene, const char *preload)
{
    pid_t child = start_traced(scene, preload);
    size_t stops = 0;
    for (int status; await_stop(child, &status); trace_on(child, PTRACE_SYSCALL)) {
        stops += WSTOPSIG(status) == SIGTRAP;
    }
    return stops / 2; /* one as it is entered, one as it returns */
}

/* As it has nothing left to do but to go. */
static struct pages pages_at_end(const char *scene, const char *preload)
{
    struct pages pages = {0, 0, 0};
    char smaps[32];
    pid_t child = start_traced(scene, preload);
    (void)snprintf(smaps, sizeof smaps, "/proc/%d/smaps", (int)child);
    int status;
    if (!await_stop(child, &status) ||
        ptrace(PTRACE_SETOPTIONS, child, NULL, PTRACE_O_TRACEEXIT) != 0) {
        skip("ptrace: %s", strerror(errno));
    }
    for (trace_on(child, PTRACE_CONT); await_stop(child, &status); trace_on(child, PTRACE_CONT)) {
        if (status >> 8 == (SIGTRAP | PTRACE_EVENT_EXIT << 8)) {
            pages = resident(smaps);
        }
    }
    return pages;
}

/* ---- verdicts ---- */

/* Least of some runs: in one of six the first sample comes early. */
enum { RUNS = 8 };

static struct pages least_pages_with(const char *scene, const char *library)
{
    struct pages least = {SIZE_MAX, SIZE_MAX, SIZE_MAX};
    for (int i = 0; i < RUNS; i++) {
        struct pages pages = pages_with(scene, library);
        least.own = pages.own < least.own ? pages.own : least.own;
        least.area = pages.area < least.area ? pages.area : least.area;
        least.library = pages.library < least.library ? pages.library : least.library;
    }
    return least;
}

static void check_pages(const char *scene, const char *library, struct pages bound)
{
    if (sysconf(_SC_PAGESIZE) != PAGE) {
        skip("the bound is for pages of 4 KiB");
    }
    struct pages with = least_pages_with(scene, library), without = least_pages_with(scene, NULL);
    note(
        "%zu KiB of its own beside 100 KiB of blocks, %zu of them the library, and %zu KiB of the live area",
        with.own - without.own, with.library, with.area);
    if (with.area == 0) {
        skip("no live area: shared memory is not to be had here");
    }
    if (with.own > without.own + bound.own) {
        fail("more than %zu KiB of its own", bound.own);
    }
    if (with.area > bound.area) {
        fail("more than %zu KiB of the live area", bound.area);
    }
    if (with.library > bound.library) {
        fail("more than %zu KiB of the library", bound.library);
    }
}

static void check_end(const char *scene, const char *library)
{
    size_t least = SIZE_MAX;
    for (int i = 0; i < RUNS; i++) {
        size_t kib = pages_at_end(scene, library).library;
        least = kib < least ? kib : least;
    }
    note("%zu KiB of the library at the end", least);
    if (least == 0 || least > LIBRARY_AT_END) {
        fail("none, or more than %d KiB", LIBRARY_AT_END);
    }
}

static size_t least_calls_with(const char *scene, const char *library)
{
    size_t least = SIZE_MAX;
    for (int i = 0; i < RUNS; i++) {
        size_t calls = calls_with(scene, library);
        least = calls < least ? calls : least;
    }
    return least;
}

static void check_calls(const char *library, size_t to_allocate)
{
    size_t nothing = calls_with("idle", NULL), idle = calls_with("idle", library),
           holding = least_calls_with("hold", library);
    note("%zu system calls before main (loading included), %zu for the first allocations",
         idle - nothing, holding - idle);
    if (idle > nothing + CALLS_TO_LOAD + CALLS_BEFORE_MAIN) {
        fail("more than %d before main", CALLS_TO_LOAD + CALLS_BEFORE_MAIN);
    }
    if (holding > idle + to_allocate) {
        fail("more than %zu to allocate", to_allocate);
    }
}

static int report(void)
{
    struct pages pages = own_pages();
    return write(STDOUT_FILENO, &pages, sizeof pages) == (ssize_t)sizeof pages ? 0 : 1;
}

int main(int argc, char **argv)
{
    const char *scene = argc == 2 ? argv[1] : "", *library = getenv("LD_PRELOAD");
    if (strcmp(scene, "idle") == 0) {
        return 0;
    }
    if (strcmp(scene, "hold") == 0) {
        hold();
        return 0;
    }
    if (strcmp(scene, "pass") == 0) {
        hold();
        let_pass();
        return 0;
    }
    if (strcmp(scene, "hold_and_report") == 0) {
        note_loaders();
        hold();
        return report();
    }
    if (strcmp(scene, "pass_and_report") == 0) {
        note_loaders();
        hold();
        let_pass();
        return report();
    }
    if (library == NULL || *library == '\0') {
        skip("nothing is preloaded: nothing to compare");
    }
    if (strcmp(scene, "pages") == 0) {
        check_pages("hold_and_report", library, most);
    } else if (strcmp(scene, "sampled") == 0) {
        check_pages("pass_and_report", library, most_sampled);
    } else if (strcmp(scene, "ended") == 0) {
        check_end("pass", library);
    } else if (strcmp(scene, "calls") == 0) {
        check_calls(library, CALLS_TO_ALLOCATE + CALLS_FOR_LIVE_AREA);
        setenv("HAKMEM_LIVE", "0", 1);
        setenv("HAKMEM_PROFILE", "0", 1);
        check_calls(library, CALLS_TO_ALLOCATE);
    } else {
        fail("which one: pages, sampled, ended or calls?");
    }
    return 0;
}
