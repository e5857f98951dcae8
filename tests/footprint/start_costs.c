/* What hakmem costs a program that does next to nothing, counted in the same program with and without it.
 *
 *     start_costs pages    pages of its own in a process that holds 100 KiB, before the profile's first sample
 *     start_costs sampled  the same after samples
 *     start_costs calls    system calls, before main and for the first allocations
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

enum {
    BLOCKS = 100,
    OWN_KIB_MOST = 100,
    OWN_KIB_SAMPLED_MOST = 200,
    CALLS_TO_LOAD = 13, /* the loader's, for a library of five segments */
    CALLS_BEFORE_MAIN = 2,
    CALLS_TO_ALLOCATE = 19, /* eleven of them for the live area */
    PAGE = 4096
};

/* ---- the small program ---- */

static void hold(void)
{
    static char *volatile blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(1024);
        if (blocks[i] == NULL) {
            fail("malloc gave NULL");
        }
        memset(blocks[i], i + 1, 1024);
    }
}

/* Anonymous pages, the stack's apart, and the library's file pages. Nothing is allocated meanwhile. */
static size_t own_kib(void)
{
    static char text[1 << 18];
    int file = open("/proc/self/smaps", O_RDONLY | O_CLOEXEC);
    size_t length = 0;
    for (ssize_t got; (got = read(file, text + length, sizeof text - 1 - length)) > 0;) {
        length += (size_t)got;
    }
    if (file < 0 || length == 0 || length == sizeof text - 1) {
        fail("/proc/self/smaps: %s", strerror(errno));
    }
    size_t sum = 0, kib;
    bool is_library = false, is_stack = false;
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        if (strchr("0123456789abcdef", line[0]) != NULL) { /* names of fields begin with capitals */
            is_library = strstr(line, "libhakmem") != NULL;
            is_stack = strstr(line, "[stack]") != NULL;
        } else if ((sscanf(line, "Rss: %zu", &kib) == 1 && is_library) ||
                   (sscanf(line, "Anonymous: %zu", &kib) == 1 && !is_library && !is_stack)) {
            sum += kib;
        }
    }
    return sum;
}

/* ---- the small program seen from outside ---- */

static void become(const char *scene, const char *preload)
{
    preload == NULL ? unsetenv("LD_PRELOAD") : setenv("LD_PRELOAD", preload, 1);
    execl("/proc/self/exe", "start_costs", scene, (char *)NULL);
    fail("exec: %s", strerror(errno));
}

static size_t pages_with(const char *preload)
{
    int ends[2];
    pid_t child = pipe(ends) == 0 ? fork() : -1;
    if (child < 0) {
        fail("pipe or fork: %s", strerror(errno));
    }
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        become("hold_and_report", preload);
    }
    close(ends[1]);
    size_t kib = 0;
    ssize_t got = read(ends[0], &kib, sizeof kib);
    close(ends[0]);
    int status;
    if (waitpid(child, &status, 0) != child || status != 0 || got != (ssize_t)sizeof kib) {
        fail("the small program did not report");
    }
    return kib;
}

static size_t calls_with(const char *scene, const char *preload)
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
    size_t stops = 0;
    for (int status;;) {
        if (waitpid(child, &status, 0) != child) {
            fail("waitpid: %s", strerror(errno));
        }
        if (WIFEXITED(status) || WIFSIGNALED(status)) {
            if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SKIPPED) {
                skip("processes may not be traced here");
            }
            return stops / 2; /* one as it is entered, one as it returns */
        }
        stops += WSTOPSIG(status) == SIGTRAP;
        if (ptrace(PTRACE_SYSCALL, child, NULL, NULL) != 0) {
            skip("ptrace: %s", strerror(errno));
        }
    }
}

/* ---- verdicts ---- */

/* The least of some runs: in one of six the first sample comes early. */
static size_t least_pages_with(const char *library)
{
    enum { RUNS = 8 };
    size_t least = SIZE_MAX;
    for (int i = 0; i < RUNS; i++) {
        size_t kib = pages_with(library);
        least = kib < least ? kib : least;
    }
    return least;
}

static void check_pages(const char *library, size_t most)
{
    if (sysconf(_SC_PAGESIZE) != PAGE) {
        skip("the bound is for pages of 4 KiB");
    }
    size_t with = least_pages_with(library), without = least_pages_with(NULL);
    note("%zu KiB of its own beside 100 KiB of blocks", with - without);
    if (with > without + most) {
        fail("more than %zu KiB", most);
    }
}

static void check_calls(const char *library)
{
    size_t nothing = calls_with("idle", NULL), idle = calls_with("idle", library),
           holding = calls_with("hold", library);
    note("%zu system calls before main (loading included), %zu for the first allocations",
         idle - nothing, holding - idle);
    if (idle > nothing + CALLS_TO_LOAD + CALLS_BEFORE_MAIN) {
        fail("more than %d before main", CALLS_TO_LOAD + CALLS_BEFORE_MAIN);
    }
    if (holding > idle + CALLS_TO_ALLOCATE) {
        fail("more than %d to allocate", CALLS_TO_ALLOCATE);
    }
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
    if (strcmp(scene, "hold_and_report") == 0) {
        hold();
        size_t kib = own_kib();
        return write(STDOUT_FILENO, &kib, sizeof kib) == (ssize_t)sizeof kib ? 0 : 1;
    }
    if (library == NULL || *library == '\0') {
        skip("nothing is preloaded: nothing to compare");
    }
    if (strcmp(scene, "pages") == 0) {
        check_pages(library, OWN_KIB_MOST);
    } else if (strcmp(scene, "sampled") == 0) {
        setenv("HAKMEM_PROFILE_INTERVAL", "10K", 1);
        check_pages(library, OWN_KIB_SAMPLED_MOST);
    } else if (strcmp(scene, "calls") == 0) {
        check_calls(library);
    } else {
        fail("which one: pages, sampled or calls?");
    }
    return 0;
}
