/* Heaps of the program's own, of which the struct is the library's struct heap. */
#include "api/api.h"
#include "front/explicit.h"
#include "os/os.h"

static struct heap *heap_at(hak_heap *heap, const char *what)
{
    struct heap *h = explicit_at(heap);
    if (h == NULL)
        os_fatal("%s(%p): not a heap, or one that has ended", what, (uintptr_t)heap);
    return h;
}

HAK_EXPORT hak_heap *hak_heap_new(void)
{
    return (hak_heap *)front_heap_new();
}

/* Of a request that has been counted. */
static HAK_NOINLINE void *alloc_missed(hak_heap *heap, size_t alignment, size_t size,
                                       const char *what)
{
    struct heap *h = heap_at(heap, what);
    return api_out_aligned(front_heap_alloc_counted(h, alignment, secure_request(size)), size);
}

static void *alloc_uncounted(hak_heap *heap, size_t alignment, size_t size, const char *what)
{
    (void)count_words(words_of(secure_request(size)));
    return alloc_missed(heap, alignment, size, what);
}

HAK_EXPORT void *hak_heap_malloc(hak_heap *heap, size_t size)
{
    void *p = front_heap_pop((const struct heap *)heap, secure_request(size));
    return HAK_LIKELY(p != NULL) ? api_out_aligned(p, size)
                                 : alloc_missed(heap, 1, size, "hak_heap_malloc");
}

HAK_EXPORT void *hak_heap_calloc(hak_heap *heap, size_t count, size_t size)
{
    size_t total;
    struct heap *h = heap_at(heap, "hak_heap_calloc");
    if (__builtin_mul_overflow(count, size, &total))
        total = SIZE_MAX;
    return api_out_aligned(front_heap_alloc_zeroed(h, secure_request(total)), total);
}

HAK_EXPORT void *hak_heap_aligned_alloc(hak_heap *heap, size_t alignment, size_t size)
{
    if (!is_power_of_two(alignment)) {
        errno = EINVAL;
        return NULL;
    }
    return alloc_uncounted(heap, alignment, size, "hak_heap_aligned_alloc");
}

HAK_EXPORT hak_heap *hak_heap_of(const void *p)
{
    check_live(p, "hak_heap_of");
    return p == NULL ? NULL : (hak_heap *)front_heap_of(p, "hak_heap_of");
}

HAK_EXPORT void *hak_heap_realloc(hak_heap *heap, void *p, size_t size)
{
    if (p == NULL)
        return alloc_uncounted(heap, 1, size, "hak_heap_realloc");
    struct heap *h = heap_at(heap, "hak_heap_realloc");
    if (front_heap_of(p, "hak_heap_realloc") != h)
        os_fatal("hak_heap_realloc(%p): the block is not one of heap %p", (uintptr_t)p,
                 (uintptr_t)h);
    return hak_realloc(p, size);
}

HAK_EXPORT size_t hak_heap_stats_get(hak_heap *heap, struct hak_heap_stats *stats, size_t size)
{
    struct explicit_numbers n;
    explicit_read(heap_at(heap, "hak_heap_stats_get"), &n);
    struct hak_heap_stats all = {n.live_bytes, n.live_blocks, n.held_bytes};
    size = size < sizeof all ? size : sizeof all;
    __builtin_memcpy(stats, &all, size);
    return size;
}

HAK_EXPORT void hak_heap_delete(hak_heap *heap)
{
    if (heap == NULL)
        return;
    (void)explicit_give_blocks(heap_at(heap, "hak_heap_delete"));
    front_heap_ended();
}

HAK_EXPORT void hak_heap_destroy(hak_heap *heap)
{
    if (heap == NULL)
        return;
    struct heap *h = heap_at(heap, "hak_heap_destroy");
    for (void *p; (p = explicit_next_to_free(h)) != NULL;) {
        if (front_heap_has_lost(p))
            front_free(p);
        else
            api_free(p, "hak_heap_destroy");
    }
    explicit_to_vacant(h);
    front_heap_ended();
}
