#define _GNU_SOURCE
#include "fork_common.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

static _Atomic pid_t awaited; /* 0: none */

static void on_alarm(int number)
{
    (void)number;
    pid_t child = atomic_load(&awaited);
    if (child > 0) {
        kill(child, SIGKILL);
        fail("child %d hangs", (int)child);
    }
    fail("fork hangs in process %d", (int)getpid());
}

void hang_alarm_install(void)
{
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    if (sigaction(SIGALRM, &action, NULL) != 0) {
        fail("sigaction: %s", strerror(errno));
    }
}

pid_t fork_checked(void)
{
    alarm(HANG_SECONDS);
    pid_t child = fork();
    if (child < 0) {
        fail("fork: %s", strerror(errno));
    }
    if (child == 0) {
        atomic_store(&awaited, 0); /* the alarm itself does not pass to a child */
        alarm(HANG_SECONDS);
    } else {
        atomic_store(&awaited, child);
    }
    return child;
}

void child_await(pid_t child)
{
    int status = 0;
    if (waitpid(child, &status, 0) != child) {
        fail("waitpid: %s", strerror(errno));
    }
    atomic_store(&awaited, 0);
    alarm(0);
    if (WIFSIGNALED(status)) {
        fail("a child died of signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    }
    if (WEXITSTATUS(status) != EXIT_SUCCESS) {
        fail("a child ended with status %d", WEXITSTATUS(status));
    }
}
