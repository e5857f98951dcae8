/* grow: blocks that grow by realloc, many side by side, each to its limit and then from the start. */
#include "common.h"

#define MOST_ITEMS 64u
#define WARM_STEPS 4096u

struct kind {
    size_t start;
    size_t limit;
    unsigned items; /* growing at a time */
};

enum { STRINGS, VECTORS, FILES };

static const struct kind kinds[] = {
    [STRINGS] = {16, 2048, 64},
    [VECTORS] = {64, 262144, 16},
    [FILES] = {65536, 8388608, 4},
};

struct item {
    unsigned char *block; /* NULL: starts anew */
    size_t size;
};

/* Strings grow by what is appended, vectors double, what is read from a file comes in pieces. */
static size_t next_size(size_t kind, size_t size, uint64_t bits)
{
    switch (kind) {
    case STRINGS:
        return size + 1 + (bits & 31);
    case VECTORS:
        return 2 * size;
    default:
        return size + 65536 + (bits & 65535);
    }
}

/* The content says which item it belongs to and where in it, for the block itself moves. */
static void write_mark(struct item *item, uint64_t owner)
{
    uint64_t mark = owner ^ (item->size << 8);
    memcpy(item->block + item->size - sizeof mark, &mark, sizeof mark);
}

static void check_mark(const struct item *item, size_t size, uint64_t owner)
{
    uint64_t mark;
    memcpy(&mark, item->block + size - sizeof mark, sizeof mark);
    if (mark != (owner ^ (size << 8))) {
        die_corrupt(item->block);
    }
}

/* Writes to the pages that came with the growth. */
static void touch_growth(struct item *item, size_t from)
{
    for (size_t at = from; at < item->size; at += 4096) {
        item->block[at] = 1;
    }
}

static void grow(struct item *item, size_t size, uint64_t owner)
{
    size_t before = item->size;
    unsigned char *moved = realloc(item->block, size);
    if (moved == NULL) {
        die_no_memory(size);
    }
    item->block = moved;
    item->size = size;
    check_mark(item, before, owner);
    touch_growth(item, before);
    write_mark(item, owner);
}

static void begin(struct item *item, size_t size, uint64_t owner)
{
    item->block = allocate(size);
    item->size = size;
    touch_growth(item, 0);
    write_mark(item, owner);
}

static void end(struct item *item, uint64_t owner)
{
    check_mark(item, item->size, owner);
    free(item->block);
    item->block = NULL;
}

/* Each step is one call of the allocator. */
static void run(size_t kind, struct item *items, uint64_t steps, uint64_t *random)
{
    const struct kind *law = &kinds[kind];
    for (uint64_t i = 0; i < steps; i++) {
        uint64_t bits = next_random(random);
        uint32_t owner = below((uint32_t)(bits >> 32), law->items);
        struct item *item = &items[owner];
        if (item->block == NULL) {
            begin(item, law->start, owner);
            continue;
        }
        size_t size = next_size(kind, item->size, bits);
        if (size > law->limit) {
            end(item, owner);
        } else {
            grow(item, size, owner);
        }
    }
}

enum { KIND, STEPS, SEED, PARAMETERS };

static struct parameter parameters[PARAMETERS] = {
    [KIND] = {"KIND", "law of growth", 0, 0, "strings vectors files", 0, 0},
    [STEPS] = {"STEPS", "calls of malloc, realloc and free", 1, UINT64_C(10000000000), NULL, 0, 0},
    [SEED] = {"SEED", "of what grows next, and how far", 0, UINT32_MAX, NULL, 1, 1},
};

int main(int argc, char **argv)
{
    static struct item items[MOST_ITEMS];
    parse_arguments("Blocks that grow by realloc, many side by side.", parameters, PARAMETERS, argc,
                    argv);
    size_t kind = parameters[KIND].value;
    uint64_t random = seeded(parameters[SEED].value, 0);
    run(kind, items, WARM_STEPS, &random);
    uint64_t start = now_ns();
    run(kind, items, parameters[STEPS].value, &random);
    report(parameters[STEPS].value, now_ns() - start);
    for (unsigned i = 0; i < MOST_ITEMS; i++) {
        if (items[i].block != NULL) {
            end(&items[i], i);
        }
    }
    return 0;
}
