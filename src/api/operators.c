/* operator new and delete, by their symbol names in the Itanium C++ ABI: so the library needs no C++
 * library, and uses the program's own (new-handler, bad_alloc) where there is one. */
#include "api/api.h"

#if HAK_INTERPOSE

#include "os/os.h"

/* std::get_new_handler, std::__throw_bad_alloc of the C++ library, if the program has one. */
typedef void (*new_handler)(void);
extern new_handler _ZSt15get_new_handlerv(void) __attribute__((weak));
extern _Noreturn void _ZSt17__throw_bad_allocv(void) __attribute__((weak));

/* As the standard says: call the handler and try again, for as long as there is a handler. A handler
 * may throw; an exception passes through these frames (built with unwind tables). */
static HAK_COLD void *new_again(size_t alignment, size_t size, bool nothrow)
{
    for (;;) {
        new_handler handler = _ZSt15get_new_handlerv != NULL ? _ZSt15get_new_handlerv() : NULL;
        if (handler == NULL)
            break;
        handler();
        void *p = front_alloc_aligned(alignment, size);
        if (p != NULL)
            return p;
    }
    if (nothrow)
        return NULL;
    if (_ZSt17__throw_bad_allocv != NULL)
        _ZSt17__throw_bad_allocv();
    os_fatal("operator new(%u): no memory, and no C++ library to throw bad_alloc", size);
}

static HAK_NOINLINE void *new_slow(size_t size)
{
    void *p = front_alloc_slow(size);
    return HAK_LIKELY(p != NULL) ? p : new_again(1, size, false);
}

static HAK_NOINLINE void *new_slow_nothrow(size_t size)
{
    void *p = front_alloc_slow(size);
    return HAK_LIKELY(p != NULL) ? p : new_again(1, size, true);
}

static void *new_aligned(size_t size, size_t alignment, bool nothrow)
{
    void *p = front_alloc_aligned(alignment, size);
    return check_out(HAK_LIKELY(p != NULL) ? p : new_again(alignment, size, nothrow));
}

/* The compiler of the program declares these, no header does. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

/* m: size_t, St11align_val_t: align_val_t, RKSt9nothrow_t: const nothrow_t &; w: new, a: array. */
HAK_EXPORT void *_Znwm(size_t size)
{
    return check_out(front_alloc_or(size, new_slow));
}

HAK_EXPORT void *_ZnwmRKSt9nothrow_t(size_t size, const void *tag)
{
    (void)tag;
    return check_out(front_alloc_or(size, new_slow_nothrow));
}

HAK_EXPORT void *_ZnwmSt11align_val_t(size_t size, size_t alignment)
{
    return new_aligned(size, alignment, false);
}

HAK_EXPORT void *_ZnwmSt11align_val_tRKSt9nothrow_t(size_t size, size_t alignment, const void *tag)
{
    (void)tag;
    return new_aligned(size, alignment, true);
}

HAK_EXPORT void _ZdlPv(void *p)
{
    api_free(p, "operator delete");
}

HAK_EXPORT void _ZdlPvRKSt9nothrow_t(void *p, const void *tag)
{
    (void)tag;
    api_free(p, "operator delete");
}

HAK_EXPORT void _ZdlPvm(void *p, size_t size)
{
    check_size(p, size, "operator delete");
    (void)size;
    api_free(p, "operator delete");
}

HAK_EXPORT void _ZdlPvSt11align_val_t(void *p, size_t alignment)
{
    check_alignment(p, alignment, "operator delete");
    (void)alignment;
    api_free(p, "operator delete");
}

HAK_EXPORT void _ZdlPvmSt11align_val_t(void *p, size_t size, size_t alignment)
{
    check_size(p, size, "operator delete");
    check_alignment(p, alignment, "operator delete");
    (void)size, (void)alignment;
    api_free(p, "operator delete");
}

HAK_EXPORT void _ZdlPvSt11align_val_tRKSt9nothrow_t(void *p, size_t alignment, const void *tag)
{
    (void)alignment, (void)tag;
    api_free(p, "operator delete");
}

void *_Znam(size_t size) SAME_AS(_Znwm);
void *_ZnamRKSt9nothrow_t(size_t size, const void *tag) SAME_AS(_ZnwmRKSt9nothrow_t);
void *_ZnamSt11align_val_t(size_t size, size_t alignment) SAME_AS(_ZnwmSt11align_val_t);
void *_ZnamSt11align_val_tRKSt9nothrow_t(size_t size, size_t alignment, const void *tag)
    SAME_AS(_ZnwmSt11align_val_tRKSt9nothrow_t);
void _ZdaPv(void *p) SAME_AS(_ZdlPv);
void _ZdaPvRKSt9nothrow_t(void *p, const void *tag) SAME_AS(_ZdlPvRKSt9nothrow_t);
void _ZdaPvm(void *p, size_t size) SAME_AS(_ZdlPvm);
void _ZdaPvSt11align_val_t(void *p, size_t alignment) SAME_AS(_ZdlPvSt11align_val_t);
void _ZdaPvmSt11align_val_t(void *p, size_t size, size_t alignment) SAME_AS(_ZdlPvmSt11align_val_t);
void _ZdaPvSt11align_val_tRKSt9nothrow_t(void *p, size_t alignment, const void *tag)
    SAME_AS(_ZdlPvSt11align_val_tRKSt9nothrow_t);

#endif
