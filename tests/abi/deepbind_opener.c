/* A library that opens another by its name alone, which only its own RUNPATH leads to. */
#include <dlfcn.h>

void *opener_open(const char *name, int mode);

void *opener_open(const char *name, int mode)
{
    void *volatile handle = dlopen(name, mode); /* or this would be a jump, too */
    return handle;
}
