/* A table of live blocks of known size from which any one can be taken out. */
#ifndef BENCH_PIECES_H
#define BENCH_PIECES_H

#include "common.h"

struct piece {
    void *block;
    uint32_t size;
    uint32_t owner; /* what its content was stamped with */
};

struct pieces {
    struct piece *piece;
    uint32_t count;
    uint32_t most;
    uint32_t born; /* blocks ever added */
    uint64_t bytes;
};

static inline void pieces_init(struct pieces *pieces, uint64_t most)
{
    if (most > UINT32_MAX) {
        refuse_arguments("too many live blocks");
    }
    *pieces = (struct pieces){.piece = harness_table(most * sizeof(struct piece)),
                              .most = (uint32_t)most};
}

static inline void pieces_add(struct pieces *pieces, uint32_t size)
{
    if (pieces->count == pieces->most) {
        die("the harness' own table is full");
    }
    uint32_t owner = pieces->born++;
    pieces->piece[pieces->count++] = (struct piece){take(size, owner), size, owner};
    pieces->bytes += size;
}

static inline void pieces_remove(struct pieces *pieces, uint32_t place)
{
    struct piece gone = pieces->piece[place];
    pieces->piece[place] = pieces->piece[--pieces->count];
    pieces->bytes -= gone.size;
    give_back_sized(gone.block, gone.size, gone.owner);
}

static inline void pieces_remove_any(struct pieces *pieces, uint64_t *random)
{
    pieces_remove(pieces, below((uint32_t)(next_random(random) >> 32), pieces->count));
}

static inline void pieces_remove_all(struct pieces *pieces)
{
    while (pieces->count > 0) {
        pieces_remove(pieces, pieces->count - 1);
    }
}

#endif
