/* Huge pages for big blocks: which sizes are touched as a whole, and whether huge pages are cheaper.
 *
 * Some fresh blocks have small pages and are looked at when they are freed. Where nearly all pages were in memory by
 * then, huge ones take no more memory. Whether their first touch costs less is the machine's to say, and the
 * moment's (decision 0050): of blocks that are touched as a whole the first 2 MiB are populated at once and timed, in
 * one of 32 with the pages that are dearer so far.
 *
 * By anyone at any time, without a lock. Calls: log, big (words), os. Called by: keep, front. */
#ifndef HAK_TOUCH_H
#define HAK_TOUCH_H

#include "big/big.h"
#include "mind/log.h"

/* Which pages a fresh block of the size is to have, or what one has more that grows to it. */
enum big_pages touch_plan(size_t size, bool grows);

/* What the first touch of blocks of a size key costs now: as much as that of small pages, or a part of it. */
enum { TOUCH_COST_SMALL = 256 };
uint32_t touch_cost(uint16_t key);

/* A fresh block with such pages: populates and times what there is to time. True: something is decided otherwise
 * now, and what. */
bool touch_try(void *block, enum big_pages pages, struct decision *d);

/* The price of the first touch of 2 MiB. As above. */
bool touch_note_price(enum big_pages pages, uint64_t ns, struct decision *d);

/* Before a block that was to be looked at is freed. As above. */
bool touch_look(void *block, size_t size, struct decision *d);

#endif
