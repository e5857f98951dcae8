/* Exact map of live blocks, one bit per 8 bytes of the window: in the build `debug` every block is looked up on its way
 * in and out. In the others that is nothing; `secure` looks at what functions with a size or alignment are told. */
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

/* The alignment must be that of the request, and the size one that gives such a block. */
void check_alignment(const void *p, size_t alignment, const char *what);
void check_size(const void *p, size_t alignment, size_t size, const char *what);

#else

HAK_INLINE void check_size(const void *p, size_t alignment, size_t size, const char *what)
{
    (void)p, (void)alignment, (void)size, (void)what;
}

HAK_INLINE void check_alignment(const void *p, size_t alignment, const char *what)
{
    (void)p, (void)alignment, (void)what;
}

#endif
#endif
