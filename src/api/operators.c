/* operator new and delete, by their symbol names in the Itanium C++ ABI: so the library needs no C++
 * library, and uses the program's own (new-handler, bad_alloc) where there is one. The nothrow forms of new: operators_nothrow.c. */
#include "api/api.h"

#if HAK_INTERPOSE

#include "api/operators.h"
#include "os/os.h"

/* std::__throw_bad_alloc of the C++ library, if the program has one. */
extern _Noreturn void _ZSt17__throw_bad_allocv(void) __attribute__((weak));

/* As the standard says: call the handler and try again, for as long as there is a handler. It may
 * throw; the exception passes through these frames (built with unwind tables). */
static void *new_again(size_t alignment, size_t size)
{
    while (_ZSt15get_new_handlerv != NULL) {
        new_handler handler = _ZSt15get_new_handlerv();
        if (handler == NULL)
            break;
        handler();
        void *p = front_alloc_aligned(alignment, size);
        if (p != NULL)
            return p;
    }
    return NULL;
}

static HAK_NOINLINE void *new_or_throw(size_t alignment, size_t size)
{
    void *p = new_again(alignment, size);
    if (p == NULL && _ZSt17__throw_bad_allocv != NULL)
        _ZSt17__throw_bad_allocv();
    if (p == NULL)
        os_fatal("operator new(%u): no memory, and no C++ library to throw bad_alloc", size);
    return p;
}

static HAK_NOINLINE void *new_slow(size_t size)
{
    void *p = front_alloc_slow(size);
    return HAK_LIKELY(p != NULL) ? p : new_or_throw(1, size);
}

/* m: size_t, St11align_val_t: align_val_t, RKSt9nothrow_t: const nothrow_t &; w: new, a: array. */
HAK_EXPORT_HOT void *_Znwm(size_t size)
{
    return api_out(front_alloc_or(secure_request(size), new_slow), size);
}

HAK_EXPORT void *_ZnwmSt11align_val_t(size_t size, size_t alignment)
{
    size_t bytes = secure_request(size);
    void *p = front_alloc_aligned(alignment, bytes);
    return api_out_aligned(HAK_LIKELY(p != NULL) ? p : new_or_throw(alignment, bytes), size);
}

HAK_EXPORT_HOT void _ZdlPv(void *p)
{
    api_free(p, "operator delete");
}

HAK_EXPORT_HOT void _ZdlPvm(void *p, size_t size)
{
    api_free_sized(p, 1, size, "operator delete");
}

HAK_EXPORT void _ZdlPvSt11align_val_t(void *p, size_t alignment)
{
    api_free_aligned(p, alignment, "operator delete");
}

HAK_EXPORT void _ZdlPvmSt11align_val_t(void *p, size_t size, size_t alignment)
{
    api_free_sized(p, alignment, size, "operator delete");
}

/* A tag (RKSt9nothrow_t) is not looked at: these are declared without. */
void _ZdlPvRKSt9nothrow_t(void *p) SAME_AS(_ZdlPv);
void _ZdlPvSt11align_val_tRKSt9nothrow_t(void *p, size_t alignment) SAME_AS(_ZdlPvSt11align_val_t);

void *_Znam(size_t size) SAME_AS(_Znwm);
void *_ZnamSt11align_val_t(size_t size, size_t alignment) SAME_AS(_ZnwmSt11align_val_t);

/* As __alloc_token_malloc: see malloc.c. */
void *__alloc_token__Znwm(size_t size) SAME_AS(_Znwm);
void *__alloc_token__Znam(size_t size) SAME_AS(_Znwm);
void *__alloc_token__ZnwmSt11align_val_t(size_t size, size_t alignment)
    SAME_AS(_ZnwmSt11align_val_t);
void *__alloc_token__ZnamSt11align_val_t(size_t size, size_t alignment)
    SAME_AS(_ZnwmSt11align_val_t);

void _ZdaPv(void *p) SAME_AS(_ZdlPv);
void _ZdaPvRKSt9nothrow_t(void *p) SAME_AS(_ZdlPv);
void _ZdaPvm(void *p, size_t size) SAME_AS(_ZdlPvm);
void _ZdaPvSt11align_val_t(void *p, size_t alignment) SAME_AS(_ZdlPvSt11align_val_t);
void _ZdaPvmSt11align_val_t(void *p, size_t size, size_t alignment) SAME_AS(_ZdlPvmSt11align_val_t);
void _ZdaPvSt11align_val_tRKSt9nothrow_t(void *p, size_t alignment) SAME_AS(_ZdlPvSt11align_val_t);

#endif
