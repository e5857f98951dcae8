/* What the files of this folder share: how a misuse is described, and small steps of which it consists.
 *
 * A program is a form of misuse at a size, with a variant if the form has some. Forms stand in one table per file,
 * and every program that follows from them has a name: FORM_SIZE or FORM_VARIANT_SIZE. */
#ifndef HAK_TESTS_MISUSE_H
#define HAK_TESTS_MISUSE_H

#include "../abi/abi_check.h"

enum size_name {
    TINY = 1 << 0,
    SMALL = 1 << 1,
    LARGER = 1 << 2,
    KILO = 1 << 3,
    MID = 1 << 4,
    PAGED = 1 << 5,
    RUN = 1 << 6,
    BIG = 1 << 7,
    ONE_SIZE = 0, /* the form has a size of its own */
    SLAB_SIZES = TINY | SMALL | LARGER | KILO | MID,
    OTHER_SIZES = PAGED | RUN | BIG,
    ALL_SIZES = SLAB_SIZES | OTHER_SIZES
};

struct variant {
    const char *name, *text;
    long amount;      /* bytes */
    const char *call; /* symbol of the function that is called */
};

struct how {
    size_t size;
    const struct variant *variant; /* NULL: the form has none */
};

struct form {
    const char *kind; /* as in table.toml */
    const char *name, *text;
    void (*run)(const struct how *);
    unsigned sizes; /* enum size_name */
    const struct variant *variants;
    size_t variant_count;
};

#define VARIANTS(array) (array), ARRAY_LENGTH(array)

extern const struct form double_frees[], bad_pointers[], bad_accesses[], exploits[];
extern const size_t double_frees_count, bad_pointers_count, bad_accesses_count, exploits_count;

/* Says which address the report has to name. */
void *announce(void *address);
/* A block that is written to. */
void *block_of(size_t size);
void *offset(void *block, long bytes);
/* So many blocks of a size as a program has of such; the array ends there. */
enum { CROWD_MOST = 64 };
size_t crowd_of(size_t size);
/* Fills `out` with that many blocks, by address. */
size_t make_crowd(void **out, size_t size);
void free_all(void *const *blocks, size_t n);
/* Frees the block in a thread that ends then. */
void free_in_thread(void *block);
/* Frees the block by that function; ends the program as not run if there is no such function here. */
void free_by(const char *call, void *block, size_t size);
void free_by_sized(const char *call, void *block, size_t size);
void *find_or_skip(const char *symbol);
/* A large mapping that malloc knows nothing of. */
void *mapped_memory(void);

#endif
