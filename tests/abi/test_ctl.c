/* hak_ctl: every kind of name, read and written rightly and wrongly. */
#include "abi_check.h"

#include <errno.h>

#include <hakmem/hakmem.h>

static const char *const fields[] = {"live_bytes",  "live_blocks",  "magazine_bytes",
                                     "slab_bytes",  "super_bytes",  "big_bytes",
                                     "dirty_bytes", "purged_bytes", "heaps"};

static int read_number(const char *name, size_t *value)
{
    size_t length = sizeof *value;
    return hak_ctl(name, value, &length, NULL, 0);
}

static const char *read_text(const char *name)
{
    const char *text = NULL;
    size_t length = sizeof text;
    CHECK(hak_ctl(name, &text, &length, NULL, 0) == 0);
    return text;
}

static void test_statistics_by_name(void)
{
    struct hak_stats stats;
    size_t values[ARRAY_LENGTH(fields)];
    void *block = hak_malloc(3 * MIB);
    for (size_t i = 0; i < ARRAY_LENGTH(fields); i++) {
        char name[64] = "stats.";
        strcat(name, fields[i]);
        CHECK_AT(read_number(name, &values[i]) == 0, i);
    }
    CHECK(hak_stats_get(&stats, sizeof stats) == sizeof stats);
    CHECK(memcmp(values, &stats, sizeof stats) == 0);
    CHECK(values[5] >= 3 * MIB);
    hak_free(block);
    size_t value;
    CHECK(read_number("stats.", &value) == ENOENT);
    CHECK(read_number(NULL, &value) == EINVAL);
    CHECK(read_number("stats.live_byte", &value) == ENOENT);
}

static void test_counters(void)
{
    uint64_t before = 0, after = 0;
    size_t length = sizeof before;
    CHECK(hak_ctl("counter.refill", &before, &length, NULL, 0) == 0);
    enum { count = 20000 };
    static void *blocks[count];
    for (size_t i = 0; i < count; i++)
        blocks[i] = hak_malloc(48);
    CHECK(hak_ctl("counter.refill", &after, &length, NULL, 0) == 0);
    CHECK(after > before);
    for (size_t i = 0; i < count; i++)
        hak_free(blocks[i]);
    CHECK(hak_ctl("counter.nothing", &after, &length, NULL, 0) == ENOENT);
}

static void test_texts(void)
{
    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", HAK_VERSION_MAJOR, HAK_VERSION_MINOR,
             HAK_VERSION_PATCH);
    CHECK(strcmp(read_text("version"), version) == 0);
    CHECK(strncmp(read_text("opt"), "retain SIZE bytes ", 18) == 0);
    CHECK(strcmp(read_text("opt.rules"), "") == 0);
    CHECK(strcmp(read_text("opt.output"), "") == 0);
    CHECK(strcmp(read_text("opt.profile_output"), "") == 0);
}

static void test_settings(void)
{
    size_t initial, now, wanted = 5 * MIB;
    CHECK(read_number("opt.retain", &initial) == 0);
    now = 0;
    size_t length = sizeof now;
    /* The value before, as the new one is set. */
    CHECK(hak_ctl("opt.retain", &now, &length, &wanted, sizeof wanted) == 0);
    CHECK(now == initial);
    CHECK(read_number("opt.retain", &now) == 0 && now == wanted);
    size_t too_large = SIZE_MAX;
    CHECK(hak_ctl("opt.retain", NULL, NULL, &too_large, sizeof too_large) == EINVAL);
    CHECK(hak_ctl("opt.retain", NULL, NULL, &wanted, 4) == EINVAL);
    CHECK(read_number("opt.retain", &now) == 0 && now == wanted);
    CHECK(hak_ctl("opt.retain", NULL, NULL, &initial, sizeof initial) == 0);
    CHECK(read_number("opt.nothing", &now) == ENOENT);
}

static void test_wrong_lengths_change_nothing(void)
{
    static const char *const names[] = {"version",   "opt",         "opt.retain",
                                        "opt.rules", "stats.heaps", "counter.flush"};
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        uint64_t old[2] = {77, 77};
        for (size_t length = 0; length <= sizeof old; length++) {
            size_t given = length;
            if (length != sizeof old[0])
                CHECK_AT(hak_ctl(names[i], old, &given, NULL, 0) == EINVAL, i);
        }
        CHECK_AT(hak_ctl(names[i], old, NULL, NULL, 0) == EINVAL, i);
        CHECK_AT(old[0] == 77 && old[1] == 77, i);
        CHECK_AT(hak_ctl(names[i], NULL, NULL, NULL, 0) == 0, i);
    }
}

static void test_what_cannot_be_set(void)
{
    static const char *const names[] = {"version",       "opt",   "stats.heaps",
                                        "counter.flush", "purge", "opt.output"};
    size_t value = 1;
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
        CHECK_AT(hak_ctl(names[i], NULL, NULL, &value, sizeof value) == EPERM, i);
    static const char *const none[] = {"", "nope", "stats.nope", "counter.nope", "opt.nope"};
    for (size_t i = 0; i < ARRAY_LENGTH(none); i++)
        CHECK_AT(hak_ctl(none[i], NULL, NULL, &value, sizeof value) == ENOENT, i);
    CHECK(read_number("", &value) == ENOENT);
    CHECK(read_number("purged", &value) == ENOENT);
}

static void test_settings_of_the_start(void)
{
    static const char *const names[] = {"opt.crash_log", "opt.live", "opt.worker"};
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        size_t initial, now, length = sizeof now;
        CHECK_AT(read_number(names[i], &initial) == 0, i);
        size_t other = !initial;
        now = 77;
        CHECK_AT(hak_ctl(names[i], &now, &length, &other, sizeof other) == EPERM && now == 77, i);
        CHECK_AT(hak_ctl(names[i], NULL, NULL, &initial, sizeof initial) == EPERM, i);
        CHECK_AT(read_number(names[i], &now) == 0 && now == initial, i);
    }
}

static void test_purge(void)
{
    void *block = hak_malloc(8 * MIB);
    CHECK(block != NULL);
    memset(block, 1, 8 * MIB);
    hak_free(block);
    size_t before, after;
    CHECK(read_number("stats.purged_bytes", &before) == 0);
    CHECK(hak_ctl("purge", NULL, NULL, NULL, 0) == 0);
    CHECK(read_number("stats.purged_bytes", &after) == 0 && after >= before + 8 * MIB);
    CHECK(read_number("stats.dirty_bytes", &after) == 0 && after < MIB);
}

int main(void)
{
    require_hakmem();
    test_statistics_by_name();
    test_counters();
    test_texts();
    test_settings();
    test_wrong_lengths_change_nothing();
    test_what_cannot_be_set();
    test_settings_of_the_start();
    test_purge();
    puts("ctl: ok");
    return 0;
}
