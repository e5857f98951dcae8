/* Hollow heaps. After a peak few blocks may be left in many slabs, each of which keeps all its pages; and what the program frees it gets
 * again from the magazines, wherever that lies. So a heap of which most has long been free begins to gather:
 *
 *   steady -> gathering   hollow for a while: the magazines of its hollow classes only give. What is freed returns to its
 *                         slab, and what is wanted comes from few slabs, which fill up; the others become empty
 *   gathering -> purging  a step has made little empty: the pages inside slabs on which no block lives go back, few at a time
 *   purging -> steady     there are no more. Where that has changed little, or what went back was soon wanted, the next
 *                         time has to wait for twice as long
 *
 * A heap whose thread sleeps or has ended is not gathered, since nothing in it is replaced and its magazines are not to be
 * touched: it goes from steady to purging, by the hand of any other thread.
 *
 * Beside that, of a heap that is looked at, classes give up once a second what their magazines hold, if they have not been needed. docs/decisions/0080
 *
 * There is no timer: refills, flushes and samples look at the clock now and then, and the worker. docs/decisions/0060
 *
 * Calls: registry, heap, super, pages, purge, os. Called by: refill, front, worker. */
#ifndef HAK_HOLLOW_H
#define HAK_HOLLOW_H

#include "control/options.h"
#include "heap/heap.h"
#include "pages/pages.h"
#include "super/super.h"

enum {
    HOLLOW_LOOK_EVERY = 16, /* refills and flushes */
    HOLLOW_MIN = 4 << 20    /* free bytes from which on a heap may be hollow */
};

/* Before so much was taken there is nothing to look at: in slabs, or in blocks of pages, which idle magazines may keep. */
HAK_INLINE bool hollow_may_be(void)
{
    return units_in_use() * UNIT_SIZE + pages_in_use() > HOLLOW_MIN && option(hollow_time) != 0;
}

void hollow_look(struct heap *h);

/* Looks after some heaps of sleeping and ended threads, a few times a second, whoever calls; `own`: the caller's, whose lock it
 * may hold, or NULL. True: there is more to do at once. */
bool hollow_tend(struct heap *own);

/* At the end of a refill or flush: the calling thread's own heap, at depth 1, with its lock held. */
HAK_INLINE void hollow_look_if_due(struct heap *h)
{
    if (HAK_LIKELY(h->hollow.until_look-- != 0))
        return;
    h->hollow.until_look = HOLLOW_LOOK_EVERY;
    if (hollow_may_be() || h->hollow.gathers) /* which somebody has to end */
        hollow_look(h);
}

/* Without the lock, for a program of which all is served from magazines: where a sample is taken, or the clock glanced at after
 * long, which is seldom enough to look each time. */
void hollow_look_unlocked(struct heap *h);

#endif
