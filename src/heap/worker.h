/* The background worker, off by default (setting `worker`): a thread that looks at what is kept a few times a second
 * and purges what is over it, and pages of hollow heaps, so that a process that has gone idle gives memory back, too.
 * SuperSlabs that stay full get huge pages from it (docs/decisions/0090). It never refills anything. */
#ifndef HAK_WORKER_H
#define HAK_WORKER_H

#include "control/options.h"

void worker_start(void);

/* At start, and in the child of a fork, whose parent's worker it does not have. */
HAK_INLINE void worker_start_if_wanted(void)
{
    if (HAK_UNLIKELY(option(worker)))
        worker_start();
}

#endif
