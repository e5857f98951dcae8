/* The little stack machine in which unwind tables say what the simple rules cannot. */
#ifndef HAK_EXPRESSION_H
#define HAK_EXPRESSION_H

#include "profile/reach.h"
#include "profile/tables.h"

struct registers {
    uintptr_t values[REGISTERS];
    uint32_t known; /* one bit each */
};

static inline bool register_known(const struct registers *r, uint64_t number)
{
    return number < REGISTERS && (r->known >> number & 1) != 0;
}

/* Computes the expression at `at` (its size, then its operations); `first`: what is on the stack at the start,
 * if anything. Memory is read within `reach`. */
bool expression_value(const struct tables *t, size_t at, const struct registers *registers,
                      struct reach *reach, const uintptr_t *first, uintptr_t *value);

#endif
