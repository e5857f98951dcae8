/* The usable size is at least what was asked for, all of it is the program's, and little is wasted.
 */
#include "abi_check.h"

enum { ring_length = 61 };

struct held_block {
    void *address;
    size_t usable;
    unsigned seed;
};

static void release(struct held_block *held)
{
    CHECK_AT(has_pattern(held->address, held->usable, held->usable, held->seed), held->usable);
    free(held->address);
    held->address = NULL;
    held->usable = 0;
}

static void hold(struct held_block *held, size_t size, unsigned seed)
{
    held->address = malloc(size);
    CHECK_AT(held->address != NULL, size);
    held->usable = malloc_usable_size(held->address);
    CHECK_AT(held->usable >= size, size);
    held->seed = seed;
    fill_pattern(held->address, held->usable, seed);
}

/* Blocks stay for a whole ring of later ones, which would overwrite an end that is not theirs. */
static void test_whole_usable_size_survives(size_t first, size_t last, size_t dense_until)
{
    static struct held_block ring[ring_length];
    size_t turn = 0;
    for (size_t size = first; size <= last; size = next_size(size, dense_until)) {
        struct held_block *held = &ring[turn % ring_length];
        if (held->address != NULL) {
            release(held);
        }
        hold(held, size, (unsigned)turn);
        turn++;
    }
    for (size_t i = 0; i < ring_length; i++) {
        if (ring[i].address != NULL) {
            release(&ring[i]);
        }
    }
}

/* malloc_usable_size has to be stable, since programs grow into it and ask again. */
static void test_realloc_to_usable_size_stays(size_t size)
{
    void *block = malloc(size);
    CHECK_AT(block != NULL, size);
    const size_t usable = malloc_usable_size(block);
    fill_pattern(block, usable, 3);
    void *again = realloc(block, usable);
    CHECK_AT(again != NULL, size);
    CHECK_AT(malloc_usable_size(again) >= usable, size);
    CHECK_AT(has_pattern(again, usable, usable, 3), size);
    free(again);
}

/* 20 % above 64 B, but what alignment demands is no waste: 16 bytes, or a page above 64 KiB. */
static size_t largest_fair_size(size_t size)
{
    const size_t with_waste = size + size / 5;
    const size_t rounded = round_up(size, size > 64 * KIB ? page_size() : 16);
    return with_waste > rounded ? with_waste : rounded;
}

/* Once larger blocks lie free, one of the next two classes may serve what is larger than 64 KiB (docs/decisions/0079). */
static void test_waste_of_free_blocks(void)
{
    for (size_t size = 65; size <= 256 * KIB; size += size < 64 * KIB ? 1 : 1021) {
        void *block = malloc(size);
        CHECK_AT(block != NULL, size);
        const size_t borrowed = size > 64 * KIB ? size + size * 3 / 8 + page_size() : 0;
        const size_t usable = malloc_usable_size(block);
        CHECK_AT(usable <= largest_fair_size(size) || usable <= borrowed, size);
        free(block);
    }
}

static void test_waste(void)
{
    for (size_t size = 65; size <= 4 * MIB; size += size < 64 * KIB ? 1 : 1021) {
        void *block = malloc(size);
        CHECK_AT(block != NULL, size);
        CHECK_AT(malloc_usable_size(block) <= largest_fair_size(size), size);
        free(block);
    }
}

int main(void)
{
    require_hakmem();
    /* First: from 64 KiB on a free block of the next two classes may serve (docs/decisions/0079), of which there are none yet. */
    test_waste();
    test_whole_usable_size_survives(1, 64 * KIB, 4 * KIB);
    test_whole_usable_size_survives(64 * KIB, 4 * MIB, 0);
    test_whole_usable_size_survives(60 * MIB, 70 * MIB, 0);
    for (size_t size = 1; size <= 16 * MIB; size = next_size(size, 2 * KIB)) {
        test_realloc_to_usable_size_stays(size);
    }
    test_waste_of_free_blocks();
    puts("usable size: ok");
    return 0;
}
