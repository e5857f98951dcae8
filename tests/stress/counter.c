#define _GNU_SOURCE
#include "counter.h"

#include <dlfcn.h>
#include <stdio.h>

#include "support.h"

#include "alloc_names.h"

uint64_t counter_now(const char *name)
{
    int (*ctl)(const char *, void *, size_t *, const void *, size_t);
#ifdef HAK_TEST_LINKED
    ctl = hak_ctl;
#else
    *(void **)&ctl = dlsym(RTLD_DEFAULT, "hak_ctl");
#endif
    char key[64];
    uint64_t value = 0;
    size_t size = sizeof value;
    (void)snprintf(key, sizeof key, "counter.%s", name);
    if (ctl == NULL || ctl(key, &value, &size, NULL, 0) != 0) {
        fail("no counter %s: is hakmem preloaded?", name);
    }
    return value;
}
