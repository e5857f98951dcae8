/* The system allows a process only so many mappings. 60,000 live blocks of one size must not use
 * more than a quarter of them, nor may they when every second one is freed.
 *
 *     map_count [--blocks 60000]
 */
#define _GNU_SOURCE
#include <string.h>

#include "../strict.h"
#include "support.h"

#include "alloc_names.h"

static const size_t SIZES[] = {64, 1024, 16 * 1024, 128 * 1024, 1024 * 1024, 1536 * 1024};

/* Only the start of a block is touched, so a page or two of each is resident. Far more would be
 * an allocator that fills memory itself, and could take the machine down: stop early. */
static const size_t RSS_MOST_PER_BLOCK = 64 * 1024;

static void mark_check(const struct parcel *block, size_t size, size_t number)
{
    if (block->id != number || block->size != size) {
        fail("block %zu of %zu bytes: its first bytes changed", number, size);
    }
}

static void allocate_all(struct parcel **blocks, size_t count, size_t size)
{
    size_t before = rss_bytes();
    for (size_t i = 0; i < count; i++) {
        blocks[i] = malloc(size);
        if (blocks[i] == NULL) {
            fail("malloc gave NULL for block %zu of %zu bytes, with %zu mappings", i, size,
                 map_count());
        }
        *blocks[i] = (struct parcel){.id = i, .size = size};
        if (i % 1000 == 999 && rss_bytes() > before + 256 * MIB + i * RSS_MOST_PER_BLOCK) {
            fail("%.0f MiB resident for %zu barely touched blocks of %zu bytes",
                 in_mib(rss_bytes()), i + 1, size);
        }
    }
}

static void free_every_second(struct parcel **blocks, size_t count, size_t size, size_t first)
{
    for (size_t i = first; i < count; i += 2) {
        mark_check(blocks[i], size, i);
        free(blocks[i]);
    }
}

static size_t maps_checked(size_t size, size_t most, const char *when)
{
    size_t maps = map_count();
    if (maps >= most) {
        fail("blocks of %zu bytes, %s: %zu mappings, only %zu wanted", size, when, maps, most);
    }
    return maps;
}

int main(int argc, char **argv)
{
    size_t count = option(argc, argv, "--blocks", 60000);
    size_t most = number_in_file("/proc/sys/vm/max_map_count", 65530) / 4;
    if (overcommit_is_strict())
        skip("strict overcommit does not allow that much untouched memory");
    struct parcel **blocks = pages_new(count * sizeof *blocks);
    for (size_t i = 0; i < sizeof SIZES / sizeof SIZES[0]; i++) {
        size_t size = SIZES[i];
        allocate_all(blocks, count, size);
        size_t all = maps_checked(size, most, "all alive");
        free_every_second(blocks, count, size, 0);
        size_t half = maps_checked(size, most, "every second freed");
        free_every_second(blocks, count, size, 1);
        note("%zu blocks of %zu bytes: %zu mappings, %zu with every second freed", count, size, all,
             half);
    }
    return 0;
}
