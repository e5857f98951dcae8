/* Heaps of the program's own: their blocks behave like any other, and end with them. */
#include "heaps.h"

#include <errno.h>
#include <pthread.h>
#include <sys/wait.h>

enum { THREADS = 4, MANY = 3000, HEAPS = 40, ROUNDS = 120 };

static const size_t sizes[] = {0,         1,         8,       16,          100,      1000,
                               1024,      1025,      5000,    33000,       64 * KIB, 64 * KIB + 1,
                               200 * KIB, 300 * KIB, 1 * MIB, 1 * MIB + 1, 5 * MIB};

static struct hak_heap_stats stats_of(hak_heap *heap)
{
    struct hak_heap_stats stats;
    CHECK(hak_heap_stats_get(heap, &stats, sizeof stats) == sizeof stats);
    return stats;
}

static bool is_zero(const unsigned char *bytes, size_t size)
{
    return size == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0);
}

static void check_block(hak_heap *heap, void *block, size_t size)
{
    CHECK_AT(block != NULL, size);
    CHECK_AT(is_aligned(block, natural_alignment(size)), size);
    CHECK_AT(hak_heap_of(block) == heap, size);
    CHECK_AT(hak_usable_size(block) >= size, size);
    fill_pattern(block, size, 3);
}

/* ---- one block ---- */

static void test_plain(size_t size)
{
    hak_heap *heap = new_heap();
    void *first = hak_heap_malloc(heap, size), *second = hak_heap_malloc(heap, size);
    check_block(heap, first, size);
    check_block(heap, second, size);
    CHECK_AT(has_pattern(first, size, size, 3), size);
    CHECK_AT(stats_of(heap).live_blocks == 2, size);
    CHECK_AT(stats_of(heap).live_bytes >= 2 * size, size);
    free(first);
    CHECK_AT(stats_of(heap).live_blocks == 1, size);
    hak_free(second);
    CHECK_AT(stats_of(heap).live_blocks == 0, size);
    CHECK_AT(stats_of(heap).live_bytes == 0, size);
    hak_heap_destroy(heap);
}

static void test_zeroed(size_t size)
{
    hak_heap *heap = new_heap();
    for (int i = 0; i < 40; i++) {
        unsigned char *block = hak_heap_calloc(heap, size, 1);
        CHECK_AT(block != NULL && is_zero(block, size), size);
        memset(block, 0xff, size);
        if (i % 2 == 0) {
            free(block);
        }
    }
    hak_heap_destroy(heap);
}

static void test_aligned(size_t size, size_t alignment)
{
    hak_heap *heap = new_heap();
    void *block = hak_heap_aligned_alloc(heap, alignment, size);
    CHECK_AT(is_aligned(block, alignment), alignment);
    check_block(heap, block, size);
    hak_free_aligned_sized(block, alignment, size);
    hak_heap_destroy(heap);
}

/* A block that is resized stays in its heap, with what it held. */
static void test_resized(size_t from, size_t to)
{
    hak_heap *heap = new_heap();
    void *block = hak_heap_realloc(heap, NULL, from);
    check_block(heap, block, from);
    block = to % 2 == 0 ? resized(block, to) : hak_heap_realloc(heap, block, to);
    CHECK_AT(has_pattern(block, from, from < to ? from : to, 3), to);
    check_block(heap, block, to);
    CHECK_AT(stats_of(heap).live_blocks == 1, to);
    CHECK_AT(opaque(hak_heap_realloc(heap, block, opaque_size(0))) == NULL, to);
    CHECK_AT(stats_of(heap).live_blocks == 0, to);
    hak_heap_destroy(heap);
}

static void test_of_others(void)
{
    void *blocks[] = {malloc(10), malloc(100000), malloc(3 * MIB)};
    for (size_t i = 0; i < ARRAY_LENGTH(blocks); i++) {
        CHECK_AT(hak_heap_of(blocks[i]) == NULL, i);
        free(blocks[i]);
    }
    CHECK(hak_heap_of(NULL) == NULL);
}

/* ---- errors ---- */

static void test_errors(void)
{
    hak_heap *heap = new_heap();
    const size_t huge = opaque_size((size_t)PTRDIFF_MAX + 1);
    errno = 0;
    CHECK(hak_heap_malloc(heap, huge) == NULL && errno == ENOMEM);
    errno = 0;
    CHECK(hak_heap_malloc(heap, opaque_size(SIZE_MAX)) == NULL && errno == ENOMEM);
    errno = 0;
    CHECK(hak_heap_calloc(heap, opaque_size(SIZE_MAX / 2), 3) == NULL && errno == ENOMEM);
    errno = 0;
    CHECK(hak_heap_aligned_alloc(heap, 24, 100) == NULL && errno == EINVAL);
    errno = 0;
    CHECK(hak_heap_aligned_alloc(heap, 0, 100) == NULL && errno == EINVAL);
    errno = 0;
    CHECK(hak_heap_aligned_alloc(heap, 64, huge) == NULL && errno == ENOMEM);
    void *block = hak_heap_malloc(heap, 100);
    errno = 0;
    CHECK(hak_heap_realloc(heap, block, huge) == NULL && errno == ENOMEM);
    CHECK(hak_heap_of(block) == heap);
    errno = E2BIG;
    free(block);
    CHECK(errno == E2BIG);
    CHECK(stats_of(heap).live_blocks == 0);
    struct hak_heap_stats part = {.live_blocks = 77};
    CHECK(hak_heap_stats_get(heap, &part, sizeof part.live_bytes) == sizeof part.live_bytes);
    CHECK(part.live_blocks == 77);
    hak_heap_destroy(heap);
    hak_heap_destroy(NULL);
    hak_heap_delete(NULL);
}

/* ---- many blocks ---- */

static size_t size_at(size_t i)
{
    return i % 50 == 49 ? 70000 + i * 10 : i % 7 == 0 ? 1000 + i : i % 600;
}

static void fill_heap(hak_heap *heap, void **blocks, unsigned seed)
{
    for (size_t i = 0; i < MANY; i++) {
        blocks[i] = hak_heap_malloc(heap, size_at(i));
        CHECK_AT(blocks[i] != NULL, i);
        fill_pattern(blocks[i], size_at(i), seed);
    }
}

static void check_heap(hak_heap *heap, void *const *blocks, unsigned seed)
{
    for (size_t i = 0; i < MANY; i++) {
        CHECK_AT(has_pattern(blocks[i], size_at(i), size_at(i), seed), i);
        CHECK_AT(hak_heap_of(blocks[i]) == heap, i);
    }
}

/* What one heap's end takes away is not another's. */
static void test_destroy(void)
{
    static void *blocks[2][MANY], *plain[MANY];
    hak_heap *heaps[2] = {new_heap(), new_heap()};
    fill_heap(heaps[0], blocks[0], 1);
    fill_heap(heaps[1], blocks[1], 2);
    for (size_t i = 0; i < MANY; i++) {
        plain[i] = malloc(size_at(i));
        fill_pattern(plain[i], size_at(i), 5);
    }
    CHECK(stats_of(heaps[0]).live_blocks == MANY);
    check_heap(heaps[0], blocks[0], 1);
    hak_heap_destroy(heaps[0]);
    check_heap(heaps[1], blocks[1], 2);
    for (size_t i = 0; i < MANY; i++) {
        CHECK_AT(has_pattern(plain[i], size_at(i), size_at(i), 5), i);
        free(plain[i]);
    }
    CHECK(stats_of(heaps[1]).live_blocks == MANY);
    hak_heap_destroy(heaps[1]);
}

/* Also where the size is checked. */
static void test_sized_after_delete(void)
{
    void *blocks[ARRAY_LENGTH(sizes)];
    hak_heap *heap = new_heap();
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        blocks[i] = hak_heap_malloc(heap, sizes[i]);
        CHECK_AT(blocks[i] != NULL, sizes[i]);
    }
    hak_heap_delete(heap);
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        hak_free_sized(blocks[i], sizes[i]);
    }
}

/* Blocks of a heap that was deleted are anybody's: freed, they serve malloc. */
static void test_delete(void)
{
    static void *blocks[MANY];
    hak_heap *heap = new_heap();
    fill_heap(heap, blocks, 4);
    hak_heap_delete(heap);
    check_heap(NULL, blocks, 4);
    for (size_t i = 0; i < MANY; i += 2) {
        free(blocks[i]);
    }
    for (size_t i = 0; i < MANY; i += 2) {
        blocks[i] = malloc(size_at(i));
        fill_pattern(blocks[i], size_at(i), 4);
    }
    check_heap(NULL, blocks, 4);
    for (size_t i = 0; i < MANY; i++) {
        free(blocks[i]);
    }
}

/* Memory does not grow with the number of heaps there ever were, and goes back. */
static void test_heaps_in_turn(void)
{
    static void *blocks[MANY];
    size_t before = 0;
    for (int i = 0; i < ROUNDS; i++) {
        hak_heap *heap = new_heap();
        fill_heap(heap, blocks, 6);
        for (size_t k = 0; k < MANY; k += 1 + (size_t)i % 3) {
            free(blocks[k]);
        }
        if (i == ROUNDS / 4) {
            before = resident_bytes();
        }
        hak_heap_destroy(heap);
    }
    CHECK_AT(resident_bytes() < before + 16 * MIB, (resident_bytes() - before) / KIB);
}

/* Nor with the number of those that were deleted. */
static void test_deleted_in_turn(void)
{
    struct hak_stats before = {0}, after = {0};
    for (int i = 0; i < 6000; i++) {
        hak_heap *heap = new_heap();
        void *block = hak_heap_malloc(heap, 100);
        hak_heap_delete(heap);
        free(block);
        if (i == 3000) { /* by now what waits in the build `secure` does */
            hak_stats_get(&before, sizeof before);
        }
    }
    hak_stats_get(&after, sizeof after);
    CHECK_AT(after.heaps <= before.heaps, after.heaps);
    CHECK_AT(after.super_bytes <= before.super_bytes, after.super_bytes);
}

/* What a heap had that is destroyed goes back also where nothing else is freed. */
static void test_memory_goes_back(void)
{
#ifdef HAK_TEST_LINKED
    return; /* what is resident is the sanitizer's */
#endif
    hak_heap *heap = new_heap();
    hak_purge();
    const size_t before = resident_bytes();
    for (size_t i = 0; i < 100 * KIB; i++) {
        void *block = hak_heap_malloc(heap, 1000);
        CHECK(block != NULL);
        memset(block, 1, 1000);
    }
    CHECK(resident_bytes() > before + 80 * MIB);
    hak_heap_destroy(heap);
    for (int i = 0; resident_bytes() > before + 40 * MIB; i++) {
        CHECK_AT(i < 3000, resident_bytes() / MIB);
        usleep(10000);
        heap = new_heap();
        CHECK(hak_heap_malloc(heap, 100) != NULL);
        hak_heap_destroy(heap);
    }
}

/* More heaps than a thread has leases. */
static void test_heaps_by_turns(void)
{
    static hak_heap *heaps[HEAPS];
    static void *blocks[HEAPS][100];
    for (size_t h = 0; h < HEAPS; h++) {
        heaps[h] = new_heap();
    }
    for (size_t i = 0; i < 100; i++) {
        for (size_t h = 0; h < HEAPS; h++) {
            blocks[h][i] = hak_heap_malloc(heaps[h], 40 + h);
            CHECK_AT(blocks[h][i] != NULL, h);
            fill_pattern(blocks[h][i], 40 + h, (unsigned)h);
        }
    }
    for (size_t h = 0; h < HEAPS; h += 2) {
        for (size_t i = 0; i < 100; i += 2) {
            free(blocks[h][i]);
        }
        CHECK_AT(stats_of(heaps[h]).live_blocks == 50, h);
        hak_heap_destroy(heaps[h]);
    }
    for (size_t h = 1; h < HEAPS; h += 2) {
        CHECK_AT(stats_of(heaps[h]).live_blocks == 100, h);
        for (size_t i = 0; i < 100; i++) {
            CHECK_AT(has_pattern(blocks[h][i], 40 + h, 40 + h, (unsigned)h), h);
        }
        hak_heap_destroy(heaps[h]);
    }
}

/* ---- threads ---- */

static hak_heap *shared;
static pthread_barrier_t all_there;
static void *passed[THREADS][MANY];

/* Each fills, hands its blocks to the next thread, and frees what it is handed. */
static void *exchange(void *number)
{
    const size_t me = (size_t)number, from = (me + 1) % THREADS;
    for (int round = 0; round < 5; round++) {
        fill_heap(shared, passed[me], (unsigned)me);
        pthread_barrier_wait(&all_there);
        check_heap(shared, passed[from], (unsigned)from);
        for (size_t i = 0; i < MANY; i++) {
            free(passed[from][i]);
        }
        pthread_barrier_wait(&all_there);
    }
    return NULL;
}

static void *fill_and_end(void *number)
{
    fill_heap(shared, passed[(size_t)number], (unsigned)(size_t)number);
    return NULL;
}

static void run_threads(void *(*body)(void *))
{
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&threads[i], NULL, body, (void *)i) == 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
}

static void test_threads(void)
{
    shared = new_heap();
    CHECK(pthread_barrier_init(&all_there, NULL, THREADS) == 0);
    run_threads(exchange);
    CHECK(stats_of(shared).live_blocks == 0);
    run_threads(fill_and_end);
    CHECK(stats_of(shared).live_blocks == THREADS * MANY);
    for (size_t t = 0; t < THREADS; t++) {
        check_heap(shared, passed[t], (unsigned)t);
    }
    hak_heap_destroy(shared);
}

static void *make_and_destroy(void *number)
{
    for (size_t i = 0; i < 500; i++) {
        hak_heap *heap = new_heap();
        for (size_t k = 0; k < 50; k++) {
            const size_t size = 10 + (k * 37 + (size_t)number) % 2000;
            void *block = hak_heap_malloc(heap, size);
            check_block(heap, block, size);
            if (k % 3 == 0) {
                free(block);
            }
        }
        if (i % 10 == 0) {
            hak_heap_delete(heap);
        } else {
            hak_heap_destroy(heap);
        }
    }
    return NULL;
}

/* ---- a fork ---- */

static void test_fork(void)
{
    static void *blocks[MANY];
    hak_heap *heap = new_heap();
    fill_heap(heap, blocks, 7);
    free(blocks[0]);
    const pid_t child = fork();
    CHECK(child >= 0);
    blocks[0] = hak_heap_malloc(heap, size_at(0));
    fill_pattern(blocks[0], size_at(0), 7);
    check_heap(heap, blocks, 7);
    CHECK(stats_of(heap).live_blocks == MANY);
    for (size_t i = 0; i < MANY; i += 2) {
        free(blocks[i]);
    }
    hak_heap_destroy(heap);
    if (child == 0) {
        heap = new_heap();
        fill_heap(heap, blocks, 8);
        check_heap(heap, blocks, 8);
        hak_heap_destroy(heap);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

int main(void)
{
    require_hakmem();
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        test_plain(sizes[i]);
        test_zeroed(sizes[i]);
        for (size_t alignment = 1; alignment <= 4 * MIB; alignment *= 4) {
            test_aligned(sizes[i], alignment);
        }
        for (size_t k = 0; k < ARRAY_LENGTH(sizes); k++) {
            if (sizes[k] != 0) {
                test_resized(sizes[i], sizes[k]);
            }
        }
    }
    test_of_others();
    test_errors();
    test_destroy();
    test_delete();
    test_sized_after_delete();
    test_heaps_in_turn();
    test_heaps_by_turns();
    test_deleted_in_turn();
    test_memory_goes_back();
    test_threads();
    run_threads(make_and_destroy);
    test_fork();
    return 0;
}
