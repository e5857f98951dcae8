/* Huge pages for SuperSlabs and granules of runs. They pay once a heap is large and is used for long; what their first touch costs is the
 * machine's to say, and the moment's: a fifth of what small pages cost, or on a virtual machine whose host has to find the
 * memory the sixfold. So each first touch is timed, and what it costs beyond small pages has a budget of time
 * (docs/decisions/0059).
 *
 * By anyone at any time, without a lock. Calls: region, os. Called by: super, pages (filled). */
#ifndef HAK_HUGE_H
#define HAK_HUGE_H

#include "region/region.h"

/* Tells the kernel which pages a new SuperSlab, or granule of runs, of a large heap is to have. `fresh`: it has none yet; then its first
 * unit, which must be the caller's, gets some. True: huge ones. */
bool huge_advise(size_t granule, bool fresh);

/* Makes a huge page of the small ones of a SuperSlab that is full. That takes its time, which has a budget of its own: a page that
 * is refused costs some seconds of it. */
bool huge_may_collapse(void);
bool huge_collapse(size_t granule);

#endif
