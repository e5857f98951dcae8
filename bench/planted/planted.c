/* A flaw planted on purpose, to see whether the suite finds it.
 *
 * Preloaded in front of an allocator it hands every call on, and, as compiled,
 *   -DSPIN=N      malloc takes N dependent additions longer (about a cycle each),
 *   -DPERCENT=N   the process keeps N percent more memory resident than it would.
 * With neither it only hands on: that is what to compare with, so that the handing on cancels.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef SPIN
#define SPIN 0
#endif
#ifndef PERCENT
#define PERCENT 0
#endif

enum { LARGE = 65536, LOOK_EVERY = 512, CHUNK = 16384 };

static void *(*next_malloc)(size_t);
static void *(*next_new)(size_t);
static void *(*next_realloc)(void *, size_t);

#if PERCENT > 0
static _Atomic size_t kept;

static size_t resident(void)
{
    char text[64] = {0};
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t got = read(fd, text, sizeof text - 1);
    close(fd);
    char *second = got > 0 ? strchr(text, ' ') : NULL;
    return second ? strtoul(second, NULL, 10) * (size_t)sysconf(_SC_PAGESIZE) : 0;
}

/* Touches fresh memory until the share is there. It is never given back, as a peak is not. */
static void keep_more(void)
{
    size_t now = resident();
    for (size_t have = atomic_load(&kept); (now - have) / 100 * PERCENT > have + CHUNK;
         have += CHUNK) {
        char *fresh = mmap(NULL, CHUNK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (fresh == MAP_FAILED)
            return;
        memset(fresh, 1, CHUNK);
        atomic_fetch_add(&kept, CHUNK);
        now += CHUNK;
    }
}

static void look(size_t size)
{
    static _Thread_local unsigned calls;
    if (size >= LARGE || ++calls % LOOK_EVERY == 0)
        keep_more();
}
#else
static void look(size_t size)
{
    (void)size;
}
#endif

/* A chain: each addition waits for the one before, and what comes after for all of them. */
static inline size_t delayed(size_t size)
{
    for (int i = 0; i < SPIN; i++)
        __asm__ volatile("add $1, %0\n\tsub $1, %0" : "+r"(size));
    return size;
}

static void __attribute__((constructor)) find_next(void)
{
    next_malloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
    next_realloc = (void *(*)(void *, size_t))dlsym(RTLD_NEXT, "realloc");
    next_new = (void *(*)(size_t))dlsym(RTLD_NEXT, "_Znwm");
}

void *malloc(size_t size)
{
    if (!next_malloc)
        find_next();
    look(size);
    return next_malloc(delayed(size));
}

/* C++'s operator new(size_t). */
void *_Znwm(size_t size)
{
    if (!next_new)
        find_next();
    look(size);
    return next_new(delayed(size));
}

void *realloc(void *block, size_t size)
{
    if (!next_realloc)
        find_next();
    look(size);
    return next_realloc(block, size);
}
