/* hakmem's counters, for programs that say whether what they are about has happened. */
#ifndef HAK_TEST_COUNTER_H
#define HAK_TEST_COUNTER_H

#include <stdint.h>

/* Of the process, since its start. Fails the test if there is no such counter, or no hakmem. */
uint64_t counter_now(const char *name);

#endif
