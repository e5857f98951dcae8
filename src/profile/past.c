#include "profile/past.h"

enum { REMEMBERED = 24 };

/* A ring: the next to be overwritten is the oldest. */
__attribute__((section(".bss.sampler_small"))) static struct {
    uint32_t next;
    struct freed_block blocks[REMEMBERED];
} past;

void past_note(const struct freed_block *b)
{
    past.blocks[past.next] = *b;
    past.next = (past.next + 1) % REMEMBERED;
}

const struct freed_block *past_find(uintptr_t at)
{
    for (uint32_t i = 1; i <= REMEMBERED; i++) {
        const struct freed_block *b = &past.blocks[(past.next + REMEMBERED - i) % REMEMBERED];
        if (b->address != 0 && at - b->address < b->size)
            return b;
    }
    return NULL;
}
