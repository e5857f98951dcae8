/*
 * What the crash log leaves as it was: what the program sees of its signals' actions, its files, its end. Each check runs in a child.
 * Built once more with IS_GO, and shows then what programs in Go show that have parts in C.
 */
#include "../abi/abi_check.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "interposer.h"

#ifdef IS_GO
__attribute__((visibility("default"))) const char _cgo_topofstack[1] = "";
enum { HAS_LOG = 0 };
#else
enum { HAS_LOG = 1 };
#endif

static void ignore(int number)
{
    (void)number;
}

static void fault(void)
{
    *(volatile char *)opaque((void *)16) = 1;
}

/* As the kernel has it. */
static bool has_handler(int number)
{
    struct {
        void (*handler)(int);
        unsigned long flags, restorer, mask;
    } action;
    CHECK(syscall(SYS_rt_sigaction, number, NULL, &action, sizeof action.mask) == 0);
    return action.handler != SIG_DFL;
}

static void installed(void)
{
    CHECK(has_handler(SIGSEGV) == HAS_LOG && has_handler(SIGBUS) == HAS_LOG);
    CHECK(!has_handler(SIGABRT));
}

static void unseen_by_sigaction(void)
{
    static const int numbers[] = {SIGSEGV, SIGBUS, SIGABRT};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        struct sigaction own = {.sa_handler = ignore}, old = own;
        CHECK(sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL);
        CHECK(old.sa_flags == 0);
        old = own;
        CHECK(sigaction(numbers[i], &own, &old) == 0 && old.sa_handler == SIG_DFL);
        CHECK(sigaction(numbers[i], &old, &own) == 0 && own.sa_handler == ignore);
        CHECK(!has_handler(numbers[i]));
    }
    CHECK(sigaction(-1, NULL, NULL) == -1 && errno == EINVAL);
}

extern void (*__sysv_signal(int number, void (*handler)(int)))(int);

static void unseen_by_signal(void)
{
    CHECK(signal(SIGSEGV, ignore) == SIG_DFL && signal(SIGSEGV, SIG_DFL) == ignore);
    CHECK(__sysv_signal(SIGBUS, ignore) == SIG_DFL && __sysv_signal(SIGBUS, SIG_DFL) == ignore);
    CHECK(signal(-1, ignore) == SIG_ERR && errno == EINVAL);
}

static void others_see_what_the_program_does(void)
{
    struct sigaction action;
    int before = calls_seen();
    CHECK(sigaction(SIGUSR1, NULL, &action) == 0 && calls_seen() == before + 1);
    CHECK(signal(SIGUSR1, ignore) == SIG_DFL && calls_seen() == before + 2);
}

/* What the child that runs `what` ends with. */
static int status_of(void (*what)(void))
{
    int status;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        what();
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    return status;
}

static bool is_killed(int status)
{
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV;
}

/* ---- files that have got the number of standard error ---- */

static char name[] = "/tmp/hakmem-signals-XXXXXX";
static int file_flags;

static void fault_with_file(void)
{
    CHECK(close(STDERR_FILENO) == 0 && open(name, file_flags) == STDERR_FILENO);
    fault();
}

/* How long the file is that had four bytes. */
static off_t length_after_fault(int flags)
{
    struct stat s;
    int fd = mkstemp(name);
    CHECK(fd >= 0 && write(fd, "data", 4) == 4);
    file_flags = flags;
    CHECK(is_killed(status_of(fault_with_file)));
    char kept[4];
    CHECK(pread(fd, kept, 4, 0) == 4 && memcmp(kept, "data", 4) == 0);
    CHECK(fstat(fd, &s) == 0 && unlink(name) == 0 && close(fd) == 0);
    memcpy(strrchr(name, '-'), "-XXXXXX", 7);
    return s.st_size;
}

static void files_keep_their_content(void)
{
    CHECK(length_after_fault(O_RDWR) == 4);
    CHECK((length_after_fault(O_RDWR | O_APPEND) > 4) == HAS_LOG);
    CHECK(length_after_fault(O_WRONLY) == 4);
    CHECK((length_after_fault(O_WRONLY | O_APPEND) > 4) == HAS_LOG);
}

static int ends[2];

static void fault_with_end(void)
{
    CHECK(dup2(ends[1], STDERR_FILENO) == STDERR_FILENO);
    fault();
}

static void connection_gets_nothing(void)
{
    char byte;
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    CHECK(is_killed(status_of(fault_with_end)) && close(ends[1]) == 0);
    CHECK(read(ends[0], &byte, 1) == 0);
}

static void fault_from_the_start(void)
{
    CHECK(dup2(ends[1], STDERR_FILENO) == STDERR_FILENO);
    execl("/proc/self/exe", "signals", "fault", NULL);
}

/* As Python's subprocess has it for a TemporaryFile. */
static void file_of_the_start_gets_lines(void)
{
    struct stat s;
    ends[1] = mkstemp(name);
    CHECK(ends[1] >= 0 && unlink(name) == 0 && write(ends[1], "data", 4) == 4);
    CHECK(lseek(ends[1], 0, SEEK_SET) == 0 && is_killed(status_of(fault_from_the_start)));
    CHECK(fstat(ends[1], &s) == 0 && (s.st_size > 4) == HAS_LOG);
}

/* ---- who waits for the end, and does not read ---- */

static void full_pipe_does_not_matter(void)
{
    static const char some[4096];
    CHECK(pipe2(ends, O_NONBLOCK) == 0);
    while (write(ends[1], some, sizeof some) > 0)
        ;
    CHECK(errno == EAGAIN && fcntl(ends[1], F_SETFL, 0) == 0);
    CHECK(is_killed(status_of(fault_with_end)));
}

/* ---- a child of vfork ---- */

static void fault_after_child(void)
{
    int status;
    CHECK(dup2(ends[1], STDERR_FILENO) == STDERR_FILENO);
    pid_t child = vfork();
    if (child == 0)
        fault();
    CHECK(waitpid(child, &status, 0) == child && is_killed(status));
    fault();
}

/* How many faults are reported into a pipe by a child that runs `what`. */
static int reports_of(void (*what)(void))
{
    char text[8192];
    int reports = 0;
    CHECK(pipe2(ends, O_NONBLOCK) == 0 && is_killed(status_of(what)));
    ssize_t length = read(ends[0], text, sizeof text - 1);
    text[length > 0 ? length : 0] = '\0';
    for (char *at = text; (at = strstr(at, "SIGSEGV in thread ")) != NULL; at++)
        reports++;
    return reports;
}

static void both_report(void)
{
    CHECK(reports_of(fault_after_child) == 2 * HAS_LOG);
}

/* ---- a program that goes on after an abort, as some tests do ---- */

static sigjmp_buf before_abort;

static void go_on(int number)
{
    (void)number;
    siglongjmp(before_abort, 1);
}

static void fault_after_abort(void)
{
    CHECK(dup2(ends[1], STDERR_FILENO) == STDERR_FILENO && signal(SIGABRT, go_on) == SIG_DFL);
    if (sigsetjmp(before_abort, 1) == 0) {
        char *block = malloc(300000);
        CHECK(block != NULL);
        free(block);
        free(opaque(block));
    }
    fault();
}

static void abort_and_fault_report(void)
{
    CHECK(reports_of(fault_after_abort) == HAS_LOG);
}

int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1)
        fault();
    static void (*const checks[])(void) = {
        installed,
#ifdef __GLIBC__
        unseen_by_sigaction,
        unseen_by_signal,
#endif
        others_see_what_the_program_does,
        files_keep_their_content,
        connection_gets_nothing,
        file_of_the_start_gets_lines,
        full_pipe_does_not_matter,
        both_report,
        abort_and_fault_report,
    };
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++) {
        int status = status_of(checks[i]);
        if (status != 0) {
            fprintf(stderr, "check %zu ends with status %#x\n", i, (unsigned)status);
            return 1;
        }
    }
    return 0;
}
