/* exit while other threads allocate and free, with atexit handlers that do the same. */
#include "abi_check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

enum { processes = 20, busy_threads = 4, rounds_before_exit = 1000, handlers = 5 };
enum { blocks_per_handler = 100 };

static atomic_size_t rounds_done[busy_threads];
static _Atomic(void *) handed_over;

static void *churn_forever(void *argument)
{
    atomic_size_t *rounds = (atomic_size_t *)argument;
    for (size_t i = 0;; i++) {
        const size_t size = 1 + i * 61 % 70000;
        void *block = malloc(size);
        CHECK_AT(block != NULL, size);
        *(unsigned char *)block = 1;
        /* Blocks change hands between the threads, so that remote frees are under way as well. */
        free(atomic_exchange(&handed_over, block));
        atomic_fetch_add(rounds, 1);
    }
    return NULL;
}

static void handler(void)
{
    static void *kept = NULL;
    for (size_t i = 0; i < blocks_per_handler; i++) {
        void *block = calloc(1, 1 + i * 97);
        CHECK_AT(block != NULL, i);
        fill_pattern(block, 1 + i * 97, 2);
        free(kept);
        kept = block;
    }
    CHECK(
        has_pattern(kept, 1 + (blocks_per_handler - 1) * 97, 1 + (blocks_per_handler - 1) * 97, 2));
}

static void last_handler(void)
{
    free(atomic_exchange(&handed_over, NULL));
    void *block = malloc(100000);
    CHECK(block != NULL);
    memset(block, 1, 100000);
    free(block);
}

static void child_main(void)
{
    CHECK(atexit(last_handler) == 0);
    for (int i = 0; i < handlers; i++) {
        CHECK(atexit(handler) == 0);
    }
    for (size_t i = 0; i < busy_threads; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, churn_forever, &rounds_done[i]) == 0);
        CHECK(pthread_detach(thread) == 0);
    }
    for (size_t i = 0; i < busy_threads; i++) {
        while (atomic_load(&rounds_done[i]) < rounds_before_exit) {
            usleep(100);
        }
    }
    exit(23);
}

int main(void)
{
    require_hakmem();
    for (int i = 0; i < processes; i++) {
        const pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            child_main();
        }
        int status = 0;
        CHECK(waitpid(child, &status, 0) == child);
        CHECK_AT(WIFEXITED(status) && WEXITSTATUS(status) == 23, (unsigned)status);
    }
    puts("exit: ok");
    return 0;
}
