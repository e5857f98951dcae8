/* Exact map of live blocks, one bit per 8 bytes of the window: in the build `debug` every block is looked up on its way
 * in and out. In the others that is nothing. Exact sizes that functions are told are looked at in `secure` as well,
 * alignments in every build. */
#ifndef HAK_CHECK_H
#define HAK_CHECK_H

#include "base/base.h"

#if HAK_CHECKED

/* The block goes to the program. Passes p through. */
void *check_out(void *p);
/* The program gives the block back to function `what`. Ends the program if it is not live. */
void check_in(void *p, const char *what);
/* The program names the block to function `what`. */
void check_live(const void *p, const char *what);
/* Whether the map says that a block starts at p, which lies in the window. Changes nothing. */
bool check_is_live(const void *p);

#else

HAK_INLINE void *check_out(void *p)
{
    return p;
}

HAK_INLINE void check_in(void *p, const char *what)
{
    (void)p, (void)what;
}

HAK_INLINE void check_live(const void *p, const char *what)
{
    (void)p, (void)what;
}

#endif

#if HAK_CHECKED || HAK_SECURE

/* The size must be one that gives such a block. */
void check_size(const void *p, size_t alignment, size_t size, const char *what);

#else

HAK_INLINE void check_size(const void *p, size_t alignment, size_t size, const char *what)
{
    (void)p, (void)alignment, (void)size, (void)what;
}

#endif

/* Ends the program: the block has no such alignment, or there is none. */
_Noreturn void die_of_alignment(const void *p, size_t alignment, const char *what);

/* The alignment must be one that the block has. */
HAK_INLINE void check_alignment(const void *p, size_t alignment, const char *what)
{
    if (HAK_UNLIKELY((((uintptr_t)p | alignment) & (alignment - 1)) != 0) && p != NULL)
        die_of_alignment(p, alignment, what);
}

#endif
