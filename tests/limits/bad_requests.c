/* Requests that cannot be met, by the million: each is refused with the right errno, and nothing changes, neither
 * the blocks that are there nor the statistics.
 *
 *     bad_requests [--count 1000000] [--seed 1]
 */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>

#include "support.h"

#include <hakmem/hakmem.h>

enum { KINDS = 16, BLOCKS = 64, LOOK_EVERY = 1 << 20, OTHER_ERRNO = 4242 };

/* No machine has as much address space for a program. */
static const size_t HOPELESS = (size_t)1 << 48;

static struct parcel *blocks[BLOCKS];
static struct hak_stats before;

/* ---- parts of requests ---- */

/* Above PTRDIFF_MAX; as often close to it, or to SIZE_MAX, as anywhere. */
static size_t oversize(struct rng *rng)
{
    size_t distance = rng_below(rng, 70000);
    switch (rng_below(rng, 3)) {
    case 0:
        return (size_t)PTRDIFF_MAX + 1 + distance;
    case 1:
        return SIZE_MAX - distance;
    default:
        return rng_next(rng) | ((size_t)1 << 63);
    }
}

/* Two factors whose product has more than 64 bits, or more than PTRDIFF_MAX. */
static void overflowing(struct rng *rng, size_t *count, size_t *size)
{
    unsigned bits = 1 + (unsigned)rng_below(rng, 62);
    *count = ((size_t)1 << bits) + rng_below(rng, (size_t)1 << bits);
    *size = oversize(rng) / *count + 1;
    if (*size < (size_t)PTRDIFF_MAX / *count + 1)
        *size = (size_t)PTRDIFF_MAX / *count + 1;
    if (rng_below(rng, 2) == 0) {
        size_t other = *count;
        *count = *size;
        *size = other;
    }
}

/* No power of two. */
static size_t no_alignment(struct rng *rng)
{
    size_t n = rng_below(rng, 2) == 0 ? rng_below(rng, 4096) : rng_next(rng);
    return n != 0 && (n & (n - 1)) == 0 ? n + n / 2 + (n < 4 ? 2 : 0) : n;
}

static size_t huge_alignment(struct rng *rng)
{
    return (size_t)1 << (48 + rng_below(rng, 16));
}

static size_t any_size(struct rng *rng)
{
    return rng_below(rng, 8) == 0 ? oversize(rng) : rng_log_size(rng, 64 * MIB);
}

/* ---- requests ---- */

static void refused(const void *p, int wanted, const char *what, size_t a, size_t b)
{
    if (p != NULL)
        fail("%s with %zu and %zu gave a block", what, a, b);
    if (errno != wanted)
        fail("%s with %zu and %zu: errno %d, not %d", what, a, b, errno, wanted);
}

static void refused_by_posix_memalign(size_t alignment, size_t size, int wanted)
{
    void *out = &before;
    int got = hak_posix_memalign(&out, alignment, size);
    if (got != wanted || out != (void *)&before || errno != OTHER_ERRNO)
        fail("posix_memalign(%zu, %zu): %d, not %d; errno %d", alignment, size, got, wanted, errno);
}

static void bad_product(struct rng *rng, struct parcel *there, uint64_t kind)
{
    size_t count, size;
    overflowing(rng, &count, &size);
    void *p = kind == 0   ? hak_calloc(count, size)
              : kind == 1 ? hak_reallocarray(there, count, size)
                          : hak_reallocarray(NULL, count, size);
    refused(p, ENOMEM, "a product", count, size);
}

static void bad_alignment(struct rng *rng, uint64_t kind)
{
    size_t alignment = no_alignment(rng), size = any_size(rng);
    if (kind == 0)
        refused(hak_aligned_alloc(alignment, size), EINVAL, "aligned_alloc", alignment, size);
    else if (kind == 1)
        refused(hak_memalign(alignment, size), EINVAL, "memalign", alignment, size);
    else
        refused_by_posix_memalign(alignment, size, EINVAL);
}

static void too_large_alignment(struct rng *rng, uint64_t kind)
{
    size_t alignment = huge_alignment(rng), size = any_size(rng);
    if (kind == 0)
        refused(hak_memalign(alignment, size), ENOMEM, "memalign", alignment, size);
    else
        refused_by_posix_memalign(alignment, size, ENOMEM);
}

static void too_large(struct rng *rng, struct parcel *there, uint64_t kind)
{
    size_t size = oversize(rng), alignment = (size_t)1 << rng_below(rng, 40);
    switch (kind) {
    case 0:
        refused(hak_malloc(size), ENOMEM, "malloc", size, 0);
        break;
    case 1:
        refused(hak_calloc(1, size), ENOMEM, "calloc", 1, size);
        break;
    case 2:
        refused(hak_realloc(there, size), ENOMEM, "realloc", size, 0);
        break;
    case 3:
        refused(hak_memalign(alignment, size), ENOMEM, "memalign", alignment, size);
        break;
    case 4:
        refused(hak_valloc(size), ENOMEM, "valloc", size, 0);
        break;
    case 5:
        refused(hak_pvalloc(size), ENOMEM, "pvalloc", size, 0);
        break;
    case 6:
        refused(hak_alloc_at(size, HAK_CALLSITE()), ENOMEM, "alloc_at", size, 0);
        break;
    default:
        refused_by_posix_memalign(alignment < 8 ? 8 : alignment, size, ENOMEM);
    }
}

static void bad_request(struct rng *rng, uint64_t kind)
{
    struct parcel *there = blocks[rng_below(rng, BLOCKS)];
    errno = OTHER_ERRNO;
    if (kind < 3)
        bad_product(rng, there, kind);
    else if (kind < 6)
        bad_alignment(rng, kind - 3);
    else if (kind < 8)
        too_large_alignment(rng, kind - 6);
    else
        too_large(rng, there, kind - 8);
}

/* Within what a size may say, but not to be had: the whole process is searched for memory each time. */
static void beyond_the_address_space(struct rng *rng)
{
    size_t size = HOPELESS + rng_below(rng, (size_t)PTRDIFF_MAX - HOPELESS);
    errno = OTHER_ERRNO;
    refused(hak_malloc(size), ENOMEM, "malloc", size, 0);
}

/* ---- what must not change ---- */

static void nothing_changed(void)
{
    for (size_t i = 0; i < BLOCKS; i++)
        parcel_check(blocks[i]);
    struct hak_stats now;
    hak_stats_get(&now, sizeof now);
    if (now.live_bytes != before.live_bytes || now.live_blocks != before.live_blocks)
        fail("%zu bytes in %zu blocks live, were %zu in %zu", now.live_bytes, now.live_blocks,
             before.live_bytes, before.live_blocks);
}

int main(int argc, char **argv)
{
    enum { BEYOND_EVERY = 4096 };
    uint64_t count = option(argc, argv, "--count", 1000000);
    struct rng rng = rng_seeded(option(argc, argv, "--seed", 1), 0);
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = parcel_new(rng_log_size(&rng, 2 * MIB), i);
    }
    hak_stats_get(&before, sizeof before);
    uint64_t began = now_ms();
    for (uint64_t i = 0; i < count; i++) {
        bad_request(&rng, i % KINDS);
        if (i % BEYOND_EVERY == 0)
            beyond_the_address_space(&rng);
        if (i % LOOK_EVERY == 0)
            nothing_changed();
    }
    nothing_changed();
    note("%llu bad requests refused in %llu ms", (unsigned long long)count,
         (unsigned long long)(now_ms() - began));
    return 0;
}
