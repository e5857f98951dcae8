/* Which granules are free, a bit each: what the search for address space looks at, where the granules' states would be a cache line for
 * each. All of it under the region's lock. Calls: region (window). Called by: region. */
#ifndef HAK_FREE_MAP_H
#define HAK_FREE_MAP_H

#include "region/region.h"

/* In the beginning all are. */
void free_map_set(size_t granule, bool is_free);

/* The first granule from `at` on that is not free; `end`: there is none before. */
size_t free_map_run_end(size_t at, size_t end);

/* The lowest n free granules that follow on each other, whose address is a multiple of `alignment`; REGION_NONE: there are none. */
ptrdiff_t free_map_find(size_t n, size_t alignment);

#endif
