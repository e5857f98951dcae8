/* The calls that a compiler puts in for ThreadSanitizer, handed to the checker. Not compiled that way itself. */
#include "model.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdarg.h>
#include <stdbool.h>

#include "os/lock.h"
#include "os/thread.h"

const struct model_hooks *model_hooks;

#define PC __builtin_return_address(0)
enum { MODEL_THREADS = 8 };

static struct thread threads[MODEL_THREADS];

struct thread *model_thread(void)
{
    return &threads[model_hooks->self()];
}

struct thread *model_thread_of(int index)
{
    return &threads[index];
}

int model_yield(void)
{
    model_hooks->yield();
    return 0;
}

/* A futex is all that is asked of the kernel here. */
long model_syscall(long number, ...)
{
    va_list arguments;
    va_start(arguments, number);
    const void *at = va_arg(arguments, void *);
    int operation = va_arg(arguments, int) & FUTEX_CMD_MASK;
    uint32_t value = va_arg(arguments, uint32_t);
    va_end(arguments);
    if (operation == FUTEX_WAIT)
        model_hooks->wait(at, value);
    else
        model_hooks->wake(at);
    return 0;
}

extern const struct model_scenario *const model_scenarios[];

__attribute__((visibility("default"))) const struct model_scenario *const *
model_start(const struct model_hooks *hooks)
{
    model_hooks = hooks;
    hooks->ignore(threads, sizeof threads);
    hooks->ignore(&errno, sizeof errno);
    hooks->ignore(hak_lock_waits, sizeof hak_lock_waits); /* numbers that order nothing */
    return model_scenarios;
}

/* Where the module begins: the linker's name for it. */
extern const char __ehdr_start[];

__attribute__((visibility("default"))) uintptr_t model_base(void)
{
    return (uintptr_t)__ehdr_start;
}

#define ATOMIC(bits)                                                                               \
    uint##bits##_t __tsan_atomic##bits##_load(const volatile void *at, int order)                  \
    {                                                                                              \
        return (uint##bits##_t)model_hooks->load(at, bits / 8, order, PC);                         \
    }                                                                                              \
    void __tsan_atomic##bits##_store(volatile void *at, uint##bits##_t v, int order)               \
    {                                                                                              \
        model_hooks->store(at, bits / 8, v, order, PC);                                            \
    }                                                                                              \
    uint##bits##_t __tsan_atomic##bits##_exchange(volatile void *at, uint##bits##_t v, int order)  \
    {                                                                                              \
        return (uint##bits##_t)model_hooks->rmw(at, bits / 8, 0, v, order, PC);                    \
    }                                                                                              \
    int __tsan_atomic##bits##_compare_exchange_strong(volatile void *at, void *expected,           \
                                                      uint##bits##_t v, int success, int failure)  \
    {                                                                                              \
        return model_hooks->cas(at, bits / 8, expected, v, success, failure, PC);                  \
    }                                                                                              \
    int __tsan_atomic##bits##_compare_exchange_weak(volatile void *at, void *expected,             \
                                                    uint##bits##_t v, int success, int failure)    \
    {                                                                                              \
        return model_hooks->cas(at, bits / 8, expected, v, success, failure, PC);                  \
    }
#define ATOMIC_RMW(bits, name, op)                                                                 \
    uint##bits##_t __tsan_atomic##bits##_fetch_##name(volatile void *at, uint##bits##_t v,         \
                                                      int order)                                   \
    {                                                                                              \
        return (uint##bits##_t)model_hooks->rmw(at, bits / 8, op, v, order, PC);                   \
    }
#define ATOMIC_ALL(bits)                                                                           \
    ATOMIC(bits)                                                                                   \
    ATOMIC_RMW(bits, add, 1)                                                                       \
    ATOMIC_RMW(bits, sub, 2)                                                                       \
    ATOMIC_RMW(bits, and, 3)                                                                       \
    ATOMIC_RMW(bits, or, 4)                                                                        \
    ATOMIC_RMW(bits, xor, 5)
ATOMIC_ALL(8)
ATOMIC_ALL(16)
ATOMIC_ALL(32)
ATOMIC_ALL(64)

void __tsan_atomic_thread_fence(int order)
{
    model_hooks->fence(order, PC);
}

void __tsan_atomic_signal_fence(int order)
{
    (void)order; /* the model has no signals */
}

#define PLAIN(name, bytes)                                                                         \
    void __tsan_read##name(const void *at)                                                         \
    {                                                                                              \
        model_hooks->read(at, bytes, PC);                                                          \
    }                                                                                              \
    void __tsan_write##name(const void *at)                                                        \
    {                                                                                              \
        model_hooks->write(at, bytes, PC);                                                         \
    }                                                                                              \
    void __tsan_unaligned_read##name(const void *at)                                               \
    {                                                                                              \
        model_hooks->read(at, bytes, PC);                                                          \
    }                                                                                              \
    void __tsan_unaligned_write##name(const void *at)                                              \
    {                                                                                              \
        model_hooks->write(at, bytes, PC);                                                         \
    }
PLAIN(1, 1)
PLAIN(2, 2)
PLAIN(4, 4)
PLAIN(8, 8)
PLAIN(16, 16)

void __tsan_read_range(const void *at, size_t bytes)
{
    model_hooks->read(at, bytes, PC);
}

void __tsan_write_range(const void *at, size_t bytes)
{
    model_hooks->write(at, bytes, PC);
}

void __tsan_init(void) {}

void __tsan_func_entry(const void *pc)
{
    (void)pc;
}

void __tsan_func_exit(void) {}

/* The C library's would write unseen. */
void *memset(void *at, int byte, size_t n)
{
    model_hooks->write(at, n, PC);
    for (size_t i = 0; i < n; i++)
        ((volatile char *)at)[i] = (char)byte;
    return at;
}

void *memcpy(void *restrict to, const void *restrict from, size_t n)
{
    model_hooks->read(from, n, PC);
    model_hooks->write(to, n, PC);
    for (size_t i = 0; i < n; i++)
        ((volatile char *)to)[i] = ((const char *)from)[i];
    return to;
}

void *memmove(void *to, const void *from, size_t n)
{
    model_hooks->read(from, n, PC);
    model_hooks->write(to, n, PC);
    volatile char *t = to;
    const char *f = from;
    for (size_t i = 0; i < n; i++) {
        size_t at = t < f ? i : n - 1 - i;
        t[at] = f[at];
    }
    return to;
}
