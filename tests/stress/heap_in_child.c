/* A thread takes blocks of a heap and frees them while another forks. What the first had in its hands is nobody's in the child,
 * which ends the heap as any process may.
 *
 *     heap_in_child [--forks 40]
 */
#include <hakmem/hakmem.h>

#include <stdatomic.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support.h"

/* Small, of several units, whole pages, above 1 MiB. */
static const size_t sizes[] = {100, 20000, 100000, 3000000};

static hak_heap *heap;
static atomic_bool stop;

static void *work(void *size)
{
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        hak_free(hak_heap_malloc(heap, *(const size_t *)size));
    }
    return NULL;
}

static size_t live_bytes(void)
{
    struct hak_stats stats;
    hak_stats_get(&stats, sizeof(stats));
    return stats.live_bytes;
}

/* What the heap holds goes with it, and the next one works. */
static void end_heap(size_t size)
{
    void *held = hak_heap_malloc(heap, size);
    size_t before = live_bytes();
    if (held == NULL || before < size) {
        fail("no block of %zu bytes in a child", size);
    }
    hak_heap_destroy(heap);
    if (live_bytes() > before - size) {
        fail("a child's heap has ended and left its block of %zu bytes", size);
    }
    hak_heap *next = hak_heap_new();
    void *block = next != NULL ? hak_heap_malloc(next, size) : NULL;
    if (block == NULL) {
        fail("no heap, or no block of %zu bytes, in a child that has ended one", size);
    }
    memset(block, 1, size);
    hak_heap_destroy(next);
}

static void fork_and_end_heap(size_t size)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        end_heap(size);
        _exit(0);
    }
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        fail("the child did not end a heap of blocks of %zu bytes", size);
    }
}

int main(int argc, char **argv)
{
    uint64_t forks = option(argc, argv, "--forks", 40);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        heap = hak_heap_new();
        atomic_store(&stop, false);
        pthread_t thread = thread_start(work, (void *)&sizes[i]);
        for (uint64_t k = 0; k < forks; k++) {
            fork_and_end_heap(sizes[i]);
        }
        atomic_store(&stop, true);
        thread_join(thread);
        hak_heap_destroy(heap);
    }
    return 0;
}
