/* What is given back was never handed out, or with another size or alignment. */
#include "misuse.h"

#include <sys/mman.h>

static long inside(const struct how *how)
{
    return how->variant->amount != 0 ? how->variant->amount : (long)(how->size / 2 & ~(size_t)15);
}

static void free_inside(const struct how *how)
{
    free(announce(offset(block_of(how->size), inside(how))));
}

static void free_inside_in_thread(const struct how *how)
{
    free_in_thread(announce(offset(block_of(how->size), inside(how))));
}

static void realloc_inside(const struct how *how)
{
    opaque(realloc(announce(offset(block_of(how->size), inside(how))), how->size * 2));
}

static void usable_size_inside(const struct how *how)
{
    opaque_size(malloc_usable_size(announce(offset(block_of(how->size), inside(how)))));
}

static void free_inside_aligned(const struct how *how)
{
    void *block = opaque(aligned_alloc(256, how->size));
    CHECK(block != NULL);
    free(announce(offset(block, inside(how))));
}

/* ---- memory that malloc knows nothing of ---- */

static void free_or_resize(const struct how *how, void *address)
{
    if (how->variant->amount != 0) {
        opaque(realloc(announce(address), 100));
    } else {
        free(announce(address));
    }
}

static void foreign_stack(const struct how *how)
{
    _Alignas(16) unsigned char bytes[64];
    memset(bytes, 1, sizeof(bytes));
    free_or_resize(how, bytes);
}

static void foreign_static(const struct how *how)
{
    _Alignas(16) static unsigned char bytes[64];
    free_or_resize(how, bytes);
}

static void foreign_mapped(const struct how *how)
{
    free_or_resize(how, mapped_memory());
}

/* Nothing is mapped there: the report must not read what it reports about. */
static void foreign_wild(const struct how *how)
{
    void *memory = mapped_memory();
    CHECK(munmap(memory, 4 * MIB) == 0);
    free_or_resize(how, offset(memory, (long)(2 * MIB)));
}

static void foreign_not_an_address(const struct how *how)
{
    free_or_resize(how, (void *)(uintptr_t)0xdeadbeefdeadbee0u);
}

static void usable_size_foreign(const struct how *how)
{
    (void)how;
    opaque_size(malloc_usable_size(announce(mapped_memory())));
}

/* ---- wrong size or alignment ---- */

static void too_large(const struct how *how)
{
    free_by_sized(how->variant->call, announce(block_of(how->size)), how->size * 30);
}

static void too_small(const struct how *how)
{
    free_by_sized(how->variant->call, announce(block_of(how->size)), how->size / 3);
}

/* A block that does not have, even by chance, the alignment it is said to have. */
static void *block_without_alignment(size_t alignment, size_t size)
{
    void *block = NULL;
    do {
        block = opaque(aligned_alloc(64, size));
        CHECK(block != NULL);
    } while (is_aligned(block, alignment));
    return announce(block);
}

static void aligned_sized_wrong(const struct how *how)
{
    void (*function)(void *, size_t, size_t) = NULL;
    *(void **)&function = find_or_skip("free_aligned_sized");
    const size_t alignment = how->size <= 4 * KIB ? 4 * KIB : 4 * MIB;
    function(block_without_alignment(alignment, how->size), alignment, how->size);
}

static void aligned_delete_wrong(const struct how *how)
{
    const size_t alignment = how->size <= 4 * KIB ? 4 * KIB : 4 * MIB;
    free_by_sized("_ZdlPvSt11align_val_t", block_without_alignment(alignment, how->size),
                  alignment);
}

static const struct variant interiors[] = {
    {"16", "16 bytes", 16, NULL},
    {"half", "half of the block", 0, NULL},
};
static const struct variant interiors_of_16[] = {{"8", "8 bytes", 8, NULL}};
static const struct variant misaligned[] = {
    {"1", "1 byte", 1, NULL},
    {"3", "3 bytes", 3, NULL},
};
static const struct variant half[] = {{"half", "half of the block", 0, NULL}};
static const struct variant frees[] = {
    {"free", "by free", 0, NULL},
    {"realloc", "by realloc", 1, NULL},
};
static const struct variant sized_calls[] = {
    {"free_sized", "by free_sized", 0, "free_sized"},
    {"delete", "by operator delete", 0, "_ZdlPvm"},
    {"delete_array", "by operator delete[]", 0, "_ZdaPvm"},
};

const struct form bad_pointers[] = {
    {"pointer into a block", "inside", "free of the address behind", free_inside, TINY,
     VARIANTS(interiors_of_16)},
    {"pointer into a block", "inside", "free of the address behind", free_inside,
     ALL_SIZES & ~(unsigned)TINY, VARIANTS(interiors)},
    {"pointer into a block", "misaligned", "free of the address behind", free_inside, ALL_SIZES,
     VARIANTS(misaligned)},
    {"pointer into a block", "inside_in_thread", "free in another thread of the address behind",
     free_inside_in_thread, SMALL | LARGER | MID | PAGED | RUN | BIG, VARIANTS(half)},
    {"pointer into a block", "realloc_inside", "realloc of the address behind", realloc_inside,
     SMALL | LARGER | MID | PAGED | RUN | BIG, VARIANTS(half)},
    {"pointer into a block", "usable_size_inside", "malloc_usable_size of the address behind",
     usable_size_inside, SMALL | LARGER | MID | PAGED | RUN | BIG, VARIANTS(half)},
    {"pointer into a block", "inside_aligned",
     "in a block of aligned_alloc, free of the address behind", free_inside_aligned,
     LARGER | MID | PAGED | RUN, VARIANTS(interiors)},
    {"not from malloc", "stack", "a variable on the stack is given back", foreign_stack, ONE_SIZE,
     VARIANTS(frees)},
    {"not from malloc", "static", "a static variable is given back", foreign_static, ONE_SIZE,
     VARIANTS(frees)},
    {"not from malloc", "mapped", "memory from mmap is given back", foreign_mapped, ONE_SIZE,
     VARIANTS(frees)},
    {"not from malloc", "wild", "an address where nothing is mapped is given back", foreign_wild,
     ONE_SIZE, VARIANTS(frees)},
    {"not from malloc", "no_address", "a value that cannot be an address is given back",
     foreign_not_an_address, ONE_SIZE, VARIANTS(frees)},
    {"not from malloc", "usable_size_foreign", "malloc_usable_size of memory from mmap",
     usable_size_foreign, ONE_SIZE, NULL, 0},
    {"wrong size or alignment", "too_large", "thirty times the size is given back", too_large,
     SMALL | MID, VARIANTS(sized_calls)},
    {"wrong size or alignment", "too_small", "a third of the size is given back", too_small,
     LARGER | RUN, VARIANTS(sized_calls)},
    {"wrong size or alignment", "alignment_sized", "free_aligned_sized with more than it has",
     aligned_sized_wrong, LARGER | RUN, NULL, 0},
    {"wrong size or alignment", "alignment_delete",
     "operator delete with more alignment than it has", aligned_delete_wrong, LARGER | RUN, NULL,
     0},
};
const size_t bad_pointers_count = ARRAY_LENGTH(bad_pointers);
