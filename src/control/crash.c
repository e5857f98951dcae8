#define _GNU_SOURCE
#include "control/crash.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "control/machine.h"
#include "control/place.h"
#include "os/os.h"
#include "profile/sampler.h"

enum {
    REGISTER_LINES_MOST = 8,
    LINE_MOST = 400,
    NEAR_NULL = 64 << 10, /* nothing is ever mapped below */
    STACK_AROUND =
        4
        << 10, /* an access so far below the stack pointer, or sixteen times above, is the stack's */
    WAIT_STEPS = 200, /* for another thread's report */
    WAIT_STEP_MS = 10,
    STUCK_S = 1 /* for who reads standard error, in all: the kernel subtracts */
};

/* The one thread that reports, by its process as well: what a child of vfork says is not its parent's. From none to reporting to
 * reported, and back to none where the program goes on. */
static struct {
    _Atomic int process; /* 0: none; below 0: it has reported */
    _Atomic long thread; /* written by the one that reports; 0: none, or not known yet */
} reporter;

static const char *signal_name(int number)
{
    return number == SIGSEGV ? "SIGSEGV" : "SIGBUS";
}

/* ---- lines ---- */

static bool is_mute; /* the reporter's: nobody reads, or standard error is not for lines */

static struct {
    dev_t device;
    ino_t file;
} stderr_then; /* at the start; 0, 0: there was none */

static void note_stderr(void)
{
    struct stat s;
    if (syscall(SYS_fstat, STDERR_FILENO, &s) == 0) {
        stderr_then.device = s.st_dev;
        stderr_then.file = s.st_ino;
    }
}

/* Whether what has the number of standard error, and had another at the start or none, looks like a log: a file, disk or connection of the
 * program's keeps what it has. */
static bool looks_like_log(const struct stat *s)
{
    if (!S_ISREG(s->st_mode))
        return !S_ISBLK(s->st_mode) && !S_ISSOCK(s->st_mode);
    long flags = syscall(SYS_fcntl, STDERR_FILENO, F_GETFL);
    return (flags & O_APPEND) != 0 ||
           ((flags & O_ACCMODE) == O_WRONLY &&
            syscall(SYS_lseek, STDERR_FILENO, 0, SEEK_CUR) >= s->st_size);
}

static bool is_for_lines(void)
{
    struct stat s;
    return syscall(SYS_fstat, STDERR_FILENO, &s) != 0 ||
           (s.st_dev == stderr_then.device && s.st_ino == stderr_then.file) || looks_like_log(&s);
}

/* Whether a line can be written at once: who waits for this process to end may not read meanwhile. What the wait has left of its
 * time is for the next one. */
static bool can_say(void)
{
    static struct timespec left = {.tv_sec = STUCK_S};
    struct pollfd p = {.fd = STDERR_FILENO, .events = POLLOUT};
    long got = is_mute ? 0 : syscall(SYS_ppoll, &p, 1, &left, NULL, 0);
    is_mute = got == 0 || (got > 0 && (p.revents & POLLOUT) == 0); /* a filter's answer is none */
    return !is_mute;
}

static void say(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (can_say())
        os_warn_with(format, args);
    va_end(args);
}

#ifdef DLFO_STRUCT_HAS_EH_DBASE
#pragma weak _dl_find_object

/* Of a path. */
static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

/* Names the place in a file that an address of code has, without locks; false if it has none. */
static bool code_text(uintptr_t at, char *out, size_t room)
{
    struct dl_find_object found;
    if (_dl_find_object == NULL || _dl_find_object((void *)at, &found) != 0)
        return false;
    const struct link_map *l = found.dlfo_link_map;
    const char *path = *l->l_name != '\0' ? l->l_name : (const char *)getauxval(AT_EXECFN);
    os_format(out, room, "%s+%p", path != NULL ? last_part(path) : "?", at - l->l_addr);
    return true;
}

#else

/* Other C libraries, and glibc before 2.35, cannot tell without locks. */
static bool code_text(uintptr_t at, char *out, size_t room)
{
    (void)at, (void)out, (void)room;
    return false;
}

#endif

/* Whose call it was, for blocks that the profile has sampled. */
static void say_trace(const char *what, const struct trace *t)
{
    char text[LINE_MOST] = "", frame[LINE_MOST];
    size_t n = 0;
    for (uint32_t i = 0; i < t->depth; i++) {
        if (!code_text(t->at[i] - 1, frame, sizeof frame))
            os_format(frame, sizeof frame, "%p", t->at[i]);
        n += os_format(text + n, sizeof text - n, i == 0 ? " %s" : " < %s", frame);
    }
    if (t->depth != 0)
        say("  %s by thread %u at%s", what, (size_t)t->tid, text);
}

/* A freed sample may have lain where a live block is that is none. */
static void say_story(const struct place *p)
{
    struct block_story story;
    if (!sampled_story(p->at, &story) || (story.is_freed && p->kind == PLACE_LIVE))
        return;
    say_trace("allocated", &story.allocated);
    if (story.is_freed)
        say_trace("freed", &story.freed);
}

/* All that is known of the block in which the address lies. */
static void say_place(const char *name, const char *is, const struct place *p)
{
    char text[LINE_MOST];
    place_text(p, text, sizeof text);
    say("%s %p%s %s", name, p->at, is, text);
    say_story(p);
}

static void say_instruction(const struct machine *m)
{
    char text[LINE_MOST];
    if (code_text(m->instruction, text, sizeof text))
        say("by the instruction at %p, %s", m->instruction, text);
    else
        say("by the instruction at %p", m->instruction);
    if (hak_thread.depth > 0)
        say("inside malloc or free: something has written to a free block, or past a block's end");
}

/* Who jumped to where no code is has left the address to return to, if it was a call. */
static void say_caller(const struct machine *m)
{
    char text[LINE_MOST];
    uintptr_t caller = *(const uintptr_t *)m->stack;
    if (code_text(caller, text, sizeof text))
        say("called before %p, %s", caller, text);
}

/* What lies above the pointer is the stack's only if a large frame has just moved the pointer out of it. */
static bool is_of_stack(const struct machine *m, uintptr_t at)
{
    uintptr_t most = os_readable((const void *)m->stack) ? 0 : 16 * (uintptr_t)STACK_AROUND;
    return at + STACK_AROUND >= m->stack && at < m->stack + most + 1;
}

static const char *bus_reason(int code)
{
    if (code == BUS_ADRERR)
        return "behind the end of the file that is mapped there, or no memory is left for it";
    return code == BUS_ADRALN ? "not aligned for this access" : "memory that the hardware has lost";
}

static void say_access(int number, size_t thread, const char *access, const struct place *p)
{
    const char *misuse = place_misuse(p);
    say("%s in thread %u: %s %p%s%s", signal_name(number), thread, access, p->at,
        misuse != NULL ? ": " : "", misuse != NULL ? misuse : "");
}

static void say_address(int number, int code, const struct machine *m, const struct place *p)
{
    uintptr_t at = p->at;
    if (p->kind != PLACE_FOREIGN)
        say_place("the address", " is", p);
    else if (number == SIGBUS)
        say("the address is %s", bus_reason(code));
    else if (at == 0)
        say("the address is NULL");
    else if (at < NEAR_NULL)
        say("the address is %u bytes from NULL: a null pointer was used", at);
    else if (is_of_stack(m, at))
        say("the address is at the stack pointer: the stack is full");
    else
        say("the address is not hakmem's memory");
}

/* ---- registers ---- */

static bool seen_before(const struct machine *m, size_t i)
{
    for (size_t k = 0; k < i; k++) {
        if (m->values[k] == m->values[i])
            return true;
    }
    return false;
}

static void say_register(const struct machine *m, size_t i, const struct place *p)
{
    char names[4 * MACHINE_REGISTERS_MOST + 1] = "", name[8];
    size_t n = 0;
    for (size_t k = i; k < m->registers; k++) {
        if (m->values[k] != m->values[i])
            continue;
        machine_register_name(k, name, sizeof name);
        n += os_format(names + n, sizeof names - n, n == 0 ? "%s" : " %s", name);
    }
    say_place(names, ":", p);
}

/* Pointers into blocks, but for the one that has been spoken of. Those into free blocks come first: it is they that
 * point to what is gone. Returns how many lines are left. */
static int say_registers(const struct machine *m, uintptr_t said, bool freed, int lines)
{
    for (size_t i = 0; i < m->registers && lines > 0; i++) {
        struct place p;
        place_find(&p, m->values[i]);
        if (!place_is_block(&p) || place_is_freed(&p) != freed || p.at == said || seen_before(m, i))
            continue;
        say_register(m, i, &p);
        lines--;
    }
    return lines;
}

/* ---- reports ---- */

static void report_fault(int number, const siginfo_t *info, const void *context)
{
    struct machine m;
    uintptr_t at = (uintptr_t)info->si_addr;
    machine_read(&m, context);
    size_t thread = (size_t)syscall(SYS_gettid);
    if (info->si_code == SI_KERNEL) {
        /* The processor refuses such an address before it looks for memory, and does not tell it. */
        say("%s in thread %u: a pointer that is no address", signal_name(number), thread);
    } else {
        struct place p;
        place_find(&p, at);
        say_access(number, thread, m.access, &p);
        say_address(number, info->si_code, &m, &p);
    }
    say_instruction(&m);
    int lines = say_registers(&m, at, true, REGISTER_LINES_MOST);
    (void)say_registers(&m, at, false, lines);
    if (m.instruction == at)
        say_caller(&m);
}

/* From the kernel, because of what the thread did: it will do so again. */
static bool is_fault(int number, const siginfo_t *info)
{
    return info->si_code > 0 && !(number == SIGBUS && info->si_code == BUS_MCEERR_AO);
}

static void report(int number, const siginfo_t *info, const void *context)
{
    if (is_fault(number, info))
        report_fault(number, info, context);
    else if (info->si_code <= 0)
        say("%s sent by process %u", signal_name(number), (size_t)info->si_pid);
}

/* Whether the calling thread is to report: no other one does. */
static bool report_begins(void)
{
    int process = (int)getpid(), before = load_relaxed(&reporter.process);
    do {
        if (before == process || before == -process)
            return false;
    } while (!cas_weak_acquire(&reporter.process, &before, process)); /* what the last one left */
    store_relaxed(&reporter.thread, syscall(SYS_gettid));
    is_mute = !is_for_lines();
    return true;
}

/* Release: who ends the process, or begins the next report, has what was said behind it. */
static void report_ends(int process)
{
    store_release(&reporter.process, process);
}

/* Another thread reports: ending the process now would cut it short. */
static void await_report(void)
{
    int process = (int)getpid();
    if (load_relaxed(&reporter.thread) == syscall(SYS_gettid))
        return; /* a fault in its own report */
    for (int i = 0; i < WAIT_STEPS && load_acquire(&reporter.process) == process; i++)
        os_sleep_ms(WAIT_STEP_MS);
}

/* On return a fault repeats, now with the default disposition; what was sent must be sent once more. */
static void die_as_before(int number, siginfo_t *info)
{
    struct sigaction standard;
    memset(&standard, 0, sizeof standard);
    standard.sa_handler = SIG_DFL;
    if (os_sigaction(number, &standard, NULL) != 0 ||
        (!is_fault(number, info) &&
         syscall(SYS_rt_tgsigqueueinfo, getpid(), syscall(SYS_gettid), number, info) != 0))
        syscall(SYS_exit_group, 128 + number); /* a filter refuses it */
}

/* All signals are blocked. A fault in here therefore ends the process at once, by the same signal as a rule. */
static HAK_COLD void on_crash(int number, siginfo_t *info, void *context)
{
    int saved = errno;
    if (report_begins()) {
        report(number, info, context);
        report_ends(-(int)getpid());
    } else {
        await_report();
    }
    die_as_before(number, info);
    errno = saved;
}

/* hakmem ends the program and has said why. Of any other abort nothing is said: the program has its reason. */
static HAK_COLD void after_fatal(uintptr_t address)
{
    struct place p;
    place_find(&p, address);
    if (!report_begins()) {
        await_report();
        return;
    }
    if (p.kind != PLACE_FOREIGN)
        say_place("the address", " is", &p);
    store_relaxed(&reporter.thread, 0);
    report_ends(0); /* a handler of the program's may go on */
}

bool crash_is_handler(uintptr_t handler)
{
    return handler == (uintptr_t)on_crash;
}

static void install(const struct sigaction *action, int number)
{
    struct sigaction old;
    if (os_sigaction(number, action, &old) == 0 && old.sa_handler != SIG_DFL)
        os_sigaction(number, &old, NULL); /* seldom: a library that started earlier has one */
}

/* Programs in Go that have parts in C show this. Go's runtime asks the kernel itself for the handler that it replaces, and hands on to it what
 * happens in C. */
extern const char _cgo_topofstack[] __attribute__((weak));

void crash_install(void)
{
    note_stderr();
    os_follow_fatal(after_fatal);
    if (_cgo_topofstack != NULL)
        return;
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_crash;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigfillset(&action.sa_mask);
    install(&action, SIGSEGV);
    install(&action, SIGBUS);
}
