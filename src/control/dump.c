#define _GNU_SOURCE
#include "control/dump.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <unistd.h>

#include "control/options.h"
#include "live/live.h"
#include "os/os.h"

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

/* ---- the area ---- */

static bool write_at(int fd, const void *from, size_t length, size_t offset)
{
    const char *at = from;
    while (length > 0) {
        ssize_t n = pwrite(fd, at, length, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        at += n;
        offset += (size_t)n;
        length -= (size_t)n;
    }
    return true;
}

/* What is in use of each table; holes for the rest. */
static bool write_area(int fd, const struct live_area *a)
{
    if (!write_at(fd, a, a->header.header_size, 0))
        return false;
    for (uint32_t i = 0; i < a->header.table_count; i++) {
        const struct live_table *t = &a->header.tables[i];
        size_t length = (size_t)load_relaxed(&t->used) * t->stride;
        if (!write_at(fd, (const char *)a + t->offset, length, t->offset))
            return false;
    }
    return true;
}

/* ---- what its addresses mean ---- */

static bool copy_file(int to, const char *path)
{
    char buffer[4096];
    int from = open(path, O_RDONLY | O_CLOEXEC);
    if (from < 0)
        return false;
    ssize_t n;
    while ((n = read(from, buffer, sizeof buffer)) > 0)
        os_write(to, buffer, (size_t)n);
    close(from);
    return n == 0;
}

static void write_build_id(int fd, uintptr_t start, const unsigned char *id, size_t length)
{
    enum { LONGEST = 64, BEFORE_HEX = sizeof "build-id " - 1 };
    char line[64 + 2 * LONGEST], *end = line;
    length = length < LONGEST ? length : LONGEST;
    end += os_format(line, sizeof line, "build-id %p ", start);
    memmove(line + BEFORE_HEX, line + BEFORE_HEX + 2, (size_t)(end - line) - BEFORE_HEX - 2);
    end -= 2; /* maps have no 0x */
    for (size_t i = 0; i < length; i++) {
        *end++ = "0123456789abcdef"[id[i] >> 4];
        *end++ = "0123456789abcdef"[id[i] & 15];
    }
    *end++ = '\n';
    os_write(fd, line, (size_t)(end - line));
}

static size_t note_size(size_t n)
{
    return round_up(n, 4);
}

/* Notes of an object that is mapped: a name, then what it says. */
static bool write_id_in_notes(int fd, uintptr_t start, const char *at, size_t length)
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
            write_build_id(fd, start, id, note.n_descsz);
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

static int write_object(struct dl_phdr_info *object, size_t size, void *fd)
{
    (void)size;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &object->dlpi_phdr[i];
        const char *notes =
            (const char *)object->dlpi_addr + p->p_vaddr; /* NOLINT: an address it is */
        if (p->p_type == PT_NOTE &&
            write_id_in_notes(*(int *)fd, start_of(object), notes, p->p_memsz))
            break;
    }
    return 0;
}

/* ---- the file ---- */

static bool write_all(int fd, const struct live_area *a)
{
    if (!write_area(fd, a) || lseek(fd, a->header.area_size, SEEK_SET) < 0 ||
        !(copy_file(fd, "/proc/self/smaps") || copy_file(fd, "/proc/self/maps")))
        return false;
    dl_iterate_phdr(write_object, &fd);
    return true;
}

bool dump_profile(const char *path)
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
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    bool written = fd >= 0 && write_all(fd, a);
    int wrong = errno;
    if (fd >= 0)
        close(fd);
    errno = wrong;
    return written;
}
