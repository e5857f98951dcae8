/* The unwind tables of an object: .eh_frame_hdr, which is sorted, and .eh_frame, for x86-64. They are read
 * from a buffer, which may hold anything: what makes no sense is not found. */
#ifndef HAK_TABLES_H
#define HAK_TABLES_H

#include "base/base.h"

/* Registers by their DWARF numbers. */
enum { REGISTER_BP = 6, REGISTER_SP = 7, REGISTER_PC = 16, REGISTERS = 17 };

struct tables {
    const uint8_t *bytes; /* the segment that holds both sections */
    size_t size;
    uintptr_t address; /* where the segment is in the process, if the buffer is a copy */
    size_t header;     /* where in it .eh_frame_hdr begins */
};

/* Where the caller's value of a register is. CFA: the stack pointer of the caller after the return. */
enum rule {
    RULE_SAME,
    RULE_UNKNOWN,
    RULE_AT,            /* in memory at CFA + value */
    RULE_IS,            /* is CFA + value */
    RULE_REGISTER,      /* in the register `value` */
    RULE_AT_EXPRESSION, /* in memory where the expression says; `value`: its place in the buffer */
    RULE_IS_EXPRESSION
};

struct rules {
    uint8_t kinds[REGISTERS];
    int32_t values[REGISTERS];
    bool cfa_is_expression;
    bool signal;          /* the frame of a signal: its caller was interrupted, it did not call */
    uint8_t cfa_register; /* CFA: this register + cfa_value */
    int32_t cfa_value;
};

/* The rules for the instruction at `pc`; false: there are none. */
bool tables_rules(const struct tables *t, uintptr_t pc, struct rules *rules);

#endif
