#include "region/free_map.h"

enum { BITS = 64 };

/* Set where a granule is not free. The search looks at the word behind as well. */
static uint64_t busy[(WINDOW_MAX >> GRANULE_SHIFT) / BITS + 1];

static size_t first_free; /* no free granule below */

void free_map_set(size_t granule, bool is_free)
{
    uint64_t bit = (uint64_t)1 << (granule % BITS);
    busy[granule / BITS] = (busy[granule / BITS] & ~bit) | (is_free ? 0 : bit);
    if (is_free && granule < first_free)
        first_free = granule;
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

/* Lowest fit: keeps the heap dense and the top quiet. */
ptrdiff_t free_map_find(size_t n, size_t alignment)
{
    size_t end = hak_region.granules, at = first_free;
    while (n <= end && at <= end - n) {
        size_t word = at / BITS;
        uint64_t begins = begins_of_free(word, least_of(n, BITS)) & UINT64_MAX << (at % BITS);
        if (begins == 0) {
            at = (word + 1) * BITS;
            if (busy[word] == UINT64_MAX && first_free / BITS == word)
                first_free = at;
            continue;
        }
        at = word * BITS + (size_t)__builtin_ctzll(begins);
        if (at > end - n)
            break; /* what lies behind the window is not busy */
        size_t run_end = free_map_run_end(at, at + n);
        if (run_end == at + n && granule_is_aligned(at, alignment))
            return (ptrdiff_t)at;
        at = run_end == at + n ? at + 1 : run_end + 1;
    }
    return REGION_NONE;
}
