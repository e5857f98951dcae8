/* In the build `secure` chance decides the order in which the blocks of a refill are handed out. In the others this
 * is nothing. Called by: refill. */
#ifndef HAK_SHUFFLE_H
#define HAK_SHUFFLE_H

#include "base/base.h"

#if HAK_SECURE

#include "region/region.h"

HAK_INLINE void blocks_shuffle(void **blocks, uint32_t n)
{
    uint64_t random = n == 0 ? 0 : hak_region.key ^ (uintptr_t)blocks[0];
    for (uint32_t left = n; left > 1; left--) {
        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        uint32_t chosen = (uint32_t)((random >> 32) * left >> 32);
        void *block = blocks[chosen];
        blocks[chosen] = blocks[left - 1];
        blocks[left - 1] = block;
    }
}

#else

HAK_INLINE void blocks_shuffle(void **blocks, uint32_t n)
{
    (void)blocks, (void)n;
}

#endif
#endif
