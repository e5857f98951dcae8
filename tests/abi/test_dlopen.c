/*
 * Not preloaded: the library is opened at run time, in a program that already has threads, used by
 * all of them and closed while they live. argv[1] is the library.
 */
#include "abi_check.h"

#include <pthread.h>

typedef void *malloc_function(size_t);
typedef void free_function(void *);

enum { early_threads = 8, blocks_per_thread = 500, reopen_rounds = 50 };

static malloc_function *hak_malloc_found;
static free_function *hak_free_found;
static pthread_barrier_t opened;
static pthread_barrier_t allocated;
static pthread_barrier_t closed;

/* Local, so that nothing but dlsym on this handle can reach it; the program's malloc stays. */
static void *open_library(const char *path)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        dprintf(STDERR_FILENO, "%s\n", dlerror());
    }
    CHECK(handle != NULL);
    /* POSIX's way around ISO C's ban on converting object to function pointers. */
    *(void **)&hak_malloc_found = dlsym(handle, "hak_malloc");
    *(void **)&hak_free_found = dlsym(handle, "hak_free");
    CHECK(hak_malloc_found != NULL && hak_free_found != NULL);
    return handle;
}

static size_t block_size(size_t index)
{
    return 1 + index * index % 100000;
}

static void fill_blocks(unsigned char **blocks, unsigned seed)
{
    for (size_t i = 0; i < blocks_per_thread; i++) {
        blocks[i] = (unsigned char *)hak_malloc_found(block_size(i));
        CHECK_AT(blocks[i] != NULL, i);
        fill_pattern(blocks[i], block_size(i), seed);
    }
}

static void check_blocks(unsigned char **blocks, unsigned seed)
{
    for (size_t i = 0; i < blocks_per_thread; i++) {
        CHECK_AT(has_pattern(blocks[i], block_size(i), block_size(i), seed), i);
    }
}

static void free_blocks(unsigned char **blocks, size_t step)
{
    for (size_t i = 0; i < blocks_per_thread; i += step) {
        hak_free_found(blocks[i]);
        blocks[i] = NULL;
    }
}

/* Frees some blocks, so that its caches are not empty when the library is closed and it ends. */
static void *early_thread(void *argument)
{
    const unsigned seed = (unsigned)(uintptr_t)argument;
    unsigned char *blocks[blocks_per_thread];
    pthread_barrier_wait(&opened);
    fill_blocks(blocks, seed);
    check_blocks(blocks, seed);
    free_blocks(blocks, 1);
    fill_blocks(blocks, seed);
    pthread_barrier_wait(&allocated);
    pthread_barrier_wait(&closed);
    check_blocks(blocks, seed);
    return NULL;
}

static void *late_thread(void *argument)
{
    unsigned char *blocks[blocks_per_thread];
    fill_blocks(blocks, 77);
    check_blocks(blocks, 77);
    free_blocks(blocks, 1);
    return argument;
}

static void run_late_thread(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, late_thread, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

static void test_threads_older_than_the_library(const char *path)
{
    pthread_t threads[early_threads];
    pthread_barrier_init(&opened, NULL, early_threads + 1);
    pthread_barrier_init(&allocated, NULL, early_threads + 1);
    pthread_barrier_init(&closed, NULL, early_threads + 1);
    for (size_t i = 0; i < early_threads; i++) {
        CHECK(pthread_create(&threads[i], NULL, early_thread, (void *)(uintptr_t)i) == 0);
    }
    void *handle = open_library(path);
    pthread_barrier_wait(&opened);
    run_late_thread();
    pthread_barrier_wait(&allocated);
    CHECK(dlclose(handle) == 0);
    pthread_barrier_wait(&closed);
    for (size_t i = 0; i < early_threads; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
}

static void test_reopening(const char *path)
{
    for (int round = 0; round < reopen_rounds; round++) {
        void *handle = open_library(path);
        unsigned char *blocks[blocks_per_thread];
        fill_blocks(blocks, (unsigned)round);
        check_blocks(blocks, (unsigned)round);
        run_late_thread();
        free_blocks(blocks, 1);
        CHECK(dlclose(handle) == 0);
    }
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    CHECK(dlsym(RTLD_DEFAULT, "hak_malloc") == NULL);
    test_threads_older_than_the_library(argv[1]);
    test_reopening(argv[1]);
    puts("dlopen: ok");
    return 0;
}
