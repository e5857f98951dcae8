/* The call stack of the calling thread, on whatever stack that runs. No lock is taken, nothing is allocated, and
 * no memory is read but what is known to be a stack: it may be called anywhere, in a signal handler too. */
#ifndef HAK_STACK_H
#define HAK_STACK_H

#include "base/base.h"

enum { STACK_MOST = 64 };

/* Return addresses, innermost first, without this library's own frames at the inner end; how many there are. Of
 * a function that a signal interrupted: the address after its next instruction's first byte, so that
 * one less is in the function for all of them.
 *
 * By tables every frame is found whose code has them; else frames are found by frame pointers, for code that keeps
 * them. The first address is right either way.
 *
 * By tables, a C library without _dl_find_object (glibc before 2.35) takes the loader's lock meanwhile: no lock
 * may be held that is waited for in malloc. */
uint32_t stack_capture(uintptr_t *out, uint32_t most, bool by_tables);

#endif
