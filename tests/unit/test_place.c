/* What lies at an address: what tests/crash cannot reach by crashing there. Blocks of all sizes go round, and each
 * must be known for what it is at every moment. */
#include "unit.h"

#include "control/options.h"
#include "control/place.h"
#include "hakmem/hakmem.h"
#include "os/thread.h"

#include <unistd.h>

enum { BLOCKS = 3000 };

static struct place find(const void *at)
{
    struct place p;
    place_find(&p, (uintptr_t)at);
    return p;
}

static bool says(const void *at, const char *text)
{
    char line[400];
    struct place p = find(at);
    place_text(&p, line, sizeof line);
    return strstr(line, text) != NULL;
}

static bool is_live(const char *block, size_t size)
{
    struct place first = find(block), last = find(block + size - 1);
    return first.kind == PLACE_LIVE && last.kind == PLACE_LIVE && first.block == (uintptr_t)block &&
           last.block == (uintptr_t)block && first.size >= size;
}

static void what_is_no_block(void **state)
{
    (void)state;
    int variable = 0;
    char *block = hak_malloc(100);
    assert_int_equal(find(&variable).kind, PLACE_FOREIGN);
    assert_int_equal(find(NULL).kind, PLACE_FOREIGN);
    assert_int_equal(find((void *)UINTPTR_MAX).kind, PLACE_FOREIGN);
    assert_int_equal(find((void *)&hak_region.words[unit_of(block)]).kind, PLACE_ARRAYS);
    assert_int_equal(find(slab_at(unit_of(block))).kind, PLACE_ARRAYS);
    assert_int_equal(find(slab_map(slab_at(unit_of(block)))).kind, PLACE_ARRAYS);
    assert_int_equal(find(hak_thread.heap).kind, PLACE_HEAP);
    assert_int_equal(find(granule_address(region_top())).kind, PLACE_UNTOUCHED);
    assert_int_equal(find(granule_address(hak_region.granules - 1)).kind, PLACE_UNTOUCHED);
    hak_free(block);
}

static void what_is_behind_the_last_block_of_a_slab(void **state)
{
    (void)state;
    char *block = hak_malloc(10000);
    const struct slab *s = slab_of_unit(unit_of(block));
    const struct class_info *c = &hak_classes[s->class];
    assert_int_equal(find(slab_base(s) + c->capacity * (size_t)c->size).kind, PLACE_VACANT);
    assert_int_equal(find(slab_base(s) + (c->capacity - 1) * (size_t)c->size).kind, PLACE_FRESH);
    hak_free(block);
}

/* Every block is live from malloc to free, wherever it then goes. */
static void blocks_of_all_sizes(void **state)
{
    static char *blocks[BLOCKS];
    static size_t sizes[BLOCKS];
    uint32_t random = 1;
    (void)state;
    for (int round = 0; round < 4; round++) {
        for (size_t i = 0; i < BLOCKS; i++) {
            sizes[i] = 1 + next_random(&random) % ((size_t)16 << (next_random(&random) % 17));
            blocks[i] = hak_malloc(sizes[i]);
            assert_non_null(blocks[i]);
            assert_at(is_live(blocks[i], sizes[i]), sizes[i]);
        }
        for (size_t i = 0; i < BLOCKS; i += 2) {
            hak_free(blocks[i]);
            assert_at(find(blocks[i]).kind != PLACE_LIVE, sizes[i]);
        }
        for (size_t i = 1; i < BLOCKS; i += 2)
            assert_at(is_live(blocks[i], sizes[i]), sizes[i]);
        hak_purge();
        for (size_t i = 0; i < BLOCKS; i += 2)
            assert_at(find(blocks[i]).kind != PLACE_LIVE, sizes[i]);
        for (size_t i = 1; i < BLOCKS; i += 2) {
            assert_at(is_live(blocks[i], sizes[i]), sizes[i]);
            hak_free(blocks[i]);
            assert_at(find(blocks[i]).kind != PLACE_LIVE, sizes[i]);
        }
    }
}

/* In the build `secure` a freed large block waits if it had a guard page, for which there is only so much time in a
 * while: sooner or later there is again. */
static bool comes_to_wait(size_t size)
{
    bool waits = false;
    for (int i = 0; i < 3000 && !waits; i++) {
        char *block = hak_malloc(size);
        assert_non_null(block);
        hak_free(block);
        waits = says(block + 5, "waiting to be used again");
        usleep(waits ? 0 : 10 * 1000);
    }
    return waits;
}

static void large_blocks(void **state)
{
    (void)state;
    size_t size = MIB * 3 / 2, retain = hak_options.retain;
    hak_options.retain = 64 * MIB; /* so that the cache keeps it */
    char *big = hak_malloc(size), *run = hak_malloc(MIB / 2);
    assert_true(is_live(big, size) && is_live(run, MIB / 2));
    assert_int_equal(find(big + size).kind, PLACE_BEHIND);
    assert_true(says(big + size + 5, "5 bytes past the end of a live block of 1572864 bytes"));
    hak_free(big);
    hak_free(run);
    if (HAK_SECURE) {
        assert_true(comes_to_wait(size));
        assert_true(comes_to_wait(MIB / 2));
    } else {
        assert_true(says(big + 5, "5 bytes into a free block of 1572864 bytes"));
        assert_true(says(big + MIB, "kept for the next large block"));
        assert_true(says(run, "the start of a free block of 524288 bytes"));
    }
    hak_options.retain = retain;
    hak_purge();
    assert_true(HAK_SECURE || says(big, "given back to the kernel"));
}

static void *free_there(void *block)
{
    hak_free(hak_malloc(64));
    hak_free(block);
    return NULL;
}

static void freed_by_a_thread_that_has_ended(void **state)
{
    (void)state;
    pthread_t thread;
    char *block = hak_malloc(64);
    assert_int_equal(pthread_create(&thread, NULL, free_there, block), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(find(block).kind, PLACE_FREE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_block),
        cmocka_unit_test(what_is_behind_the_last_block_of_a_slab),
        cmocka_unit_test(blocks_of_all_sizes),
        cmocka_unit_test(large_blocks),
        cmocka_unit_test(freed_by_a_thread_that_has_ended),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
