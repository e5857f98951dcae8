/* A program that starts within a soft limit of address space, and raises it to the hard one: what it may have then, hakmem gives.
 * Run under preload. */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "support.h"

enum { LIMIT_MIB = 100, NEEDED_MIB = 1000 };

static void limit_to(rlim_t bytes)
{
    struct rlimit space;
    if (getrlimit(RLIMIT_AS, &space) != 0 || space.rlim_max != RLIM_INFINITY) {
        skip("the limit is set already");
    }
    space.rlim_cur = bytes;
    if (setrlimit(RLIMIT_AS, &space) != 0) {
        skip("the limit cannot be set");
    }
}

static void check_blocks(void)
{
    static char *blocks[NEEDED_MIB];
    size_t n = 0;
    while (n < NEEDED_MIB && (blocks[n] = malloc(MIB)) != NULL) {
        blocks[n++][0] = 1;
    }
    void *large = malloc(NEEDED_MIB * MIB);
    note("%zu blocks of 1 MiB, and %s", n, large != NULL ? "a large one" : "no large one");
    if (n < NEEDED_MIB || large == NULL) {
        fail("as if the limit were %d MiB still", LIMIT_MIB);
    }
    while (n > 0) {
        free(blocks[--n]);
    }
    free(large);
}

int main(int argc, char **argv)
{
    (void)argv;
    if (argc == 1) {
        limit_to(LIMIT_MIB * MIB);
        execl("/proc/self/exe", "raised_limit", "started", (char *)NULL);
        skip("it cannot start itself");
    }
    char *first = malloc(MIB);
    if (first == NULL) {
        fail("no block within the limit");
    }
    memset(first, 1, MIB);
    limit_to(RLIM_INFINITY);
    check_blocks();
    free(first);
    return 0;
}
