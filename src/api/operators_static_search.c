/* The search of operators_nothrow.c as the static library has it: there is nothing to look for, since a program that is linked with it
 * has the C++ library's own nothrow forms of new. Defined, because where a weak hidden name is missing gold has the program's
 * address in its place. */
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
