/* What the files of the interface share: symbols, overflow and alignment rules, no logic. */
#ifndef HAK_API_H
#define HAK_API_H

#include <errno.h>

#include "front/check.h"
#include "front/front.h"
#include "front/secure.h"
#include "hakmem/hakmem.h"

/* HAK_INTERPOSE: the standard names are defined as well. Off where a sanitizer owns them. */
#ifndef HAK_INTERPOSE
#define HAK_INTERPOSE 1
#endif

/* The library's constructor. malloc.c names it, so that a program linked with the static library
 * gets it along with malloc. */
void hak_start(void);

#define SAME_AS(function) __attribute__((alias(#function), visibility("default")))

/* A block of secure_request(size) bytes goes to the program. */
HAK_INLINE void *api_out(void *p, size_t size)
{
    return check_out(secure_out(p, size));
}

HAK_INLINE void *api_alloc(size_t size)
{
    void *p = front_alloc(secure_request(size));
#if HAK_SECURE
    if (HAK_UNLIKELY(p == NULL)) {
        secure_verify(); /* freed memory waits, and is what is missing */
        p = front_alloc(secure_request(size));
    }
#endif
    return api_out(p, size);
}

HAK_INLINE void api_free(void *p, const char *what)
{
    check_in(p, what);
#if HAK_SECURE
    secure_free(p, what);
#else
    front_free(p);
#endif
}

#endif
