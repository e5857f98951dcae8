/*
 * One misuse of the allocator per run: `misuse NAME` does it, `misuse --list` names them all.
 * Before the misuse the address is written to standard output, since the report has to name it;
 * after it the program says "survived" and ends at once, before damage can spread.
 */
#include "../abi/abi_check.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

enum { small_size = 48, few_blocks = 10, many_blocks = 5000 };

typedef void free_sized_function(void *, size_t);
typedef void free_aligned_sized_function(void *, size_t, size_t);

static const size_t mid_size = 8 * KIB;
static const size_t run_size = 300 * KIB;
static const size_t big_size = 4 * MIB;

static void *announce(void *address)
{
    dprintf(STDOUT_FILENO, "address 0x%llx\n", (unsigned long long)(uintptr_t)address);
    return opaque(address);
}

static void *block_of(size_t size)
{
    void *block = malloc(size);
    CHECK(block != NULL);
    memset(block, 1, size);
    return opaque(block);
}

static void *offset(void *block, size_t bytes)
{
    return opaque((unsigned char *)block + bytes);
}

static void free_twice(size_t size)
{
    void *block = announce(block_of(size));
    free(block);
    free(opaque(block));
}

/* The first of several blocks freed, and again when the others lie on top of it. */
static void free_again_after(size_t size, size_t others)
{
    void *other[few_blocks];
    CHECK(others <= few_blocks);
    void *block = announce(block_of(size));
    for (size_t i = 0; i < others; i++) {
        other[i] = block_of(size);
    }
    free(block);
    for (size_t i = 0; i < others; i++) {
        free(other[i]);
    }
    free(opaque(block));
}

static void double_free_newest(void)
{
    free_twice(small_size);
}

static void double_free_after_one(void)
{
    free_again_after(small_size, 1);
}

static void double_free_older(void)
{
    free_again_after(small_size, few_blocks);
}

/* Every other block stays, so that the memory around the freed one stays what it is. */
static void double_free_flushed(void)
{
    static void *other[many_blocks];
    for (size_t i = 0; i < many_blocks / 2; i++) {
        other[i] = block_of(small_size);
    }
    void *block = announce(block_of(small_size));
    for (size_t i = many_blocks / 2; i < many_blocks; i++) {
        other[i] = block_of(small_size);
    }
    free(block);
    for (size_t i = 0; i < many_blocks; i += 2) {
        free(other[i]);
    }
    free(opaque(block));
}

static void double_free_mid(void)
{
    free_twice(mid_size);
}

static void double_free_run(void)
{
    free_twice(300 * KIB);
}

static void double_free_run_older(void)
{
    free_again_after(300 * KIB, few_blocks);
}

static void double_free_big(void)
{
    free_twice(big_size);
}

static void double_free_big_older(void)
{
    free_again_after(big_size, few_blocks);
}

static void *free_in_thread(void *block)
{
    free(opaque(block));
    return NULL;
}

static void run_and_join(void *block)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, free_in_thread, block) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
}

static void double_free_other_thread_first(void)
{
    void *block = announce(block_of(small_size));
    run_and_join(block);
    free(opaque(block));
}

static void double_free_other_thread_second(void)
{
    void *block = announce(block_of(small_size));
    free(block);
    run_and_join(block);
}

static void double_free_other_thread_run(void)
{
    void *block = announce(block_of(run_size));
    run_and_join(block);
    free(opaque(block));
}

static void interior_small(void)
{
    free(announce(offset(block_of(small_size), 16)));
}

static void interior_mid(void)
{
    free(announce(offset(block_of(mid_size), mid_size / 2)));
}

static void interior_run(void)
{
    free(announce(offset(block_of(run_size), 64 * KIB)));
}

static void interior_run_first_page(void)
{
    free(announce(offset(block_of(run_size), 64)));
}

static void interior_big(void)
{
    free(announce(offset(block_of(big_size), MIB)));
}

static void interior_big_first_page(void)
{
    free(announce(offset(block_of(big_size), 64)));
}

static void misaligned_small(void)
{
    free(announce(offset(block_of(small_size), 1)));
}

static void misaligned_mid(void)
{
    free(announce(offset(block_of(mid_size), 3)));
}

static void misaligned_run(void)
{
    free(announce(offset(block_of(run_size), 1)));
}

static void misaligned_big(void)
{
    free(announce(offset(block_of(big_size), 1)));
}

static void foreign_stack(void)
{
    _Alignas(16) unsigned char bytes[64];
    memset(bytes, 1, sizeof(bytes));
    free(announce(bytes));
}

static void foreign_static(void)
{
    _Alignas(16) static unsigned char bytes[64];
    free(announce(bytes));
}

static void *mapped_memory(void)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
    void *memory = mmap(NULL, 4 * MIB, PROT_READ | PROT_WRITE, flags, -1, 0);
    CHECK(memory != MAP_FAILED);
    return opaque(memory);
}

static void foreign_mapped(void)
{
    free(announce(mapped_memory()));
}

/* Nothing is mapped there: the report must not read what it reports about. */
static void foreign_wild(void)
{
    void *memory = mapped_memory();
    CHECK(munmap(memory, 4 * MIB) == 0);
    free(announce(offset(memory, 2 * MIB)));
}

static void foreign_not_an_address(void)
{
    free(announce((void *)(uintptr_t)0xdeadbeefdeadbee0u));
}

static void realloc_freed(size_t size)
{
    void *block = announce(block_of(size));
    free(block);
    opaque(realloc(opaque(block), size * 2));
}

static void realloc_freed_small(void)
{
    realloc_freed(small_size);
}

static void realloc_freed_run(void)
{
    realloc_freed(run_size);
}

static void realloc_freed_big(void)
{
    realloc_freed(big_size);
}

static void realloc_interior_big(void)
{
    opaque(realloc(announce(offset(block_of(big_size), MIB)), 2 * big_size));
}

static void realloc_foreign(void)
{
    opaque(realloc(announce(mapped_memory()), 100));
}

static void usable_size_freed(size_t size)
{
    void *block = announce(block_of(size));
    free(block);
    opaque_size(malloc_usable_size(opaque(block)));
}

static void usable_size_freed_small(void)
{
    usable_size_freed(small_size);
}

static void usable_size_freed_run(void)
{
    usable_size_freed(run_size);
}

static void usable_size_freed_big(void)
{
    usable_size_freed(big_size);
}

static void usable_size_foreign(void)
{
    opaque_size(malloc_usable_size(announce(mapped_memory())));
}

/* Looked up at run time, since the C library may not declare them. */
static void *find(const char *symbol)
{
    void *address = dlsym(RTLD_DEFAULT, symbol);
    CHECK(address != NULL);
    return address;
}

static void free_with_size(const char *function, size_t size, size_t wrong_size)
{
    free_sized_function *free_sized = NULL;
    *(void **)&free_sized = find(function);
    free_sized(announce(block_of(size)), wrong_size);
}

static void free_sized_too_large(void)
{
    free_with_size("free_sized", 100, 3000);
}

static void free_sized_too_small(void)
{
    free_with_size("free_sized", 3000, 100);
}

static void free_sized_run(void)
{
    free_with_size("free_sized", run_size, small_size);
}

static void sized_delete_wrong(void)
{
    free_with_size("_ZdlPvm", 100, 3000);
}

static void sized_array_delete_wrong(void)
{
    free_with_size("_ZdaPvm", 3000, 100);
}

/* A block that does not have, even by chance, the alignment it is said to have. */
static void free_aligned_sized_wrong(void)
{
    void *block = NULL;
    do {
        block = opaque(aligned_alloc(64, 256));
        CHECK(block != NULL);
    } while (is_aligned(block, 4 * KIB));
    free_aligned_sized_function *free_aligned_sized = NULL;
    *(void **)&free_aligned_sized = find("free_aligned_sized");
    free_aligned_sized(announce(block), 4 * KIB, 256);
}

struct misuse {
    const char *name;
    void (*run)(void);
};

#define MISUSE(name)                                                                               \
    {                                                                                              \
#name, name                                                                                \
    }

static const struct misuse misuses[] = {
    MISUSE(double_free_newest),
    MISUSE(double_free_after_one),
    MISUSE(double_free_older),
    MISUSE(double_free_flushed),
    MISUSE(double_free_mid),
    MISUSE(double_free_run),
    MISUSE(double_free_run_older),
    MISUSE(double_free_big),
    MISUSE(double_free_big_older),
    MISUSE(double_free_other_thread_first),
    MISUSE(double_free_other_thread_second),
    MISUSE(double_free_other_thread_run),
    MISUSE(interior_small),
    MISUSE(interior_mid),
    MISUSE(interior_run),
    MISUSE(interior_run_first_page),
    MISUSE(interior_big),
    MISUSE(interior_big_first_page),
    MISUSE(misaligned_small),
    MISUSE(misaligned_mid),
    MISUSE(misaligned_run),
    MISUSE(misaligned_big),
    MISUSE(foreign_stack),
    MISUSE(foreign_static),
    MISUSE(foreign_mapped),
    MISUSE(foreign_wild),
    MISUSE(foreign_not_an_address),
    MISUSE(realloc_freed_small),
    MISUSE(realloc_freed_run),
    MISUSE(realloc_freed_big),
    MISUSE(realloc_interior_big),
    MISUSE(realloc_foreign),
    MISUSE(usable_size_freed_small),
    MISUSE(usable_size_freed_run),
    MISUSE(usable_size_freed_big),
    MISUSE(usable_size_foreign),
    MISUSE(free_sized_too_large),
    MISUSE(free_sized_too_small),
    MISUSE(free_sized_run),
    MISUSE(sized_delete_wrong),
    MISUSE(sized_array_delete_wrong),
    MISUSE(free_aligned_sized_wrong),
};

static int list_names(void)
{
    for (size_t i = 0; i < ARRAY_LENGTH(misuses); i++) {
        puts(misuses[i].name);
    }
    return 0;
}

/* _exit, because what has been damaged may be needed at exit. */
static _Noreturn void run(const struct misuse *misuse)
{
    const struct rlimit no_core = {0, 0};
    CHECK(setrlimit(RLIMIT_CORE, &no_core) == 0);
    misuse->run();
    dprintf(STDOUT_FILENO, "survived\n");
    _exit(0);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    if (strcmp(argv[1], "--list") == 0) {
        return list_names();
    }
    require_hakmem();
    for (size_t i = 0; i < ARRAY_LENGTH(misuses); i++) {
        if (strcmp(argv[1], misuses[i].name) == 0) {
            run(&misuses[i]);
        }
    }
    dprintf(STDERR_FILENO, "no misuse named %s\n", argv[1]);
    return 2;
}
