#define _GNU_SOURCE
#include "control/crash.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "os/os.h"
#include "slab/slab.h"

static const char *signal_name(int number)
{
    return number == SIGSEGV ? "SIGSEGV" : "SIGBUS";
}

/* Everything here reads side arrays only, which are mapped for every unit of the window's used part;
 * what other threads change meanwhile may be stale and never faults. */
static size_t describe(char *out, size_t room, uintptr_t at)
{
    size_t unit = unit_of((void *)at);
    if (unit >= hak_region.units)
        return os_format(out, room, "not in memory of hakmem");
    uintptr_t word = unit_word(unit);
    if (word == WORD_HEAP)
        return os_format(out, room, "in hakmem's own data of a thread");
    if (word == WORD_RUN || word == WORD_BIG)
        return os_format(out, room, "in the unit where a live block of %u bytes starts",
                         slab_at(unit)->size);
    if (word == WORD_FREED)
        return os_format(out, room, "in a large block that has been freed");
    if (word <= WORD_TAG_MAX)
        return os_format(out, room, "in hakmem's memory, in no slab");
    const struct slab *s = slab_of_unit(unit);
    size_t size = hak_classes[s->class].size;
    size_t offset = at - (uintptr_t)slab_base(s);
    return os_format(out, room, "%u bytes into block %u of a slab of %u-byte blocks at %p",
                     offset % size, offset / size, size, (uintptr_t)slab_base(s));
}

static HAK_COLD void on_crash(int number, siginfo_t *info, void *context)
{
    (void)context;
    int saved = errno;
    /* The disposition is the default again (SA_RESETHAND): a fault repeats on return; what another
     * program sent has no address and must be sent once more. */
    if (info->si_code > 0) {
        char what[160];
        describe(what, sizeof what, (uintptr_t)info->si_addr);
        os_warn("%s at address %p: %s", signal_name(number), (uintptr_t)info->si_addr, what);
    } else {
        os_warn("%s sent by process %u", signal_name(number), (size_t)info->si_pid);
        syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), number);
    }
    errno = saved;
}

static void install(int number)
{
    struct sigaction old, new;
    memset(&new, 0, sizeof new);
    new.sa_sigaction = on_crash;
    new.sa_flags = (int)(SA_SIGINFO | SA_RESETHAND | SA_ONSTACK);
    if (sigaction(number, &new, &old) == 0 && old.sa_handler != SIG_DFL)
        sigaction(number, &old, NULL); /* seldom: a library that started earlier has one */
}

void crash_install(void)
{
    install(SIGSEGV);
    install(SIGBUS);
}
