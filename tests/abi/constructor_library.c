/* A library whose constructor allocates before main, and may run before the allocator's own. */
#include "constructor_library.h"

#include "abi_check.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include <hakmem/hakmem.h>

#pragma weak hak_ctl

enum { clear_rounds = 20000 };

static void *blocks[constructor_blocks];

static size_t size_of_block(size_t index)
{
    return 1 + index * index * 3;
}

/* If this one is set, it is from the first block on. */
static void check_settings(void)
{
    const char *wanted = getenv("HAKMEM_PROFILE_DEPTH");
    size_t depth = 0, length = sizeof depth;
    if (wanted == NULL)
        return;
    CHECK(hak_ctl("opt.profile_depth", &depth, &length, NULL, 0) == 0);
    CHECK(depth == (size_t)atoi(wanted));
}

/* Enough for many of them to be samples of a profile that has nowhere to be shown yet. */
static void check_early_calloc(void)
{
    for (size_t i = 0; i < clear_rounds; i++) {
        size_t size = 1 + i * 61 % 60000;
        unsigned char *dirty = malloc(size);
        CHECK_AT(dirty != NULL, i);
        memset(dirty, 0xff, size);
        free(dirty);
        unsigned char *clear = calloc(1, size);
        CHECK_AT(clear != NULL && clear[0] == 0 && memcmp(clear, clear + 1, size - 1) == 0, i);
        free(clear);
    }
}

/* Registered before the allocator's own handlers, so it runs while those hold all locks. */
static void allocate_around_fork(void)
{
    static const size_t sizes[] = {40, 5000, 100 * KIB, 600 * KIB, 3 * MIB};
    void *around[ARRAY_LENGTH(sizes)];
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        around[i] = malloc(sizes[i]);
        CHECK_AT(around[i] != NULL, i);
        memset(around[i], 'x', sizes[i]);
    }
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        free(around[i]);
    }
}

__attribute__((constructor(101))) static void allocate_early(void)
{
    CHECK(pthread_atfork(allocate_around_fork, allocate_around_fork, allocate_around_fork) == 0);
    check_early_calloc();
    check_settings();
    for (size_t i = 0; i < constructor_blocks; i++) {
        blocks[i] = i % 3 == 0 ? memalign(64, size_of_block(i)) : calloc(1, size_of_block(i));
        CHECK_AT(blocks[i] != NULL, i);
        fill_pattern(blocks[i], size_of_block(i), (unsigned)i);
        if (i % 2 == 0) {
            blocks[i] = resized(blocks[i], 2 * size_of_block(i));
        }
    }
}

bool constructor_blocks_intact(void)
{
    for (size_t i = 0; i < constructor_blocks; i++) {
        if (!has_pattern(blocks[i], size_of_block(i), size_of_block(i), (unsigned)i)) {
            return false;
        }
    }
    return true;
}

#ifdef __GLIBC__

static atomic_bool is_over;

static void *churn(void *unused)
{
    for (size_t i = 0; !atomic_load(&is_over); i++) {
        free(opaque(malloc(1 + i * 37 % 5000)));
        free(opaque(malloc(300000)));
    }
    return unused;
}

/* What a fork has to hold is to be had in its child, as before. */
static void check_late_forks(void)
{
    enum { forks = 150, threads = 2 };
    pthread_t thread[threads];
    for (int i = 0; i < threads; i++) {
        CHECK_AT(pthread_create(&thread[i], NULL, churn, NULL) == 0, i);
    }
    for (int i = 0; i < forks; i++) {
        pid_t child = fork();
        CHECK_AT(child >= 0, i);
        if (child == 0) {
            allocate_around_fork();
            _exit(0);
        }
        int status;
        CHECK_AT(waitpid(child, &status, 0) == child && status == 0, i);
    }
    atomic_store(&is_over, true);
    for (int i = 0; i < threads; i++) {
        CHECK_AT(pthread_join(thread[i], NULL) == 0, i);
    }
}

#endif

/* Runs after main's atexit handlers, and perhaps after the allocator's own destructors. */
__attribute__((destructor)) static void free_late(void)
{
    CHECK(constructor_blocks_intact());
    for (size_t i = 0; i < constructor_blocks; i++) {
        free(blocks[i]);
    }
    void *block = malloc(5000);
    CHECK(block != NULL);
    memset(block, 1, 5000);
    free(block);
#ifdef __GLIBC__ /* musl's fork waits for ever in a destructor beside other threads, without hakmem as well */
    check_late_forks();
#endif
    static const char message[] = "destructor: ok\n";
    CHECK(write(STDOUT_FILENO, message, sizeof(message) - 1) > 0);
}
