/* What front's slow paths share with those of explicit heaps, and with resizing. Called by: front, explicit, resize. */
#ifndef HAK_SLOW_H
#define HAK_SLOW_H

#include "front/front.h"
#include "pressure/pressure.h"
#include "purge/purge.h"

/* The class whose blocks serve a request; CLASS_COUNT: whole pages do. */
uint32_t class_for_request(size_t alignment, size_t size);

/* Whole pages, of a request that has been counted. NULL: errno is ENOMEM. */
void *pages_or_fail(size_t size, size_t alignment, bool *zeroed);

/* Remembers a block of pages, which has been counted, if it is a sample. h: the calling thread's heap; NULL: none. */
void note_pages(struct heap *h, void *p, size_t size);

/* Which pages a big block of that size is to have, or what one has more that grows to it. */
enum big_pages plan_pages(size_t size, bool grows);

/* Clears the first n bytes of a block that is whole pages and may read as zeros in part. Returns it. */
void *clear_pages(char *p, size_t n);

/* Memory that is free but not given back may be what is missing. Whoever calls tries again, also if another thread was
 * faster here. */
void make_room(void);

/* What was counted is none. Sets errno to ENOMEM and returns NULL. */
void *no_memory(void);

/* Memory has become scarce since the calling thread last gave back: it does so. */
void begin_round(void);

/* On leaving a slow path, without a lock. */
HAK_INLINE void give_back_if_due(void)
{
    if (HAK_UNLIKELY(hak_thread.heap->round != load_relaxed(&hak_pressure.rounds)))
        begin_round();
}

/* The same of one that took memory. */
HAK_INLINE void leave_slow(void)
{
    purge_pay_if_owed();
    give_back_if_due();
}

#endif
