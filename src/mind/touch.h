/* Huge pages for big blocks: whether blocks of a size are touched as a whole. Some fresh ones have small pages and
 * are looked at when they are freed; a size whose blocks had nearly all of their pages by then gets huge pages, whose
 * first touch costs a quarter or less (decision 0050), and then takes no more memory for it.
 *
 * By anyone at any time, without a lock. Calls: keep (keys), log, big (words), os. Called by: front. */
#ifndef HAK_TOUCH_H
#define HAK_TOUCH_H

#include "big/big.h"
#include "mind/log.h"

/* Which pages a fresh block of the size is to have. */
enum big_pages touch_plan(size_t size);

/* Before a block that was to be looked at is freed. True: something is decided otherwise now, and what. */
bool touch_look(void *block, size_t size, struct decision *d);

#endif
