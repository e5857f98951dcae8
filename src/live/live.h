/* The live area: what this process shows of itself to others of the same user, as tables of plain words in a
 * piece of shared memory (format.h, tables.def). Whoever owns a figure stores it here as well, on slow
 * paths; but for call stacks (sites.c) nothing is read back, so an area can be made anew at any time from what
 * the owners know. Others are not to write to it, but the kernel lets the same user give himself the right (shmctl); so
 * nothing that stands in it leads this process anywhere outside of it, and a set-group-ID program shows none.
 *
 * The memory is a System V segment that is marked for removal as soon as it is attached: it needs no
 * file and no descriptor, ends with the process whatever ends that, and Linux lets others attach it
 * meanwhile by the number that /proc/PID/maps shows. Where there is none to be had it is private: the
 * profile still works, and can be written to a file.
 *
 * The child of a fork must not write into its parent's: it has none until it is asked for memory.
 *
 * Calls: os. Called by: pressure, region, slab, mind, purge, profile, heap, front, api. */
#ifndef HAK_LIVE_H
#define HAK_LIVE_H

#include "base/atomic.h"
#include "base/base.h"
#include "control/options.h"
#include "live/format.h"

enum {
#define CLASS(index, from, size, units, slots) LIVE_CLASS_##index,
#include "slab/size_classes.def"
#undef CLASS
    LIVE_CLASSES
};

#define LIVE_BY_CLASS 452 /* a literal, because it becomes text */
_Static_assert(LIVE_BY_CLASS == 4 * LIVE_CLASSES, "four words per class");

typedef _Atomic uint32_t live_u32;
typedef _Atomic uint64_t live_u64;

#define LIVE_TABLE(table, rows) struct live_##table {
#define LIVE_FIELD(table, type, name) live_##type name;
#define LIVE_ARRAY(table, type, name, length) live_##type name[length];
#define LIVE_END(table, rows)                                                                      \
    }                                                                                              \
    ;
#include "live/tables.def"
#undef LIVE_TABLE
#undef LIVE_FIELD
#undef LIVE_ARRAY
#undef LIVE_END

enum live_table_index {
#define LIVE_TABLE(table, rows) LIVE_TABLE_##table,
#define LIVE_FIELD(table, type, name)
#define LIVE_ARRAY(table, type, name, length)
#define LIVE_END(table, rows)
#include "live/tables.def"
#undef LIVE_TABLE
#undef LIVE_END
    LIVE_TABLE_COUNT
};

enum {
#define LIVE_TABLE(table, rows) LIVE_ROWS_##table = (rows),
#define LIVE_END(table, rows)
#include "live/tables.def"
#undef LIVE_TABLE
#undef LIVE_END
};

enum { LIVE_TEXT_ROOM = 3136 };

struct live_area {
    struct live_header header;
    char text[LIVE_TEXT_ROOM];
#define LIVE_TABLE(table, rows) _Alignas(64) struct live_##table table[rows];
#define LIVE_END(table, rows)
#include "live/tables.def"
#undef LIVE_TABLE
#undef LIVE_END
#undef LIVE_FIELD
#undef LIVE_ARRAY
};

struct live {
    /* NULL: there is none. Stored with release when the texts and tables of the header are complete;
     * rows are filled by their owners. */
    _Atomic(struct live_area *) area;
    _Atomic bool due; /* one is to be made at the next slow path */
    bool is_private;  /* nobody else sees it */
    /* The parent's, in the child of a fork; only looked at, until under the sampler's lock it goes. */
    struct live_area *inherited;
    /* What the system has just told who made the window (os_address_limit), for the first area; 0: it is to be asked. Set before
     * any thread has a heap, cleared by the one that makes the area. */
    size_t address_limit;
};

extern struct live hak_live __attribute__((visibility("hidden")));

HAK_INLINE struct live_area *live_area(void)
{
    return HAK_INSIGHT ? load_acquire(&hak_live.area) : NULL; /* pairs with live_make */
}

HAK_INLINE bool live_is_due(void)
{
    return HAK_INSIGHT && HAK_UNLIKELY(load_relaxed(&hak_live.due));
}

/* Whether there is anything to be shown or remembered. */
bool live_is_wanted(void);

/* It was not wanted before, so nobody is making one: the first time that it is wanted and there is none it is due. */
void live_want(void);

/* Stores one of the process' own figures. */
#define live_set(field, value)                                                                     \
    do {                                                                                           \
        struct live_area *live_ = live_area();                                                     \
        if (live_ != NULL)                                                                         \
            store_relaxed(&live_->process[0].field, (value));                                      \
    } while (0)

/* Makes the area if it is due, and says in it what does not change. One thread makes it; NULL for any other,
 * and if there is no memory. */
struct live_area *live_make(void);

/* From now on readers may believe what it says. */
void live_complete(struct live_area *a);

/* The settings, as they are now. */
void live_show_settings(void);

/* Where the header ends, its texts included. */
size_t live_header_size(void);

/* What is in use of a table: how many bytes from which offset on, within the table whatever its header says. */
struct live_extent {
    size_t offset, size;
};
struct live_extent live_extent_of(const struct live_area *a, enum live_table_index table);

/* The next free row of a table, or -1. */
ptrdiff_t live_new_row(struct live_area *a, enum live_table_index table);

/* The table's rows go as far as `used` at least. */
HAK_INLINE void live_raise_used(struct live_area *a, enum live_table_index table, uint32_t used)
{
    _Atomic uint32_t *word = &a->header.tables[table].used;
    uint32_t was = load_relaxed(word);
    while (HAK_UNLIKELY(was < used) && !cas_weak_relaxed(word, &was, used))
        ;
}

/* In the child of a fork: what is mapped is the parent's. */
void live_forget(void);

/* What was inherited is not needed any more. */
void live_drop_inherited(void);

#endif
