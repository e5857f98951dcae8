/* Watching forked children: a fork or child that hangs must fail the test, not stop it. */
#ifndef HAK_TEST_FORK_COMMON_H
#define HAK_TEST_FORK_COMMON_H

#include <sys/types.h>

/* Generous: only a real deadlock takes as long. */
enum { HANG_SECONDS = 120 };

/* From here on SIGALRM means that fork_checked or child_await hung. */
void hang_alarm_install(void);
/* fork(), with the alarm set in parent and child alike; fails the test if it cannot fork. */
pid_t fork_checked(void);
/* Waits for a child from fork_checked; fails the test unless it ended with status 0. */
void child_await(pid_t child);

#endif
