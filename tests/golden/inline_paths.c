/* The fast paths of inline.h as a program has them, for their instructions to be counted. */
#include <hakmem/inline.h>

void *inline_malloc(size_t size);
void *inline_malloc_64(void);
void inline_free(void *p, size_t size);
void inline_free_64(void *p);

void *inline_malloc(size_t size)
{
    return hak_malloc_inline(size);
}

void *inline_malloc_64(void)
{
    return hak_malloc_inline(64);
}

void inline_free(void *p, size_t size)
{
    hak_free_sized_inline(p, size);
}

void inline_free_64(void *p)
{
    hak_free_sized_inline(p, 64);
}
