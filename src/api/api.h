/* What the files of the interface share: symbols, overflow and alignment rules, no logic. */
#ifndef HAK_API_H
#define HAK_API_H

#include <errno.h>

#include "front/check.h"
#include "front/front.h"
#include "hakmem/hakmem.h"

/* HAK_INTERPOSE: the standard names are defined as well. Off where a sanitizer owns them. */
#ifndef HAK_INTERPOSE
#define HAK_INTERPOSE 1
#endif

/* The library's constructor. malloc.c names it, so that a program linked with the static library
 * gets it along with malloc. */
void hak_start(void);

#define SAME_AS(function) __attribute__((alias(#function), visibility("default")))

HAK_INLINE void *api_alloc(size_t size)
{
#if HAK_CHECKED
    return check_out(front_alloc(size));
#else
    return front_alloc(size);
#endif
}

HAK_INLINE void api_free(void *p, const char *what)
{
    check_in(p, what);
    front_free(p);
}

#endif
