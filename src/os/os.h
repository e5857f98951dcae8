/* The only code that asks the kernel for anything. No function here allocates; each leaves errno
 * as it found it, so that callers need not care. */
#ifndef HAK_OS_H
#define HAK_OS_H

#include <signal.h>
#include <stdarg.h>

#include "base/base.h"

/* Page size of the running kernel, in bytes (4, 16 or 64 KiB). */
size_t os_page_size(void);

/* Bytes of physical memory, 0 if unknown. */
size_t os_physical_memory(void);

/* RLIMIT_AS in bytes, and what the process may raise it to; SIZE_MAX if unlimited. */
struct os_limit {
    size_t now, most;
};
struct os_limit os_address_limit(void);

/* Whether what is mapped counts, with or without pages: for a limit of address space or of data, or as promised where promises are
 * kept (vm.overcommit_memory=2). Out of files: a sandbox may kill whoever asks the kernel. */
bool os_mappings_count(void);

/* Unpredictable bits of this process: keys, where its window lies, which blocks are sampled first. None by itself gives away
 * another, or the words that they are made of. */
enum os_secret_of { SECRET_KEY, SECRET_MARK, SECRET_PLACE, SECRET_SAMPLES };
uintptr_t os_secret(enum os_secret_of which);

/* The calling thread's number, as in /proc/PID/task. */
uint32_t os_thread_id(void);

/* Milliseconds of a clock that never goes back; cheap (read from the vDSO). */
uint64_t os_now_ms(void);

/* For less if a signal comes. No cancellation point: a fork may wait so. */
void os_sleep_ms(uint32_t ms);

/* Maps exactly [at, at + size) read-write. OS_TAKEN: somebody else's mapping is in the way. */
enum os_result { OS_OK, OS_TAKEN, OS_NO_MEMORY };
enum os_result os_map_at(void *at, size_t size);

/* The same to be read only, as zeros, until os_commit. */
enum os_result os_map_to_read(void *at, size_t size);

/* Address space without memory behind it, anywhere; NULL if there is none. */
void *os_reserve(size_t size);

/* Memory of zeros that other processes of the same user may attach while it is mapped, to read it, by the number
 * that /proc/PID/maps shows as its inode; NULL if there is none. */
void *os_share(size_t size);

/* Makes reserved address space read as zeros, which costs nothing against a strict overcommit limit. */
bool os_allow_reading(void *at, size_t size);

/* Makes reserved address space read-write. */
bool os_commit(void *at, size_t size);

/* Makes mapped memory of whole pages such that no access is allowed, until os_commit. */
bool os_guard(void *at, size_t size);

/* Maps over a range that this library reserved before. */
bool os_map_over(void *at, size_t size);

/* The same without access, until os_commit: one mapping again with what was closed beside it, unlike after
 * os_guard. */
bool os_close(void *at, size_t size);

/* Gives the range back to the kernel. */
bool os_unmap(void *at, size_t size);

/* Drops the pages of a mapped range: it reads as zeros afterwards. False: the kernel refuses, which is counted. */
bool os_purge(void *at, size_t size);

extern _Atomic uint32_t hak_purges_refused __attribute__((visibility("hidden")));

/* Populates the pages of a mapped range in one call; false: not all, or the kernel cannot. */
bool os_prefault(void *at, size_t size);

/* Processor time of the calling thread, in ns. */
uint64_t os_thread_ns(void);

/* Whether all of it is mapped, 2 MiB at most; false if that cannot be known. */
bool os_is_mapped(void *at, size_t size);

/* Pages of the range (page-aligned, at most 2 MiB) that are in memory; 0 if that cannot be told. */
size_t os_resident_pages(void *at, size_t size);

/* Advice on transparent huge pages for a range. Best effort. */
void os_advise_huge(void *at, size_t size, bool wanted);

/* Makes one huge page of what a range of that size has, and zeros of the rest; the content stays. False: the kernel cannot. */
bool os_collapse(void *at, size_t size);

/* Moves the pages of a mapping to `to` (mapped before, replaced now); [from, from + old) is left
 * unmapped. */
bool os_move(void *from, size_t old, void *to, size_t size);

/* Whether the eight bytes at an address can be read. */
bool os_readable(const void *at);

/* Whether the page at an address may be read: false if the kernel says that it may not (Linux 5.14 and later do). By a system call that is
 * needed anyhow, where a filter may punish others. */
bool os_may_read(const void *at);

/* Blocks what signals can be blocked in the calling thread; the mask before. */
void os_block_signals(sigset_t *before);
void os_restore_signals(const sigset_t *before);

/* The start of a file as a text, read at once: whole if it fits, also where the kernel makes it up. False: it
 * cannot be read, or is no regular file. Not a cancellation point. */
bool os_read_file(const char *path, char *out, size_t room);

/* The folder the process is in, an absolute path. False: it has none that can be named so, or there is no room. */
bool os_read_folder(char *out, size_t room);

/* What a write can do beside failing: end the program by SIGXFSZ (behind the file size limit) or SIGPIPE (nobody reads).
 * Between the two calls it cannot, and is not told of either afterwards. */
struct write_signals {
    uint64_t before, drop; /* as the kernel has them: a bit per signal */
};
void os_hold_write_signals(struct write_signals *s);
void os_drop_write_signals(const struct write_signals *s);

/* The C library's sigaction, whoever else has one of that name. */
#ifdef __GLIBC__
extern int __sigaction(int number, const struct sigaction *new, struct sigaction *old);
HAK_INLINE int os_sigaction(int number, const struct sigaction *new, struct sigaction *old)
{
    return __sigaction(number, new, old);
}
#else
HAK_INLINE int os_sigaction(int number, const struct sigaction *new, struct sigaction *old)
{
    return sigaction(number, new, old);
}
#endif

/* Whether the descriptor is one of a file at all. */
bool os_is_open(int fd);

/* Writes to a descriptor, all of it, retrying short writes; without those signals. 0, or the errno. */
int os_write(int fd, const char *text, size_t length);

/* One line `hakmem: ...` on standard error, then abort. Formats: %s text, %p address, %x the same without 0x,
 * %u size_t. */
_Noreturn void os_fatal(const char *format, ...);

/* What os_fatal calls in between, with the first address that it has named; 0: it has named none. */
typedef void os_fatal_follower(uintptr_t address);
void os_follow_fatal(os_fatal_follower *follower);

/* One line `hakmem: ...` on standard error. Same formats. */
void os_warn(const char *format, ...);
void os_warn_with(const char *format, va_list args);

/* As above into a buffer; returns the length without the closing zero. */
size_t os_format(char *out, size_t room, const char *format, ...);

/* A piece of a text with a closing zero, as much of it as there is room for. */
void os_copy_text(char *out, size_t room, const char *text, size_t length);

#endif
