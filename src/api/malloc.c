/* malloc and its family, under the library's own names; the standard's names are aliases. */
#include "api/api.h"
#include "hakmem/inline.h"

__attribute__((used)) static void (*const needs_start)(void) = hak_start;

HAK_EXPORT_HOT void *hak_malloc(size_t size)
{
    return api_alloc(size);
}

HAK_EXPORT void *hak_malloc_missed_v1(size_t size)
{
    sampler_lose_sight();
    return HAK_SERVES_INLINE ? front_alloc_slow(size) : api_alloc(size);
}

HAK_EXPORT_HOT void hak_free(void *p)
{
    api_free(p, "free");
}

static HAK_NOINLINE void *too_large(void)
{
    errno = ENOMEM;
    return NULL;
}

static HAK_NOINLINE void *not_an_alignment(void)
{
    errno = EINVAL;
    return NULL;
}

HAK_EXPORT void *hak_calloc(size_t count, size_t size)
{
    size_t total;
    if (HAK_UNLIKELY(__builtin_mul_overflow(count, size, &total)))
        return too_large();
    return check_out(secure_out_zeroed(front_alloc_zeroed(secure_request(total)), total));
}

static void *resize(void *p, size_t size, const char *what)
{
    if (p == NULL)
        return hak_malloc(size);
    if (size == 0) {
        api_free(p, what);
        return NULL;
    }
    /* Out of the map first: once freed, the block may be another thread's at any time. */
    check_in(p, what);
    void *q = secure_realloc(p, size, what);
    check_out(q != NULL ? q : p);
    return q;
}

HAK_EXPORT void *hak_realloc(void *p, size_t size)
{
    return resize(p, size, "realloc");
}

HAK_EXPORT void *hak_reallocarray(void *p, size_t count, size_t size)
{
    size_t total;
    if (HAK_UNLIKELY(__builtin_mul_overflow(count, size, &total)))
        return too_large();
    return resize(p, total, "reallocarray");
}

HAK_INLINE void *alloc_aligned(size_t alignment, size_t size)
{
    return api_out_aligned(front_alloc_aligned(alignment, secure_request(size)), size);
}

HAK_EXPORT void *hak_aligned_alloc(size_t alignment, size_t size)
{
    if (HAK_UNLIKELY(!is_power_of_two(alignment)))
        return not_an_alignment();
    return alloc_aligned(alignment, size);
}

HAK_EXPORT void *hak_memalign(size_t alignment, size_t size) SAME_AS(hak_aligned_alloc);

HAK_EXPORT int hak_posix_memalign(void **out, size_t alignment, size_t size)
{
    if (!is_power_of_two(alignment) || alignment % sizeof(void *) != 0)
        return EINVAL;
    int saved = errno;
    void *p = alloc_aligned(alignment, size);
    errno = saved;
    if (p == NULL)
        return ENOMEM;
    *out = p;
    return 0;
}

static size_t page_size(void)
{
    thread_enter();
    bool is_known = region_init();
    thread_leave();
    return is_known ? hak_region.page_size : 4096;
}

HAK_EXPORT void *hak_valloc(size_t size)
{
    return alloc_aligned(page_size(), size);
}

HAK_EXPORT void *hak_pvalloc(size_t size)
{
    size_t page = page_size();
    if (size > PTRDIFF_MAX)
        return too_large();
    return alloc_aligned(page, size == 0 ? page : round_up(size, page));
}

HAK_EXPORT size_t hak_usable_size(const void *p)
{
    check_live(p, "malloc_usable_size");
    return p == NULL ? 0 : secure_size(p, "malloc_usable_size");
}

HAK_EXPORT void hak_free_sized(void *p, size_t size)
{
    api_free_sized(p, 1, size, "free_sized");
}

HAK_EXPORT void hak_free_aligned_sized(void *p, size_t alignment, size_t size)
{
    api_free_sized(p, alignment, size, "free_aligned_sized");
}

HAK_EXPORT void *hak_alloc_at(size_t size, uintptr_t site)
{
    front_name_site(site);
    void *p = hak_malloc(size);
    front_name_site(0);
    return p;
}

#if HAK_INTERPOSE
void *malloc(size_t size) SAME_AS(hak_malloc);
void free(void *p) SAME_AS(hak_free);
void *calloc(size_t count, size_t size) SAME_AS(hak_calloc);
void *realloc(void *p, size_t size) SAME_AS(hak_realloc);
void *reallocarray(void *p, size_t count, size_t size) SAME_AS(hak_reallocarray);
void *aligned_alloc(size_t alignment, size_t size) SAME_AS(hak_aligned_alloc);
void *memalign(size_t alignment, size_t size) SAME_AS(hak_aligned_alloc);
int posix_memalign(void **out, size_t alignment, size_t size) SAME_AS(hak_posix_memalign);
void *valloc(size_t size) SAME_AS(hak_valloc);
void *pvalloc(size_t size) SAME_AS(hak_pvalloc);
size_t malloc_usable_size(void *p) SAME_AS(hak_usable_size);
void cfree(void *p) SAME_AS(hak_free);
void free_sized(void *p, size_t size) SAME_AS(hak_free_sized);
void free_aligned_sized(void *p, size_t alignment, size_t size) SAME_AS(hak_free_aligned_sized);
#endif

/* What clang's -fsanitize=alloc-token calls instead, with a number for the type behind the other arguments, which is not looked
 * at: declared without. As of Clang 22, "Allocation Tokens"; the names with a number in them, of its fast ABI, are not here. */
#define WITH_TOKEN(function) SAME_AS(hak_##function)
void *__alloc_token_malloc(size_t size) WITH_TOKEN(malloc);
void *__alloc_token_calloc(size_t count, size_t size) WITH_TOKEN(calloc);
void *__alloc_token_realloc(void *p, size_t size) WITH_TOKEN(realloc);
void *__alloc_token_reallocarray(void *p, size_t count, size_t size) WITH_TOKEN(reallocarray);
void *__alloc_token_aligned_alloc(size_t alignment, size_t size) WITH_TOKEN(aligned_alloc);
void *__alloc_token_memalign(size_t alignment, size_t size) WITH_TOKEN(aligned_alloc);
int __alloc_token_posix_memalign(void **out, size_t alignment, size_t size)
    WITH_TOKEN(posix_memalign);
void *__alloc_token_valloc(size_t size) WITH_TOKEN(valloc);
void *__alloc_token_pvalloc(size_t size) WITH_TOKEN(pvalloc);
