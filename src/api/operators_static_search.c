/* What the static library has instead of operators_nothrow.c's search: a program that is linked with it has its C++ library's own nothrow
 * forms of new. Not weak declarations that are asked for: gold gives what is hidden, and not there, the address of the program. */
#include "api/api.h"

#if HAK_INTERPOSE

#include "api/operators.h"

HAK_COLD void *cxx_find(const char *name)
{
    (void)name;
    return NULL;
}

HAK_COLD void operators_find_next(void) {}

#endif
