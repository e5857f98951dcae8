#define _GNU_SOURCE
#include "os/os.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <time.h>
#include <unistd.h>

#include "base/atomic.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

size_t os_page_size(void)
{
    return (size_t)getauxval(AT_PAGESZ);
}

/* What is seldom called, by number: each name asked of the C library takes 60 bytes in every process. */
size_t os_physical_memory(void)
{
    int saved = errno;
    struct sysinfo info;
    size_t bytes = syscall(SYS_sysinfo, &info) == 0 ? (size_t)info.totalram * info.mem_unit : 0;
    errno = saved;
    return bytes;
}

static size_t bytes_of(rlim_t limit)
{
    return limit == RLIM_INFINITY ? SIZE_MAX : (size_t)limit;
}

struct os_limit os_address_limit(void)
{
    int saved = errno;
    struct rlimit limit;
    struct os_limit bytes = {SIZE_MAX, SIZE_MAX};
    if (syscall(SYS_prlimit64, 0, RLIMIT_AS, NULL, &limit) == 0)
        bytes = (struct os_limit){bytes_of(limit.rlim_cur), bytes_of(limit.rlim_max)};
    errno = saved;
    return bytes;
}

/* The kernel gives every process 16 random bytes. glibc uses the first eight as canary, the others to mangle pointers: of neither may an
 * address say anything. Each secret takes all 128 bits to 64; it takes two of them to tell a third. The multipliers are SplitMix64's
 * (Steele, Lea, Flood, 2014). */
uintptr_t os_secret(enum os_secret_of which)
{
    uint64_t both[2] = {0}, mixed;
    const void *bytes = (const void *)getauxval(AT_RANDOM);
    if (bytes != NULL)
        memcpy(both, bytes, sizeof both);
    mixed = (both[0] ^ both[1] >> 32) * UINT64_C(0xbf58476d1ce4e5b9) + both[1] * (2 * which + 1);
    mixed = (mixed ^ mixed >> 29) * UINT64_C(0x94d049bb133111eb);
    return (uintptr_t)(mixed ^ mixed >> 32);
}

uint32_t os_thread_id(void)
{
    return (uint32_t)syscall(SYS_gettid);
}

uint64_t os_now_ms(void)
{
    int saved = errno;
    struct timespec now = {0, 0};
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    errno = saved;
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

HAK_COLD void os_sleep_ms(uint32_t ms)
{
    int saved = errno;
    const struct timespec span = {ms / 1000, (long)(ms % 1000) * 1000000};
    (void)syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &span, NULL);
    errno = saved;
}

static enum os_result map_at(void *at, size_t size, int access)
{
    int saved = errno;
    void *got = mmap(at, size, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    enum os_result result = OS_OK;
    if (got == MAP_FAILED) {
        result = errno == EEXIST ? OS_TAKEN : OS_NO_MEMORY;
    } else if (got != at) {
        /* A kernel before 4.17 takes the flag for a hint and put it elsewhere. */
        munmap(got, size);
        result = OS_TAKEN;
    }
    errno = saved;
    return result;
}

enum os_result os_map_at(void *at, size_t size)
{
    return map_at(at, size, PROT_READ | PROT_WRITE);
}

enum os_result os_map_to_read(void *at, size_t size)
{
    return map_at(at, size, PROT_READ);
}

void *os_reserve(size_t size)
{
    int saved = errno;
    void *got = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    errno = saved;
    return got == MAP_FAILED ? NULL : got;
}

void *os_share(size_t size)
{
    int saved = errno;
    void *at = (void *)-1;
    /* Where a filter refuses to remove any it would be left for good: asked of none, the kernel itself finds it invalid. */
    int id = shmctl(-1, IPC_RMID, NULL) != 0 && errno == EINVAL
                 ? shmget(IPC_PRIVATE, size, IPC_CREAT | SHM_NORESERVE | 0600)
                 : -1;
    if (id >= 0) {
        at = shmat(id, NULL, 0);
        (void)shmctl(id, IPC_RMID, NULL); /* when the last process lets go of it: first of all */
        /* Whoever made it may read it as well as its owner, so that need not be this moment's user. */
        struct shmid_ds to = {.shm_perm = {.uid = (uid_t)getauxval(AT_EUID),
                                           .gid = (gid_t)getauxval(AT_EGID),
                                           .mode = 0400}};
        /* From now on others may read it, unless they take another right first. */
        (void)shmctl(id, IPC_SET, &to);
    }
    errno = saved;
    return at == (void *)-1 ? NULL : at;
}

static bool protect(void *at, size_t size, int access)
{
    int saved = errno;
    bool done = mprotect(at, size, access) == 0;
    errno = saved;
    return done;
}

bool os_allow_reading(void *at, size_t size)
{
    return protect(at, size, PROT_READ);
}

bool os_commit(void *at, size_t size)
{
    return protect(at, size, PROT_READ | PROT_WRITE);
}

bool os_guard(void *at, size_t size)
{
    return protect(at, size, PROT_NONE);
}

static bool map_over(void *at, size_t size, int access)
{
    int saved = errno;
    void *got = mmap(at, size, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    errno = saved;
    return got != MAP_FAILED;
}

bool os_map_over(void *at, size_t size)
{
    return map_over(at, size, PROT_READ | PROT_WRITE);
}

bool os_close(void *at, size_t size)
{
    return map_over(at, size, PROT_NONE);
}

bool os_unmap(void *at, size_t size)
{
    int saved = errno;
    bool done = munmap(at, size) == 0;
    errno = saved;
    return done;
}

_Atomic uint32_t hak_purges_refused;

bool os_purge(void *at, size_t size)
{
    int saved = errno;
    bool done = madvise(at, size, MADV_DONTNEED) == 0;
    if (!done)
        add_relaxed(&hak_purges_refused, 1U);
    errno = saved;
    return done;
}

bool os_prefault(void *at, size_t size)
{
    int saved = errno;
    bool done = madvise(at, size, MADV_POPULATE_WRITE) == 0;
    errno = saved;
    return done;
}

HAK_COLD uint64_t os_thread_ns(void)
{
    struct timespec t;
    int saved = errno;
    if (clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t) != 0)
        t = (struct timespec){0};
    errno = saved;
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

enum { PAGES_MOST = 512 };

/* A byte for each page that says whether it is there. False: there are more, or some are not mapped. */
static bool read_presence(void *at, size_t size, unsigned char in[PAGES_MOST])
{
    int saved = errno;
    bool done = size / os_page_size() <= PAGES_MOST && mincore(at, size, in) == 0;
    errno = saved;
    return done;
}

HAK_COLD size_t os_resident_pages(void *at, size_t size)
{
    unsigned char in[PAGES_MOST];
    size_t pages = read_presence(at, size, in) ? size / os_page_size() : 0, count = 0;
    for (size_t i = 0; i < pages; i++)
        count += in[i] & 1;
    return count;
}

HAK_COLD bool os_is_mapped(void *at, size_t size)
{
    unsigned char in[PAGES_MOST];
    return read_presence(at, size, in);
}

void os_advise_huge(void *at, size_t size, bool wanted)
{
    int saved = errno;
    (void)madvise(at, size, wanted ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    errno = saved;
}

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif

HAK_COLD bool os_collapse(void *at, size_t size)
{
    int saved = errno;
    bool done = madvise(at, size, MADV_COLLAPSE) == 0;
    errno = saved;
    return done;
}

bool os_move(void *from, size_t old, void *to, size_t size)
{
    int saved = errno;
    void *got = mremap(from, old, size, MREMAP_MAYMOVE | MREMAP_FIXED, to);
    errno = saved;
    return got != MAP_FAILED;
}

enum { KERNEL_SET = 8 }; /* bytes of a sigset_t that the kernel knows */

bool os_readable(const void *at)
{
    /* The kernel copies the mask before it finds that it is not told what to do with it. */
    int saved = errno;
    syscall(SYS_rt_sigprocmask, -1, at, NULL, KERNEL_SET);
    bool readable = errno == EINVAL; /* a filter's answer is none */
    errno = saved;
    return readable;
}

static bool is_populated(uintptr_t at)
{
    size_t size = os_page_size();
    return madvise((void *)(at & ~(size - 1)), size, MADV_POPULATE_READ) == 0;
}

/* A kernel or a filter that says so of the stack as well does not tell. */
bool os_may_read(const void *at)
{
    int saved = errno;
    bool may = is_populated((uintptr_t)at) || !is_populated((uintptr_t)&saved);
    errno = saved;
    return may;
}

/* By the kernel's calls: the C library's unblock its own signals, and its thread for timers (SIGEV_THREAD) waits for one of them that
 * has to stay blocked. Which of those are blocked stays as it is. */
void os_block_signals(sigset_t *before)
{
    sigset_t all;
    sigfillset(&all);
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &all, before, KERNEL_SET);
}

void os_restore_signals(const sigset_t *before)
{
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, before, NULL, KERNEL_SET);
}

/* By number: the library's own functions are cancellation points, and a thread that is cancelled in malloc would
 * not come back from it. */
HAK_COLD bool os_read_file(const char *path, char *out, size_t room)
{
    int saved = errno;
    int flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK; /* nobody may ever write to a pipe */
    long got = -1, fd = syscall(SYS_openat, AT_FDCWD, path, flags);
    struct stat s;
    if (fd >= 0) {
        if (syscall(SYS_fstat, fd, &s) == 0 && S_ISREG(s.st_mode))
            got = syscall(SYS_read, fd, out, room - 1);
        syscall(SYS_close, fd);
    }
    out[got > 0 ? got : 0] = '\0';
    errno = saved;
    return got > 0;
}

HAK_COLD bool os_read_folder(char *out, size_t room)
{
    int saved = errno;
    bool is_read = syscall(SYS_getcwd, out, room) > 0 && out[0] == '/'; /* else it is unreachable */
    errno = saved;
    return is_read;
}

enum { LIMIT_AT = 22 /* behind where the name begins, whose first word is "Max" */ };

HAK_INLINE bool is_limited(const char *limits, const char *name)
{
    const char *line = strstr(limits, name);
    return line != NULL && strlen(line) > LIMIT_AT && line[LIMIT_AT] >= '0' &&
           line[LIMIT_AT] <= '9'; /* else it is "unlimited" */
}

HAK_COLD bool os_mappings_count(void)
{
    char text[1024]; /* of the limits the first ten lines at least */
    return (os_read_file("/proc/self/limits", text, sizeof text) &&
            (is_limited(text, "data size") || is_limited(text, "address space"))) ||
           (os_read_file("/proc/sys/vm/overcommit_memory", text, sizeof text) && text[0] == '2');
}

HAK_COLD bool os_is_open(int fd)
{
    int saved = errno;
    bool is_open = syscall(SYS_fcntl, fd, F_GETFD) >= 0;
    errno = saved;
    return is_open;
}

HAK_COLD void os_hold_write_signals(struct write_signals *s)
{
    uint64_t both = UINT64_C(1) << (SIGXFSZ - 1) | UINT64_C(1) << (SIGPIPE - 1), pending = 0;
    int saved = errno;
    syscall(SYS_rt_sigpending, &pending, sizeof pending);
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &both, &s->before, sizeof both);
    s->drop = both & ~pending;
    errno = saved;
}

HAK_COLD void os_drop_write_signals(const struct write_signals *s)
{
    struct timespec at_once = {0, 0};
    int saved = errno;
    while (syscall(SYS_rt_sigtimedwait, &s->drop, NULL, &at_once, sizeof s->drop) > 0)
        ;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &s->before, NULL, sizeof s->before);
    errno = saved;
}

/* Not by write, which is a cancellation point: what is found in a thread that is to be cancelled would be told to nobody, and not end
 * the program either. */
static int write_all(int fd, const char *text, size_t length)
{
    while (length > 0) {
        long n = syscall(SYS_write, fd, text, length);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? errno : ENOSPC;
        text += n;
        length -= (size_t)n;
    }
    return 0;
}

HAK_COLD int os_write(int fd, const char *text, size_t length)
{
    int saved = errno;
    struct write_signals signals;
    os_hold_write_signals(&signals);
    int error = write_all(fd, text, length);
    os_drop_write_signals(&signals);
    errno = saved;
    return error;
}

struct text {
    char *out;
    size_t room;
    size_t length;
    uintptr_t address; /* the first one in it */
};

static void put(struct text *t, char c)
{
    if (t->length + 1 < t->room)
        t->out[t->length++] = c;
}

static void put_number(struct text *t, uint64_t value, unsigned base)
{
    char digits[24];
    int n = 0;
    do {
        digits[n++] = "0123456789abcdef"[value % base];
        value /= base;
    } while (value != 0);
    while (n > 0)
        put(t, digits[--n]);
}

static void put_text(struct text *t, const char *s)
{
    for (; *s != '\0'; s++)
        put(t, *s);
}

static struct text format_into(char *out, size_t room, const char *format, va_list args)
{
    struct text t = {out, room, 0, 0};
    for (const char *f = format; *f != '\0'; f++) {
        if (*f != '%') {
            put(&t, *f);
            continue;
        }
        f++;
        if (*f == 's') {
            put_text(&t, va_arg(args, const char *));
        } else if (*f == 'u') {
            put_number(&t, va_arg(args, size_t), 10);
        } else if (*f == 'x') {
            put_number(&t, va_arg(args, uintptr_t), 16);
        } else if (*f == 'p') {
            uintptr_t address = va_arg(args, uintptr_t);
            put_text(&t, "0x");
            put_number(&t, address, 16);
            if (t.address == 0)
                t.address = address;
        } else {
            put(&t, *f);
        }
    }
    t.out[t.length] = '\0';
    return t;
}

HAK_COLD size_t os_format(char *out, size_t room, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    size_t length = format_into(out, room, format, args).length;
    va_end(args);
    return length;
}

/* Returns the first address in it. */
static uintptr_t write_line(const char *format, va_list args)
{
    char line[512];
    size_t length = os_format(line, sizeof line, "hakmem: ");
    struct text t = format_into(line + length, sizeof line - length - 1, format, args);
    length += t.length;
    line[length++] = '\n';
    (void)os_write(STDERR_FILENO, line, length);
    return t.address;
}

HAK_COLD void os_warn_with(const char *format, va_list args)
{
    (void)write_line(format, args);
}

HAK_COLD void os_warn(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)write_line(format, args);
    va_end(args);
}

static _Atomic(os_fatal_follower *) fatal_follower;

void os_follow_fatal(os_fatal_follower *follower)
{
    store_relaxed(&fatal_follower, follower); /* it comes with nothing that would have to be seen */
}

HAK_COLD void os_fatal(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    uintptr_t address = write_line(format, args);
    va_end(args);
    os_fatal_follower *follower = load_relaxed(&fatal_follower);
    if (follower != NULL)
        follower(address);
    abort();
}

HAK_COLD void os_copy_text(char *out, size_t room, const char *text, size_t length)
{
    length = length < room - 1 ? length : room - 1;
    memcpy(out, text, length);
    out[length] = '\0';
}
