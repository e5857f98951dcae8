/* The crash log: on SIGSEGV and SIGBUS a few lines on standard error that say what hakmem knows of the address
 * and of the pointers in registers, and then the crash as it would have been. After an error of hakmem's
 * own (SIGABRT) a line about the address that it named. Only where the program has no handler of its own;
 * docs/insight/crash.md. */
#ifndef HAK_CRASH_H
#define HAK_CRASH_H

void crash_install(void);

#endif
