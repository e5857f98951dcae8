/* A program that forbids itself most system calls once it runs, as servers do with what reads from strangers: it may have memory, and
 * nothing else. Whatever hakmem asks for besides ends it. Run under preload.
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

#include "support.h"

#define IF_CALL(name, verdict)                                                                     \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (name), 0, 1), BPF_STMT(BPF_RET | BPF_K, (verdict))

/* What memory and the C library's output need; files are refused as a sandbox refuses them. */
static struct sock_filter rules[] = {
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    IF_CALL(SYS_brk, SECCOMP_RET_ALLOW),
    IF_CALL(SYS_mmap, SECCOMP_RET_ALLOW),
    IF_CALL(SYS_munmap, SECCOMP_RET_ALLOW),
    IF_CALL(SYS_mremap, SECCOMP_RET_ALLOW),
    IF_CALL(SYS_mprotect, SECCOMP_RET_ALLOW),
    IF_CALL(SYS_madvise, SECCOMP_RET_ALLOW),
    IF_CALL(SYS_mincore, SECCOMP_RET_ALLOW), /* docs/limits.md */
    IF_CALL(SYS_futex, SECCOMP_RET_ALLOW),
    IF_CALL(SYS_clock_gettime, SECCOMP_RET_ALLOW),
    IF_CALL(SYS_getpid, SECCOMP_RET_ALLOW),
    IF_CALL(SYS_getrandom, SECCOMP_RET_ALLOW),
    IF_CALL(SYS_read, SECCOMP_RET_ALLOW),
    IF_CALL(SYS_write, SECCOMP_RET_ALLOW),
    IF_CALL(SYS_close, SECCOMP_RET_ALLOW),
    IF_CALL(SYS_newfstatat, SECCOMP_RET_ALLOW),
    IF_CALL(SYS_exit_group, SECCOMP_RET_ALLOW),
    IF_CALL(SYS_openat, SECCOMP_RET_ERRNO | EACCES),
    BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
};

static void enter_sandbox(void)
{
    struct sock_fprog program = {.len = sizeof rules / sizeof *rules, .filter = rules};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        skip("there are no filters of system calls");
}

/* Blocks of a size come and go, some thousand at a time. */
static void work(size_t size, size_t bytes)
{
    enum { LIVE = 1000 };
    static char *blocks[LIVE];
    for (size_t i = 0; i < bytes / size; i++) {
        char **block = &blocks[i * 7919 % LIVE];
        free(*block);
        *block = i % 3 == 0 ? calloc(1, size) : malloc(size / 2);
        if (i % 3 == 1)
            *block = realloc(*block, size);
        if (*block == NULL)
            fail("a block of %zu bytes is refused", size);
        **block = 1;
    }
    for (size_t i = 0; i < LIVE; i++) {
        free(blocks[i]);
        blocks[i] = NULL;
    }
}

int main(void)
{
    static const size_t sizes[] = {40, 300, 2000, 20000, 200000, 3000000};
    free(malloc(1));
    enter_sandbox();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        work(sizes[i], 1000 * MIB);
    printf("%zu sizes\n", sizeof sizes / sizeof *sizes);
    return 0;
}
