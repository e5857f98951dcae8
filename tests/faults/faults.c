/* A library to preload before hakmem: it stands between hakmem and eleven functions of libc, counts
 * the calls that hakmem makes (and nobody else's) and does something at a chosen one.
 *
 *     FAULT_LIBRARY  part of the name of the library whose calls count; without it none does
 *     FAULT_ACTION   what is done there: fail, the call fails (what is done unless it is said); fork, a child goes on
 *                    from there, which has to end well; signal, a handler allocates and frees before the call
 *     FAULT_CALL     name of the function at which it is done; without it at none
 *     FAULT_K        at which of its calls, counted from 1
 *     FAULT_MODE     once, or forever: at that call and all after it
 *     FAULT_ERRNO    ENOMEM or EINVAL
 *     FAULT_CLOCK    how many readings of the clock lie between two of its jumps, by up to two days; 0: none
 *     FAULT_REPORT   file to which "NAME CALLS DONE" is appended per function when the process ends
 *
 * hakmem allocates before libc's own environment exists, so the settings are read from /proc, and
 * nothing here may allocate.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* What mmap and mremap return when they fail; <sys/mman.h> would fix their prototypes. */
#define NO_MAPPING ((void *)-1)

/* name, type, value on failure, parameters, the real call */
#define FAULT_CALLS(X)                                                                             \
    X(mmap, void *, NO_MAPPING,                                                                    \
      (void *address, size_t length, int protection, int flags, int file, off_t offset),           \
      (void *)syscall(SYS_mmap, address, length, protection, flags, file, offset))                 \
    X(munmap, int, -1, (void *address, size_t length), (int)syscall(SYS_munmap, address, length))  \
    X(madvise, int, -1, (void *address, size_t length, int advice),                                \
      (int)syscall(SYS_madvise, address, length, advice))                                          \
    X(mprotect, int, -1, (void *address, size_t length, int protection),                           \
      (int)syscall(SYS_mprotect, address, length, protection))                                     \
    X(mremap, void *, NO_MAPPING,                                                                  \
      (void *old, size_t old_length, size_t length, int flags, void *target),                      \
      (void *)syscall(SYS_mremap, old, old_length, length, flags, target))                         \
    X(shmget, int, -1, (key_t key, size_t length, int flags),                                      \
      (int)syscall(SYS_shmget, key, length, flags))                                                \
    X(shmat, void *, NO_MAPPING, (int id, const void *address, int flags),                         \
      (void *)syscall(SYS_shmat, id, address, flags))                                              \
    X(getrandom, ssize_t, -1, (void *bytes, size_t length, unsigned flags),                        \
      syscall(SYS_getrandom, bytes, length, flags))                                                \
    X(sched_getaffinity, int, -1, (pid_t process, size_t size, void *set),                         \
      real_sched_getaffinity(process, size, set))                                                  \
    X(prctl, int, -1,                                                                              \
      (int what, unsigned long a, unsigned long b, unsigned long c, unsigned long d),              \
      (int)syscall(SYS_prctl, what, a, b, c, d))                                                   \
    X(pthread_create, int, EAGAIN,                                                                 \
      (pthread_t * thread, const pthread_attr_t *attributes, void *(*body)(void *),                \
       void *argument),                                                                            \
      real_pthread_create(thread, attributes, body, argument))

#define CALL_ENUM(name, type, failure, parameters, real) CALL_##name,
#define CALL_NAME(name, type, failure, parameters, real) #name,

enum call { FAULT_CALLS(CALL_ENUM) CALL_COUNT };

static const char *const call_names[CALL_COUNT] = {FAULT_CALLS(CALL_NAME)};
static atomic_ulong calls_made[CALL_COUNT];
static atomic_ulong calls_met[CALL_COUNT];

enum { RANGES_MOST = 8 };

enum action { FAIL, FORK, SIGNAL };

static struct {
    enum action action;
    int call; /* CALL_COUNT: none */
    unsigned long k;
    bool forever;
    int error;
    unsigned long clock_jumps; /* one in so many readings; 0: none */
    const char *library;
    const char *report;
    struct {
        uintptr_t from, to;
    } code[RANGES_MOST]; /* of the library whose calls count */
    size_t code_ranges;
} plan = {.call = CALL_COUNT};

static char environment[65536]; /* "NAME=VALUE\0NAME=VALUE\0" */
static pthread_once_t plan_once = PTHREAD_ONCE_INIT;

static void environment_read(void)
{
    long file = syscall(SYS_openat, AT_FDCWD, "/proc/self/environ", O_RDONLY | O_CLOEXEC);
    size_t used = 0;
    long got;
    while (file >= 0 &&
           (got = syscall(SYS_read, file, environment + used, sizeof environment - 2 - used)) > 0) {
        used += (size_t)got;
    }
    syscall(SYS_close, file);
}

static const char *setting(const char *name)
{
    size_t length = strlen(name);
    for (const char *entry = environment; *entry != '\0'; entry += strlen(entry) + 1) {
        if (strncmp(entry, name, length) == 0 && entry[length] == '=') {
            return entry + length + 1;
        }
    }
    return "";
}

static int note_code(struct dl_phdr_info *object, size_t size, void *unused)
{
    (void)size;
    (void)unused;
    if (*plan.library == '\0' || strstr(object->dlpi_name, plan.library) == NULL) {
        return 0;
    }
    for (size_t i = 0; i < object->dlpi_phnum && plan.code_ranges < RANGES_MOST; i++) {
        const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
        if (segment->p_type == PT_LOAD && (segment->p_flags & PF_X) != 0) {
            uintptr_t from = object->dlpi_addr + segment->p_vaddr;
            plan.code[plan.code_ranges].from = from;
            plan.code[plan.code_ranges++].to = from + segment->p_memsz;
        }
    }
    return 0;
}

/* Of each kind of block one is made, resized and freed. They may be refused, where memory is. */
static void use_memory(int signal)
{
    static const size_t sizes[] = {24, 1000, 20000, 70000, 900000, 2500000};
    int saved_errno = errno;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        unsigned char *block = malloc(sizes[i]);
        if (block == NULL) {
            continue;
        }
        block[0] = block[sizes[i] - 1] = (unsigned char)signal;
        unsigned char *larger = realloc(block, 2 * sizes[i]);
        block = larger != NULL ? larger : block;
        if (block[0] != signal || block[sizes[i] - 1] != signal) {
            _exit(EXIT_FAILURE);
        }
        free(block);
    }
    errno = saved_errno;
}

static void plan_make(void)
{
    environment_read();
    plan.library = setting("FAULT_LIBRARY");
    plan.report = setting("FAULT_REPORT");
    plan.k = strtoul(setting("FAULT_K"), NULL, 10);
    plan.forever = strcmp(setting("FAULT_MODE"), "forever") == 0;
    plan.action = strcmp(setting("FAULT_ACTION"), "fork") == 0     ? FORK
                  : strcmp(setting("FAULT_ACTION"), "signal") == 0 ? SIGNAL
                                                                   : FAIL;
    plan.clock_jumps = strtoul(setting("FAULT_CLOCK"), NULL, 10);
    plan.error = strcmp(setting("FAULT_ERRNO"), "EINVAL") == 0 ? EINVAL : ENOMEM;
    for (int i = 0; i < CALL_COUNT; i++) {
        if (strcmp(setting("FAULT_CALL"), call_names[i]) == 0) {
            plan.call = i;
        }
    }
    dl_iterate_phdr(note_code, NULL);
    if (plan.action == SIGNAL) {
        static const struct sigaction action = {.sa_handler = use_memory};
        sigaction(SIGUSR2, &action, NULL);
    }
}

static bool counts(uintptr_t caller)
{
    for (size_t i = 0; i < plan.code_ranges; i++) {
        if (caller >= plan.code[i].from && caller < plan.code[i].to) {
            return true;
        }
    }
    return false;
}

/* The child has what the call was made for still before it. */
static void fork_here(void)
{
    enum { SECONDS_MOST = 60 };
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        alarm(SECONDS_MOST);
        plan.call = CALL_COUNT;
        plan.report = "";
        use_memory(1);
        return;
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        dprintf(STDERR_FILENO, "FAILED: a child ended with wait status %#x\n", (unsigned)status);
        _exit(EXIT_FAILURE);
    }
}

/* Whether the call shall fail; errno says how. */
static bool act(enum call call)
{
    /* What is done makes calls, too. */
    static _Thread_local __attribute__((tls_model("initial-exec"))) bool acting;
    if (acting) {
        return false;
    }
    acting = true;
    atomic_fetch_add(&calls_met[call], 1);
    int saved_errno = errno;
    switch (plan.action) {
    case FORK:
        fork_here();
        break;
    case SIGNAL:
        pthread_kill(pthread_self(), SIGUSR2);
        break;
    default:
        saved_errno = plan.error;
        break;
    }
    errno = saved_errno;
    acting = false;
    return plan.action == FAIL;
}

static bool must_fail(enum call call, void *caller)
{
    int saved_errno = errno;
    pthread_once(&plan_once, plan_make);
    errno = saved_errno;
    if (!counts((uintptr_t)caller)) {
        return false;
    }
    unsigned long number = atomic_fetch_add(&calls_made[call], 1) + 1;
    if ((int)call != plan.call || number < plan.k || (number > plan.k && !plan.forever)) {
        return false;
    }
    return act(call);
}

static int real_pthread_create(pthread_t *thread, const pthread_attr_t *attributes,
                               void *(*body)(void *), void *argument)
{
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *) =
        (int (*)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *))dlsym(
            RTLD_NEXT, "pthread_create");
    return real(thread, attributes, body, argument);
}

/* libc's returns 0 and clears what the kernel did not write; the kernel's returns a length. */
static int real_sched_getaffinity(pid_t process, size_t size, void *set)
{
    long written = syscall(SYS_sched_getaffinity, process, size, set);
    if (written < 0) {
        return -1;
    }
    memset((char *)set + written, 0, size - (size_t)written);
    return 0;
}

/* The symbol names are given separately: libc's prototypes differ in "..." and attributes. */
#define CALL_DEFINE(name, type, failure, parameters, real)                                         \
    type fault_##name parameters __asm__(#name) __attribute__((visibility("default")));            \
    type fault_##name parameters                                                                   \
    {                                                                                              \
        return must_fail(CALL_##name, __builtin_return_address(0)) ? failure : real;               \
    }

FAULT_CALLS(CALL_DEFINE)

/* ---- the clock ---- */

static atomic_ulong clock_readings; /* of which all could have jumped */

int fault_clock_gettime(clockid_t clock, struct timespec *now) __asm__("clock_gettime")
    __attribute__((visibility("default")));

int fault_clock_gettime(clockid_t clock, struct timespec *now)
{
    enum { HOURS_MOST = 48, SECONDS_PER_HOUR = 3600, PAST_S = 200000 };
    int result = (int)syscall(SYS_clock_gettime, clock, now);
    pthread_once(&plan_once, plan_make);
    if (result == 0 && plan.clock_jumps != 0 && counts((uintptr_t)__builtin_return_address(0))) {
        unsigned long jump = atomic_fetch_add(&clock_readings, 1) / plan.clock_jumps;
        /* Forth and back, by hours and fractions of them, and at times not at all; by 2^64 / the golden ratio. */
        unsigned long draw = jump * 0x9e3779b97f4a7c15u >> 32;
        now->tv_sec += PAST_S + (long)(draw % (HOURS_MOST * SECONDS_PER_HOUR));
    }
    return result;
}

/* The same function under the name that 64-bit file offsets give it. */
void *fault_mmap64(void *address, size_t length, int protection, int flags, int file,
                   off_t offset) __asm__("mmap64")
    __attribute__((alias("mmap"), visibility("default")));

__attribute__((destructor)) static void report_write(void)
{
    pthread_once(&plan_once, plan_make);
    if (*plan.report == '\0') {
        return;
    }
    char text[1024];
    unsigned long readings = atomic_load(&clock_readings);
    unsigned long jumps = plan.clock_jumps != 0 ? readings / plan.clock_jumps : 0;
    size_t used = (size_t)snprintf(text, sizeof text, "clock_gettime %lu %lu\n", readings, jumps);
    for (int i = 0; i < CALL_COUNT; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "%s %lu %lu\n", call_names[i],
                                 atomic_load(&calls_made[i]), atomic_load(&calls_met[i]));
    }
    int file = open(plan.report, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (file < 0 || write(file, text, used) != (ssize_t)used) {
        _exit(EXIT_FAILURE);
    }
    close(file);
}
