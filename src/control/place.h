/* What lies at an address, for whoever explains a crash: in a signal handler, without waiting for a lock, whatever
 * another thread is doing. Reads the side arrays, heaps and magazines, which are mapped for good, and the
 * links of free blocks below 64 bytes, which are followed inside their slab only; nothing of large blocks. */
#ifndef HAK_PLACE_H
#define HAK_PLACE_H

#include "heap/heap.h"

enum place_kind {
    PLACE_FOREIGN,   /* not hakmem's */
    PLACE_ARRAYS,    /* hakmem's side arrays */
    PLACE_HEAP,      /* a thread's heap: magazines, lists */
    PLACE_UNTOUCHED, /* in the window, where nothing has been yet */
    PLACE_VACANT,    /* in memory that is in no block now */
    PLACE_FREE,      /* in a block that is free: freed, or cut in advance and never used */
    PLACE_FRESH,     /* in a block that was never handed out */
    PLACE_LIVE,      /* in a block of the program's, or on its way to the heap it came from */
    PLACE_BEHIND,    /* past the end of a live block, in no other */
    PLACE_BEFORE,    /* before the start of one */
};

struct place {
    enum place_kind kind;
    uintptr_t at;
    uintptr_t block; /* where the block starts that it is in or beside; 0: none */
    size_t size;     /* the block's */
    uint32_t class;  /* CLASS_COUNT: none, it is made of pages */
    uintptr_t slab;
    const struct heap *heap;     /* the slab's */
    const struct heap *magazine; /* whose magazine has the block; NULL: none has */
    const char *state;           /* what else is known of the block */
    bool is_guarded;             /* the block is: an access here faults if it should */
};

void place_find(struct place *p, uintptr_t at);

/* Whether a pointer there is one into a block, and one that the program must not use any more. */
bool place_is_block(const struct place *p);
bool place_is_freed(const struct place *p);

/* What an access there is called that the pages around a guarded block have stopped; NULL: they have not. */
const char *place_misuse(const struct place *p);

/* In words: "16 bytes into a live block of ..."; the length. */
size_t place_text(const struct place *p, char *out, size_t room);

#endif
