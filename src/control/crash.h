/* The crash line: on SIGSEGV and SIGBUS one line on standard error that says what hakmem
 * knows about the address, and then the crash as it would have been. Only where the program has no
 * handler of its own. */
#ifndef HAK_CRASH_H
#define HAK_CRASH_H

void crash_install(void);

#endif
