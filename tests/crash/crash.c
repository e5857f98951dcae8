/*
 * One crash per run: `crash NAME`, and `crash --list` names them all. What run_crash.py needs to know is written
 * to standard output before: lines of a name and a number.
 */
#include "../abi/abi_check.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "early.h"

enum { HANDLED_STATUS = 42, CHILD_STATUS = 43, PAGE = 4096, MANY = 20000 };

/* Without stdio, which allocates: what has just been freed must stay so. */
static void tell(const char *name, unsigned long long value)
{
    char line[64];
    int length = snprintf(line, sizeof line, "%s %#llx\n", name, value);
    CHECK(write(STDOUT_FILENO, line, (size_t)length) == length);
}

static void tell_address(const char *name, const void *address)
{
    tell(name, (unsigned long long)(uintptr_t)address);
}

static char *told(char *block, size_t size)
{
    CHECK(block != NULL);
    memset(block, 1, size);
    tell_address("block", block);
    return opaque(block);
}

/* One of a page is a page, whatever the build keeps around it. */
static char *block_of(size_t size)
{
    return told(size == PAGE ? aligned_alloc(PAGE, PAGE) : malloc(size), size);
}

/* No class has such an alignment. */
static char *run_of(size_t size)
{
    return told(aligned_alloc(64 * KIB, size), size);
}

/* An address at which nothing is mapped. */
static char *nowhere(void)
{
    char *page = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED && munmap(page, PAGE) == 0);
    tell_address("nowhere", page);
    return page;
}

static void read_at(const char *address)
{
    (void)*(const volatile char *)opaque((void *)(uintptr_t)address);
}

static void write_at(char *address)
{
    *(volatile char *)opaque(address) = 1;
}

static void forbid(char *from, size_t size)
{
    char *first = (char *)(((uintptr_t)from + PAGE - 1) & ~(uintptr_t)(PAGE - 1));
    CHECK(mprotect(first, size, PROT_NONE) == 0);
}

/* As a program does that has loaded garbage out of a block it still points to. */
static void read_garbage_beside(const char *pointer)
{
    char *garbage = nowhere();
#if defined(__x86_64__)
    __asm__ volatile("mov %0, %%r12\n\tmov (%1), %%rax" ::"r"(pointer), "r"(garbage)
                     : "r12", "rax", "memory");
#elif defined(__aarch64__)
    __asm__ volatile("mov x20, %0\n\tldr x0, [%1]" ::"r"(pointer), "r"(garbage)
                     : "x20", "x0", "memory");
#else
    read_at(garbage);
    (void)pointer;
#endif
}

/* Frees so many blocks of the size that the first one leaves the thread's magazine; every second is kept, so that
 * no slab becomes empty. */
static void free_beyond_magazine(char *block, size_t size)
{
    static char *others[MANY];
    for (int i = 0; i < MANY; i++)
        others[i] = malloc(size);
    free(block);
    for (int i = 0; i < MANY; i += 2)
        free(others[i]);
}

/* ---- blocks ---- */

static void free_32_in_magazine(void)
{
    char *block = block_of(32);
    free(block);
    read_garbage_beside(block + 8);
}

static void free_32_in_slab(void)
{
    char *block = block_of(32);
    free_beyond_magazine(block, 32);
    read_garbage_beside(block + 8);
}

static void free_100(void)
{
    char *block = block_of(100);
    free_beyond_magazine(block, 100);
    read_garbage_beside(block + 99);
}

static void live_100(void)
{
    read_garbage_beside(block_of(100));
}

static void sampled_100(void)
{
    read_garbage_beside(block_of(100));
}

static void sampled_freed_100(void)
{
    char *block = block_of(100);
    free(block);
    read_garbage_beside(block);
}

/* A guarded block lies at the end of its pages, now and then at their start: which one is chance. */
static char *guarded_block(size_t size, bool at_start)
{
    char *block;
    do {
        block = malloc(size);
        CHECK(block != NULL);
    } while (((uintptr_t)block % PAGE == 0) != at_start);
    memset(block, 1, size);
    tell_address("block", block);
    return opaque(block);
}

static void guarded_past_end_100(void)
{
    char *block = guarded_block(100, false);
    write_at(block + 111); /* the class has 112 bytes */
    write_at(block + 112);
}

static void guarded_past_end_4k(void)
{
    read_at(block_of(PAGE) + PAGE);
}

static void guarded_far_past_end(void)
{
    write_at(guarded_block(1000, false) + 31000);
}

/* What is left of its pages is seen to when it is freed. */
static void guarded_past_end_freed(void)
{
    char *block = guarded_block(100, true);
    write_at(block + 112);
    free(block);
}

static void guarded_before_start_freed(void)
{
    char *block = guarded_block(100, false);
    write_at(block - 1);
    free(block);
}

static void guarded_before_start_4k(void)
{
    write_at(block_of(PAGE) - 1);
}

static void guarded_before_start_100(void)
{
    write_at(guarded_block(100, true) - 1);
}

static void guarded_read_freed(void)
{
    char *block = block_of(100);
    free(block);
    read_at(block + 24);
}

static void *free_in_thread(void *block)
{
    free(block);
    return NULL;
}

static void guarded_write_freed_by_thread(void)
{
    pthread_t thread;
    char *block = block_of(100);
    CHECK(pthread_create(&thread, NULL, free_in_thread, block) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    write_at(block + 99);
}

/* The child frees what its parent has allocated. */
static void guarded_in_child(void)
{
    char *block = block_of(100);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        free(malloc(5000)); /* a slow path: has an area of its own now */
        free(block);
        read_at(block);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == SIGSEGV);
    block[99] = 1; /* its own is not touched by that */
    free(block);
    _exit(CHILD_STATUS);
}

static void guarded_freed_twice(void)
{
    char *block = block_of(100);
    free(block);
    free(opaque(block));
}

static void guarded_freed_inside(void)
{
    free(block_of(100) + 16);
}

static void never_used_2000(void)
{
    read_garbage_beside(block_of(2000) + (size_t)20 * 2048);
}

static pthread_barrier_t together;

static void *free_it(void *block)
{
    free(malloc(32)); /* has a magazine for it */
    free(block);
    pthread_barrier_wait(&together);
    for (;;)
        pause();
    return NULL;
}

static void free_32_by_thread(void)
{
    pthread_t thread;
    char *block = block_of(32);
    CHECK(pthread_barrier_init(&together, NULL, 2) == 0);
    CHECK(pthread_create(&thread, NULL, free_it, block) == 0);
    pthread_barrier_wait(&together);
    read_garbage_beside(block);
}

static void live_4k_read(void)
{
    char *block = block_of(PAGE);
    forbid(block, PAGE);
    read_at(block + 24);
}

static void free_4k_write(void)
{
    char *block = block_of(PAGE);
    free(block);
    forbid(block, PAGE);
    write_at(block + 24);
}

static void free_100k_write(void)
{
    char *block = block_of(100 * KIB);
    free(block);
    forbid(block, 64 * KIB);
    write_at(block + 40 * KIB);
}

static void live_run_read(void)
{
    char *block = run_of(300 * KIB);
    forbid(block, 300 * KIB);
    read_at(block + 200 * KIB);
}

static void free_run_read(void)
{
    char *block = run_of(300 * KIB);
    free(block);
    forbid(block, 300 * KIB);
    read_at(block + 200 * KIB);
}

/* Where a block was that was a sample lies another, which is none. */
static void live_run_after_sampled(void)
{
    int (*set)(const char *, void *, size_t *, const void *, size_t) =
        dlsym(RTLD_DEFAULT, "hak_ctl");
    size_t never = (size_t)1 << 40;
    char *sampled = aligned_alloc(64 * KIB, 300 * KIB);
    CHECK(sampled != NULL && set != NULL);
    free(sampled);
    CHECK(set("opt.profile_interval", NULL, NULL, &never, sizeof never) == 0);
    free(opaque(malloc(100))); /* still one, as was decided before */
    char *block = run_of(300 * KIB);
    CHECK(block == sampled);
    forbid(block, 300 * KIB);
    read_at(block + 200 * KIB);
}

static void free_2m_cached(void)
{
    char *block = block_of(2 * MIB);
    free(block);
    forbid(block, 2 * MIB);
    read_at(block + MIB);
}

/* The pages of a block that grows move, and the address it had is unmapped. */
static void old_address_of_moved_block(void)
{
    char *block = block_of(2 * MIB), *behind = malloc(2 * MIB);
    CHECK(behind != NULL);
    char *moved = realloc(block, 8 * MIB);
    CHECK(moved != NULL && moved != block);
    read_at((char *)opaque(block) + MIB);
}

static void past_end_of_big(void)
{
    char *block = block_of(3 * MIB);
    forbid(block + 3 * MIB, MIB);
    write_at(block + 3 * MIB + 16);
}

static void jump_into_block(void)
{
    char *block = block_of(PAGE);
    ((void (*)(void))(uintptr_t)opaque(block))();
}

/* ---- not blocks ---- */

static void wild(void)
{
    read_at(nowhere());
}

static void null_field(void)
{
    read_at((char *)opaque(NULL) + 8);
}

static void no_address(void)
{
    char *block = block_of(100);
    free(block);
#if defined(__x86_64__)
    __asm__ volatile("mov %0, %%r12\n\tmov (%1), %%rax" ::"r"(block), "r"(0x4141414141414141)
                     : "r12", "rax", "memory");
#else
    read_garbage_beside(block);
#endif
}

static void truncated_file(void)
{
    char name[] = "/tmp/hakmem-crash-XXXXXX";
    int fd = mkstemp(name);
    CHECK(fd >= 0 && unlink(name) == 0 && ftruncate(fd, PAGE) == 0);
    char *page = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, fd, 0);
    CHECK(page != MAP_FAILED && ftruncate(fd, 0) == 0);
    read_at(page);
}

static void sent(void)
{
    kill(getpid(), SIGSEGV);
    pause();
}

static void aborts(void)
{
    free(block_of(32));
    abort();
}

static void frees_twice(void)
{
    char *block = run_of(300 * KIB);
    free(block);
    free(opaque(block));
}

static void frees_foreign(void)
{
    static char variable[64];
    free(opaque(variable));
}

/* ---- handlers of the program's ---- */

static void end(int number)
{
    (void)number;
    _exit(HANDLED_STATUS);
}

static void own_handler(void)
{
    CHECK(signal(SIGSEGV, end) != SIG_ERR);
    wild();
}

static void own_handler_of_abort(void)
{
    CHECK(signal(SIGABRT, end) != SIG_ERR);
    frees_twice();
}

static void earlier_handler(void)
{
    CHECK(early_has_handler());
    wild();
}

/* ---- where it happens ---- */

static volatile int depth;

static int recurse(volatile char *above)
{
    volatile char frame[512];
    frame[0] = (char)(*above + 1);
    depth++;
    return depth < 0 ? 0 : recurse(frame) + frame[0];
}

static void overflow(void)
{
    struct rlimit small = {256 * KIB, 256 * KIB};
    volatile char first = 0;
    CHECK(setrlimit(RLIMIT_STACK, &small) == 0);
    recurse(&first);
}

static void overflow_with_other_stack(void)
{
    stack_t other = {.ss_sp = malloc(64 * KIB), .ss_size = 64 * KIB};
    CHECK(other.ss_sp != NULL && sigaltstack(&other, NULL) == 0);
    overflow();
}

static void *wild_in_thread(void *unused)
{
    (void)unused;
    tell("thread", (unsigned long long)syscall(SYS_gettid));
    wild();
    return NULL;
}

static void *read_in_thread(void *address)
{
    tell("thread", (unsigned long long)syscall(SYS_gettid));
    read_at(address);
    return NULL;
}

static void in_thread(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, wild_in_thread, NULL) == 0);
    pthread_join(thread, NULL);
}

/* What lies right above a thread's stack is not of it: nothing that runs there reaches so far. */
static void above_stack(void)
{
    enum { STACK = 64 * 4 * PAGE };
    char *map =
        mmap(NULL, STACK + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_attr_t attributes;
    pthread_t thread;
    CHECK(map != MAP_FAILED && mprotect(map + STACK, PAGE, PROT_NONE) == 0);
    tell_address("nowhere", map + STACK);
    CHECK(pthread_attr_init(&attributes) == 0 &&
          pthread_attr_setstack(&attributes, map, STACK) == 0);
    CHECK(pthread_create(&thread, &attributes, read_in_thread, map + STACK) == 0);
    pthread_join(thread, NULL);
}

static void *crash_together(void *unused)
{
    (void)unused;
    char *page = nowhere();
    pthread_barrier_wait(&together);
    (void)*(volatile char *)page;
    return NULL;
}

static void in_threads_at_once(void)
{
    pthread_t thread;
    CHECK(pthread_barrier_init(&together, NULL, 4) == 0);
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&thread, NULL, crash_together, NULL) == 0);
    crash_together(NULL);
}

/* A block that is back in its slab is freed again, which is found out when its magazine is full: with the heap's lock held. */
static void frees_twice_with_lock(void)
{
    static char *others[MANY];
    for (int i = 0; i < MANY; i++)
        others[i] = malloc(32);
    char *block = block_of(32);
    free_beyond_magazine(block, 32);
    free(block);
    for (int i = 0; i < MANY; i += 2)
        free(others[i]);
}

static void frees_twice_after_realloc(void)
{
    char *block = block_of(100 * 1000), *behind = malloc(100 * 1000);
    CHECK(behind != NULL && realloc(block, 4 * MIB) != NULL);
    free(block);
}

/* Heaps are asked whether this block is in a magazine, and the thread's cannot be read. */
static void fault_in_handler(void)
{
    char *block = block_of(32);
    CHECK(mprotect((char *)((uintptr_t)block & ~(uintptr_t)(2 * MIB - 1)), 2 * MIB, PROT_NONE) ==
          0);
    read_garbage_beside(block);
}

static void in_child(void)
{
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        free_4k_write();
    int status;
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == SIGSEGV);
    _exit(CHILD_STATUS);
}

#define CASE(name)                                                                                 \
    {                                                                                              \
#name, name                                                                                \
    }
static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    CASE(free_32_in_magazine),
    CASE(free_32_in_slab),
    CASE(free_32_by_thread),
    CASE(free_100),
    CASE(live_100),
    CASE(sampled_100),
    CASE(sampled_freed_100),
    CASE(guarded_past_end_100),
    CASE(guarded_past_end_4k),
    CASE(guarded_far_past_end),
    CASE(guarded_past_end_freed),
    CASE(guarded_before_start_freed),
    CASE(guarded_before_start_4k),
    CASE(guarded_before_start_100),
    CASE(guarded_read_freed),
    CASE(guarded_write_freed_by_thread),
    CASE(guarded_in_child),
    CASE(guarded_freed_twice),
    CASE(guarded_freed_inside),
    CASE(never_used_2000),
    CASE(live_4k_read),
    CASE(free_4k_write),
    CASE(free_100k_write),
    CASE(live_run_read),
    CASE(free_run_read),
    CASE(live_run_after_sampled),
    CASE(free_2m_cached),
    CASE(old_address_of_moved_block),
    CASE(past_end_of_big),
    CASE(jump_into_block),
    CASE(wild),
    CASE(null_field),
    CASE(no_address),
    CASE(truncated_file),
    CASE(sent),
    CASE(aborts),
    CASE(frees_twice),
    CASE(frees_foreign),
    CASE(own_handler),
    CASE(own_handler_of_abort),
    CASE(earlier_handler),
    CASE(overflow),
    CASE(overflow_with_other_stack),
    CASE(in_thread),
    CASE(above_stack),
    CASE(in_threads_at_once),
    CASE(frees_twice_with_lock),
    CASE(frees_twice_after_realloc),
    CASE(fault_in_handler),
    CASE(in_child),
};

int main(int argc, char **argv)
{
    static const struct rlimit no_core = {0, 0};
    CHECK(argc == 2 && setrlimit(RLIMIT_CORE, &no_core) == 0);
    bool list = strcmp(argv[1], "--list") == 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (list)
            puts(cases[i].name);
        else if (strcmp(argv[1], cases[i].name) == 0)
            cases[i].run();
    }
    return list ? 0 : 3; /* no such case, or it did not crash */
}
