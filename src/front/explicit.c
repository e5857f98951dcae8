#include "front/explicit.h"

#include <errno.h>
#include <string.h>

#include "front/attach.h"
#include "front/check.h"
#include "front/secure.h"
#include "front/slow.h"
#include "heap/fork.h"
#include "heap/hollow.h"
#include "heap/registry.h"

HAK_COLD struct heap *front_heap_new(void)
{
    thread_attach();
    thread_enter();
    struct heap *h = registry_take_explicit();
    thread_leave();
    if (h == NULL)
        errno = ENOMEM;
    return h;
}

/* Whether the block, whose request has been counted, is a sample. */
static bool is_sampled(void *p, size_t size, uint32_t class)
{
    struct heap *h = own_heap(thread_enter());
    if (h == NULL)
        forget_words();
    bool is_one = h != NULL && !sampler_goes_on(&h->magazines.sampler) &&
                  sampled_note(&h->magazines.sampler, p, size, hak_classes[class].size);
    if (h != NULL && hollow_may_be())
        hollow_look_unlocked(h); /* also after this heap, which has no slow path that looks */
    thread_leave();
    return is_one;
}

static HAK_COLD void *take(struct heap *to, uint32_t class, size_t size, bool *zeroed)
{
    if (hak_thread.heap == &hak_empty_heap)
        thread_attach();
    void *p = lease_alloc(to, class, zeroed);
    if (p != NULL && sampler_is_over() && is_sampled(p, size, class))
        explicit_note_sampled(to, p);
    return p;
}

static void *take_or_fail(struct heap *to, uint32_t class, size_t size, bool *zeroed)
{
    void *p = take(to, class, size, zeroed);
    if (p == NULL) {
        make_room();
        p = take(to, class, size, zeroed);
    }
    leave_slow();
    return p != NULL ? p : no_memory();
}

static void *pages_for_heap(struct heap *to, size_t alignment, size_t size, bool *zeroed)
{
    void *p = pages_or_fail(size != 0 ? size : 1, alignment, zeroed);
    if (p == NULL || explicit_add(to, p))
        return p;
    front_free(p);
    return no_memory();
}

/* Of a request that has been counted. */
static HAK_COLD void *alloc(struct heap *to, size_t alignment, size_t size, bool *zeroed)
{
    uint32_t class = class_for_request(alignment, size);
    *zeroed = false;
    return class < FIRST_PAGED ? take_or_fail(to, class, size, zeroed)
                               : pages_for_heap(to, alignment, size, zeroed);
}

HAK_COLD void *front_heap_alloc_counted(struct heap *to, size_t alignment, size_t size)
{
    bool zeroed;
    return alloc(to, alignment, size, &zeroed);
}

HAK_COLD void *front_heap_alloc_zeroed(struct heap *to, size_t size)
{
    bool zeroed;
    (void)count_words(words_of(size));
    void *p = alloc(to, 1, size, &zeroed);
    if (p == NULL || zeroed)
        return p;
    size -= SECURE_WORD;
    return size < UNIT_SIZE ? memset(p, 0, size) : clear_pages(p, size);
}

HAK_COLD void front_heap_ended(void)
{
    int saved = errno;
    purge_look_soon();
    purge_if_due();
    give_back_if_due();
    errno = saved;
}

HAK_COLD bool front_heap_has_lost(const void *p)
{
#if HAK_CHECKED
    return fork_has_cut_short() && !check_is_live(p);
#elif HAK_SECURE
    size_t size;
    return fork_has_cut_short() && !secure_is_live(p, &size);
#else
    (void)p; /* a free looks at nothing that it could tell by */
    return false;
#endif
}

HAK_COLD struct heap *front_heap_of(const void *p, const char *what)
{
    (void)front_usable(p, what); /* which ends the program if it is none */
    return explicit_owner(p, unit_word(unit_of(p)));
}
