/* Heaps of the program's own: what is no heap, no block, or one that has ended ends the program. */
#include "heaps.h"

#include <signal.h>
#include <sys/wait.h>

/* Whether a call that is given the heap ends the program. */
static bool is_refused(void (*call)(hak_heap *, void *), hak_heap *heap, void *block)
{
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(close(STDERR_FILENO) == 0);
        signal(SIGABRT, SIG_DFL);
        call(heap, block);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

static void call_malloc(hak_heap *heap, void *block)
{
    (void)block;
    (void)opaque(hak_heap_malloc(heap, 5000));
}

static void call_realloc(hak_heap *heap, void *block)
{
    (void)opaque(hak_heap_realloc(heap, block, 10));
}

static void call_destroy(hak_heap *heap, void *block)
{
    (void)block;
    hak_heap_destroy(heap);
}

static void call_free_twice(hak_heap *heap, void *block)
{
    (void)heap;
    free(block);
    free(opaque(block));
}

static void free_again_after(hak_heap *heap, void *block, size_t n)
{
    void *others[100];
    CHECK(n <= ARRAY_LENGTH(others));
    for (size_t i = 0; i < n; i++) {
        others[i] = hak_heap_malloc(heap, 100);
    }
    free(block);
    for (size_t i = 0; i < n; i++) {
        free(others[i]);
    }
    free(opaque(block));
}

/* The others lie on top of it in whatever keeps freed blocks. */
static void call_free_again(hak_heap *heap, void *block)
{
    free_again_after(heap, block, 8);
}

/* Its thread has freed so many more that it has gone back to its slab. */
static void call_free_long_after(hak_heap *heap, void *block)
{
    free_again_after(heap, block, 100);
}

static void call_free_inside(hak_heap *heap, void *block)
{
    (void)heap;
    free(opaque((char *)block + 16));
}

static void call_free_after_end(hak_heap *heap, void *block)
{
    hak_heap_destroy(heap);
    free(opaque(block));
}

static void call_usable_size(hak_heap *heap, void *block)
{
    (void)heap;
    (void)hak_usable_size(block);
}

static void call_heap_of(hak_heap *heap, void *block)
{
    (void)heap;
    (void)hak_heap_of(block);
}

static void call_plain_realloc(hak_heap *heap, void *block)
{
    (void)heap;
    (void)opaque(realloc(block, 10));
}

/* In the build `secure` a heap's end is every block's. */
static void test_end_of_overflowed(void)
{
    static const size_t sizes[] = {8, 24, 40, 100, 1000, 100000}, beyond[] = {1, 8, 64};
    for (size_t i = 0; i < ARRAY_LENGTH(sizes) * ARRAY_LENGTH(beyond); i++) {
        hak_heap *heap = new_heap();
        size_t size = sizes[i / ARRAY_LENGTH(beyond)];
        char *block = hak_heap_malloc(heap, size);
        CHECK_AT(!is_refused(call_destroy, heap, NULL), i);
        memset(opaque(block + size), 'A', beyond[i % ARRAY_LENGTH(beyond)]);
        CHECK_AT(is_refused(call_destroy, heap, NULL), i);
    }
}

static void test_refused(void)
{
    hak_heap *heap = new_heap(), *other = new_heap();
    int on_stack = 0;
    void *small = hak_heap_malloc(heap, 100), *large = hak_heap_malloc(heap, 100000);
    void *whole = hak_heap_malloc(heap, 3 * MIB), *plain = malloc(100);
    CHECK(!is_refused(call_malloc, heap, NULL));
    CHECK(is_refused(call_malloc, NULL, NULL));
    CHECK(is_refused(call_malloc, opaque(&on_stack), NULL));
    CHECK(is_refused(call_malloc, opaque(small), NULL));
    CHECK(is_refused(call_malloc, opaque((char *)heap + 8), NULL));
    CHECK(is_refused(call_destroy, opaque(plain), NULL));
    CHECK(!is_refused(call_realloc, heap, small));
    CHECK(is_refused(call_realloc, heap, plain));
    CHECK(is_refused(call_realloc, other, small));
    CHECK(is_refused(call_realloc, other, large));
    CHECK(is_refused(call_free_twice, heap, small));
    CHECK(is_refused(call_free_twice, heap, large));
    CHECK(is_refused(call_free_twice, heap, whole));
    CHECK(is_refused(call_free_again, heap, small));
    CHECK(is_refused(call_free_long_after, heap, small));
    CHECK(is_refused(call_free_inside, heap, small));
    CHECK(is_refused(call_free_inside, heap, large));
    CHECK(is_refused(call_free_after_end, heap, small));
    CHECK(is_refused(call_free_after_end, heap, large));
    CHECK(is_refused(call_free_after_end, heap, whole));
    hak_heap_destroy(other);
    CHECK(is_refused(call_malloc, other, NULL));
    CHECK(is_refused(call_destroy, other, NULL));
    hak_heap_destroy(heap);
    free(plain);
}

static void test_freed(void)
{
    static void (*const calls[])(hak_heap *, void *) = {call_usable_size, call_heap_of,
                                                        call_plain_realloc, call_realloc};
    static const size_t sizes[] = {8, 100, 1000, 5000, 33000};
    hak_heap *heap = new_heap();
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        void *block = hak_heap_malloc(heap, sizes[i]);
        for (size_t k = 0; k < ARRAY_LENGTH(calls); k++) {
            CHECK_AT(!is_refused(calls[k], heap, block), sizes[i]);
        }
        free(block);
        for (size_t k = 0; k < ARRAY_LENGTH(calls); k++) {
            CHECK_AT(is_refused(calls[k], heap, opaque(block)), sizes[i]);
        }
    }
    hak_heap_destroy(heap);
}

int main(void)
{
    require_hakmem();
    test_refused();
    if (HAK_SECURE) {
        test_end_of_overflowed();
    }
    test_freed();
    return 0;
}
