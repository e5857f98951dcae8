/* pthread TLS destructors that allocate and free, in as many iterations as the system grants. */
#include "abi_check.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>

/* ThreadSanitizer takes its own state of a thread down in the last iteration. */
#ifdef __SANITIZE_THREAD__
enum { ITERATIONS = PTHREAD_DESTRUCTOR_ITERATIONS - 1 };
#else
enum { ITERATIONS = PTHREAD_DESTRUCTOR_ITERATIONS };
#endif

enum { keys = 4, threads_at_once = 8, rounds = 50, block_size = 700 };

struct key_value {
    size_t iterations;
    void *block;
};

static pthread_key_t key[keys];
static atomic_size_t destructor_calls;

static struct key_value *new_value(size_t iterations)
{
    struct key_value *value = (struct key_value *)malloc(sizeof(*value));
    CHECK(value != NULL);
    value->iterations = iterations;
    value->block = malloc(block_size + iterations * 3000);
    CHECK(value->block != NULL);
    fill_pattern(value->block, block_size, (unsigned)iterations);
    return value;
}

static void free_value(struct key_value *value)
{
    CHECK(has_pattern(value->block, block_size, block_size, (unsigned)value->iterations));
    free(value->block);
    free(value);
}

/* Sets its key again, so that it runs in the next iteration too, after the allocator's own hook. */
static void destroy(pthread_key_t own_key, void *argument)
{
    struct key_value *value = (struct key_value *)argument;
    const size_t iterations = value->iterations;
    atomic_fetch_add(&destructor_calls, 1);
    free_value(value);
    void *churn = realloc(calloc(10, 10), 40000);
    CHECK(churn != NULL);
    free(churn);
    if (iterations + 1 < ITERATIONS) {
        CHECK(pthread_setspecific(own_key, new_value(iterations + 1)) == 0);
    }
}

static void destroy_0(void *value)
{
    destroy(key[0], value);
}

static void destroy_1(void *value)
{
    destroy(key[1], value);
}

static void destroy_2(void *value)
{
    destroy(key[2], value);
}

static void destroy_3(void *value)
{
    destroy(key[3], value);
}

static void *thread_main(void *foreign_block)
{
    for (size_t i = 0; i < keys; i++) {
        CHECK(pthread_setspecific(key[i], new_value(0)) == 0);
    }
    free(foreign_block);
    void *result = malloc(block_size);
    CHECK(result != NULL);
    fill_pattern(result, block_size, 42);
    return result;
}

/* This thread's only use of the heap is inside its destructors. */
static void *thread_that_only_ends(void *value)
{
    CHECK(pthread_setspecific(key[0], value) == 0);
    return NULL;
}

static void run_round(void)
{
    pthread_t threads[threads_at_once];
    for (size_t i = 0; i < threads_at_once; i++) {
        const bool only_ends = i % 4 == 3;
        void *argument = only_ends ? (void *)new_value(0) : malloc(block_size);
        CHECK(argument != NULL);
        CHECK(pthread_create(&threads[i], NULL, only_ends ? thread_that_only_ends : thread_main,
                             argument) == 0);
    }
    for (size_t i = 0; i < threads_at_once; i++) {
        void *result = NULL;
        CHECK(pthread_join(threads[i], &result) == 0);
        CHECK(result == NULL || has_pattern(result, block_size, block_size, 42));
        free(result);
    }
}

int main(void)
{
    require_hakmem();
    static void (*const destructors[keys])(void *) = {destroy_0, destroy_1, destroy_2, destroy_3};
    for (size_t i = 0; i < keys; i++) {
        CHECK(pthread_key_create(&key[i], destructors[i]) == 0);
    }
    for (int round = 0; round < rounds; round++) {
        run_round();
    }
    const size_t values_per_round = 6 * keys + 2;
    CHECK(atomic_load(&destructor_calls) == (size_t)rounds * values_per_round * ITERATIONS);
    puts("thread end: ok");
    return 0;
}
