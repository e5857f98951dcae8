/* A program that knows what its call sites hold: for the profile to be compared with. Prints a line per site,
 *
 *     site NAME BYTES BLOCKS
 *
 * of what it requested there and has not freed, then "ready", and ends when its standard input does. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCKS = 60000, SITES = 3, KEPT_IN = 10, KEPT = 6 };

static uint64_t state = 88172645463325252ULL;

static size_t between(size_t least, size_t most)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return least + (size_t)(state % (most - least + 1));
}

/* Each in a function of its own, which stays in the stack: nothing of it is done at the end. */
#define SITE(name)                                                                                 \
    __attribute__((noinline)) void *name(size_t size);                                             \
    void *name(size_t size)                                                                        \
    {                                                                                              \
        void *volatile p = malloc(size);                                                           \
        return p;                                                                                  \
    }

SITE(allocate_small)
SITE(allocate_medium)
SITE(allocate_mixed)

static const struct site {
    const char *name;
    void *(*allocate)(size_t size);
    size_t least, most;
} sites[SITES] = {
    {"allocate_small", allocate_small, 800, 1200},
    {"allocate_medium", allocate_medium, 900, 1100},
    {"allocate_mixed", allocate_mixed, 1, 2000},
};

int main(void)
{
    static void *blocks[BLOCKS];
    static size_t bytes[SITES], count[SITES];
    for (size_t i = 0; i < BLOCKS; i++) {
        const struct site *s = &sites[i % SITES];
        size_t size = between(s->least, s->most);
        blocks[i] = s->allocate(size);
        if (blocks[i] == NULL) {
            return 1;
        }
        memset(blocks[i], 1, size);
        if (between(1, KEPT_IN) <= KEPT) {
            bytes[i % SITES] += size;
            count[i % SITES]++;
        } else {
            free(blocks[i]);
        }
    }
    for (size_t i = 0; i < SITES; i++) {
        printf("site %s %zu %zu\n", sites[i].name, bytes[i], count[i]);
    }
    printf("ready\n");
    fflush(stdout);
    char end;
    return read(STDIN_FILENO, &end, 1) < 0;
}
