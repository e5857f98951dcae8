/* Reading of bytes that may be malformed: what would lie beyond the end reads as zero, and is noted. */
#ifndef HAK_CURSOR_H
#define HAK_CURSOR_H

#include <string.h>

#include "base/base.h"

struct cursor {
    const uint8_t *bytes;
    size_t at, end; /* at <= end */
    bool bad;
};

/* A little-endian number of at most 8 bytes. */
static inline uint64_t cursor_fixed(struct cursor *c, size_t size)
{
    uint64_t value = 0;
    if (c->bad || size > c->end - c->at) {
        c->bad = true;
        return 0;
    }
    memcpy(&value, c->bytes + c->at, size);
    c->at += size;
    return value;
}

static inline int64_t cursor_signed(struct cursor *c, size_t size)
{
    unsigned unused = 64 - 8 * (unsigned)size;
    return (int64_t)(cursor_fixed(c, size) << unused) >> unused;
}

static inline uint8_t cursor_byte(struct cursor *c)
{
    return (uint8_t)cursor_fixed(c, 1);
}

/* LEB128; `bits`: how many bits were there. */
static inline uint64_t cursor_leb(struct cursor *c, unsigned *bits, bool *negative)
{
    uint64_t value = 0;
    for (*bits = 0; *bits < 64;) {
        uint8_t byte = cursor_byte(c);
        value |= (uint64_t)(byte & 0x7f) << *bits;
        *bits += 7;
        *negative = (byte & 0x40) != 0;
        if ((byte & 0x80) == 0)
            return value;
    }
    c->bad = true;
    return 0;
}

static inline uint64_t cursor_uleb(struct cursor *c)
{
    unsigned bits;
    bool negative;
    return cursor_leb(c, &bits, &negative);
}

static inline int64_t cursor_sleb(struct cursor *c)
{
    unsigned bits;
    bool negative;
    uint64_t value = cursor_leb(c, &bits, &negative);
    return (int64_t)(negative && bits < 64 ? value | ~(uint64_t)0 << bits : value);
}

static inline void cursor_skip(struct cursor *c, uint64_t size)
{
    if (c->bad || size > c->end - c->at)
        c->bad = true;
    else
        c->at += (size_t)size;
}

/* The next `size` bytes, alone. */
static inline struct cursor cursor_block(struct cursor *c, uint64_t size)
{
    struct cursor block = *c;
    cursor_skip(c, size);
    block.end = c->at;
    block.bad = c->bad;
    return block;
}

#endif
