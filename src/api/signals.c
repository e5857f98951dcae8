/* sigaction and signal, in the shared library alone, which do not tell of the crash log's handler (control/crash.h). Where a runtime finds
 * a handler it leaves that where it is (Rust), calls it and believes that the signal has been dealt with (Java), or cannot say
 * what it is (Python, Ruby). So to all of them the action is the default one, as it would be without hakmem. */
#define _GNU_SOURCE
#include "api/api.h"

#include <signal.h>

#include "control/crash.h"

#if HAK_INTERPOSE && !HAK_SANITIZED && defined(__GLIBC__)

/* The C library's functions have other names beside these, so nothing is looked up, and all is as async-signal-safe as it was. */
extern int __sigaction(int number, const struct sigaction *new, struct sigaction *old);

HAK_EXPORT int sigaction(int number, const struct sigaction *new, struct sigaction *old)
{
    int result = __sigaction(number, new, old);
    if (result == 0 && old != NULL && crash_is_handler((uintptr_t)old->sa_handler))
        *old = (struct sigaction){.sa_handler = SIG_DFL};
    return result;
}

static __sighandler_t shown(__sighandler_t old)
{
    return crash_is_handler((uintptr_t)old) ? SIG_DFL : old;
}

HAK_EXPORT __sighandler_t signal(int number, __sighandler_t new)
{
    return shown(ssignal(number, new));
}

/* What `signal` is in programs that ask for System V's or X/Open's. */
HAK_EXPORT __sighandler_t __sysv_signal(int number, __sighandler_t new)
{
    return shown(sysv_signal(number, new));
}

#endif
