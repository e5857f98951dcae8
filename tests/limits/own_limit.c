/* A program that limits its own address space once it runs, or its data: hakmem has no more of it than is in use, nor after requests
 * that are refused. Run under preload.
 *
 *     own_limit [--limit MIB] [--bytes MIB] [--data 1]
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "support.h"

static void *idle(void *argument)
{
    return argument;
}

static void allocate(size_t bytes, size_t size)
{
    size_t count = bytes / size;
    char **blocks = pages_new(count * sizeof *blocks);
    for (size_t i = 0; i < count; i++) {
        blocks[i] = malloc(size);
        if (blocks[i] == NULL)
            fail("block %zu of %zu bytes is refused", i, size);
        memset(blocks[i], 1, size);
    }
    for (size_t i = 0; i < count; i++)
        free(blocks[i]);
    pages_end(blocks, count * sizeof *blocks);
}

/* More than there is leaves no trace. */
static void ask_for_too_much(size_t bytes)
{
    for (size_t i = 0; i < 20; i++) {
        void *p = malloc(bytes << i);
        if (p != NULL)
            fail("%.0f MiB are not refused", in_mib(bytes << i));
    }
}

/* The program's own mappings count as well. */
static void map(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        fail("%.0f MiB cannot be mapped", in_mib(bytes));
    munmap(at, bytes);
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {100, 65000, 300000, 5000000, 100};
    size_t limit = option(argc, argv, "--limit", 512) * MIB;
    size_t bytes = option(argc, argv, "--bytes", 300) * MIB;
    bool data = option(argc, argv, "--data", 0) != 0;
    free(malloc(1));
    struct rlimit space = {limit, limit};
    if (setrlimit(data ? RLIMIT_DATA : RLIMIT_AS, &space) != 0)
        skip("the limit cannot be set");
    allocate(bytes, sizes[0]);
    map(bytes); /* before hakmem knows that it will be asked for as much again */
    for (size_t i = 1; i < sizeof sizes / sizeof *sizes; i++)
        allocate(bytes, sizes[i]);
    ask_for_too_much(limit);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        allocate(bytes / 2, sizes[i]);
    thread_join(thread_start(idle, NULL));
    printf("%.0f MiB of each size within %.0f MiB of %s\n", in_mib(bytes), in_mib(limit),
           data ? "data" : "address space");
    return 0;
}
