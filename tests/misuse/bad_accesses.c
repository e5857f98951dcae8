/* Reads and writes where the program has no block. */
#include "misuse.h"

/* Of blocks by address the one that lies nearest to the one before it. */
static size_t nearest_to_previous(void *const *blocks, size_t n)
{
    size_t nearest = 1;
    for (size_t i = 2; i < n; i++) {
        if ((uintptr_t)blocks[i] - (uintptr_t)blocks[i - 1] <
            (uintptr_t)blocks[nearest] - (uintptr_t)blocks[nearest - 1]) {
            nearest = i;
        }
    }
    return nearest;
}

/* A block whose neighbour lives too, among many, which the program then all frees. */
static void write_beside(const struct how *how, bool behind)
{
    void *blocks[CROWD_MOST];
    const size_t n = make_crowd(blocks, how->size);
    const size_t neighbour = nearest_to_previous(blocks, n);
    void *block = announce(blocks[behind ? neighbour - 1 : neighbour]);
    const long bytes = how->variant->amount;
    /* Each byte is another than before: one of 256 would else be written as it is, which is no damage. */
    unsigned char *place = (unsigned char *)offset(block, behind ? (long)how->size : -bytes);
    for (long i = 0; i < bytes; i++) {
        place[i] ^= 0x41;
    }
    dprintf(STDOUT_FILENO, "written\n");
    free_all(blocks, n);
}

static void write_behind(const struct how *how)
{
    write_beside(how, true);
}

static void write_before(const struct how *how)
{
    write_beside(how, false);
}

static long place_in(const struct how *how)
{
    const long places[] = {0, (long)(how->size / 2), (long)how->size - 8};
    return places[how->variant->amount];
}

static void write_freed(const struct how *how)
{
    void *block = announce(block_of(how->size));
    void *other = block_of(how->size);
    free(block);
    free(other);
    memset(offset(block, place_in(how)), 0x41, 8);
}

static void write_freed_in_thread(const struct how *how)
{
    void *block = announce(block_of(how->size));
    free_in_thread(block);
    memset(offset(block, place_in(how)), 0x41, 8);
}

/* The freed block is another's when it is written to: the damage is the other's. */
static void write_reused(const struct how *how)
{
    void *block = announce(block_of(how->size));
    free(block);
    void *next = block_of(how->size);
    memset(offset(block, place_in(how)), 0x41, 8);
    free(next);
}

static void read_freed(const struct how *how)
{
    unsigned char *block = announce(block_of(how->size));
    free(block);
    const volatile unsigned char *bytes = opaque(block);
    opaque_size(bytes[how->size / 2]);
}

/* A pointer is read from a freed block and followed. */
static void follow_freed(const struct how *how)
{
    static unsigned char target = 1;
    unsigned char **block = announce(block_of(how->size));
    for (size_t i = 0; i < how->size / sizeof(*block); i++) {
        block[i] = &target;
    }
    free(block);
    unsigned char *const volatile *pointers = opaque(block);
    const volatile unsigned char *found = pointers[how->size / sizeof(*block) / 2];
    opaque_size(*found);
}

static const struct variant amounts[] = {
    {"1", "1 byte", 1, NULL},     {"8", "8 bytes", 8, NULL},           {"16", "16 bytes", 16, NULL},
    {"64", "64 bytes", 64, NULL}, {"4096", "4,096 bytes", 4096, NULL},
};
static const struct variant places[] = {
    {"start", "at its start", 0, NULL},
    {"middle", "in its middle", 1, NULL},
    {"end", "at its end", 2, NULL},
};
static const struct variant start[] = {{"start", "at its start", 0, NULL}};

const struct form bad_accesses[] = {
    {"write past the end", "behind", "write behind a block,", write_behind,
     SMALL | LARGER | MID | RUN | BIG, VARIANTS(amounts)},
    {"write before the start", "before", "write before a block,", write_before,
     SMALL | LARGER | MID | RUN | BIG, VARIANTS(amounts)},
    {"write after free", "write_freed", "write to a freed block", write_freed,
     SMALL | LARGER | MID | PAGED | RUN | BIG, VARIANTS(places)},
    {"write after free", "write_freed_in_thread", "write to a block another thread has freed",
     write_freed_in_thread, SMALL | MID | RUN, VARIANTS(start)},
    {"write after free", "write_reused", "write to a freed block that is another's", write_reused,
     SMALL | MID | RUN, VARIANTS(start)},
    {"read after free", "read_freed", "read of a freed block", read_freed,
     SMALL | LARGER | MID | PAGED | RUN | BIG, NULL, 0},
    {"read after free", "follow_freed", "a pointer read from a freed block and followed",
     follow_freed, SMALL | LARGER | MID | RUN, NULL, 0},
};
const size_t bad_accesses_count = ARRAY_LENGTH(bad_accesses);
