/* What the static library has instead of operators_nothrow.c: the names of an alloc-token build, for the C++ library's nothrow forms
 * of new. */
#include "api/api.h"

#if HAK_INTERPOSE

#include "api/operators.h"

#define TOKEN(name, parameters, arguments)                                                         \
    void *name parameters;                                                                         \
    HAK_EXPORT void *__alloc_token_##name parameters                                               \
    {                                                                                              \
        return name arguments;                                                                     \
    }

TOKEN(_ZnwmRKSt9nothrow_t, (size_t size, const void *tag), (size, tag))
TOKEN(_ZnamRKSt9nothrow_t, (size_t size, const void *tag), (size, tag))
TOKEN(_ZnwmSt11align_val_tRKSt9nothrow_t, (size_t size, size_t alignment, const void *tag),
      (size, alignment, tag))
TOKEN(_ZnamSt11align_val_tRKSt9nothrow_t, (size_t size, size_t alignment, const void *tag),
      (size, alignment, tag))

#endif
