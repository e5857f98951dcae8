/* What the build `secure` keeps around the program's blocks, besides the map of check.h. In the other builds all of
 * this is nothing but a call of front.
 *
 *   block   [the program's bytes][filled, at least 16 bytes][guard page, of blocks above 64 KiB]
 *
 * What is filled ends with the size that was asked for and a word that depends on the place: both are looked at when
 * the block comes back, and so is the last word of the block in front of it. A block that was freed waits,
 * filled with a pattern, in a place taken by chance until another takes that; then the pattern has to be there still. One
 * above 64 KiB cannot be read or written meanwhile.
 *
 * Calls: front, check, os. Called by: api, front (where memory is short), control. */
#ifndef HAK_SECURE_H
#define HAK_SECURE_H

#include "front/front.h"

#if HAK_SECURE

/* Bytes to allocate for a request; it stays what it is if it is larger than can be had. */
size_t secure_request(size_t size);
/* The block, of secure_request(size) bytes, goes to the program. Passes p through. */
void *secure_out(void *p, size_t size);
/* Takes back what secure_out has returned and the program has not seen. */
void secure_drop(void *p);
/* The bytes that were asked for; the block must be live. */
size_t secure_size(const void *p);
/* The program gives the block back, which check_in has seen. */
void secure_free(void *p, const char *what);
/* As realloc; the block is live. NULL: no memory, and the block stays as it is. */
void *secure_realloc(void *p, size_t size, const char *what);
/* Looks through all blocks that wait, which then do not wait any longer. */
void secure_verify(void);

#else

HAK_INLINE size_t secure_request(size_t size)
{
    return size;
}

HAK_INLINE void *secure_out(void *p, size_t size)
{
    (void)size;
    return p;
}

HAK_INLINE void secure_drop(void *p)
{
    front_free(p);
}

HAK_INLINE size_t secure_size(const void *p)
{
    return front_usable(p, "malloc_usable_size");
}

HAK_INLINE void secure_free(void *p, const char *what)
{
    (void)what;
    front_free(p);
}

HAK_INLINE void *secure_realloc(void *p, size_t size, const char *what)
{
    (void)what;
    return front_realloc(p, size);
}

HAK_INLINE void secure_verify(void) {}

#endif
#endif
