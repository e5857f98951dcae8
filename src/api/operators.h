/* What the files of operators new and delete share: of the C++ library, if the program has one, and which of them are the program's. */
#ifndef HAK_OPERATORS_H
#define HAK_OPERATORS_H

/* std::get_new_handler */
typedef void (*new_handler)(void);
extern new_handler _ZSt15get_new_handlerv(void) __attribute__((weak));

/* NULL: there is none. */
new_handler new_handler_now(void);

/* Looks in the C++ library, which may be there for a plugin of the program alone (operators_nothrow.c); in the static library nowhere (operators_static_search.c). */
void *cxx_find(const char *name);

/* Looks for the C++ library's nothrow operators new: at the start where the program has an operator delete of its own, since later somebody may
 * have the dynamic linker's lock and wait for who calls one, or want to know what dlerror says. In the static library nothing is done. */
void operators_find_next(void);

/* The compiler of the program declares operators new and delete, no header does. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

/* A program may have operators of its own, and only some: of the rest the C++ standard says which of them they call ([new.delete]).
 * In the static library all of them are weak (CMakeLists.txt), so that it may have its own there as well. In the shared one none is: of weak
 * ones valgrind takes the place of some and not of others. */

/* `used` is whichever the dynamic linker has found, `ours` the one of this library. To a compiler two names are two functions, so it is
 * kept from knowing. */
typedef void some_operator(void);
HAK_INLINE bool is_other(some_operator *used, some_operator *ours)
{
    __asm__("" : "+r"(ours));
    return used != ours;
}
#define IS_REPLACED(name) is_other((some_operator *)name, (some_operator *)ours##name)
#define OURS(name) __attribute__((alias(#name), visibility("hidden")))

/* Of these somebody asks whether they are replaced. */
#define OPERATOR(type, name, parameters)                                                           \
    HAK_EXPORT type name parameters;                                                               \
    __attribute__((visibility("hidden"))) type ours##name parameters
OPERATOR(void *, _Znwm, (size_t size));
OPERATOR(void *, _Znam, (size_t size));
OPERATOR(void *, _ZnwmSt11align_val_t, (size_t size, size_t alignment));
OPERATOR(void *, _ZnamSt11align_val_t, (size_t size, size_t alignment));
OPERATOR(void, _ZdlPv, (void *p));
OPERATOR(void, _ZdaPv, (void *p));
OPERATOR(void, _ZdlPvSt11align_val_t, (void *p, size_t alignment));
OPERATOR(void, _ZdaPvSt11align_val_t, (void *p, size_t alignment));
OPERATOR(void, _ZdlPvm, (void *p, size_t size));
OPERATOR(void, _ZdlPvmSt11align_val_t, (void *p, size_t size, size_t alignment));

#endif
