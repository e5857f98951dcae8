/* Children of a fork that end the program, and whether they did. */
#ifndef HAK_TESTS_UNIT_ABORTS_H
#define HAK_TESTS_UNIT_ABORTS_H

#include "unit.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static inline bool was_aborted(pid_t child)
{
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static inline bool ends_by_abort(void (*misuse)(void *p, size_t size), void *p, size_t size)
{
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDERR_FILENO);
        signal(SIGABRT, SIG_DFL); /* cmocka has a handler */
        misuse(p, size);
        _exit(0);
    }
    return was_aborted(child);
}

#endif
