/* Which pages granules have that runs are cut from. What lies in them may be written to as a whole or in part. Of the first
 * huge pages cost no memory, so they may come in a smaller heap than others (huge_min); of the second they would
 * bring what nobody touches. Where pages come at once nothing can be seen any more: so one such granule in WITNESS_EVERY
 * is a witness, with small ones. As the next granule is wanted it has been handed out, and the kernel is asked how many of its
 * pages there are (docs/decisions/0123).
 *
 * By anyone at any time, without a lock. Calls: super (huge), region, pressure, os. Called by: pages. */
#ifndef HAK_FILLED_H
#define HAK_FILLED_H

#include "region/region.h"

/* Tells the kernel which pages a granule of the caller's is to have that becomes one of runs. `fresh`: it has none yet. True: it was
 * fresh, has all of them now, and reads as zeros. */
bool filled_advise(size_t granule, bool fresh);

#endif
