/* Rules from a file: what an earlier run of the program has learnt (`hakmem rules`), so that this one
 * keeps the first memory that falls free, too. A line each:
 *
 *   SIZE SITE KEEP KIB...
 *
 *   SIZE  classes; a power of two from KEYS_FROM on, such as 2M: blocks from there to twice that; any
 *   SITE  16 hexadecimal digits (keep_signature_of); -: by size alone
 *   KEEP  such as 3s: how long, until something else is learnt
 *   KIB   memory that was used again, by the shortest time that would have kept it: for none, then for
 *         each of keep.h's times
 *
 * What follows a # does not count. A line that is none of these is warned about and ignored, and so is a file that
 * cannot be read or has no rule for the setting `keep`.
 *
 * Calls: keep, os. Called by: purge. */
#ifndef HAK_RULES_H
#define HAK_RULES_H

#include "base/base.h"

/* Under the purge's lock. */
void rules_load(const char *path, uint64_t now_ms);

#endif
