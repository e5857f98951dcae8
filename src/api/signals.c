/* sigaction and signal, in the shared library alone, which do not tell of the crash log's handler (control/crash.h). Where a runtime finds
 * a handler it leaves that where it is (Rust), calls it and believes that the signal has been dealt with (Java), or cannot say
 * what it is (Python, Ruby). So to all of them the action is the default one, as it would be without hakmem; sigset and bsd_signal, which
 * none of them calls, still tell (docs/insight/crash.md). */
#define _GNU_SOURCE
#include "api/api.h"

#include <dlfcn.h>
#include <signal.h>

#include "control/crash.h"
#include "os/os.h"

#if HAK_INTERPOSE && !HAK_SANITIZED && defined(__GLIBC__)

typedef int setter(int number, const struct sigaction *new, struct sigaction *old);
typedef __sighandler_t handler_setter(int number, __sighandler_t new);

/* Who comes next, which may be another library that looks at signals (Java's libjsig). NULL: not looked for yet. Whoever looks finds
 * the same. */
static _Atomic(void *) next_sigaction, next_signal, next_sysv_signal;

/* Where the C library comes before this one it is nowhere behind it. */
static HAK_NOINLINE void *next_by(const char *name, void *otherwise)
{
    void *next = dlsym(RTLD_NEXT, name);
    return next != NULL ? next : otherwise;
}

/* All of them: a handler may be the first to call another one than it was installed with, amid what dlsym does. */
static HAK_COLD void find_all(void)
{
    store_relaxed(&next_signal, next_by("signal", (void *)ssignal));
    store_relaxed(&next_sysv_signal, next_by("__sysv_signal", (void *)sysv_signal));
    /* release: says that all are there. */
    store_release(&next_sigaction, next_by("sigaction", (void *)os_sigaction));
}

static void *found(_Atomic(void *) *next)
{
    if (HAK_UNLIKELY(load_acquire(&next_sigaction) == NULL))
        find_all();
    return load_relaxed(next);
}

HAK_EXPORT int sigaction(int number, const struct sigaction *new, struct sigaction *old)
{
    int result = ((setter *)found(&next_sigaction))(number, new, old);
    if (result == 0 && old != NULL && crash_is_handler((uintptr_t)old->sa_handler))
        *old = (struct sigaction){.sa_handler = SIG_DFL};
    return result;
}

static __sighandler_t set_handler(_Atomic(void *) *next, int number, __sighandler_t new)
{
    __sighandler_t old = ((handler_setter *)found(next))(number, new);
    return crash_is_handler((uintptr_t)old) ? SIG_DFL : old;
}

HAK_EXPORT __sighandler_t signal(int number, __sighandler_t new)
{
    return set_handler(&next_signal, number, new);
}

/* What `signal` is in programs that ask for System V's or X/Open's. */
HAK_EXPORT __sighandler_t __sysv_signal(int number, __sighandler_t new)
{
    return set_handler(&next_sysv_signal, number, new);
}

#endif
