/* One instruction at a time, each of which is followed by a SIGTRAP. Of x86-64. */
#ifndef HAK_TESTS_ABI_STEP_H
#define HAK_TESTS_ABI_STEP_H

#include <signal.h>
#include <ucontext.h>

enum { step_flag = 0x100 }; /* TF */

static inline void step_from_here(void)
{
    __asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "cc", "memory");
}

static inline void step_no_more(void)
{
    __asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" ::: "cc", "memory");
}

/* In the handler: what it has interrupted goes on without. */
static inline void step_no_more_after(ucontext_t *c)
{
    c->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)step_flag;
}

#endif
