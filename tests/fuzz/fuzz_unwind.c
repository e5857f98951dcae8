/* Unwind tables and the expressions in them, of bytes that may be anything: nothing is read outside of the tables and
 * the stack that is given. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "profile/expression.h"

enum { STACK_WORDS = 32, PLACES = 4 };

/* Of exactly this size, so that a sanitizer sees what is read behind it. */
static uint8_t *copy_of(const uint8_t *bytes, size_t size)
{
    uint8_t *copy = malloc(size != 0 ? size : 1);
    if (copy == NULL)
        broken("no memory");
    memcpy(copy, bytes, size);
    return copy;
}

static void compute(const struct tables *t, size_t at, const struct registers *registers)
{
    static uintptr_t stack[STACK_WORDS];
    for (size_t i = 0; i < STACK_WORDS; i++)
        stack[i] = (uintptr_t)&stack[i * 7 % STACK_WORDS];
    uintptr_t low = (uintptr_t)stack, high = (uintptr_t)(stack + STACK_WORDS);
    struct reach reach = {low, high, high, 0};
    uintptr_t first = low + 8, value = 0, again = 0;
    bool sound = expression_value(t, at, registers, &reach, &first, &value);
    if (sound != expression_value(t, at, registers, &reach, &first, &again) || value != again)
        broken("the expression at %zu has two values", at);
    if (reach.low != low || reach.high != high)
        broken("the reach has grown");
}

static void look_up(const struct tables *t, uintptr_t pc, const struct registers *registers)
{
    struct rules rules;
    if (!tables_rules(t, pc, &rules))
        return;
    if (!rules.cfa_is_expression && rules.cfa_register >= REGISTERS)
        broken("the CFA is in register %u", rules.cfa_register);
    for (unsigned i = 0; i < REGISTERS; i++) {
        bool computed =
            rules.kinds[i] == RULE_AT_EXPRESSION || rules.kinds[i] == RULE_IS_EXPRESSION;
        if (computed)
            compute(t, (size_t)rules.values[i], registers);
    }
    if (rules.cfa_is_expression)
        compute(t, (size_t)rules.cfa_value, registers);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, data + size};
    static uint8_t stack_like[64];
    struct registers registers = {.known = (uint32_t)input_take(&in, 3)};
    for (unsigned i = 0; i < REGISTERS; i++)
        registers.values[i] = (uintptr_t)&stack_like[input_take(&in, 1) % sizeof stack_like];
    uint64_t pcs[PLACES];
    for (size_t i = 0; i < PLACES; i++)
        pcs[i] = input_take(&in, 3);
    size_t header = input_take(&in, 1), left = (size_t)(in.end - in.at);
    uint8_t *bytes = copy_of(in.at, left);
    struct tables t = {bytes, left, (uintptr_t)bytes, header % (left + 1)};
    for (size_t i = 0; i < PLACES; i++) {
        look_up(&t, t.address + pcs[i], &registers);
        compute(&t, pcs[i] % (left + 1), &registers);
    }
    free(bytes);
    return 0;
}
