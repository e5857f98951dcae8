/* A double free in a thread of many is told when the program ends, in whichever of their caches it lies. */
#include "abi_check.h"

#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

enum { THREADS = 40, SIZE = 40 };

static pthread_barrier_t all;

static void free_twice(void)
{
    void *block = opaque(malloc(SIZE)), *other = opaque(malloc(SIZE));
    free(block);
    free(other);
    free(opaque(block));
}

/* All are there at once, so that each has a cache of its own. */
static void *run(void *misuses)
{
    free(opaque(malloc(SIZE)));
    pthread_barrier_wait(&all);
    if (*(bool *)misuses) {
        free_twice();
    }
    pthread_barrier_wait(&all);
    return NULL;
}

static void run_threads(int guilty)
{
    pthread_t threads[THREADS];
    bool misuses[THREADS] = {false};
    CHECK(pthread_barrier_init(&all, NULL, THREADS) == 0);
    for (int i = 0; i < THREADS; i++) {
        misuses[i] = i == guilty;
        CHECK(pthread_create(&threads[i], NULL, run, &misuses[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
}

/* The status with which a process of such threads ends. */
static int status_with(int guilty)
{
    int status;
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(close(STDERR_FILENO) == 0);
        signal(SIGABRT, SIG_DFL);
        run_threads(guilty);
        exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    return status;
}

int main(void)
{
    require_hakmem();
    CHECK(status_with(-1) == 0);
    for (int guilty = 0; guilty < THREADS; guilty += THREADS / 4) {
        const int status = status_with(guilty);
        CHECK_AT(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT, guilty);
    }
    puts("ended threads: ok");
    return 0;
}
