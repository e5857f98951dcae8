/* A library that is started before the program, and before what is preloaded. */
#ifndef CRASH_EARLY_H
#define CRASH_EARLY_H

/* With CRASH_EARLY in the environment its constructor has installed a handler for SIGSEGV, which ends the process
 * with this status. */
enum { EARLY_STATUS = 41 };

int early_has_handler(void);

#endif
