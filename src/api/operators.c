/* operator new and delete, by their symbol names in the Itanium C++ ABI: so the library needs no C++
 * library, and uses the program's own (new-handler, bad_alloc) where there is one. Here those that allocate and free, and those that call
 * others and are called often; the rest: operators_default.c, operators_nothrow.c. */
#include "api/api.h"

#if HAK_INTERPOSE

#include "api/operators.h"
#include "os/os.h"

/* std::__throw_bad_alloc of the C++ library, if the program has one. */
extern _Noreturn void _ZSt17__throw_bad_allocv(void) __attribute__((weak));

HAK_COLD new_handler new_handler_now(void)
{
    typedef new_handler get_function(void);
    get_function *get = _ZSt15get_new_handlerv;
    if (get == NULL)
        get = (get_function *)cxx_find("_ZSt15get_new_handlerv");
    return get != NULL ? get() : NULL;
}

/* As the standard says: call the handler and try again, for as long as there is a handler. It may
 * throw; the exception passes through these frames (built with unwind tables). */
static HAK_NOINLINE void *new_again(size_t alignment, size_t size)
{
    for (new_handler handler; (handler = new_handler_now()) != NULL;) {
        handler();
        void *p = front_alloc_aligned(alignment, size);
        if (p != NULL)
            return p;
    }
    return NULL;
}

static HAK_COLD void *new_or_throw(size_t alignment, size_t size)
{
    void *p = new_again(alignment, size);
    if (p != NULL)
        return p;
    void (*throw)(void) = _ZSt17__throw_bad_allocv;
    if (throw == NULL)
        throw = (void (*)(void))cxx_find("_ZSt17__throw_bad_allocv");
    if (throw != NULL)
        throw();
    /* A program that was optimised as a whole may not say of malloc that it needs it: this does, through start.c. */
    __asm__ volatile("" : : "r"(hak_start));
    os_fatal("operator new(%u): no memory, and no C++ library to throw bad_alloc", size);
}

static HAK_NOINLINE void *new_slow(size_t size)
{
    void *p = front_alloc_slow(size);
    return HAK_LIKELY(p != NULL) ? p : new_or_throw(1, size);
}

static void delete_slow(void *p, size_t size);

/* m: size_t, St11align_val_t: align_val_t; w: new, l: delete, a: array. */
HAK_EXPORT_HOT void *_Znwm(size_t size)
{
    return api_out(front_alloc_or(secure_request(size), new_slow), size);
}

HAK_EXPORT_HOT void _ZdlPv(void *p)
{
    api_free(p, "operator delete");
}

HAK_EXPORT_HOT void _ZdlPvm(void *p, size_t size)
{
    if ((HAK_SECURE || HAK_CHECKED) && !IS_REPLACED(_ZdlPv))
        api_free_sized(p, 1, size, "operator delete");
    else if (!front_delete(p, size))
        delete_slow(p, size);
}

static HAK_NOINLINE void delete_slow(void *p, size_t size)
{
    if (IS_REPLACED(_ZdlPv))
        _ZdlPv(p);
    else
        front_free_sized_slow(p, size);
}

/* Aside: a jump over a jump takes longer. */
static HAK_COLD void *new_by_program(size_t size)
{
    return _Znwm(size);
}

HAK_EXPORT_HOT void *_Znam(size_t size)
{
    if (HAK_UNLIKELY(IS_REPLACED(_Znwm)))
        return new_by_program(size);
    return api_out(front_alloc_or(secure_request(size), new_slow), size);
}

HAK_EXPORT_HOT void _ZdaPv(void *p)
{
    if ((HAK_SECURE || HAK_CHECKED) && !IS_REPLACED(_ZdlPv))
        api_free(p, "operator delete");
    else if (!front_delete(p, 0))
        delete_slow(p, 0);
}

HAK_EXPORT void *_ZnwmSt11align_val_t(size_t size, size_t alignment)
{
    size_t bytes = secure_request(size);
    void *p = front_alloc_aligned(alignment, bytes);
    return api_out_aligned(HAK_LIKELY(p != NULL) ? p : new_or_throw(alignment, bytes), size);
}

HAK_EXPORT void _ZdlPvSt11align_val_t(void *p, size_t alignment)
{
    api_free_aligned(p, alignment, "operator delete");
}

HAK_EXPORT void _ZdlPvmSt11align_val_t(void *p, size_t size, size_t alignment)
{
    if (IS_REPLACED(_ZdlPvSt11align_val_t))
        _ZdlPvSt11align_val_t(p, alignment);
    else
        api_free_sized(p, alignment, size, "operator delete");
}

const struct delete_in_use hak_delete_in_use = {_ZdlPv, ours_ZdlPv};

void *ours_Znwm(size_t size) OURS(_Znwm);
void *ours_Znam(size_t size) OURS(_Znam);
void *ours_ZnwmSt11align_val_t(size_t size, size_t alignment) OURS(_ZnwmSt11align_val_t);
void ours_ZdlPv(void *p) OURS(_ZdlPv);
void ours_ZdaPv(void *p) OURS(_ZdaPv);
void ours_ZdlPvm(void *p, size_t size) OURS(_ZdlPvm);
void ours_ZdlPvSt11align_val_t(void *p, size_t alignment) OURS(_ZdlPvSt11align_val_t);
void ours_ZdlPvmSt11align_val_t(void *p, size_t size, size_t alignment)
    OURS(_ZdlPvmSt11align_val_t);

/* As __alloc_token_malloc: see malloc.c. */
void *__alloc_token__Znwm(size_t size) SAME_AS(_Znwm);
void *__alloc_token__Znam(size_t size) SAME_AS(_Znwm);
void *__alloc_token__ZnwmSt11align_val_t(size_t size, size_t alignment)
    SAME_AS(_ZnwmSt11align_val_t);
void *__alloc_token__ZnamSt11align_val_t(size_t size, size_t alignment)
    SAME_AS(_ZnwmSt11align_val_t);

#endif
