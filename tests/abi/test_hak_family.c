/* The hak_ functions behave like the standard's, and their blocks are interchangeable with them. */
#include "abi_check.h"

#include <hakmem/hakmem.h>

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

static const size_t sizes[] = {1, 15, 16, 100, 1000, 5000, 50000, 64 * KIB + 1, 300 * KIB, 5 * MIB};

static void check_block(void *block, size_t size)
{
    CHECK_AT(block != NULL, size);
    CHECK_AT(is_aligned(block, natural_alignment(size)), size);
    const size_t usable = hak_usable_size(block);
    CHECK_AT(usable >= size, size);
    CHECK_AT(usable == malloc_usable_size(block), size);
    fill_pattern(block, usable, 6);
    CHECK_AT(has_pattern(block, usable, usable, 6), size);
}

static void test_plain(size_t size)
{
    void *block = hak_malloc(size);
    check_block(block, size);
    hak_free(block);

    block = hak_calloc(size, 3);
    CHECK_AT(block != NULL, size);
    for (size_t i = 0; i < size * 3; i++) {
        CHECK_AT(((unsigned char *)block)[i] == 0, size);
    }
    check_block(block, size * 3);
    hak_free(block);

    block = hak_realloc(NULL, size);
    check_block(block, size);
    block = hak_realloc(block, size * 2);
    CHECK_AT(has_pattern(block, hak_usable_size(block), size, 6), size);
    block = hak_reallocarray(block, size, 4);
    CHECK_AT(has_pattern(block, hak_usable_size(block), size, 6), size);
    check_block(block, size * 4);
    CHECK(opaque(hak_realloc(block, opaque_size(0))) == NULL);
}

static void test_mixed_with_standard(size_t size)
{
    void *block = malloc(size);
    check_block(block, size);
    hak_free(block);
    block = hak_malloc(size);
    check_block(block, size);
    block = resized(block, size * 2);
    check_block(block, size * 2);
    free(block);
    hak_free_sized(malloc(size), size);
}

static void test_aligned(size_t size, size_t alignment)
{
    void *block = hak_aligned_alloc(alignment, size);
    CHECK_AT(is_aligned(block, alignment), alignment);
    check_block(block, size);
    hak_free_aligned_sized(block, alignment, size);

    block = hak_memalign(alignment, size);
    CHECK_AT(is_aligned(block, alignment), alignment);
    check_block(block, size);
    free(block);

    block = NULL;
    CHECK_AT(hak_posix_memalign(&block, alignment, size) == 0, alignment);
    CHECK_AT(is_aligned(block, alignment), alignment);
    check_block(block, size);
    hak_free(block);
}

static void test_page_aligned(size_t size)
{
    void *block = hak_valloc(size);
    CHECK_AT(is_aligned(block, page_size()), size);
    check_block(block, size);
    hak_free(block);
    block = hak_pvalloc(size);
    CHECK_AT(is_aligned(block, page_size()), size);
    check_block(block, round_up(size, page_size()));
    hak_free(block);
}

static void test_call_site(size_t size)
{
    void *block = hak_alloc_at(size, HAK_CALLSITE());
    check_block(block, size);
    free(block);
    for (int i = 0; i < 1000; i++) {
        block = hak_alloc_at(size, HAK_CALLSITE());
        CHECK_AT(block != NULL, size);
        hak_free_sized(block, size);
    }
}

static void expect_enomem(void *result)
{
    CHECK(opaque(result) == NULL);
    CHECK(errno == ENOMEM);
    errno = 0;
}

static void test_errors(void)
{
    const size_t huge = opaque_size((size_t)PTRDIFF_MAX + 1);
    errno = 0;
    expect_enomem(hak_malloc(huge));
    expect_enomem(hak_alloc_at(huge, HAK_CALLSITE()));
    expect_enomem(hak_calloc(huge, 2));
    expect_enomem(hak_realloc(NULL, huge));
    expect_enomem(hak_reallocarray(NULL, huge, 2));
    expect_enomem(hak_memalign(64, huge));
    expect_enomem(hak_aligned_alloc(64, huge));
    expect_enomem(hak_valloc(huge));
    expect_enomem(hak_pvalloc(huge));
    CHECK(opaque(hak_aligned_alloc(opaque_size(24), 96)) == NULL);
    CHECK(errno == EINVAL);
    errno = 1234;
    void *out = NULL;
    CHECK(hak_posix_memalign(&out, opaque_size(24), 96) == EINVAL);
    CHECK(hak_posix_memalign(&out, 64, huge) == ENOMEM);
    CHECK(opaque(out) == NULL);
    hak_free(NULL);
    hak_free_sized(NULL, 8);
    hak_free_aligned_sized(NULL, 64, 8);
    CHECK(errno == 1234 || any_malloc_allowed());
    CHECK(hak_usable_size(NULL) == 0);
}

static void test_size_zero(void)
{
    void *first = hak_malloc(opaque_size(0));
    void *second = hak_alloc_at(opaque_size(0), HAK_CALLSITE());
    CHECK(opaque(first) != NULL && opaque(second) != NULL && first != second);
    hak_free(first);
    hak_free_sized(second, 0);
}

static int write_profile(const char *path)
{
    return hak_ctl("profile.write", NULL, NULL, &path, sizeof path);
}

static void test_profile_that_does_not_fit(const char *path, int file)
{
    struct rlimit before, small;
    CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0);
    small = before;
    small.rlim_cur = 10000;
    CHECK(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
    CHECK(write_profile(path) == EFBIG);
    CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
    CHECK(lseek(file, 0, SEEK_END) == 0);
}

/* It has done nothing but fork. */
static void test_profile_of_a_child(const char *path)
{
    int status;
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        int wrong = write_profile(path);
        _exit(wrong);
    }
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
}

static void test_profile_write(void)
{
    char path[] = "/tmp/hakmem-profile-XXXXXX", start[8] = "", endless[1000];
    const int file = mkstemp(path);
    CHECK(file >= 0);
    CHECK(write_profile(path) == 0);
    CHECK(read(file, start, sizeof start) == (ssize_t)sizeof start);
    CHECK(memcmp(start, "hakmem1", sizeof start) == 0);
    test_profile_that_does_not_fit(path, file);
    test_profile_of_a_child(path);
    CHECK(lseek(file, 0, SEEK_END) > 0);
    close(file);
    unlink(path);
    if (access("/dev/full", W_OK) == 0) {
        CHECK(write_profile("/dev/full") == ENOSPC);
    }
    memset(endless, 'x', sizeof endless - 1);
    endless[sizeof endless - 1] = '\0';
    CHECK(write_profile("/no/such/folder/x") == ENOENT);
    CHECK(write_profile(endless) == ENAMETOOLONG);
    CHECK(hak_ctl("profile.write", NULL, NULL, path, 3) == EINVAL);
    CHECK(hak_ctl("profile.write", NULL, NULL, NULL, 0) == EINVAL);
    CHECK(write_profile(NULL) == EINVAL);
}

int main(void)
{
    require_hakmem();
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        test_plain(sizes[i]);
        test_mixed_with_standard(sizes[i]);
        test_call_site(sizes[i]);
        test_page_aligned(sizes[i]);
        for (size_t alignment = 8; alignment <= 4 * MIB; alignment *= 8) {
            test_aligned(sizes[i], alignment);
        }
    }
    test_errors();
    test_size_zero();
    test_profile_write();
    puts("hak_ family: ok");
    return 0;
}
