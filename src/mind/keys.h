/* Keys: kinds of freed memory. 0: blocks of size classes; then larger ones by powers of two, or by size and call
 * stack; the last: all together, for a kind of which nothing is known. */
#ifndef HAK_KEYS_H
#define HAK_KEYS_H

#include "base/base.h"

enum { KEEP_KEYS = 64, KEEP_ANY = KEEP_KEYS, KEEP_SITE_FRAMES = 4 };

#define KEYS_FROM ((size_t)256 << 10) /* sizes have keys of their own, where no class serves them */

/* Of a block that was had as pages; one that is as small as those of classes has their key. */
HAK_INLINE uint16_t keep_key_of_size(size_t size)
{
    size_t times = size / KEYS_FROM;
    return times == 0 ? 0 : (uint16_t)(64 - __builtin_clzll(times));
}

#endif
