#include "profile/reach.h"

#include "os/os.h"

/* The least a page has: finer than needed is harmless. */
#define STEP ((uintptr_t)4096)

/* A MiB of stack: beyond that a walk off the main stack ends. */
enum { QUESTIONS = 256 };

/* The kernel keeps 128 MiB and more below the top of the main stack free for it to grow, whatever its
 * limit is: a stack pointer there is on it, and all between is mapped. */
#define MAIN_STACK ((uintptr_t)64 << 20)

/* Top of the main thread's stack, in the C libraries that say so. */
extern void *__libc_stack_end __attribute__((weak));

/* A thread's control block lies above its stack, so no frame is beyond. */
static uintptr_t limit_for(uintptr_t sp)
{
    uintptr_t thread = (uintptr_t)__builtin_thread_pointer();
    return sp < thread ? thread : UINTPTR_MAX - STEP;
}

void reach_start(struct reach *r, uintptr_t sp)
{
    uintptr_t top = &__libc_stack_end != NULL ? (uintptr_t)__libc_stack_end : 0;
    *r = (struct reach){.low = sp & ~(STEP - 1), .questions = QUESTIONS};
    if (sp < top && top - sp < MAIN_STACK) {
        r->high = r->limit = top;
    } else {
        r->high = r->low + STEP;
        r->limit = limit_for(sp);
    }
}

void reach_move(struct reach *r, uintptr_t sp)
{
    if (sp >= r->low && sp < r->high)
        return;
    r->low = r->high = sp & ~(STEP - 1);
    r->limit = limit_for(sp);
}

/* Only if all pages up to there are readable: a stack has no holes, so what lies behind one is not it. */
HAK_COLD bool reach_extend(struct reach *r, uintptr_t at)
{
    if (at >= r->limit || (at - r->high) / STEP >= r->questions)
        return false;
    while (r->high <= at) {
        if (!os_readable((const void *)r->high))
            return false;
        r->questions--;
        r->high += STEP;
    }
    return true;
}

#if HAK_SANITIZED
__attribute__((no_sanitize("address"), no_sanitize("thread"))) HAK_NOINLINE uintptr_t
reach_load(uintptr_t at)
{
    return *(const volatile uintptr_t *)at;
}
#endif
