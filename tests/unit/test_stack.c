/* Capturing call stacks: known chains of calls, all kinds of stacks, frame pointers that are none. */
#include "unit.h"

#include <errno.h>
#include <execinfo.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "os/os.h"
#include "profile/stack.h"
#include "stack_chain.h"
#include "stack_entry.h"

uintptr_t chain_returns[CHAIN_DEPTH];
_Thread_local uintptr_t entry_returns_to;

/* Whether all code has tables that are read here; else frame pointers serve, and all code keeps them. */
#if defined(__x86_64__)
#define HAS_TABLES true
#else
#define HAS_TABLES false
#endif

struct captured {
    uintptr_t tables[STACK_MOST], pointers[STACK_MOST], reference[STACK_MOST];
    uint32_t table_count, pointer_count;
    int reference_count;
    uintptr_t returns_to;
};

__attribute__((noinline)) static void capture(void *argument)
{
    struct captured *c = argument;
    c->returns_to = (uintptr_t)__builtin_return_address(0);
    c->table_count = stack_capture(c->tables, STACK_MOST, true);
    c->pointer_count = stack_capture(c->pointers, STACK_MOST, false);
    c->reference_count = backtrace((void **)c->reference, STACK_MOST);
    __asm__ volatile("" ::: "memory");
}

/* The first address is in capture(), where the calls differ, and a sanitizer's function may be before it. */
static uint32_t callers_in_reference(const struct captured *c, const uintptr_t **callers)
{
    for (int i = 1; i < c->reference_count; i++) {
        if (c->reference[i] == c->returns_to) {
            *callers = &c->reference[i];
            return (uint32_t)(c->reference_count - i);
        }
    }
    *callers = c->reference;
    fail_msg("backtrace() does not find its caller's caller");
    return 0;
}

/* Of an interrupted function the address is one more than there. */
static void same_as_reference(const struct captured *c)
{
    const uintptr_t *callers;
    uint32_t count = callers_in_reference(c, &callers);
    assert_int_equal(c->table_count, 1 + count);
    assert_int_equal(c->tables[1], callers[0]);
    for (uint32_t i = 0; i < count; i++)
        assert_at(c->tables[1 + i] - callers[i] <= 1, i);
}

static void has_chain(const uintptr_t *found, uint32_t count, const struct captured *c)
{
    assert_true(count > 2 + CHAIN_DEPTH);
    assert_int_equal(found[1], c->returns_to);
    for (uint32_t i = 0; i < CHAIN_DEPTH; i++)
        assert_at(found[2 + i] == chain_returns[CHAIN_DEPTH - 1 - i], i);
}

static chain *const plain[] = {chain_plain_o0, chain_plain_os, chain_plain_o2, chain_cpp};
static chain *const with_pointer[] = {chain_pointer_o0, chain_pointer_os, chain_pointer_o2};

static void tables_give_every_frame(void **state)
{
    (void)state;
    struct captured c;
    for (size_t i = 0; HAS_TABLES && i < ARRAY_LENGTH(plain); i++) {
        plain[i](capture, &c);
        has_chain(c.tables, c.table_count, &c);
        same_as_reference(&c);
    }
    for (size_t i = 0; i < ARRAY_LENGTH(with_pointer); i++) {
        with_pointer[i](capture, &c);
        has_chain(c.tables, c.table_count, &c);
        same_as_reference(&c);
    }
}

static void the_second_time_too(void **state)
{
    (void)state;
    struct captured first, second;
    for (int i = 0; i < 2; i++)
        chain_pointer_o2(capture, i == 0 ? &first : &second);
    assert_int_equal(first.table_count, second.table_count);
    has_chain(second.tables, second.table_count, &second);
    same_as_reference(&second);
}

static entry *const entries[] = {entry_o0, entry_os, entry_o2, entry_pointer};

struct one_walk {
    uintptr_t found[STACK_MOST];
    uint32_t count;
    bool by_tables;
    entry *entry;
};

__attribute__((noinline)) static void enter(void *argument)
{
    struct one_walk *w = argument;
    w->count = w->entry(w->found, w->by_tables);
    __asm__ volatile("" ::: "memory");
}

/* The library's own frames have them, too. */
static void pointers_give_every_frame_that_has_one(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(with_pointer); i++) {
        struct captured c;
        with_pointer[i](capture, &c);
        has_chain(c.pointers, c.pointer_count, &c);
        for (size_t k = 0; k < ARRAY_LENGTH(entries); k++) {
            struct one_walk w = {.entry = entries[k]};
            with_pointer[i](enter, &w);
            assert_true(w.count > 2 + CHAIN_DEPTH);
            for (uint32_t level = 0; level < CHAIN_DEPTH; level++)
                assert_at(w.found[2 + level] == chain_returns[CHAIN_DEPTH - 1 - level], level);
        }
    }
}

static void the_first_address_is_the_callers(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(entries); i++) {
        for (int by_tables = 0; by_tables < 2; by_tables++) {
            struct one_walk w = {.by_tables = by_tables != 0, .entry = entries[i]};
            chain_plain_o2(enter, &w);
            assert_true(w.count > 0);
            assert_int_equal(w.found[0], entry_returns_to);
            assert_true(w.found[0] - (uintptr_t)enter < 200);
        }
    }
}

/* ---- frame pointers that are none ---- */

#if defined(__x86_64__)
void call_with_pointer(chain_end *function, void *argument, uintptr_t pointer);

/* Calls the function with that in rbp. */
__asm__(".text\n"
        ".type call_with_pointer, @function\n"
        "call_with_pointer:\n"
        ".cfi_startproc\n"
        "pushq %rbp\n"
        ".cfi_def_cfa_offset 16\n"
        ".cfi_offset %rbp, -16\n"
        "movq %rdi, %rax\n"
        "movq %rsi, %rdi\n"
        "movq %rdx, %rbp\n"
        "call *%rax\n"
        "popq %rbp\n"
        ".cfi_def_cfa_offset 8\n"
        "ret\n"
        ".cfi_endproc\n"
        ".size call_with_pointer, .-call_with_pointer\n");

static void check_with_pointer(uintptr_t pointer)
{
    for (size_t i = 0; i < ARRAY_LENGTH(entries); i++) {
        struct one_walk w = {.entry = entries[i]};
        call_with_pointer(enter, &w, pointer);
        assert_at(w.count > 0 && w.found[0] == entry_returns_to, pointer);
        w.by_tables = true;
        call_with_pointer(enter, &w, pointer);
        assert_at(w.count > 2 && w.found[0] == entry_returns_to, pointer);
    }
}

static void garbage_in_the_frame_pointer(void **state)
{
    (void)state;
    uintptr_t here = (uintptr_t)__builtin_frame_address(0), page = os_page_size();
    char *hole = mmap(NULL, 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(hole, MAP_FAILED);
    const uintptr_t pointers[] = {0,
                                  1,
                                  8,
                                  UINTPTR_MAX,
                                  UINTPTR_MAX - 7,
                                  UINTPTR_MAX - 15,
                                  (uintptr_t)1 << 47,
                                  ((uintptr_t)1 << 47) - 8,
                                  (uintptr_t)1 << 63,
                                  (uintptr_t)hole,
                                  (uintptr_t)hole + page,
                                  (uintptr_t)garbage_in_the_frame_pointer,
                                  here - 64 * page,
                                  here - 4096 * page,
                                  here + 1,
                                  here + 4096 * page,
                                  here + ((uintptr_t)1 << 40)};
    for (size_t i = 0; i < ARRAY_LENGTH(pointers); i++)
        check_with_pointer(pointers[i]);
    munmap(hole, 2 * page);
}

static size_t occurrences(const struct one_walk *w, uintptr_t address)
{
    size_t count = 0;
    for (uint32_t i = 0; i < w->count; i++)
        count += w->found[i] == address;
    return count;
}

/* Frames that look right but lead nowhere: to themselves, back, or to what is no code. */
static void false_frames_on_the_stack(void **state)
{
    (void)state;
    volatile uintptr_t fake[6];
    uintptr_t at = (uintptr_t)fake, code = (uintptr_t)check_with_pointer + 8;
    fake[0] = at; /* to itself */
    fake[1] = code;
    check_with_pointer(at);
    struct one_walk w = {.entry = entry_o2};
    call_with_pointer(enter, &w, at);
    assert_int_equal(occurrences(&w, code), 1);
    fake[2] = at; /* back */
    fake[3] = code;
    check_with_pointer(at + 16);
    call_with_pointer(enter, &w, at + 16);
    assert_int_equal(occurrences(&w, code), 1);
    fake[0] = at + 16;
    fake[1] = (uintptr_t)&plain; /* data, ... */
    fake[2] = 0;
    fake[3] = (uintptr_t)entries; /* ... and more of it */
    call_with_pointer(enter, &w, at);
    assert_true(w.count > 0);
    assert_int_equal(occurrences(&w, fake[1]) + occurrences(&w, fake[3]), 0);
}

/* Code in no object, with frame pointers, between frames of objects: as if made at run time. */
static void code_made_at_run_time(void **state)
{
    (void)state;
    static const unsigned char bytes[] = {
        0x55,                   /* push %rbp */
        0x48, 0x89, 0xe5,       /* mov %rsp,%rbp */
        0x48, 0x89, 0xf8,       /* mov %rdi,%rax */
        0x48, 0x89, 0xf7,       /* mov %rsi,%rdi */
        0xff, 0xd0, 0x5d, 0xc3, /* call *%rax; pop %rbp; ret */
    };
    enum { AFTER_CALL = 12 };
    unsigned char *code =
        mmap(NULL, os_page_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(code, MAP_FAILED);
    memcpy(code, bytes, sizeof bytes);
    assert_int_equal(mprotect(code, os_page_size(), PROT_READ | PROT_EXEC), 0);
    void (*call)(chain_end *, void *);
    memcpy(&call, &code, sizeof call);
    struct captured c;
    call(capture, &c);
    assert_int_equal(c.tables[1], (uintptr_t)code + AFTER_CALL);
    assert_true(c.table_count > 3);
    assert_true(c.tables[2] - (uintptr_t)code_made_at_run_time < 1000);
    munmap(code, os_page_size());
}
#endif

/* ---- all kinds of stacks ---- */

static void *in_thread(void *number)
{
    (void)number;
    struct captured c;
    for (int i = 0; i < 100; i++) {
        chain_pointer_o0(capture, &c);
        has_chain(c.tables, c.table_count, &c);
        has_chain(c.pointers, c.pointer_count, &c);
        same_as_reference(&c);
    }
    return NULL;
}

static void threads(void **state)
{
    (void)state;
    pthread_t one;
    assert_int_equal(pthread_create(&one, NULL, in_thread, NULL), 0);
    assert_int_equal(pthread_join(one, NULL), 0);
}

/* Memory for a stack, with a page behind it that cannot be read. */
enum { OTHER_STACK = 2 << 20 };
static char *other_stack(void)
{
    size_t page = os_page_size();
    char *p =
        mmap(NULL, OTHER_STACK + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(p, MAP_FAILED);
    assert_int_equal(mprotect(p + OTHER_STACK, page, PROT_NONE), 0);
    return p;
}

static void free_stack(char *stack)
{
    munmap(stack, OTHER_STACK + os_page_size());
}

static ucontext_t outside, inside;
static void (*to_run)(char *stack);
static char *stack_to_run_on;

static void run_it(void)
{
    to_run(stack_to_run_on);
}

static void on_other_stack(void (*function)(char *stack))
{
    stack_to_run_on = other_stack();
    to_run = function;
    assert_int_equal(getcontext(&inside), 0);
    inside.uc_stack.ss_sp = stack_to_run_on;
    inside.uc_stack.ss_size = OTHER_STACK;
    inside.uc_link = &outside;
    makecontext(&inside, run_it, 0);
    assert_int_equal(swapcontext(&outside, &inside), 0);
    free_stack(stack_to_run_on);
}

static void in_thread_on_given_memory(void *(*body)(void *stack))
{
    char *stack = other_stack();
    pthread_attr_t attributes;
    pthread_t one;
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstack(&attributes, stack, OTHER_STACK), 0);
    assert_int_equal(pthread_create(&one, &attributes, body, stack), 0);
    assert_int_equal(pthread_join(one, NULL), 0);
    pthread_attr_destroy(&attributes);
    free_stack(stack);
}

static void chain_on_it(char *stack)
{
    (void)stack;
    struct captured c;
    chain_pointer_o2(capture, &c);
    has_chain(c.tables, c.table_count, &c);
    has_chain(c.pointers, c.pointer_count, &c);
    same_as_reference(&c);
}

static void coroutine(void **state)
{
    (void)state;
    on_other_stack(chain_on_it);
}

#if defined(__x86_64__)
static void garbage_on_it(char *stack)
{
    size_t page = os_page_size();
    for (int offset = -16; offset <= 16; offset += 8) {
        check_with_pointer((uintptr_t)stack + OTHER_STACK + (uintptr_t)offset);
        check_with_pointer((uintptr_t)stack + OTHER_STACK + page + (uintptr_t)offset);
        check_with_pointer((uintptr_t)stack + (uintptr_t)offset);
    }
}

static void garbage_on_another_stack(void **state)
{
    (void)state;
    on_other_stack(garbage_on_it);
}

static void *garbage_in_thread(void *stack)
{
    garbage_on_it(stack);
    return NULL;
}

static void garbage_in_a_thread_on_given_memory(void **state)
{
    (void)state;
    in_thread_on_given_memory(garbage_in_thread);
}
#endif

static void *chain_in_thread(void *stack)
{
    chain_on_it(stack);
    return NULL;
}

static void thread_on_given_memory(void **state)
{
    (void)state;
    in_thread_on_given_memory(chain_in_thread);
}

/* ---- signals ---- */

static struct captured in_handler;

static void handler(int number, siginfo_t *info, void *context)
{
    (void)number, (void)info;
    capture(&in_handler);
#if defined(__x86_64__)
    ucontext_t *interrupted = context;
    if (number == SIGILL)
        interrupted->uc_mcontext.gregs[REG_RIP] += 2;
#else
    (void)context;
#endif
}

static void send(void *argument)
{
    (void)argument;
    raise(SIGUSR1);
    NO_TAIL_CALL();
}

/* Whether the chain is somewhere in what was found. */
static bool holds_chain(const uintptr_t *found, uint32_t count)
{
    for (uint32_t at = 0; at + CHAIN_DEPTH <= count; at++) {
        uint32_t same = 0;
        while (same < CHAIN_DEPTH && found[at + same] == chain_returns[CHAIN_DEPTH - 1 - same])
            same++;
        if (same == CHAIN_DEPTH)
            return true;
    }
    return false;
}

static void through_handler(int number, chain_end *end, int flags)
{
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags}, before;
    assert_int_equal(sigaction(number, &action, &before), 0);
    memset(&in_handler, 0, sizeof in_handler);
    chain_pointer_o2(end, NULL);
    assert_int_equal(sigaction(number, &before, NULL), 0);
    assert_true(in_handler.pointer_count > 0);
    if (!HAS_TABLES)
        return;
    assert_true(holds_chain(in_handler.tables, in_handler.table_count));
    same_as_reference(&in_handler);
}

static void signal_on_the_same_stack(void **state)
{
    (void)state;
    through_handler(SIGUSR1, send, 0);
}

static void with_signal_stack(int number, chain_end *end)
{
    stack_t stack = {.ss_sp = other_stack(), .ss_size = OTHER_STACK}, before;
    assert_int_equal(sigaltstack(&stack, &before), 0);
    through_handler(number, end, SA_ONSTACK);
    assert_int_equal(sigaltstack(&before, NULL), 0);
    free_stack(stack.ss_sp);
}

static void signal_on_its_own_stack(void **state)
{
    (void)state;
    with_signal_stack(SIGUSR1, send);
}

static void *signal_in_thread(void *unused)
{
    (void)unused;
    with_signal_stack(SIGUSR1, send);
    return NULL;
}

static void signal_on_its_own_stack_in_a_thread(void **state)
{
    (void)state;
    pthread_t one;
    assert_int_equal(pthread_create(&one, NULL, signal_in_thread, NULL), 0);
    assert_int_equal(pthread_join(one, NULL), 0);
}

#if defined(__x86_64__)
static uintptr_t fault_at;

__attribute__((noinline)) static void fault(void *argument)
{
    (void)argument;
    __asm__ volatile("leaq 1f(%%rip), %%rax\n\t"
                     "movq %%rax, %0\n"
                     "1: ud2"
                     : "=m"(fault_at)
                     :
                     : "rax", "memory");
}

/* The interrupted instruction's address, and one. */
static void fault_names_its_instruction(void **state)
{
    (void)state;
    with_signal_stack(SIGILL, fault);
    bool found = false;
    for (uint32_t i = 0; i < in_handler.table_count; i++)
        found |= in_handler.tables[i] == fault_at + 1;
    assert_true(found);
}
#endif

/* ---- how much ---- */

__attribute__((noinline)) static uint32_t descend(int levels, uintptr_t *out, uint32_t most,
                                                  bool by_tables)
{
    volatile char room[64];
    room[0] = 0;
    uint32_t count = levels == 0 ? stack_capture(out, most, by_tables)
                                 : descend(levels - 1, out, most, by_tables);
    __asm__ volatile("" ::"r"(room) : "memory");
    return count;
}

static void cut_at_most(void **state)
{
    (void)state;
    uintptr_t out[STACK_MOST + 1];
    static const uint32_t most[] = {0, 1, 2, 10, STACK_MOST};
    for (size_t i = 0; i < ARRAY_LENGTH(most); i++) {
        out[most[i]] = 4711;
        assert_int_equal(descend(200, out, most[i], HAS_TABLES), most[i]);
        assert_int_equal(out[most[i]], 4711);
        for (uint32_t k = 0; k < most[i]; k++)
            assert_at(out[k] - (uintptr_t)descend < 400, k);
        uint32_t by_pointers = descend(200, out, most[i], false);
        assert_true(by_pointers <= most[i] && (most[i] == 0) == (by_pointers == 0));
        assert_int_equal(out[most[i]], 4711);
    }
}

static void errno_stays(void **state)
{
    (void)state;
    on_other_stack(chain_on_it);
    struct captured c;
    errno = 4711;
    capture(&c);
    assert_int_equal(errno, 4711);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_give_every_frame),
        cmocka_unit_test(the_second_time_too),
        cmocka_unit_test(pointers_give_every_frame_that_has_one),
        cmocka_unit_test(the_first_address_is_the_callers),
#if defined(__x86_64__)
        cmocka_unit_test(garbage_in_the_frame_pointer),
        cmocka_unit_test(false_frames_on_the_stack),
        cmocka_unit_test(code_made_at_run_time),
        cmocka_unit_test(garbage_on_another_stack),
        cmocka_unit_test(garbage_in_a_thread_on_given_memory),
        cmocka_unit_test(fault_names_its_instruction),
#endif
        cmocka_unit_test(threads),
        cmocka_unit_test(coroutine),
        cmocka_unit_test(thread_on_given_memory),
        cmocka_unit_test(signal_on_the_same_stack),
        cmocka_unit_test(signal_on_its_own_stack),
        cmocka_unit_test(signal_on_its_own_stack_in_a_thread),
        cmocka_unit_test(cut_at_most),
        cmocka_unit_test(errno_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
