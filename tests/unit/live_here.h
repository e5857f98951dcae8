/* The fixture of the tests of a process that has a live area and samples. */
#ifndef HAK_TESTS_UNIT_LIVE_HERE_H
#define HAK_TESTS_UNIT_LIVE_HERE_H

#include "front/front.h"
#include "live/live.h"

static inline int make_live_area(void **state)
{
    (void)state;
    region_start();
    front_init();
    store_relaxed(&hak_live.due, true);
    front_free(front_alloc(1));
    return live_area() == NULL;
}

#endif
