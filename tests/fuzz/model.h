/* A model of an allocator: which blocks there are, what they hold, what must be true of them. */
#ifndef HAK_FUZZ_MODEL_H
#define HAK_FUZZ_MODEL_H

#include <hakmem/hakmem.h>

#include "fuzz.h"

enum { SLOTS = 512 };

/* In place of an alignment: none was asked for. */
enum { ORDINARY = 0 };

struct block {
    char *at; /* NULL: no block */
    size_t size, usable;
    size_t alignment;
    uint64_t id;
    hak_heap *heap; /* the program's own that it is of; NULL: none */
};

struct model {
    struct block blocks[SLOTS];
    size_t usable_bytes, live_blocks; /* of all */
    size_t bounded_bytes, giants;     /* of those up to GIANT, and how many others */
    uint64_t next_id;
};

/* Larger ones may be refused; few of them are asked for at a time, and none that would be cleared or copied. */
#define GIANT ((size_t)32 << 20)
#define HOPELESS ((size_t)1 << 44) /* larger ones are refused by every machine */
#define ALIGN_SURE ((size_t)4 << 20)

/* Whether a request may be made at all without too much memory being used. */
bool model_has_room(const struct model *m, size_t size);

/* Notes a new block, after a look at all that was promised; `zeroed`: it must read as zeros. */
void model_add(struct model *m, size_t slot, void *p, size_t size, size_t alignment, bool zeroed);
/* The same of a block of that heap. */
void model_add_of(struct model *m, size_t slot, void *p, size_t size, size_t alignment, bool zeroed,
                  hak_heap *heap);
/* Checks the content and takes the block out; it is still to be freed. */
struct block model_take(struct model *m, size_t slot);
/* The same without a look: it is no longer there to be looked at. */
void model_forget(struct model *m, size_t slot);
void model_check(const struct block *b);

/* The first `keep` bytes of what was a block of `usable` must be as they were. */
void content_check(const char *p, size_t keep, size_t usable, uint64_t id);

#endif
