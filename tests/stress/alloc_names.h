/* Lets one test program run in two ways. Normally it calls plain malloc and is run with hakmem
 * preloaded. A sanitizer owns malloc, though: there the program defines HAK_TEST_LINKED, links the
 * static library and reaches it by these names. Include this last: it redefines standard names. */
#ifndef HAK_TEST_ALLOC_NAMES_H
#define HAK_TEST_ALLOC_NAMES_H

#include <malloc.h>
#include <stdlib.h>

#ifdef HAK_TEST_LINKED
#include <hakmem/hakmem.h>

#define malloc(size) hak_malloc(size)
#define calloc(count, size) hak_calloc(count, size)
#define realloc(block, size) hak_realloc(block, size)
#define free(block) hak_free(block)
#define memalign(alignment, size) hak_memalign(alignment, size)
#define aligned_alloc(alignment, size) hak_aligned_alloc(alignment, size)
#define posix_memalign(out, alignment, size) hak_posix_memalign(out, alignment, size)
#define malloc_usable_size(block) hak_usable_size(block)
#define malloc_trim(keep) hak_purge()

/* The sanitizer's own memory drowns the allocator's, so resident sizes say nothing there. */
#define HAK_TEST_RSS_COUNTS 0
#else
#define HAK_TEST_RSS_COUNTS 1
#endif

#endif
