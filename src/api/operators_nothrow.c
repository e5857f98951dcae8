/* operator new that gives NULL, by its symbol names in the Itanium C++ ABI. In the shared library alone: in a program that is linked
 * with the static one the C++ library's own do it around our operator new. */
#define _GNU_SOURCE
#include "api/api.h"

#if HAK_INTERPOSE

#include <dlfcn.h>

#include "api/operators.h"

/* What is found by name stays loaded. */
HAK_COLD void *cxx_find(const char *name)
{
    void *found = dlsym(RTLD_NEXT, name), *library;
    if (found == NULL && (library = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_NOLOAD)) != NULL)
        found = dlsym(library, name);
    return found;
}

/* What a handler throws, or an operator new of the program, is to become NULL, which takes C++: the C++ library's own nothrow operators
 * do it around the other operator new, so they are called where they are. */
enum next { PLAIN, ARRAY, ALIGNED, ALIGNED_ARRAY, NEXTS };
static _Atomic(void *) next_operators[NEXTS]; /* NULL: not looked for yet, or there is none */

HAK_COLD void operators_find_next(void)
{
    static const char names[NEXTS][40] = {
        [PLAIN] = "_ZnwmRKSt9nothrow_t",
        [ARRAY] = "_ZnamRKSt9nothrow_t",
        [ALIGNED] = "_ZnwmSt11align_val_tRKSt9nothrow_t",
        [ALIGNED_ARRAY] = "_ZnamSt11align_val_tRKSt9nothrow_t",
    };
    for (int i = 0; i < NEXTS; i++)
        store_relaxed(&next_operators[i], cxx_find(names[i]));
}

static HAK_COLD void *next_of(enum next which, bool is_replaced)
{
    if (!is_replaced && new_handler_now() == NULL)
        return NULL;
    if (load_relaxed(&next_operators[which]) == NULL)
        operators_find_next();
    return load_relaxed(&next_operators[which]);
}

typedef void *plain(size_t size, const void *tag);
typedef void *aligned(size_t size, size_t alignment, const void *tag);

/* Where the C++ library's is missing the program's, which may throw, is better than none. */
static HAK_COLD void *new_by_next(enum next which, bool is_replaced, size_t size, const void *tag)
{
    plain *next = (plain *)next_of(which, is_replaced);
    if (next != NULL)
        return next(size, tag);
    if (!is_replaced)
        return NULL;
    return which == ARRAY ? _Znam(size) : _Znwm(size);
}

static HAK_COLD void *new_aligned_by_next(enum next which, bool is_replaced, size_t size,
                                          size_t alignment, const void *tag)
{
    aligned *next = (aligned *)next_of(which, is_replaced);
    if (next != NULL)
        return next(size, alignment, tag);
    if (!is_replaced)
        return NULL;
    return which == ALIGNED_ARRAY ? _ZnamSt11align_val_t(size, alignment)
                                  : _ZnwmSt11align_val_t(size, alignment);
}

HAK_EXPORT void *_ZnwmRKSt9nothrow_t(size_t size, const void *tag)
{
    bool is_replaced = IS_REPLACED(_Znwm);
    void *p = is_replaced ? NULL : front_alloc(secure_request(size));
    return HAK_LIKELY(p != NULL) ? api_out(p, size) : new_by_next(PLAIN, is_replaced, size, tag);
}

HAK_EXPORT void *_ZnwmSt11align_val_tRKSt9nothrow_t(size_t size, size_t alignment, const void *tag)
{
    bool is_replaced = IS_REPLACED(_ZnwmSt11align_val_t);
    void *p = is_replaced ? NULL : front_alloc_aligned(alignment, secure_request(size));
    return HAK_LIKELY(p != NULL) ? api_out_aligned(p, size)
                                 : new_aligned_by_next(ALIGNED, is_replaced, size, alignment, tag);
}

void *ours_ZnwmRKSt9nothrow_t(size_t size, const void *tag) OURS(_ZnwmRKSt9nothrow_t);
void *ours_ZnwmSt11align_val_tRKSt9nothrow_t(size_t size, size_t alignment, const void *tag)
    OURS(_ZnwmSt11align_val_tRKSt9nothrow_t);

HAK_EXPORT void *_ZnamRKSt9nothrow_t(size_t size, const void *tag)
{
    return IS_REPLACED(_Znam) ? new_by_next(ARRAY, true, size, tag)
                              : ours_ZnwmRKSt9nothrow_t(size, tag);
}

HAK_EXPORT void *_ZnamSt11align_val_tRKSt9nothrow_t(size_t size, size_t alignment, const void *tag)
{
    return IS_REPLACED(_ZnamSt11align_val_t)
               ? new_aligned_by_next(ALIGNED_ARRAY, true, size, alignment, tag)
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
