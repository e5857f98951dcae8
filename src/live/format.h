/* The live area as others see it: a header, and the tables of tables.def at the places it names. A
 * reader in another process needs this header and nothing else of the library. All words are
 * little-endian; a word is whole when read, two words need not be of the same moment. */
#ifndef HAK_LIVE_FORMAT_H
#define HAK_LIVE_FORMAT_H

#include <stdint.h>

#define LIVE_MAGIC "hakmem1" /* with its zero: the first eight bytes */

enum { LIVE_NAME_MAX = 16, LIVE_TABLES_MAX = 16 };

struct live_table {
    char name[LIVE_NAME_MAX];
    uint32_t offset, stride; /* bytes from the area's start; from row to row */
    uint32_t rows;           /* there is room for */
    _Atomic uint32_t used;   /* rows, from the first, that may hold something */
    uint32_t fields; /* offset of "name:type ..." or "name:type[n] ...", in the row's order, at
                                their natural alignment; u32, u64 */
    uint32_t reserved;
};

struct live_header {
    char magic[8];        /* stored last: an area without it is being made */
    uint32_t header_size; /* of the structure with its texts */
    uint32_t area_size;
    uint32_t table_count;
    uint32_t text; /* offset of the library's version, a text */
    struct live_table tables[LIVE_TABLES_MAX];
};

/* A profile in a file is a copy of the area (tables at their places, the rest holes) and behind it, at
 * area_size, between a line "begin" and a line "end", the process' /proc/self/smaps (or maps, on a kernel without),
 * a line "program START", where the program's own object begins, and a line "build-id START HEX" per loaded object.
 * `report --save` adds a line "saved MS SECONDS JSON": when (CLOCK_MONOTONIC, and since 1970), and the process' command
 * line. What begins and does not end is cut off; files of older builds have neither of these two lines, nor the program's. */
#define LIVE_TEXT_BEGIN "begin\n"
#define LIVE_TEXT_END "end\n"

#endif
