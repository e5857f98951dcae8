#include "front/check.h"

#include <errno.h>

#include "front/secure.h"
#include "heap/runs.h"
#include "os/os.h"

#if HAK_CHECKED || HAK_SECURE

/* A run or big block, now or until it was freed. */
static bool is_of_pages(uintptr_t word)
{
    return word == WORD_FREED || word == WORD_RUN || word == WORD_BIG;
}

#endif
#if HAK_CHECKED

enum { BITS = 64, STEP_SHIFT = 3 };

static _Atomic(_Atomic uint64_t *) map;

/* Reserved at the first block. Commits nothing by itself: pages come with the first bit in them.
 * NULL: the system refuses. */
static _Atomic uint64_t *get_map(void)
{
    _Atomic uint64_t *m = load_acquire(&map);
    if (m != NULL)
        return m;
    size_t bytes = hak_region.units * (UNIT_SIZE >> STEP_SHIFT) / 8;
    _Atomic uint64_t *fresh = os_reserve(bytes), *expected = NULL;
    if (fresh == NULL)
        return NULL;
    if (!os_commit(fresh, bytes)) {
        os_unmap(fresh, bytes);
        return NULL;
    }
    if (cas_acq_rel(&map, &expected, fresh)) /* as mapped, by whoever was first */
        return fresh;
    os_unmap(fresh, bytes);
    return expected;
}

static bool find_bit(const void *p, _Atomic uint64_t **word, uint64_t *bit)
{
    if (unit_of(p) >= hak_region.units || ((uintptr_t)p & 7) != 0)
        return false;
    size_t index = ((uintptr_t)p - hak_region.base) >> STEP_SHIFT;
    _Atomic uint64_t *m = get_map();
    if (m == NULL)
        return false;
    *word = &m[index / BITS];
    *bit = (uint64_t)1 << (index % BITS);
    return true;
}

void *check_out(void *p)
{
    _Atomic uint64_t *word;
    uint64_t bit;
    if (p == NULL)
        return NULL;
    if (!find_bit(p, &word, &bit)) {
        front_free(p); /* a block that cannot be marked would not be known when it is freed */
        errno = ENOMEM;
        return NULL;
    }
    if ((or_relaxed(word, bit) & bit) != 0)
        os_fatal("malloc: block %p is handed out twice: the heap is corrupt", (uintptr_t)p);
    return p;
}

static _Noreturn void die(const void *p, const char *what)
{
    size_t unit = unit_of(p);
    uintptr_t at = (uintptr_t)p, word = unit < hak_region.units ? unit_word(unit) : WORD_NONE;
    if (unit >= hak_region.units)
        os_fatal("%s(%p): invalid pointer: it was not allocated by hakmem", what, at);
    struct block_story story;
    bool starts = word == WORD_SAMPLED    ? sampled_story(at, &story) && story.address == at
                  : word_is_of_slab(word) ? slab_block_starts_at(slab_of_unit(unit), p)
                                          : is_of_pages(word) && p == run_address(unit);
    if (starts)
        os_fatal("%s(%p): double free or use after free: the block is free already", what, at);
    if (word_is_of_slab(word))
        os_fatal("%s(%p): not the start of a block: blocks of %u bytes lie there", what, at,
                 (size_t)hak_classes[slab_of_unit(unit)->class].size);
    os_fatal("%s(%p): invalid pointer: no block starts there", what, at);
}

void check_in(void *p, const char *what)
{
    _Atomic uint64_t *word;
    uint64_t bit;
    if (p != NULL && (!find_bit(p, &word, &bit) || (and_relaxed(word, ~bit) & bit) == 0))
        die(p, what);
}

void check_live(const void *p, const char *what)
{
    _Atomic uint64_t *word;
    uint64_t bit;
    if (p != NULL && (!find_bit(p, &word, &bit) || (load_relaxed(word) & bit) == 0))
        die(p, what);
}

bool check_is_live(const void *p)
{
    size_t index = ((uintptr_t)p - hak_region.base) >> STEP_SHIFT;
    const _Atomic uint64_t *m = load_acquire(&map);
    return m != NULL && (load_relaxed(&m[index / BITS]) >> (index % BITS) & 1) != 0;
}

#endif
#if HAK_CHECKED || HAK_SECURE

/* Whether a request for the block may have made it so. An explicit heap's larger blocks, also once that is gone, are whole pages, whatever
 * the size; and those of a sample, whatever their class'. */
static bool may_be_usable(const void *p, size_t alignment, size_t size, size_t usable)
{
    if (HAK_SECURE)
        return size == usable;
    if (usable == front_usable_for(alignment, size))
        return true;
    return is_of_pages(unit_word(unit_of(p))) &&
           (usable == round_up(largest_of(size, 1), hak_region.page_size) ||
            (size <= SLAB_MAX && usable == class_slab_bytes(class_for(size))));
}

void check_size(const void *p, size_t alignment, size_t size, const char *what)
{
    if (p == NULL)
        return;
    check_live(p, what);
    size_t usable = secure_size(p, what);
    if (!may_be_usable(p, alignment, size, usable))
        os_fatal("%s(%p): wrong size: %u was given for a block of %u bytes", what, (uintptr_t)p,
                 size, usable);
}

#endif

HAK_COLD void die_of_alignment(const void *p, size_t alignment, const char *what)
{
    check_live(p, what);
    (void)secure_size(p, what); /* says so if there is no block at all */
    os_fatal("%s(%p): wrong alignment: %u was given", what, (uintptr_t)p, alignment);
}
