/* operator new that gives NULL, by its symbol names in the Itanium C++ ABI. In the shared library alone: in a program that is linked
 * with the static one the C++ library's own do it around our operator new. */
#define _GNU_SOURCE
#include "api/api.h"

#if HAK_INTERPOSE

#include <dlfcn.h>

#include "api/operators.h"

/* What the handler throws is to become NULL, which takes C++: the C++ library's own nothrow operator does it around our operator new,
 * so it is called where there is one. */
static HAK_NOINLINE void *new_or_null(size_t alignment, size_t size, const void *tag)
{
    typedef void *plain(size_t size, const void *tag);
    typedef void *aligned(size_t size, size_t alignment, const void *tag);
    if (_ZSt15get_new_handlerv == NULL || _ZSt15get_new_handlerv() == NULL)
        return NULL;
    if (alignment > 1) {
        aligned *next = (aligned *)dlsym(RTLD_NEXT, "_ZnwmSt11align_val_tRKSt9nothrow_t");
        return next != NULL ? next(size, alignment, tag) : NULL;
    }
    plain *next = (plain *)dlsym(RTLD_NEXT, "_ZnwmRKSt9nothrow_t");
    return next != NULL ? next(size, tag) : NULL;
}

HAK_EXPORT void *_ZnwmRKSt9nothrow_t(size_t size, const void *tag)
{
    void *p = front_alloc(secure_request(size));
    return HAK_LIKELY(p != NULL) ? api_out(p, size) : new_or_null(1, size, tag);
}

HAK_EXPORT void *_ZnwmSt11align_val_tRKSt9nothrow_t(size_t size, size_t alignment, const void *tag)
{
    void *p = front_alloc_aligned(alignment, secure_request(size));
    return HAK_LIKELY(p != NULL) ? api_out_aligned(p, size) : new_or_null(alignment, size, tag);
}

void *_ZnamRKSt9nothrow_t(size_t size, const void *tag) SAME_AS(_ZnwmRKSt9nothrow_t);
void *_ZnamSt11align_val_tRKSt9nothrow_t(size_t size, size_t alignment, const void *tag)
    SAME_AS(_ZnwmSt11align_val_tRKSt9nothrow_t);
/* As __alloc_token_malloc: see malloc.c. */
void *__alloc_token__ZnwmRKSt9nothrow_t(size_t size, const void *tag) SAME_AS(_ZnwmRKSt9nothrow_t);
void *__alloc_token__ZnamRKSt9nothrow_t(size_t size, const void *tag) SAME_AS(_ZnwmRKSt9nothrow_t);
void *__alloc_token__ZnwmSt11align_val_tRKSt9nothrow_t(size_t size, size_t alignment,
                                                       const void *tag)
    SAME_AS(_ZnwmSt11align_val_tRKSt9nothrow_t);
void *__alloc_token__ZnamSt11align_val_tRKSt9nothrow_t(size_t size, size_t alignment,
                                                       const void *tag)
    SAME_AS(_ZnwmSt11align_val_tRKSt9nothrow_t);

#endif
