/* A library that looks at what the program does with its signals, as Java's libjsig does, and comes after hakmem. */
#define _GNU_SOURCE
#include "interposer.h"

#include <dlfcn.h>
#include <signal.h>
#include <stddef.h>

static int calls;

int calls_seen(void)
{
    return calls;
}

typedef int setter(int, const struct sigaction *, struct sigaction *);
typedef void (*handler)(int);
typedef handler handler_setter(int, handler);

int sigaction(int number, const struct sigaction *new, struct sigaction *old)
{
    calls++;
    return ((setter *)dlsym(RTLD_NEXT, "sigaction"))(number, new, old);
}

handler signal(int number, handler new)
{
    calls++;
    return ((handler_setter *)dlsym(RTLD_NEXT, "signal"))(number, new);
}
