#include "region/free_map.h"

enum { BITS = 64 };

/* Set where a granule is not free. The search looks at the word behind as well. */
static uint64_t busy[(WINDOW_MAX >> GRANULE_SHIFT) / BITS + 1];

static size_t first_free; /* no free granule below */

/* The same of those whose address is a multiple of so many granules, a power of two: between many that are aligned to more than a granule
 * lie others that are free, and of no use to the next one. */
enum { ORDERS = 20 };
static uint32_t first_aligned[ORDERS];

static HAK_NOINLINE void note_free(size_t granule)
{
    first_free = least_of(first_free, granule);
    for (int i = 1; i < ORDERS && granule_is_aligned(granule, GRANULE_SIZE << i); i++)
        first_aligned[i] = (uint32_t)least_of(first_aligned[i], granule);
}

void free_map_set(size_t granule, bool is_free)
{
    uint64_t bit = (uint64_t)1 << (granule % BITS);
    busy[granule / BITS] = (busy[granule / BITS] & ~bit) | (is_free ? 0 : bit);
    if (is_free)
        note_free(granule);
}

size_t free_map_run_end(size_t at, size_t end)
{
    while (at < end) {
        uint64_t rest = busy[at / BITS] >> (at % BITS);
        if (rest != 0)
            return least_of(end, at + (size_t)__builtin_ctzll(rest));
        at += BITS - at % BITS;
    }
    return end;
}

/* Where in a word of granules n free ones begin, which may go on into the next word: of so many that follow on each other it is known
 * which do twice as many. */
static uint64_t begins_of_free(size_t word, size_t n)
{
    uint64_t low = ~busy[word], high = ~busy[word + 1];
    for (size_t have = 1, more; have < n; have += more) {
        more = least_of(have, n - have); /* n is at most BITS, so less than that */
        low &= low >> more | high << (BITS - more);
        high &= high >> more;
    }
    return low;
}

static size_t next_aligned(size_t granule, size_t alignment)
{
    uintptr_t at = (uintptr_t)granule_address(granule);
    return granule + ((round_up(at, alignment) - at) >> GRANULE_SHIFT);
}

static bool is_busy(size_t granule)
{
    return (busy[granule / BITS] >> (granule % BITS) & 1) != 0;
}

/* From where on one that is aligned so may be free. */
static HAK_NOINLINE size_t first_of(size_t alignment)
{
    int order = __builtin_ctzll(alignment) - GRANULE_SHIFT;
    if (order >= ORDERS)
        return first_free;
    size_t at = next_aligned(first_aligned[order], alignment);
    while (at < hak_region.granules && is_busy(at))
        at = next_aligned(at + 1, alignment);
    first_aligned[order] = (uint32_t)at;
    return at;
}

/* Lowest fit: keeps the heap dense and the top quiet. */
ptrdiff_t free_map_find(size_t n, size_t alignment)
{
    size_t end = hak_region.granules,
           at = alignment <= GRANULE_SIZE ? first_free : first_of(alignment);
    while (n <= end && at <= end - n) {
        size_t word = at / BITS;
        uint64_t begins = begins_of_free(word, least_of(n, BITS)) & UINT64_MAX << (at % BITS);
        if (begins == 0) {
            at = (word + 1) * BITS;
            if (busy[word] == UINT64_MAX && first_free / BITS == word)
                first_free = at;
            continue;
        }
        size_t free = word * BITS + (size_t)__builtin_ctzll(begins);
        at = next_aligned(free, alignment);
        if (at > end - n)
            break; /* what lies behind the window is not busy */
        size_t run_end = free_map_run_end(at, at + n);
        if (run_end == at + n)
            return (ptrdiff_t)at;
        at = run_end + 1;
    }
    return REGION_NONE;
}
