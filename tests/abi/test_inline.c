/* The fast paths of inline.h: the same blocks as those of the calls, from and to the same magazine. */
#include "abi_check.h"

#include <hakmem/inline.h>

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

enum { most = 2000 };

static void fill(void *block, size_t size)
{
    CHECK(block != NULL);
    memset(block, (int)size, size);
}

static bool is_filled(const void *block, size_t size)
{
    const unsigned char *bytes = block;
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] != (unsigned char)size)
            return false;
    }
    return true;
}

/* Every way in with every way out, for every size; `way` out 0 is inline. */
static void *take(size_t size, int way)
{
    return way == 0 ? hak_malloc_inline(size) : way == 1 ? hak_malloc(size) : hak_calloc(1, size);
}

static void give(void *p, size_t size, int way)
{
    if (way == 0)
        hak_free_sized_inline(p, size);
    else if (way == 1)
        hak_free_sized(p, size);
    else
        hak_free(p);
}

static void test_sizes(void)
{
    static void *blocks[most + 1];
    for (int round = 0; round < 9; round++) {
        for (size_t size = 0; size <= most; size++) {
            blocks[size] = take(size, round / 3);
            CHECK_AT(malloc_usable_size(blocks[size]) >= size, size);
            CHECK_AT((uintptr_t)blocks[size] % (size >= 16 ? 16 : 8) == 0, size);
            fill(blocks[size], size);
        }
        for (size_t size = 0; size <= most; size++) {
            CHECK_AT(is_filled(blocks[size], size), size);
            give(blocks[size], size, round % 3);
        }
    }
    hak_free_sized_inline(NULL, 100);
    hak_free_sized_inline(NULL, most);
}

/* What the header says happens without a call does: or does not, where all calls are checked. */
static void test_no_call(void)
{
    const size_t size = 200;
    void *other = hak_malloc(size);
    give(hak_malloc(size), size, 2);
    const struct hak_magazine_v1 *m = hak_magazine_for_v1(hak_thread_v1.magazines, size);
    if (!HAK_INLINE_PATHS || HAK_ALL_CALLS) {
        CHECK(m->top == NULL && m->end == NULL && m->start == NULL);
    } else {
        void **top = m->top;
        void *p = *top;
        CHECK(hak_malloc_inline(size) == p && m->top == top + 1);
        hak_free_sized_inline(p, size);
        CHECK(m->top == top && *top == p);
    }
    hak_free(other);
}

/* Blocks that another thread allocated, and a thread's very first calls. */
static void *other_thread(void *given)
{
    void **blocks = given;
    for (size_t size = 0; size <= most; size++) {
        CHECK_AT(is_filled(blocks[size], size), size);
        hak_free_sized_inline(blocks[size], size);
        blocks[size] = hak_malloc_inline(size);
        fill(blocks[size], size);
    }
    return NULL;
}

static void test_threads(void)
{
    static void *blocks[most + 1];
    for (size_t size = 0; size <= most; size++) {
        blocks[size] = hak_malloc_inline(size);
        fill(blocks[size], size);
    }
    for (int i = 0; i < 4; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, other_thread, blocks) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    }
    other_thread(blocks);
    for (size_t size = 0; size <= most; size++)
        hak_free(blocks[size]);
}

static void test_double_free(void)
{
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        const struct rlimit no_core = {0, 0};
        setrlimit(RLIMIT_CORE, &no_core);
        dup2(open("/dev/null", O_WRONLY), STDERR_FILENO);
        void *p = hak_malloc_inline(100);
        __asm__ volatile("" : "+r"(p)); /* so that no compiler sees what is wrong here */
        hak_free_sized_inline(p, 100);
        hak_free_sized_inline(p, 100);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

int main(void)
{
    test_sizes();
    if (getenv("HAKMEM_PROFILE_INTERVAL") == NULL) /* a sample is a call */
        test_no_call();
    test_threads();
    test_double_free();
    puts("inline: ok");
    return 0;
}
