/* Linked into the library of the build `coverage`: what it has counted is written to files also where a process ends
 * by a signal, be it its own abort or a crash that it reports. */
#include <signal.h>
#include <stdlib.h>

void __gcov_dump(void);
void __gcov_reset(void);
_Noreturn void __real_abort(void);
_Noreturn void __wrap_abort(void);
int __real_sigaction(int number, const struct sigaction *new, struct sigaction *old);
int __wrap_sigaction(int number, const struct sigaction *new, struct sigaction *old);

static void dump(void)
{
    __gcov_dump();
    __gcov_reset(); /* what follows is added to that */
}

void __wrap_abort(void)
{
    dump();
    __real_abort();
}

/* A crash handler that gives the signal back to the system is about to end. */
int __wrap_sigaction(int number, const struct sigaction *new, struct sigaction *old)
{
    if (new != NULL &&new->sa_handler == SIG_DFL)
        dump();
    return __real_sigaction(number, new, old);
}
