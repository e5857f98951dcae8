/* dlopen without RTLD_DEEPBIND, in the shared library alone. What is loaded with that flag looks names up among its own dependencies
 * first, and so has the C library's malloc beside hakmem's: a block that goes from one side to the other ends the program. Whatever
 * else the flag keeps apart is not apart then (docs/decisions/0103), so there is a setting: deepbind. */
#define _GNU_SOURCE
#include "api/api.h"

#include <dlfcn.h>

#if HAK_INTERPOSE && defined(RTLD_DEEPBIND)

#include "control/options.h"

typedef void *opener(const char *file, int mode);

/* NULL: not looked for yet. Who finds one has the settings as well: release, acquire. */
static _Atomic(opener *) next_dlopen;

static HAK_COLD opener *find_next(void)
{
    front_read_settings();
    opener *next = (opener *)dlsym(RTLD_NEXT, "dlopen");
    store_release(&next_dlopen, next);
    return next;
}

/* The C library tells by the address it returns to whose search paths and namespace count: so this is a jump, for which the
 * file is compiled with optimisation in every build. */
HAK_EXPORT void *dlopen(const char *file, int mode)
{
    opener *next = load_acquire(&next_dlopen);
    if (HAK_UNLIKELY(next == NULL))
        next = find_next();
    return next(file, option(deepbind) ? mode : mode & ~RTLD_DEEPBIND);
}

#endif
