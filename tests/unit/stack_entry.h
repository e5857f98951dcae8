#ifndef HAK_TESTS_STACK_ENTRY_H
#define HAK_TESTS_STACK_ENTRY_H

#include "profile/stack.h"

extern _Thread_local uintptr_t entry_returns_to;

typedef uint32_t entry(uintptr_t *out, bool by_tables);

entry entry_o0, entry_os, entry_o2, entry_pointer;

#endif
