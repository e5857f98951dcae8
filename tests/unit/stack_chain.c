/* One chain; its name is CHAIN. */
#include "stack_chain.h"

#include <alloca.h>
#include <string.h>

#define LEVEL __attribute__((noinline)) static void

LEVEL simple(chain_end *end, void *argument)
{
    NOTE_RETURN(5);
    end(argument);
    NO_TAIL_CALL();
}

/* Keeps values across the call: in preserved registers. */
LEVEL busy(chain_end *end, void *argument, long a, long b, long c, long d, long e, long f)
{
    NOTE_RETURN(4);
    long values[] = {a * b, b * c, c * d, d * e, e * f, f * a};
    __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e));
    simple(end, argument);
    __asm__ volatile("" ::"r"(a), "r"(b), "r"(c), "r"(d), "r"(e), "m"(values));
}

/* Passes arguments on the stack. */
LEVEL many(chain_end *end, void *argument)
{
    NOTE_RETURN(3);
    busy(end, argument, 1, 2, 3, 4, 5, 6);
    NO_TAIL_CALL();
}

/* Moves the stack pointer. */
LEVEL moving(chain_end *end, void *argument)
{
    NOTE_RETURN(2);
    char *room = alloca(100 + (uintptr_t)argument % 16);
    memset(room, 0, 100);
    many(end, argument);
    __asm__ volatile("" ::"r"(room) : "memory");
}

/* Aligns it. */
LEVEL aligning(chain_end *end, void *argument)
{
    NOTE_RETURN(1);
    _Alignas(128) char line[128] = {0};
    __asm__ volatile("" ::"r"(line) : "memory");
    moving(end, argument);
    __asm__ volatile("" ::"r"(line) : "memory");
}

__attribute__((noinline)) void CHAIN(chain_end *end, void *argument)
{
    NOTE_RETURN(0);
    aligning(end, argument);
    NO_TAIL_CALL();
}
