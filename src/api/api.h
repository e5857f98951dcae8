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

HAK_INLINE void *api_out_aligned(void *p, size_t size)
{
    return check_out(secure_out_aligned(p, size));
}

HAK_INLINE void *api_alloc(size_t size)
{
    return api_out(front_alloc(secure_request(size)), size);
}

HAK_INLINE void api_free(void *p, const char *what)
{
    check_in(p, what);
    secure_free(p, what);
}

HAK_INLINE void api_free_aligned(void *p, size_t alignment, const char *what)
{
    check_alignment(p, alignment, what);
    api_free(p, what);
}

HAK_INLINE void api_free_sized(void *p, size_t alignment, size_t size, const char *what)
{
    check_alignment(p, alignment, what);
    check_size(p, alignment, size, what);
    check_in(p, what);
    secure_free_sized(p, size, what);
}

#endif
