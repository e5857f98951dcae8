/* The system calls and the lock. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "os/lock.h"
#include "os/os.h"

static void *reserve(size_t size)
{
    void *p = os_reserve(size);
    assert_non_null(p);
    return p;
}

static void map_at_gives_the_exact_place(void **state)
{
    (void)state;
    char *p = reserve(MIB);
    assert_true(os_unmap(p, MIB));
    assert_int_equal(os_map_at(p, MIB), OS_OK);
    assert_true(is_zero(p, MIB));
    assert_true(os_unmap(p, MIB));
}

static void map_at_leaves_others_alone(void **state)
{
    (void)state;
    char *p = reserve(MIB);
    assert_true(os_commit(p, MIB));
    p[MIB - 1] = 'x';
    errno = 4711;
    assert_int_equal(os_map_at(p, MIB), OS_TAKEN);
    assert_int_equal(errno, 4711);
    assert_int_equal(p[MIB - 1], 'x');
    assert_true(os_unmap(p, MIB));
}

static void failures_keep_errno(void **state)
{
    (void)state;
    errno = 4711;
    assert_null(os_reserve(SIZE_MAX / 2));
    assert_false(os_commit((void *)1, UNIT_SIZE));
    assert_false(os_unmap((void *)1, UNIT_SIZE));
    assert_false(os_purge((void *)1, UNIT_SIZE));
    assert_false(os_move((void *)1, UNIT_SIZE, (void *)2, UNIT_SIZE));
    os_write(-1, "x", 1);
    assert_int_equal(errno, 4711);
}

/* Before Linux 5.14 the kernel does not tell, and all may be read; an emulator may call all that is asked populated, what lies at 0 as
 * well. */
static void what_may_be_read(void **state)
{
    (void)state;
    size_t page = os_page_size();
    char *at = mmap(NULL, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(at != MAP_FAILED);
    int populate_read = 22; /* of <asm-generic/mman-common.h> since 5.14 */
    bool tells = madvise(at, page, populate_read) == 0 && madvise(NULL, page, populate_read) != 0;
    assert_true(os_may_read(at + page - 1));
    assert_int_equal(mprotect(at, page, PROT_NONE), 0);
    assert_int_equal(os_may_read(at), !tells);
    assert_int_equal(munmap(at, page), 0);
    assert_int_equal(os_may_read(at), !tells);
}

static void purged_pages_read_as_zeros(void **state)
{
    (void)state;
    size_t page = os_page_size();
    assert_int_equal(page, (size_t)sysconf(_SC_PAGESIZE));
    char *p = reserve(4 * page);
    assert_true(os_commit(p, 4 * page));
    memset(p, 'x', 4 * page);
    assert_true(os_purge(p + page, 2 * page));
    assert_int_equal(p[page - 1], 'x');
    assert_true(is_zero(p + page, 2 * page));
    assert_int_equal(p[3 * page], 'x');
    assert_true(os_unmap(p, 4 * page));
}

static void move_takes_the_content_along(void **state)
{
    (void)state;
    size_t page = os_page_size();
    char *from = reserve(2 * page), *to = reserve(2 * page);
    assert_true(os_commit(from, 2 * page));
    memset(from, 'x', 2 * page);
    assert_true(os_move(from, 2 * page, to, 2 * page));
    assert_int_equal(to[0], 'x');
    assert_int_equal(to[2 * page - 1], 'x');
    assert_int_equal(os_map_at(from, 2 * page), OS_OK); /* nothing is left there */
    assert_true(os_unmap(from, 2 * page));
    assert_true(os_unmap(to, 2 * page));
}

static void format_knows_its_conversions(void **state)
{
    (void)state;
    char out[64];
    size_t length = os_format(out, sizeof out, "%s=%u at %p, %x, %%", "size", (size_t)4096,
                              (uintptr_t)0xbeef, (uintptr_t)0xcafe);
    assert_string_equal(out, "size=4096 at 0xbeef, cafe, %");
    assert_int_equal(length, strlen(out));
    os_format(out, sizeof out, "%u", SIZE_MAX);
    assert_string_equal(out, "18446744073709551615");
}

static void format_stays_within_its_room(void **state)
{
    (void)state;
    char out[8] = "1234567";
    assert_int_equal(os_format(out, 5, "%s", "abcdefgh"), 4);
    assert_string_equal(out, "abcd");
    assert_string_equal(out + 5, "67");
}

/* ---- lock ---- */

enum { ROUNDS = 20000 };

static struct lock lock;
static size_t guarded; /* plain: only the lock keeps the sum right */

static void *add_under_lock(void *number)
{
    for (int i = 0; i < ROUNDS; i++) {
        lock_take(&lock);
        guarded++;
        lock_release(&lock);
    }
    return number;
}

static void lock_excludes(void **state)
{
    (void)state;
    run_threads(add_under_lock);
    assert_int_equal(guarded, THREADS * ROUNDS);
    assert_int_equal(load_relaxed(&lock.state), 0);
}

static void *take_and_release(void *of)
{
    lock_take(of);
    lock_release(of);
    return NULL;
}

/* Not for one that was free, and of the lock's kind alone. */
static void waits_are_counted(void **state)
{
    (void)state;
    struct lock of_heap = {.kind = LOCK_HEAP};
    uint64_t heaps = load_relaxed(&hak_lock_waits[LOCK_HEAP]);
    uint64_t shared = load_relaxed(&hak_lock_waits[LOCK_SHARED]);
    pthread_t waiting;
    lock_take(&of_heap);
    assert_true(load_relaxed(&hak_lock_waits[LOCK_HEAP]) == heaps);
    assert_int_equal(pthread_create(&waiting, NULL, take_and_release, &of_heap), 0);
    while (load_relaxed(&hak_lock_waits[LOCK_HEAP]) == heaps)
        sched_yield();
    lock_release(&of_heap);
    assert_int_equal(pthread_join(waiting, NULL), 0);
    assert_true(load_relaxed(&hak_lock_waits[LOCK_HEAP]) == heaps + 1);
    assert_true(load_relaxed(&hak_lock_waits[LOCK_SHARED]) == shared);
}

static void bounded_waits_give_up(void **state)
{
    (void)state;
    struct lock held = {0};
    assert_true(lock_try(&held));
    assert_false(lock_try(&held));
    assert_false(lock_take_bounded(&held));
    assert_false(lock_take_patiently(&held));
    lock_release(&held);
    assert_true(lock_take_patiently(&held));
    lock_release(&held);
    assert_true(lock_take_bounded(&held));
}

/* Signals may come as fast as a handler gives up: so many that waiting for each would not end within the test's time. */
static void what_was_interrupted_is_not_waited_for(void **state)
{
    (void)state;
    enum { SIGNALS = 20000 };
    struct lock held = {0};
    assert_true(lock_try(&held));
    for (int i = 0; i < SIGNALS; i++)
        assert_false(lock_take_bounded(&held));
    store_relaxed(&held.holder, NULL); /* it is about to say who holds it, or not any more */
    for (int i = 0; i < SIGNALS; i++)
        assert_false(lock_take_bounded(&held));
    lock_release(&held);
    assert_true(lock_take_bounded(&held));
}

/* Nor does a handler's next one wait as long, whoever holds the lock: what both interrupt may be what that waits for. */
static void who_gave_up_is_soon_gone_on(void **state)
{
    (void)state;
    struct lock held = {0};
    struct thread other = {0};
    assert_true(lock_try(&held));
    store_relaxed(&held.holder, &other);
    hak_thread.gave_up = 0;
    uint64_t first = os_thread_ns();
    assert_false(lock_take_bounded(&held));
    first = os_thread_ns() - first;
    bool is_soon = false;
    for (int i = 0; i < 10 && !is_soon;
         i++) { /* between two of them this thread may have to wait */
        uint64_t again = os_thread_ns();
        assert_false(lock_take_bounded(&held));
        is_soon = os_thread_ns() - again < first / 10;
    }
    assert_true(is_soon);
    lock_release(&held);
    assert_true(lock_take_bounded(&held));
    hak_thread.gave_up = 0;
}

static void a_handler_does_not_wait_for_ever(void **state)
{
    (void)state;
    struct lock held = {0};
    lock_take(&held);
    thread_enter();
    assert_true(thread_may_wait());
    thread_enter(); /* as a signal handler that interrupted a slow path */
    assert_false(thread_may_wait());
    assert_false(lock_take_if_safe(&held));
    thread_leave();
    thread_leave();
    lock_release(&held);
}

static void who_holds_all_passes_through(void **state)
{
    (void)state;
    struct lock held = {0};
    lock_take(&held);
    hak_thread.holds_all = true;
    lock_take(&held);
    lock_release(&held);
    hak_thread.holds_all = false;
    assert_false(lock_try(&held)); /* still the first holder's */
}

/* ---- files ---- */

static void a_file_is_read_from_its_start(void **state)
{
    (void)state;
    char path[] = "/tmp/hakmem-file-XXXXXX", text[8];
    int file = mkstemp(path);
    assert_int_equal(write(file, "ten bytes.", 10), 10);
    close(file);
    assert_true(os_read_file(path, text, sizeof text));
    assert_string_equal(text, "ten byt");
    unlink(path);
    errno = 1234;
    assert_false(os_read_file(path, text, sizeof text));
    assert_string_equal(text, "");
    assert_int_equal(errno, 1234);
}

/* A pipe that nobody writes to would be waited for, and a device need not end. */
static void what_is_no_regular_file_is_not_read(void **state)
{
    (void)state;
    char folder[] = "/tmp/hakmem-pipe-XXXXXX", path[64], text[8];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/pipe", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    int both_ends = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(write(both_ends, "text", 4), 4);
    assert_false(os_read_file(path, text, sizeof text));
    close(both_ends);
    assert_false(os_read_file(path, text, sizeof text));
    unlink(path);
    assert_false(os_read_file(folder, text, sizeof text));
    rmdir(folder);
    assert_false(os_read_file("/dev/zero", text, sizeof text));
}

/* ---- cancellation ---- */

static bool has_slept;

static void *sleep_cancelled(void *nothing)
{
    pthread_cancel(pthread_self());
    os_sleep_ms(1);
    has_slept = true;
    return nothing;
}

/* A fork sleeps, and is not to end the thread. */
static void sleeping_is_no_cancellation_point(void **state)
{
    (void)state;
    pthread_t thread;
    void *result;
    assert_int_equal(pthread_create(&thread, NULL, sleep_cancelled, NULL), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_true(has_slept);
    assert_null(result);
}

static bool has_told;

static void *tell_cancelled(void *at)
{
    pthread_cancel(pthread_self());
    has_told = os_write(*(int *)at, "told", 4) == 0;
    return NULL;
}

/* Nor is what a thread has to say of its misuse to end the thread, and not the program. */
static void telling_is_no_cancellation_point(void **state)
{
    (void)state;
    int ends[2];
    char text[8];
    pthread_t thread;
    void *result;
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(pthread_create(&thread, NULL, tell_cancelled, &ends[1]), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_true(has_told);
    assert_null(result);
    assert_int_equal(read(ends[0], text, sizeof text), 4);
    close(ends[0]);
    close(ends[1]);
}

static void assert_different(const uintptr_t *words, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < i; j++)
            assert_true(words[i] != words[j]);
    }
}

/* What freed blocks of explicit heaps show, and where blocks lie, must not be what seals hang on, nor the C library's canary and guard of
 * pointers. */
static void secrets_differ(void **state)
{
    (void)state;
    enum { SECRETS = SECRET_SAMPLES + 1 };
    uintptr_t words[SECRETS + 3] = {0};
    for (size_t i = 0; i < SECRETS; i++) {
        words[i] = os_secret((enum os_secret_of)i);
        assert_true(words[i] == os_secret((enum os_secret_of)i)); /* for the process' life */
    }
    memcpy(words + SECRETS, (const void *)getauxval(AT_RANDOM), 16);
    assert_different(words, SECRETS + 3);
    words[SECRETS + 1] = __builtin_bswap64(words[SECRETS + 1]);
    assert_different(words, SECRETS + 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(map_at_gives_the_exact_place),
        cmocka_unit_test(map_at_leaves_others_alone),
        cmocka_unit_test(failures_keep_errno),
        cmocka_unit_test(what_may_be_read),
        cmocka_unit_test(purged_pages_read_as_zeros),
        cmocka_unit_test(move_takes_the_content_along),
        cmocka_unit_test(format_knows_its_conversions),
        cmocka_unit_test(format_stays_within_its_room),
        cmocka_unit_test(lock_excludes),
        cmocka_unit_test(waits_are_counted),
        cmocka_unit_test(bounded_waits_give_up),
        cmocka_unit_test(what_was_interrupted_is_not_waited_for),
        cmocka_unit_test(who_gave_up_is_soon_gone_on),
        cmocka_unit_test(a_handler_does_not_wait_for_ever),
        cmocka_unit_test(who_holds_all_passes_through),
        cmocka_unit_test(a_file_is_read_from_its_start),
        cmocka_unit_test(what_is_no_regular_file_is_not_read),
        cmocka_unit_test(sleeping_is_no_cancellation_point),
        cmocka_unit_test(telling_is_no_cancellation_point),
        cmocka_unit_test(secrets_differ),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
