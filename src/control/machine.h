/* What a crashed thread was doing: its registers, by processor. */
#ifndef HAK_MACHINE_H
#define HAK_MACHINE_H

#include <stddef.h>
#include <stdint.h>

enum { MACHINE_REGISTERS_MOST = 31 };

struct machine {
    uintptr_t instruction, stack;
    const char *access; /* what was tried: "read of", "write to", "jump to", "access to" */
    size_t registers;
    uintptr_t values[MACHINE_REGISTERS_MOST];
};

/* From the third argument of a signal handler. */
void machine_read(struct machine *m, const void *context);

/* "rax"; at least four bytes of room. */
void machine_register_name(size_t index, char *out, size_t room);

#endif
