/* Chains of calls for test_stack.c, each compiled in several ways: their frames are of all usual forms. */
#ifndef HAK_TESTS_STACK_CHAIN_H
#define HAK_TESTS_STACK_CHAIN_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { CHAIN_DEPTH = 6 };

/* What its levels return to, outermost first. */
extern uintptr_t chain_returns[CHAIN_DEPTH];

typedef void chain_end(void *argument);
typedef void chain(chain_end *end, void *argument);

chain chain_plain_o0, chain_plain_os, chain_plain_o2;       /* without frame pointers */
chain chain_pointer_o0, chain_pointer_os, chain_pointer_o2; /* with them */
chain chain_cpp;

#ifdef __cplusplus
}
#endif

#define NOTE_RETURN(level) (chain_returns[level] = (uintptr_t)__builtin_return_address(0))
#define NO_TAIL_CALL() __asm__ volatile("" ::: "memory")

#endif
