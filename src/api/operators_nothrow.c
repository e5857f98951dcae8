/* operator new that gives NULL, by its symbol names in the Itanium C++ ABI. In the shared library alone: in a program that is linked
 * with the static one the C++ library's own do it around our operator new. */
#define _GNU_SOURCE
#include "api/api.h"

#if HAK_INTERPOSE

#include <dlfcn.h>

#include "api/operators.h"

/* What a handler throws, or an operator new of the program, is to become NULL, which takes C++: the C++ library's own nothrow operators
 * do it around the other operator new, so they are called where they are. */
typedef void *plain(size_t size, const void *tag);
typedef void *aligned(size_t size, size_t alignment, const void *tag);

static HAK_COLD void *next_operator(const char *name, bool is_replaced)
{
    bool has_handler = _ZSt15get_new_handlerv != NULL && _ZSt15get_new_handlerv() != NULL;
    return is_replaced || has_handler ? dlsym(RTLD_NEXT, name) : NULL;
}

/* `name` is the calling operator's. Where the C++ library's is missing an operator of the program may throw. */
static HAK_COLD void *new_by_next(const char *name, size_t size, const void *tag)
{
    bool is_replaced = IS_REPLACED(_Znam) || IS_REPLACED(_Znwm);
    plain *next = (plain *)next_operator(name, is_replaced);
    if (next == NULL)
        return is_replaced ? _Znam(size) : NULL;
    return next(size, tag);
}

static HAK_COLD void *new_aligned_by_next(const char *name, size_t size, size_t alignment,
                                          const void *tag)
{
    bool is_replaced = IS_REPLACED(_ZnamSt11align_val_t) || IS_REPLACED(_ZnwmSt11align_val_t);
    aligned *next = (aligned *)next_operator(name, is_replaced);
    if (next == NULL)
        return is_replaced ? _ZnamSt11align_val_t(size, alignment) : NULL;
    return next(size, alignment, tag);
}

HAK_EXPORT void *_ZnwmRKSt9nothrow_t(size_t size, const void *tag)
{
    void *p = IS_REPLACED(_Znwm) ? NULL : front_alloc(secure_request(size));
    return HAK_LIKELY(p != NULL) ? api_out(p, size) : new_by_next("_ZnwmRKSt9nothrow_t", size, tag);
}

HAK_EXPORT void *_ZnwmSt11align_val_tRKSt9nothrow_t(size_t size, size_t alignment, const void *tag)
{
    void *p = IS_REPLACED(_ZnwmSt11align_val_t)
                  ? NULL
                  : front_alloc_aligned(alignment, secure_request(size));
    return HAK_LIKELY(p != NULL)
               ? api_out_aligned(p, size)
               : new_aligned_by_next("_ZnwmSt11align_val_tRKSt9nothrow_t", size, alignment, tag);
}

void *ours_ZnwmRKSt9nothrow_t(size_t size, const void *tag) OURS(_ZnwmRKSt9nothrow_t);
void *ours_ZnwmSt11align_val_tRKSt9nothrow_t(size_t size, size_t alignment, const void *tag)
    OURS(_ZnwmSt11align_val_tRKSt9nothrow_t);

HAK_EXPORT void *_ZnamRKSt9nothrow_t(size_t size, const void *tag)
{
    return IS_REPLACED(_Znam) ? new_by_next("_ZnamRKSt9nothrow_t", size, tag)
                              : ours_ZnwmRKSt9nothrow_t(size, tag);
}

HAK_EXPORT void *_ZnamSt11align_val_tRKSt9nothrow_t(size_t size, size_t alignment, const void *tag)
{
    return IS_REPLACED(_ZnamSt11align_val_t)
               ? new_aligned_by_next("_ZnamSt11align_val_tRKSt9nothrow_t", size, alignment, tag)
               : ours_ZnwmSt11align_val_tRKSt9nothrow_t(size, alignment, tag);
}

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
