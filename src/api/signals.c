/* sigaction and signal, in the shared library alone, which do not tell of the crash log's handler (control/crash.h). Where a runtime finds
 * a handler it leaves that where it is (Rust), calls it and believes that the signal has been dealt with (Java), or cannot say
 * what it is (Python, Ruby). So to all of them the action is the default one, as it would be without hakmem; sigset and bsd_signal, which
 * none of them calls, still tell (docs/insight/crash.md). */
#define _GNU_SOURCE
#include "api/api.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>

#include "control/crash.h"
#include "os/os.h"

#if HAK_INTERPOSE && !HAK_SANITIZED && defined(__GLIBC__)

typedef int setter(int number, const struct sigaction *new, struct sigaction *old);
typedef __sighandler_t handler_setter(int number, __sighandler_t new);

/* Who comes next, which may be another library that looks at signals (Java's libjsig). NULL: not looked for yet. Whoever looks finds
 * the same. */
static _Atomic(void *) next_sigaction, next_signal, next_sysv_signal;

static HAK_COLD void *find_next(_Atomic(void *) *next, const char *name, void *otherwise)
{
    int saved = errno;
    void *found = dlsym(RTLD_NEXT, name);
    if (found == NULL)
        found = otherwise;
    store_relaxed(next, found);
    errno = saved;
    return found;
}

static void *next_of(_Atomic(void *) *next, const char *name, void *otherwise)
{
    void *known = load_relaxed(next);
    return HAK_LIKELY(known != NULL) ? known : find_next(next, name, otherwise);
}

HAK_EXPORT int sigaction(int number, const struct sigaction *new, struct sigaction *old)
{
    setter *next = (setter *)next_of(&next_sigaction, "sigaction", (void *)os_sigaction);
    int result = next(number, new, old);
    if (result == 0 && old != NULL && crash_is_handler((uintptr_t)old->sa_handler))
        *old = (struct sigaction){.sa_handler = SIG_DFL};
    return result;
}

static __sighandler_t set_handler(void *next, int number, __sighandler_t new)
{
    __sighandler_t old = ((handler_setter *)next)(number, new);
    return crash_is_handler((uintptr_t)old) ? SIG_DFL : old;
}

HAK_EXPORT __sighandler_t signal(int number, __sighandler_t new)
{
    return set_handler(next_of(&next_signal, "signal", (void *)ssignal), number, new);
}

/* What `signal` is in programs that ask for System V's or X/Open's. */
HAK_EXPORT __sighandler_t __sysv_signal(int number, __sighandler_t new)
{
    return set_handler(next_of(&next_sysv_signal, "__sysv_signal", (void *)sysv_signal), number,
                       new);
}

#endif
