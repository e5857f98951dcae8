/* calloc, interrupted at one instruction after the other by a handler that frees a block that is not zero. */
#include "abi_check.h"

#ifdef __x86_64__

#include "step.h"

enum { size = 20000, most_steps = 1000 };

static volatile sig_atomic_t steps, stop_at;
static unsigned char *volatile to_free;

static void each_step(int number, siginfo_t *info, void *context)
{
    (void)number, (void)info;
    if (++steps == stop_at) {
        free(to_free);
        step_no_more_after(context);
    }
}

int main(void)
{
    require_hakmem();
    struct sigaction action = {.sa_sigaction = each_step, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGTRAP, &action, NULL) == 0);
    for (int i = 1; i <= most_steps; i++) {
        unsigned char *freed = malloc(size);
        CHECK_AT(freed != NULL, i);
        memset(freed, 0xee, size);
        to_free = freed;
        steps = 0;
        stop_at = i;
        step_from_here();
        unsigned char *block = calloc(1, size);
        step_no_more();
        CHECK_AT(block != NULL && block[0] == 0 && memcmp(block, block + 1, size - 1) == 0, i);
        if (steps < i)
            free(freed);
        memset(block, 0xdd, size); /* it stays: magazines are to run dry */
    }
    puts("interrupted: ok");
    return 0;
}

#else

int main(void)
{
    return 77; /* other processors are stepped otherwise */
}

#endif
