/* malloc, interrupted at one instruction after the other of its fast path by a handler that frees what it allocates, and that may
 * find that malloc has just taken the last block there was: none is handed out twice. */
#include "abi_check.h"

#ifdef __x86_64__

#include "step.h"

enum {
    warm = 2000, /* until magazines are as long as they become */
    blocks = 4000,
    most_steps = 24
};

static volatile sig_atomic_t steps, stop_at;
static volatile size_t handlers_size;
static unsigned handled;

/* Through this the compiler does not know that what is freed was just allocated, and calls both. */
static void *volatile seen;

static void each_step(int number, siginfo_t *info, void *context)
{
    (void)number, (void)info;
    if (++steps == stop_at) {
        seen = malloc(handlers_size);
        free(seen);
        handled++;
        step_no_more_after(context);
    }
}

/* Each keeps its number in it, which a second owner would overwrite. */
static void check_size(size_t size)
{
    static int *all[warm + blocks];
    handlers_size = size;
    for (int i = 0; i < warm + blocks; i++) {
        steps = 0;
        stop_at = 1 + i / 7 % most_steps; /* not in step with refills */
        if (i >= warm)
            step_from_here();
        all[i] = malloc(size);
        step_no_more();
        CHECK_AT(all[i] != NULL, size);
        *all[i] = i;
    }
    for (int i = 0; i < warm + blocks; i++)
        CHECK_AT(*all[i] == i, size);
    for (int i = 0; i < warm + blocks; i++)
        free(all[i]);
}

int main(void)
{
    require_hakmem();
    struct sigaction action = {.sa_sigaction = each_step, .sa_flags = SA_SIGINFO};
    CHECK(sigaction(SIGTRAP, &action, NULL) == 0);
    check_size(16);
    check_size(40);
    check_size(500);
    check_size(1000);
    CHECK(handled > blocks);
    puts("last block: ok");
    return 0;
}

#else

int main(void)
{
    return 77; /* other processors are stepped otherwise */
}

#endif
