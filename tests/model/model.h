/* What the model checker's C side is made of. Included ahead of each of the library's sources: it takes the
 * place of what a model has no use for, and changes nothing in what they do with memory.
 *
 * A scenario is one small story of up to four threads, told with the library's own functions. */
#ifndef HAK_MODEL_H
#define HAK_MODEL_H

#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

/* In the order of struct Hooks in main.rs. `pc`: who asks, for the trace of a failure. */
struct model_hooks {
    uint64_t (*load)(const volatile void *at, size_t size, int order, const void *pc);
    void (*store)(volatile void *at, size_t size, uint64_t value, int order, const void *pc);
    uint64_t (*rmw)(volatile void *at, size_t size, int op, uint64_t value, int order,
                    const void *pc);
    int (*cas)(volatile void *at, size_t size, void *expected, uint64_t value, int success,
               int failure, const void *pc);
    void (*fence)(int order, const void *pc);
    void (*read)(const void *at, size_t bytes, const void *pc);
    void (*write)(const void *at, size_t bytes, const void *pc);
    void (*yield)(void);
    int (*self)(void);
    void (*wait)(const void *at, uint32_t value);
    void (*wake)(const void *at);
    void (*ignore)(const void *at, size_t bytes);
    void (*watch)(const void *at, size_t bytes); /* although it is in what is ignored */
    void (*fail)(const char *text);
};

/* struct Scenario in main.rs. `setup` runs alone and touches every atomic that the threads will. */
struct model_scenario {
    const char *name;
    int threads;
    int preemptions; /* switches away from a thread that could go on, at most; 0: any number */
    int cells;       /* words of plain memory that the threads touch, at most */
    void (*setup)(void);
    void (*thread)(int index);
    void (*check)(void); /* when all threads have ended */
};

extern const struct model_hooks *model_hooks;

#define MODEL_TEXT(x) #x
#define MODEL_LINE(x) MODEL_TEXT(x)
/* What must hold, in setup, threads and check. */
#define model_assert(x)                                                                            \
    ((x) ? (void)0 : model_hooks->fail(__FILE__ ":" MODEL_LINE(__LINE__) ": " #x))

/* Where the arena's next piece will lie (absent.c). */
void *model_next_reserved(void);

struct thread;
struct thread *model_thread_of(int index);

int model_yield(void);
long model_syscall(long number, ...);

/* Each thread of the model has its own; they are no threads of the system. */
#define _Thread_local
#define hak_thread (*model_thread())

#include "base/base.h"
#define cpu_relax model_yield
#define sched_yield model_yield
#define syscall model_syscall
#define SPINS_BEFORE_SLEEP 1
#define SPARES 1

/* What the kernel was told of a SuperSlab's pages last (absent.c). */
extern _Atomic bool model_told_huge;
extern bool model_refuses_huge; /* whether it makes none of small pages */
void model_touch_kernel(void);

#endif
