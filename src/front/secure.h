/* What the build `secure` keeps with the program's blocks. In the other builds all of this is nothing but a call of
 * front.
 *
 *   block   [the program's bytes][filled][last word: size and state, exclusive-or a key and the place][guard page]
 *
 * The last word says what the block is, whose address only the secret key makes one: live or free. A
 * free finds a live one or ends the program, and sees whether what is filled and the last word of the block in front
 * are as they were. A freed block, filled with a pattern, waits in a place of its thread that chance decides until
 * another takes that; then the pattern has to be there still. One above 64 KiB that has a guard page cannot be
 * accessed meanwhile, but for its last page.
 *
 * Calls: front, heap, os. Called by: api, front (where memory is short, explicit), check, control. */
#ifndef HAK_SECURE_H
#define HAK_SECURE_H

#include "front/front.h"
#include "os/os.h"

/* Bytes of the last word of what secure_request says. */
enum { SECURE_WORD = HAK_SECURE ? sizeof(uint64_t) : 0 };

#if HAK_SECURE

/* Bytes to allocate for a request; it stays what it is if it is larger than can be had. */
HAK_INLINE size_t secure_request(size_t size)
{
    if (size > PTRDIFF_MAX)
        return size;
    /* The first word of a free block is a link, so the last is another. */
    size = size < SECURE_WORD ? 2 * SECURE_WORD : size + SECURE_WORD;
    /* The first request comes before the region knows it. */
    return HAK_UNLIKELY(size > UNIT_SIZE) ? size + 2 * os_page_size() : size;
}

/* The block, of secure_request(size) bytes without an alignment, goes to the program. Passes p through. */
void *secure_out(void *p, size_t size);
/* The same of zeroed memory. */
void *secure_out_zeroed(void *p, size_t size);
/* The same with an alignment. */
void *secure_out_aligned(void *p, size_t size);
/* The bytes that were asked for. Ends the program if the block is not live. */
size_t secure_size(const void *p, const char *what);
/* The program gives the block back. Ends it if the block is not live, or something beside it was written. */
void secure_free(void *p, const char *what);
/* The same of one whose size the program names, which check_size has looked at. */
HAK_INLINE void secure_free_sized(void *p, size_t size, const char *what)
{
    (void)size;
    secure_free(p, what);
}
/* As realloc. NULL: no memory, and the block stays as it is. */
void *secure_realloc(void *p, size_t size, const char *what);
/* Looks through the blocks that wait in the calling thread and in ended ones, which then do not wait any longer. */
void secure_verify(void);
/* Whether the block that starts at p is the program's, and its size then. For whoever explains an address. */
bool secure_is_live(const void *p, size_t *size);

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

HAK_INLINE void *secure_out_zeroed(void *p, size_t size)
{
    (void)size;
    return p;
}

HAK_INLINE void *secure_out_aligned(void *p, size_t size)
{
    (void)size;
    return p;
}

HAK_INLINE size_t secure_size(const void *p, const char *what)
{
    return front_usable(p, what);
}

HAK_INLINE void secure_free(void *p, const char *what)
{
    (void)what;
    front_free(p);
}

HAK_INLINE void secure_free_sized(void *p, size_t size, const char *what)
{
    (void)what;
    front_free_sized(p, size);
}

HAK_INLINE void *secure_realloc(void *p, size_t size, const char *what)
{
    (void)what;
    return front_realloc(p, size);
}

HAK_INLINE void secure_verify(void) {}

#endif
#endif
