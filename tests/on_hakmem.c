/* In every test program, before main. Where the environment preloads hakmem, or the program is linked with it for a sanitizer's sake,
 * it has to be there, and what the environment sets has to be in force: on another malloc, or without the setting it
 * is about, a test would show nothing. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <ctype.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef HAK_TEST_LINKED
#include <hakmem/hakmem.h>
#endif

typedef int ctl_function(const char *, void *, size_t *, const void *, size_t);

enum { NAME_ROOM = 64 };
static const char PREFIX[] = "HAKMEM_";

static _Noreturn void refuse(const char *what, const char *why)
{
    dprintf(STDERR_FILENO, "FAILED: '%s' %s\n", what, why);
    _exit(EXIT_FAILURE);
}

/* NULL: nobody has asked for hakmem. */
static ctl_function *find_ctl(void)
{
#ifdef HAK_TEST_LINKED
    return hak_ctl;
#else
    const char *preloaded = getenv("LD_PRELOAD");
    if (preloaded == NULL || strstr(preloaded, "libhakmem") == NULL)
        return NULL;
    ctl_function *found;
    void *address = dlsym(RTLD_DEFAULT, "hak_ctl");
    if (address == NULL)
        refuse(preloaded, "is to be preloaded, and is not there");
    memcpy(&found, &address, sizeof found);
    return found;
#endif
}

/* The library's own constructor may come later than this one. */
static void read_settings(void)
{
#ifdef HAK_TEST_LINKED
    hak_free(hak_malloc(1));
#endif
}

/* "opt.name" of a variable that begins with the prefix. False: it is too long for one. */
static bool option_named(char *name, const char *variable, size_t length)
{
    static const char kind[] = "opt.";
    size_t at = sizeof kind - 1, room = NAME_ROOM - sizeof kind;
    if (length > room)
        return false;
    memcpy(name, kind, at);
    for (size_t i = 0; i < length; i++)
        name[at++] = (char)tolower((unsigned char)variable[i]);
    name[at] = '\0';
    return true;
}

/* Those that are numbers as they stand. */
static void check_setting(ctl_function *ctl, const char *entry)
{
    const char *variable = entry + sizeof PREFIX - 1, *equals = strchr(variable, '=');
    char name[NAME_ROOM], *end;
    if (equals == NULL || !isdigit((unsigned char)equals[1]))
        return;
    size_t wanted = strtoull(equals + 1, &end, 10), value = 0, size = sizeof value;
    if (*end != '\0' || !option_named(name, variable, (size_t)(equals - variable)))
        return;
    read_settings();
    if (ctl(name, &value, &size, NULL, 0) != 0)
        refuse(entry, "is no setting");
    if (value != wanted)
        refuse(entry, "is not heeded");
}

__attribute__((constructor)) static void check_on_hakmem(void)
{
    ctl_function *ctl = find_ctl();
    if (ctl == NULL)
        return;
    for (char **entry = environ; *entry != NULL; entry++) {
        if (strncmp(*entry, PREFIX, sizeof PREFIX - 1) == 0)
            check_setting(ctl, *entry);
    }
}
