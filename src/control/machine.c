#define _GNU_SOURCE
#include "control/machine.h"

#include <ucontext.h>

#include "os/os.h"

#if defined(__x86_64__)

/* Without rsp and rip, which have places of their own. */
static const struct {
    const char name[4];
    int index;
} registers[] = {
    {"rax", REG_RAX}, {"rbx", REG_RBX}, {"rcx", REG_RCX}, {"rdx", REG_RDX}, {"rsi", REG_RSI},
    {"rdi", REG_RDI}, {"rbp", REG_RBP}, {"r8", REG_R8},   {"r9", REG_R9},   {"r10", REG_R10},
    {"r11", REG_R11}, {"r12", REG_R12}, {"r13", REG_R13}, {"r14", REG_R14}, {"r15", REG_R15},
};

/* The page fault's error code. */
enum { PAGE_FAULT = 14, ERROR_WRITE = 2, ERROR_FETCH = 16 };

static const char *access_of(const greg_t *g)
{
    if (g[REG_TRAPNO] != PAGE_FAULT)
        return "access to";
    if (g[REG_ERR] & ERROR_FETCH)
        return "jump to";
    return g[REG_ERR] & ERROR_WRITE ? "write to" : "read of";
}

void machine_read(struct machine *m, const void *context)
{
    const greg_t *g = ((const ucontext_t *)context)->uc_mcontext.gregs;
    m->instruction = (uintptr_t)g[REG_RIP];
    m->stack = (uintptr_t)g[REG_RSP];
    m->access = access_of(g);
    m->registers = sizeof registers / sizeof registers[0];
    for (size_t i = 0; i < m->registers; i++)
        m->values[i] = (uintptr_t)g[registers[i].index];
}

void machine_register_name(size_t index, char *out, size_t room)
{
    os_format(out, room, "%s", registers[index].name);
}

#elif defined(__aarch64__)

void machine_read(struct machine *m, const void *context)
{
    const mcontext_t *c = &((const ucontext_t *)context)->uc_mcontext;
    m->instruction = (uintptr_t)c->pc;
    m->stack = (uintptr_t)c->sp;
    m->access = "access to";
    m->registers = 31;
    for (size_t i = 0; i < m->registers; i++)
        m->values[i] = (uintptr_t)c->regs[i];
}

void machine_register_name(size_t index, char *out, size_t room)
{
    os_format(out, room, "x%u", index);
}

#else

void machine_read(struct machine *m, const void *context)
{
    (void)context;
    *m = (struct machine){.access = "access to"};
}

void machine_register_name(size_t index, char *out, size_t room)
{
    (void)index;
    os_format(out, room, "?");
}

#endif
