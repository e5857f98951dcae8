/* Operators new and delete that call others, which may be the program's own, as the C++ standard says of those that a program has not
 * replaced. By their symbol names in the Itanium C++ ABI. */
#include "api/api.h"

#if HAK_INTERPOSE

#include "api/operators.h"

/* m: size_t, St11align_val_t: align_val_t, RKSt9nothrow_t: const nothrow_t &, which is not looked at; w: new, l: delete, a: array. */
HAK_EXPORT void *_ZnamSt11align_val_t(size_t size, size_t alignment)
{
    return _ZnwmSt11align_val_t(size, alignment);
}

HAK_EXPORT void _ZdaPvSt11align_val_t(void *p, size_t alignment)
{
    _ZdlPvSt11align_val_t(p, alignment);
}

void *ours_ZnamSt11align_val_t(size_t size, size_t alignment) OURS(_ZnamSt11align_val_t);
void ours_ZdaPvSt11align_val_t(void *p, size_t alignment) OURS(_ZdaPvSt11align_val_t);

/* The size is known to ours alone. */
HAK_EXPORT void _ZdaPvm(void *p, size_t size)
{
    if (IS_REPLACED(_ZdaPv))
        _ZdaPv(p);
    else
        ours_ZdlPvm(p, size);
}

HAK_EXPORT void _ZdaPvmSt11align_val_t(void *p, size_t size, size_t alignment)
{
    if (IS_REPLACED(_ZdaPvSt11align_val_t))
        _ZdaPvSt11align_val_t(p, alignment);
    else
        ours_ZdlPvmSt11align_val_t(p, size, alignment);
}

HAK_EXPORT void _ZdlPvRKSt9nothrow_t(void *p)
{
    _ZdlPv(p);
}

HAK_EXPORT void _ZdaPvRKSt9nothrow_t(void *p)
{
    _ZdaPv(p);
}

HAK_EXPORT void _ZdlPvSt11align_val_tRKSt9nothrow_t(void *p, size_t alignment)
{
    _ZdlPvSt11align_val_t(p, alignment);
}

HAK_EXPORT void _ZdaPvSt11align_val_tRKSt9nothrow_t(void *p, size_t alignment)
{
    _ZdaPvSt11align_val_t(p, alignment);
}

#endif
