#define _GNU_SOURCE
#include "live/dump.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "control/options.h"
#include "live/live.h"
#include "os/os.h"
#include "os/thread.h"

void path_of_process(char *out, size_t room, const char *path)
{
    const char *mark = strstr(path, "%p");
    if (mark == NULL) {
        os_format(out, room, "%s", path);
        return;
    }
    char head[OPTION_TEXT_MAX];
    size_t length = (size_t)(mark - path);
    length = length < sizeof head ? length : sizeof head - 1;
    memcpy(head, path, length);
    head[length] = '\0';
    os_format(out, room, "%s%u%s", head, (size_t)getpid(), mark + 2);
}

const char *reason_unwritten(int error)
{
    switch (error) {
    case ENOSPC:
        return "no space is left there";
    case EDQUOT:
        return "the user's disk quota is used up";
    case EFBIG:
        return "it would be larger than the file size limit";
    case ENOENT:
    case ENOTDIR:
        return "there is no such folder";
    case EACCES:
    case EPERM:
        return "it may not be written";
    case EROFS:
        return "the file system is read-only";
    case EISDIR:
        return "it is a folder";
    case EMFILE:
        return "the process has no file descriptor left";
    case ENFILE:
        return "the system has no file descriptor left";
    case ENAMETOOLONG:
        return "its name is too long";
    case EPIPE:
        return "nobody reads it any more";
    default:
        return NULL;
    }
}

/* ---- the file ---- */

struct file {
    int fd;
    size_t at;        /* where the next bytes go */
    bool whole;       /* nothing is missing; else errno says why */
    bool has_program; /* which object it is stands there */
};

/* By number, as in os.c: none of this is a cancellation point, as a request for a block may be what writes. */
static int open_file(const char *path, int flags)
{
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, 0600);
}

static void put(struct file *f, const void *bytes, size_t length)
{
    const char *from = bytes;
    while (f->whole && length > 0) {
        ssize_t n = syscall(SYS_pwrite64, f->fd, from, length, (off_t)f->at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n == 0)
            errno = ENOSPC;
        if (n <= 0) {
            f->whole = false;
            return;
        }
        from += n;
        f->at += (size_t)n;
        length -= (size_t)n;
    }
}

static bool put_file(struct file *f, const char *path)
{
    char buffer[4096];
    size_t start = f->at;
    int from = open_file(path, O_RDONLY);
    if (from < 0)
        return false;
    ssize_t n;
    while ((n = syscall(SYS_read, from, buffer, sizeof buffer)) > 0)
        put(f, buffer, (size_t)n);
    int wrong = errno;
    syscall(SYS_close, from);
    errno = wrong;
    if (n < 0) {
        f->at = start;
        (void)syscall(SYS_ftruncate, f->fd, (off_t)start);
        errno = wrong;
    }
    return n == 0;
}

/* What is in use of each table; holes for the rest. */
static void put_area(struct file *f, const struct live_area *a)
{
    put(f, a, live_header_size());
    for (uint32_t i = 0; i < LIVE_TABLE_COUNT; i++) {
        struct live_extent used = live_extent_of(a, (enum live_table_index)i);
        f->at = used.offset;
        put(f, (const char *)a + used.offset, used.size);
    }
    f->at = sizeof *a;
}

/* ---- what its addresses mean ---- */

static void put_build_id(struct file *f, uintptr_t start, const unsigned char *id, size_t length)
{
    enum { LONGEST = 64 };
    char line[64 + 2 * LONGEST];
    size_t end = os_format(line, sizeof line, "build-id %x ", start);
    for (size_t i = 0; i < length && i < LONGEST; i++) {
        line[end++] = "0123456789abcdef"[id[i] >> 4];
        line[end++] = "0123456789abcdef"[id[i] & 15];
    }
    line[end++] = '\n';
    put(f, line, end);
}

static size_t note_size(size_t n)
{
    return round_up(n, 4);
}

/* Notes of an object that is mapped: a name, then what it says. */
static bool put_id_in_notes(struct file *f, uintptr_t start, const char *at, size_t length)
{
    while (length >= sizeof(ElfW(Nhdr))) {
        ElfW(Nhdr) note;
        memcpy(&note, at, sizeof note);
        size_t whole = sizeof note + note_size(note.n_namesz) + note_size(note.n_descsz);
        if (whole > length)
            return false;
        const char *name = at + sizeof note;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof ELF_NOTE_GNU &&
            memcmp(name, ELF_NOTE_GNU, sizeof ELF_NOTE_GNU) == 0) {
            const void *id = name + note_size(note.n_namesz);
            put_build_id(f, start, id, note.n_descsz);
            return true;
        }
        at += whole;
        length -= whole;
    }
    return false;
}

/* Where the object's first page lies, as /proc/PID/maps says it. */
static uintptr_t start_of(const struct dl_phdr_info *object)
{
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &object->dlpi_phdr[i];
        if (p->p_type == PT_LOAD)
            return (object->dlpi_addr + p->p_vaddr) & ~(uintptr_t)(os_page_size() - 1);
    }
    return object->dlpi_addr;
}

/* The first object is the program, wherever it lies, and also where the loader was started to run it. */
static void put_program_once(struct file *f, const struct dl_phdr_info *object)
{
    char line[32];
    if (!f->has_program)
        put(f, line, os_format(line, sizeof line, "program %x\n", start_of(object)));
    f->has_program = true;
}

static int put_object(struct dl_phdr_info *object, size_t size, void *file)
{
    (void)size;
    put_program_once(file, object);
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &object->dlpi_phdr[i];
        const char *notes =
            (const char *)object->dlpi_addr + p->p_vaddr; /* NOLINT: an address it is */
        if (p->p_type == PT_NOTE && put_id_in_notes(file, start_of(object), notes, p->p_memsz))
            break;
    }
    return 0;
}

/* The loader's lock is taken, which is recursive in glibc alone: elsewhere whoever asks for a block may have it for good. Another
 * thread that has it, in a function of its own that dl_iterate_phdr calls, must not wait there for who asks for blocks. */
static void put_objects(struct file *f)
{
#ifndef __GLIBC__
    if (hak_thread.depth != 0)
        return;
#endif
    (void)dl_iterate_phdr(put_object, f);
}

/* ---- both ---- */

static bool write_profile(int fd, const struct live_area *a)
{
    struct file f = {.fd = fd, .whole = true};
    put_area(&f, a);
    put(&f, LIVE_TEXT_BEGIN, sizeof LIVE_TEXT_BEGIN - 1);
    if (!put_file(&f, "/proc/self/smaps") && !put_file(&f, "/proc/self/maps"))
        return false;
    put_objects(&f);
    put(&f, LIVE_TEXT_END, sizeof LIVE_TEXT_END - 1);
    return f.whole;
}

/* Nobody is to take half a profile for one: such a file is emptied, which leaves a device as it is. */
static bool close_file(int fd, bool written)
{
    int wrong = errno;
    if (!written)
        (void)syscall(SYS_ftruncate, fd, 0);
    if (syscall(SYS_close, fd) != 0 && written)
        return false;
    errno = wrong;
    return written;
}

static bool write_to(const char *path)
{
    char name[2 * OPTION_TEXT_MAX];
    const struct live_area *a = live_area();
    if (a == NULL) {
        errno = ENODATA;
        return false;
    }
    if (strlen(path) >= OPTION_TEXT_MAX) {
        errno = ENAMETOOLONG;
        return false;
    }
    path_of_process(name, sizeof name, path);
    int fd = open_file(name, O_WRONLY | O_CREAT | O_TRUNC);
    if (fd < 0)
        return false;
    struct write_signals signals;
    os_hold_write_signals(&signals);
    bool written = close_file(fd, write_profile(fd, a));
    os_drop_write_signals(&signals);
    return written;
}

int dump_profile(const char *path)
{
    int saved = errno, error = write_to(path) ? 0 : errno;
    errno = saved;
    return error;
}
