#include "front/check.h"

#include <errno.h>

#include "front/secure.h"
#include "heap/explicit.h"
#include "heap/runs.h"
#include "os/os.h"

#if HAK_CHECKED

enum { BITS = 64, STEP_SHIFT = 3, BYTE_SHIFT = 3, PIECE_SHIFT = 20 };

/* A bit for each eight bytes of the window: is a live block's start there? Reserved at the first block, and made writable piece
 * by piece, since what a program has locked in advance (mlockall) is resident as soon as it may be written. */
static _Atomic(_Atomic uint64_t *) map;

/* Of its pieces, those that may be written. A bit is set once it is so. */
static _Atomic uint64_t opened[(WINDOW_MAX >> (STEP_SHIFT + BYTE_SHIFT + PIECE_SHIFT)) / BITS];

/* NULL: the system refuses. */
static _Atomic uint64_t *get_map(void)
{
    _Atomic uint64_t *m = load_acquire(&map);
    if (m != NULL)
        return m;
    size_t bytes = hak_region.units * (UNIT_SIZE >> (STEP_SHIFT + BYTE_SHIFT));
    _Atomic uint64_t *fresh = os_reserve(bytes), *expected = NULL;
    if (fresh == NULL)
        return NULL;
    if (cas_acq_rel(&map, &expected, fresh)) /* as reserved, by whoever was first */
        return fresh;
    os_unmap(fresh, bytes);
    return expected;
}

/* acquire: pairs with open_piece. */
static bool is_open(size_t piece)
{
    return (load_acquire(&opened[piece / BITS]) >> (piece % BITS) & 1) != 0;
}

/* Two threads may do so at once. release: who sees the bit may write there. */
static bool open_piece(_Atomic uint64_t *m, size_t piece)
{
    size_t size = (size_t)1 << PIECE_SHIFT;
    size_t all = hak_region.units * (UNIT_SIZE >> (STEP_SHIFT + BYTE_SHIFT));
    if (!os_commit((char *)m + piece * size, least_of(size, all - piece * size)))
        return false;
    or_release(&opened[piece / BITS], (uint64_t)1 << (piece % BITS));
    return true;
}

/* Whether the block has a bit. may_open: it gets one if it has none. */
static bool find_bit(const void *p, bool may_open, _Atomic uint64_t **word, uint64_t *bit)
{
    if (unit_of(p) >= hak_region.units || ((uintptr_t)p & 7) != 0)
        return false;
    size_t index = ((uintptr_t)p - hak_region.base) >> STEP_SHIFT;
    size_t piece = index >> (BYTE_SHIFT + PIECE_SHIFT);
    _Atomic uint64_t *m = get_map();
    if (m == NULL || (!is_open(piece) && !(may_open && open_piece(m, piece))))
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
    if (!find_bit(p, true, &word, &bit)) {
        front_free(p); /* a block that cannot be marked would not be known when it is freed */
        errno = ENOMEM;
        return NULL;
    }
    if ((or_relaxed(word, bit) & bit) != 0)
        os_fatal("malloc: block %p is handed out twice: the heap is corrupt", (uintptr_t)p);
    return p;
}

/* A run or big block, now or until it was freed. */
static bool is_of_pages(uintptr_t word)
{
    return word == WORD_FREED || word == WORD_RUN || word == WORD_BIG;
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
    if (p != NULL && (!find_bit(p, false, &word, &bit) || (and_relaxed(word, ~bit) & bit) == 0))
        die(p, what);
}

void check_live(const void *p, const char *what)
{
    _Atomic uint64_t *word;
    uint64_t bit;
    if (p != NULL && (!find_bit(p, false, &word, &bit) || (load_relaxed(word) & bit) == 0))
        die(p, what);
}

bool check_is_live(const void *p)
{
    _Atomic uint64_t *word;
    uint64_t bit;
    return find_bit(p, false, &word, &bit) && (load_relaxed(word) & bit) != 0;
}

#endif
#if HAK_CHECKED || HAK_SECURE

/* What a request for the block has made it. An explicit heap's larger blocks are whole pages, whatever the size. */
static size_t expected_usable(const void *p, size_t alignment, size_t size)
{
    if (HAK_SECURE)
        return size;
    uintptr_t word = unit_word(unit_of(p));
    bool is_of_pages = word != WORD_EXPLICIT && explicit_owner(p, word) != NULL;
    return is_of_pages ? round_up(largest_of(size, 1), hak_region.page_size)
                       : front_usable_for(alignment, size);
}

void check_size(const void *p, size_t alignment, size_t size, const char *what)
{
    if (p == NULL)
        return;
    check_live(p, what);
    size_t usable = secure_size(p, what);
    if (expected_usable(p, alignment, size) != usable)
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
