/* Huge pages that the worker makes of small ones. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "footprint.h"

/* ---- huge pages ---- */

enum {
    FULL_MIB = 32,
    FULL_BLOCKS_MOST = FULL_MIB * 1024,
    COLLAPSED_MIB = 8,
    MISSING_SHARE = 16, /* of what becomes huge so much may have been missing */
    HUGE_PAGE = 2 << 20,
    COLLAPSE = 25 /* MADV_COLLAPSE */
};

static bool kernel_collapses(void)
{
    char *map =
        mmap(NULL, 2 * HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) {
        fail("mmap: %s", strerror(errno));
    }
    char *at = map + (-(uintptr_t)map & (HUGE_PAGE - 1));
    madvise(at, HUGE_PAGE, MADV_NOHUGEPAGE);
    memset(at, 1, HUGE_PAGE);
    madvise(at, HUGE_PAGE, MADV_HUGEPAGE);
    bool does = madvise(at, HUGE_PAGE, COLLAPSE) == 0;
    munmap(map, 2 * HUGE_PAGE);
    return does;
}

static size_t huge_bytes(void)
{
    char line[256];
    size_t kib = 0;
    FILE *file = fopen("/proc/self/smaps_rollup", "re");
    if (file == NULL) {
        fail("/proc/self/smaps_rollup: %s", strerror(errno));
    }
    while (fgets(line, sizeof line, file) != NULL &&
           sscanf(line, "AnonHugePages: %zu", &kib) != 1) {
    }
    fclose(file);
    return kib * KIB;
}

static size_t huge_bytes_when_at_least(size_t least)
{
    size_t huge = huge_bytes();
    for (uint64_t start = now_ms(); now_ms() - start < WORKER_PATIENCE_MS && huge < least;) {
        sleep_ms(100);
        huge = huge_bytes();
    }
    return huge;
}

void check_collapsed(void)
{
    static struct parcel *full[FULL_BLOCKS_MOST];
    if (!kernel_collapses()) {
        skip("the kernel makes no huge pages of small ones when it is asked");
    }
    struct rng rng = rng_seeded(1, 0);
    size_t start = rss_bytes(), least = (size_t)COLLAPSED_MIB << 20, count = 0;
    for (size_t bytes = 0; bytes < (size_t)FULL_MIB << 20; bytes += full[count++]->size) {
        full[count] = parcel_new(rng_size(&rng, KIB, 2 * KIB), count);
    }
    size_t before = rss_bytes(), huge = huge_bytes_when_at_least(least), after = rss_bytes();
    for (size_t i = 0; i < count; i++) {
        parcel_end(full[i]);
    }
    size_t freed = rss_when_at_most(start + IDLE_SLACK_KIB * KIB);
    note(
        "resident %.1f MiB at the start, %.1f MiB when full, %.1f MiB with %.1f MiB of huge pages, "
        "%.1f MiB when all was freed",
        in_mib(start), in_mib(before), in_mib(after), in_mib(huge), in_mib(freed));
    if (huge < least) {
        fail("less than %d MiB of huge pages after a minute", COLLAPSED_MIB);
    }
    if (after > before + before / MISSING_SHARE) {
        fail("more than one part in %d above what there was", MISSING_SHARE);
    }
    if (freed > start + IDLE_SLACK_KIB * KIB) {
        fail("more than %d KiB above the start after a minute", IDLE_SLACK_KIB);
    }
}
