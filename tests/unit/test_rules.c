/* Rules from a file: what a line may say, and what is said of one that is wrong. */
#include "unit.h"

#include <stdio.h>

#include "live/live.h"
#include "mind/keep.h"
#include "mind/rules.h"
#include "os/os.h"

#define NONE " 0 0 0 0 0 0 0 0 0 0 0"

enum { HOUR = 3600 * 1000 };

static const char *file;
static char warning[512];
static uint64_t now_ms;

bool __wrap_os_read_file(const char *path, char *out, size_t room);
bool __wrap_os_read_file(const char *path, char *out, size_t room)
{
    assert_string_equal(path, "a.rules");
    snprintf(out, room, "%s", file);
    return *file != '\0';
}

void __wrap_os_warn(const char *format, ...);
void __wrap_os_warn(const char *format, ...)
{
    static const struct {
        const char *from, *to;
    } own = {"%u", "%zu"};
    char standard[256];
    const char *number = strstr(format, own.from);
    va_list args;
    size_t before = number != NULL ? (size_t)(number - format) : strlen(format);
    snprintf(standard, sizeof standard, "%.*s%s%s", (int)before, format, number ? own.to : "",
             number ? number + strlen(own.from) : "");
    va_start(args, format);
    vsnprintf(warning, sizeof warning, standard, args);
    va_end(args);
}

static void load(const char *text)
{
    file = text;
    warning[0] = '\0';
    now_ms += HOUR;
    rules_load("a.rules", now_ms);
    keep_look(MIB, 0, now_ms + HOUR / 2);
}

static const struct live_rules *row(uint16_t key)
{
    return &live_area()->rules[key];
}

static int make_area(void **state)
{
    (void)state;
    store_relaxed(&hak_live.due, true);
    hak_options.keep = KEEP_SIZE;
    return live_make() != NULL ? 0 : -1;
}

static void each_kind_of_line_is_a_rule(void **state)
{
    (void)state;
    load("# size site keep kib\n\n"
         "classes\t-  250ms 1 2 3 4 5 6 7 8 9 10 11 12  # mostly strings\r\n"
         "  2M - 3s 0 0 0 0 0 0 1M 0 0 0 0 0\n"
         "any - 0 9" NONE);
    assert_string_equal(warning, "");
    assert_int_equal(load_relaxed(&row(0)->keep_ms), 250);
    assert_int_equal(load_relaxed(&row(0)->kib[11]), 12);
    uint16_t key = keep_key_of_size(2 * MIB);
    assert_int_equal(load_relaxed(&row(key)->keep_ms), 3000);
    assert_int_equal(load_relaxed(&row(key)->kib[6]), MIB);
    assert_int_equal(load_relaxed(&row(KEEP_ANY)->kib[0]), 9);
}

static void a_time_between_two_is_the_shorter(void **state)
{
    (void)state;
    load("4M - 2900ms 0" NONE);
    assert_int_equal(load_relaxed(&row(keep_key_of_size(4 * MIB))->keep_ms), 2000);
    load("4M - 1000s 0" NONE);
    assert_int_equal(load_relaxed(&row(keep_key_of_size(4 * MIB))->keep_ms), 16000);
}

static void a_wrong_line_is_named_and_ignored(void **state)
{
    (void)state;
    static const struct {
        const char *line, *says;
    } wrong[] = {
        {"128K - 3s 0" NONE, "'128K' is neither 'classes', 'any' nor a size from 256K on"},
        {"big - 3s 0" NONE, "'big' is neither"},
        {"2M here 3s 0" NONE, "'here' is neither '-' nor a call site"},
        {"2M 0123 3s 0" NONE, "'0123' is neither '-' nor a call site"},
        {"2M 0123456789abcdef0 3s 0" NONE, "is neither '-' nor a call site"},
        {"2M - soon 0" NONE, "'soon' is not a time"},
        {"2M - 3s" NONE, "'' is not the KiB"},
        {"2M - 3s -1" NONE, "'-1' is not the KiB"},
        {"2M - 3s 99999999999999999999" NONE, "is not the KiB"},
        {"2M - 3s 2000G" NONE, "'2000G' is not the KiB"},
        {"2M - 3s 0 0" NONE, "'0' is more than a rule has"},
        {"2M", "'' is neither '-' nor"},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(wrong); i++) {
        char text[256];
        snprintf(text, sizeof text, "any - 0 0" NONE "\n%s\n", wrong[i].line);
        load(text);
        if (strstr(warning, wrong[i].says) == NULL ||
            strstr(warning, "line 2 of 'a.rules' is ignored") == NULL)
            fail_msg("'%s': '%s'", wrong[i].line, warning);
    }
}

static void a_file_that_is_of_no_use_is_named(void **state)
{
    (void)state;
    load("");
    assert_non_null(strstr(warning, "'a.rules' cannot be read or is empty"));
    load("# nothing\n");
    assert_string_equal(warning, "");
    load("2M 0123456789abcdef 3s 0" NONE);
    assert_non_null(strstr(warning, "has none for this setting"));
    static char much[64 << 10];
    memset(much, '#', sizeof much - 1);
    load(much);
    assert_non_null(strstr(warning, "'a.rules' is longer than 32766 bytes"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_kind_of_line_is_a_rule),
        cmocka_unit_test(a_time_between_two_is_the_shorter),
        cmocka_unit_test(a_wrong_line_is_named_and_ignored),
        cmocka_unit_test(a_file_that_is_of_no_use_is_named),
    };
    return cmocka_run_group_tests(tests, make_area, NULL);
}
