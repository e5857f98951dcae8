/* mallinfo, mallinfo2, malloc_trim and mallopt tell the truth, which every other preload leaves
 * out. */
#include "abi_check.h"

#include <dlfcn.h>
#include <pthread.h>

enum { small_size = 1000, small_count = 64000, trim_size = 4000, trim_count = 64000 };
enum { paged_size = 57344, paged_count = 1000 };

/* Caches and metadata may count as used or not: a tenth of the amount, and 4 MiB. */
static size_t tolerance(size_t amount)
{
    return amount / 10 + 4 * MIB;
}

static size_t used_bytes(void)
{
    return mallinfo2().uordblks;
}

static size_t allocate_touched(void **blocks, size_t count, size_t size)
{
    size_t usable = 0;
    for (size_t i = 0; i < count; i++) {
        blocks[i] = malloc(size);
        CHECK_AT(blocks[i] != NULL, i);
        memset(blocks[i], 0x66, size);
        usable += malloc_usable_size(blocks[i]);
    }
    return usable;
}

static void free_all(void **blocks, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free(blocks[i]);
    }
}

static void test_used_follows_small_blocks(void)
{
    static void *blocks[small_count];
    const size_t before = used_bytes();
    const size_t usable = allocate_touched(blocks, small_count, small_size);
    const size_t held = used_bytes();
    CHECK(held + tolerance(usable) >= before + usable);
    CHECK(held <= before + usable + tolerance(usable));
    free_all(blocks, small_count);
    CHECK(used_bytes() <= before + tolerance(usable));
}

/* glibc counts mapped blocks in hblkhd alone, so the sum of both is what has to grow. */
static void test_used_follows_large_blocks(void)
{
    const struct mallinfo2 before = mallinfo2();
    void *block = malloc(64 * MIB);
    CHECK(block != NULL);
    memset(block, 1, 64 * MIB);
    const struct mallinfo2 held = mallinfo2();
    CHECK(held.uordblks + held.hblkhd >= before.uordblks + before.hblkhd + 64 * MIB);
    CHECK(held.uordblks + held.hblkhd <= before.uordblks + before.hblkhd + 64 * MIB + tolerance(0));
    CHECK(held.hblks == before.hblks + 1 || any_malloc_allowed());
    free(block);
    const struct mallinfo2 after = mallinfo2();
    if (HAK_SECURE) { /* it waits, and counts meanwhile */
        return;
    }
    CHECK(after.uordblks + after.hblkhd <= before.uordblks + before.hblkhd + tolerance(0));
    CHECK(after.hblks == before.hblks || any_malloc_allowed());
}

/* What a purge can give back; in the build `secure` it waits. */
static void test_what_is_kept(void)
{
    if (HAK_SECURE) {
        return;
    }
    malloc_trim(0);
    const size_t least = mallinfo2().keepcost;
    void *block =
        malloc(2 * MIB); /* no class': the thread would keep it, which a purge leaves to it */
    memset(opaque(block), 1, 2 * MIB);
    free(block); /* less than `retain` */
    CHECK(mallinfo2().keepcost >= least + 2 * MIB || any_malloc_allowed());
    malloc_trim(0);
    CHECK(mallinfo2().keepcost <= least || any_malloc_allowed());
}

static void test_space_from_the_system(void)
{
    void *block = malloc(100);
    CHECK(opaque(block) != NULL);
    const struct mallinfo2 wide = mallinfo2();
    CHECK(wide.arena + wide.hblkhd > 0);
    CHECK(wide.arena + wide.hblkhd >= wide.uordblks);
    free(block);
}

/* Not what is reserved of the address space. */
static void test_space_follows_what_is_asked_for(void)
{
    static void *blocks[small_count];
    const struct mallinfo2 before = mallinfo2();
    const size_t usable = allocate_touched(blocks, small_count, small_size);
    const struct mallinfo2 held = mallinfo2();
    CHECK(held.arena + held.hblkhd + tolerance(0) >= before.uordblks + before.hblkhd + usable);
    CHECK(held.arena + held.hblkhd <= before.arena + before.hblkhd + usable + tolerance(usable));
    free_all(blocks, small_count);
}

/* In blocks of which some are samples that lie elsewhere, where there are many. */
static void test_used_and_free_are_parts_of_the_arena(void)
{
    static void *blocks[paged_count];
    allocate_touched(blocks, paged_count, paged_size);
    const struct mallinfo2 held = mallinfo2();
    CHECK(held.uordblks >= (size_t)paged_count * paged_size);
    CHECK(held.arena >= held.uordblks);
    CHECK(held.fordblks == held.arena - held.uordblks);
    free_all(blocks, paged_count);
}

/* The old function has int fields; while the heap is small both must agree. */
static void test_old_mallinfo_agrees(void)
{
    static void *blocks[small_count];
    allocate_touched(blocks, small_count, small_size);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    const struct mallinfo narrow = mallinfo();
#pragma GCC diagnostic pop
    const struct mallinfo2 wide = mallinfo2();
    CHECK(narrow.uordblks > small_count * small_size / 2);
    CHECK((size_t)narrow.uordblks + tolerance(0) >= wide.uordblks);
    CHECK((size_t)narrow.uordblks <= wide.uordblks + tolerance(0));
    free_all(blocks, small_count);
}

struct thread_work {
    pthread_barrier_t *allocated;
    pthread_barrier_t *measured;
};

static void *hold_blocks(void *argument)
{
    static void *blocks[small_count];
    const struct thread_work *work = (const struct thread_work *)argument;
    allocate_touched(blocks, small_count, small_size);
    pthread_barrier_wait(work->allocated);
    pthread_barrier_wait(work->measured);
    free_all(blocks, small_count);
    return NULL;
}

/* What another thread holds belongs to the process's figures too. */
static void test_other_threads_count(void)
{
    pthread_barrier_t allocated;
    pthread_barrier_t measured;
    pthread_barrier_init(&allocated, NULL, 2);
    pthread_barrier_init(&measured, NULL, 2);
    struct thread_work work = {&allocated, &measured};
    const size_t amount = (size_t)small_count * small_size;
    const size_t before = used_bytes();
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, hold_blocks, &work) == 0);
    pthread_barrier_wait(&allocated);
    CHECK(used_bytes() + tolerance(amount) >= before + amount);
    pthread_barrier_wait(&measured);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(used_bytes() <= before + tolerance(amount));
    pthread_barrier_destroy(&allocated);
    pthread_barrier_destroy(&measured);
}

static void test_trim(void)
{
    static void *blocks[trim_count];
    const size_t start = resident_bytes();
    allocate_touched(blocks, trim_count, trim_size);
    const size_t peak = resident_bytes();
    free_all(blocks, trim_count);
    const size_t after_free = resident_bytes();
    const int released = malloc_trim(0);
    /* Something was given back, unless free had already done so. */
    CHECK(released == 1 || after_free < start + (peak - start) / 10);
    CHECK(resident_bytes() < start + (peak - start) / 10);
    int more = 1;
    for (int i = 0; i < 20 && more == 1; i++) {
        more = malloc_trim(0);
    }
    /* glibc says 1 as long as there is a free page at all. */
    CHECK(more == 0 || any_malloc_allowed());
}

/* Trimmed memory must be usable again. */
static void test_allocation_after_trim(void)
{
    static void *blocks[small_count];
    for (int round = 0; round < 3; round++) {
        allocate_touched(blocks, small_count, small_size);
        fill_pattern(blocks[small_count / 2], small_size, 8);
        malloc_trim((size_t)round * MIB);
        CHECK(has_pattern(blocks[small_count / 2], small_size, small_size, 8));
        free_all(blocks, small_count);
        malloc_trim(0);
    }
}

static size_t bytes_to_retain(void)
{
    int (*ctl)(const char *, void *, size_t *, const void *, size_t);
    void *address = dlsym(RTLD_DEFAULT, "hak_ctl");
    memcpy(&ctl, &address, sizeof ctl);
    size_t value = 0, size = sizeof value;
    CHECK(ctl != NULL && ctl("opt.retain", &value, &size, NULL, 0) == 0);
    return value;
}

/* Parameters of another allocator's design are ignored, but do not break anything, nor a program that asks whether they were
 * taken. */
static void test_mallopt(void)
{
    static const int parameters[] = {M_TRIM_THRESHOLD, M_TOP_PAD,   M_MMAP_THRESHOLD, M_MMAP_MAX,
                                     M_CHECK_ACTION,   M_ARENA_MAX, M_ARENA_TEST,     M_MXFAST};
    for (size_t i = 0; i < ARRAY_LENGTH(parameters); i++) {
        CHECK_AT(mallopt(parameters[i], 64) == 1, i);
    }
    CHECK(bytes_to_retain() == 64);
    CHECK(mallopt(M_TRIM_THRESHOLD, -1) == 1);
    CHECK(bytes_to_retain() >= (size_t)1 << 40);
    void *block = malloc(1000);
    CHECK(block != NULL);
    memset(block, 1, 1000);
    free(block);
}

int main(void)
{
    require_hakmem();
    test_old_mallinfo_agrees();
    test_space_from_the_system();
    test_space_follows_what_is_asked_for();
    test_used_and_free_are_parts_of_the_arena();
    test_used_follows_small_blocks();
    test_used_follows_large_blocks();
    test_what_is_kept();
    test_other_threads_count();
    test_trim();
    test_allocation_after_trim();
    test_mallopt();
    puts("introspection: ok");
    return 0;
}
