/* The crash log: on SIGSEGV and SIGBUS a few lines on standard error that say what hakmem knows of the address
 * and of the pointers in registers, and then the crash as it would have been. Only where the program has no handler of its own.
 * After an error of hakmem's own a line about the address that it named; docs/insight/crash.md. */
#ifndef HAK_CRASH_H
#define HAK_CRASH_H

#include "base/base.h"

void crash_install(void);

/* Whether that is the crash log's handler of signals. */
bool crash_is_handler(uintptr_t handler);

#endif
