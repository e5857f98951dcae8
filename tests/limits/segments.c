/* The shared memory in which a process shows itself is gone when it ends, and there is none where it could not be removed.
 *
 *     segments             (preload hakmem)
 *     segments --look N    what it runs: N segments are to be this process' now
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

enum { PERMS = 01400 }; /* removed with its last process, and nobody may write to it */

/* Segments that the process has made. */
static int segments_of(pid_t maker)
{
    FILE *table = fopen("/proc/sysvipc/shm", "r");
    char line[512];
    int count = 0;
    if (table == NULL)
        exit(EXIT_SKIPPED);
    while (fgets(line, sizeof line, table) != NULL) {
        unsigned perms;
        int process;
        if (sscanf(line, "%*d %*d %o %*u %d", &perms, &process) != 2 || process != maker)
            continue;
        if (perms != PERMS)
            fail("a segment's permissions are %o instead of %o", perms, (unsigned)PERMS);
        count++;
    }
    fclose(table);
    return count;
}

static void refuse_shmctl(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_shmctl, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        _exit(EXIT_SKIPPED);
}

static int look(int expected)
{
    free(malloc(100));
    int found = segments_of(getpid());
    if (found != expected)
        fail("%d segments instead of %d", found, expected);
    return 0;
}

static void run(const char *self, bool refused)
{
    pid_t child = fork();
    if (child == 0) {
        if (refused)
            refuse_shmctl();
        execl(self, self, "--look", refused ? "0" : "1", (char *)NULL);
        _exit(1);
    }
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
        fail("no child: %s", strerror(errno));
    if (WEXITSTATUS(status) != 0)
        exit(WEXITSTATUS(status));
    if (segments_of(child) != 0)
        fail("a segment is left%s", refused ? ", where shmctl is refused" : "");
}

int main(int argc, char **argv)
{
    if (argc == 3)
        return look(atoi(argv[2]));
    run("/proc/self/exe", false);
    run("/proc/self/exe", true);
    return 0;
}
