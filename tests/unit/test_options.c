/* Settings: values, names, and where they come from. */
#include "unit.h"

#include <stdlib.h>
#include <unistd.h>

#include "control/options.h"

static struct options defaults;

static int keep_defaults(void **state)
{
    (void)state;
    defaults = hak_options;
    return 0;
}

static int restore_defaults(void **state)
{
    (void)state;
    hak_options = defaults;
    return 0;
}

static const char *set(const char *name, const char *value)
{
    return option_set(name, strlen(name), value, strlen(value));
}

static void sizes_take_suffixes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t value;
    } good[] = {
        {"0", 0},          {"4096", 4096},    {"007", 7},
        {"64K", 64 << 10}, {"64k", 64 << 10}, {"3M", 3 << 20},
        {"3m", 3 << 20},   {"1G", 1 << 30},   {"1024g", (size_t)1 << 40},
    };
    for (size_t i = 0; i < ARRAY_LENGTH(good); i++) {
        assert_null(set("retain", good[i].text));
        assert_at(hak_options.retain == good[i].value, i);
    }
}

static void bad_sizes_change_nothing(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "K",
        "-1",
        "+1",
        " 1",
        "1 ",
        "0x10",
        "1.5M",
        "1T",
        "1KB",
        "1K1",
        "ten",
        "1025G",
        "18446744073709551616",
        "18446744073709551615G",
        "18014398509481985K",
        "99999999999999999999999",
    };
    assert_null(set("retain", "12345"));
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++) {
        assert_at(set("retain", bad[i]) != NULL, i);
        assert_at(hak_options.retain == 12345, i);
    }
    assert_string_equal(set("retain", "x"), "is not a size such as 64K, 32M or 1G");
    assert_string_equal(set("retain", "1025G"), "is out of range");
}

static void counts_have_bounds_and_no_suffix(void **state)
{
    (void)state;
    assert_null(set("magazine_max", "2"));
    assert_int_equal(hak_options.magazine_max, 2);
    assert_null(set("magazine_max", "4096"));
    assert_int_equal(hak_options.magazine_max, 4096);
    assert_string_equal(set("magazine_max", "1"), "is out of range");
    assert_string_equal(set("magazine_max", "4097"), "is out of range");
    assert_string_equal(set("magazine_max", "2k0"), "is not a number");
    assert_string_equal(set("magazine_max", ""), "is not a number");
    assert_int_equal(hak_options.magazine_max, 4096);
}

static void switches_know_three_ways_to_say_it(void **state)
{
    (void)state;
    static const char *const on[] = {"1", "on", "ON", "true", "True"};
    static const char *const off[] = {"0", "off", "Off", "false"};
    for (size_t i = 0; i < ARRAY_LENGTH(on); i++) {
        hak_options.prefault = 0;
        assert_null(set("prefault", on[i]));
        assert_at(hak_options.prefault == 1, i);
    }
    for (size_t i = 0; i < ARRAY_LENGTH(off); i++) {
        hak_options.prefault = 1;
        assert_null(set("prefault", off[i]));
        assert_at(hak_options.prefault == 0, i);
    }
    static const char *const bad[] = {"2", "yes", "", "onn", "1K"};
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++) {
        assert_string_equal(set("prefault", bad[i]), "is neither 0 nor 1");
        assert_at(hak_options.prefault == 0, i);
    }
}

static void times_take_suffixes(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        size_t value;
    } good[] = {{"0", 0}, {"500", 500}, {"500ms", 500}, {"2s", 2000}, {"3S", 3000}};
    for (size_t i = 0; i < ARRAY_LENGTH(good); i++) {
        assert_null(set("keep_time", good[i].text));
        assert_at(hak_options.keep_time == good[i].value, i);
    }
    static const char *const bad[] = {"", "s", "1m", "1sec", "1.5s", "1K", "18446744073709551615s"};
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++) {
        assert_string_equal(set("keep_time", bad[i]), "is not a time such as 500ms or 2s");
        assert_at(hak_options.keep_time == 3000, i);
    }
    assert_string_equal(set("keep_time", "17s"), "is out of range");
}

static void words_are_numbers(void **state)
{
    (void)state;
    static const char *const words[] = {"off", "fixed", "shadow", "size", "site", "shuffled"};
    for (size_t i = 0; i < ARRAY_LENGTH(words); i++) {
        assert_null(set("keep", words[i]));
        assert_at(hak_options.keep == i, i);
    }
    assert_null(set("keep", "SIZE"));
    assert_null(set("keep", "3"));
    static const char *const bad[] = {"", "siz", "sizes", "6", "-1", "off|fixed", "keep"};
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++) {
        assert_string_equal(set("keep", bad[i]), "is none of its words");
        assert_at(hak_options.keep == 3, i);
    }
}

static void texts_have_a_longest_length(void **state)
{
    (void)state;
    char text[OPTION_TEXT_MAX + 1];
    memset(text, 'a', sizeof text);
    text[OPTION_TEXT_MAX - 1] = '\0';
    assert_null(set("output", text));
    assert_string_equal(hak_options.output, text);
    text[OPTION_TEXT_MAX - 1] = 'a';
    text[OPTION_TEXT_MAX] = '\0';
    assert_non_null(set("output", text));
    assert_int_equal(strlen(hak_options.output), OPTION_TEXT_MAX - 1);
    assert_null(set("output", ""));
    assert_string_equal(hak_options.output, "");
}

static void names_are_matched_whole(void **state)
{
    (void)state;
    size_t value;
    assert_null(set("RETAIN", "1M")); /* as in HAKMEM_RETAIN */
    assert_int_equal(hak_options.retain, MIB);
    assert_string_equal(set("retai", "1"), "is not a setting");
    assert_string_equal(set("retainx", "1"), "is not a setting");
    assert_string_equal(set("", "1"), "is not a setting");
    assert_int_equal(option_get("retain", &value), OPTION_SET);
    assert_int_equal(value, MIB);
    assert_int_equal(option_get("retainx", &value), OPTION_NONE);
    assert_int_equal(option_get("output", &value), OPTION_READ);
    assert_ptr_equal(value, hak_options.output); /* a text */
}

/* ---- the list ---- */

static void the_list_shows_every_setting(void **state)
{
    (void)state;
    static const char *const names[] = {
#define OPTION(name, type, when, initial, least, most, text) #name,
#include "control/options.def"
#undef OPTION
    };
    const char *at = options_text();
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++) {
        size_t length = strcspn(at, " "), value;
        assert_at(length == strlen(names[i]) && strncmp(at, names[i], length) == 0, i);
        assert_at(option_get(names[i], &value) != OPTION_NONE, i);
        at = strchr(at, '\n') + 1;
    }
    assert_string_equal(at, "");
}

/* ---- environment ---- */

/* Reads the environment and returns what was said about it on standard error. */
static const char *warnings_of_reading(void)
{
    static char said[4096];
    int ends[2], saved = dup(STDERR_FILENO);
    assert_true(saved >= 0 && pipe(ends) == 0);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    options_read_environment();
    dup2(saved, STDERR_FILENO);
    close(saved);
    size_t length = 0;
    ssize_t got;
    while ((got = read(ends[0], said + length, sizeof said - 1 - length)) > 0)
        length += (size_t)got;
    close(ends[0]);
    said[length] = '\0';
    return said;
}

static void clear_environment(void)
{
    unsetenv("HAKMEM_CONF");
    unsetenv("HAKMEM_RETAIN");
    unsetenv("HAKMEM_PREFAULTS");
    unsetenv("HKM_WHALE_CAPACITY");
}

static void the_environment_is_read(void **state)
{
    (void)state;
    setenv("HAKMEM_CONF", "retain:5M,prefault:off,,magazine_max:16,output:a:b", 1);
    setenv("HAKMEM_RETAIN", "6M", 1); /* the more specific wins */
    setenv("HKM_WHALE_CAPACITY", "3", 1);
    const char *said = warnings_of_reading();
    clear_environment();
    assert_string_equal(said, "");
    assert_int_equal(hak_options.retain, 6 * MIB);
    assert_int_equal(hak_options.prefault, 0);
    assert_int_equal(hak_options.magazine_max, 16);
    assert_int_equal(hak_options.whale_capacity, 3);
    char here[OPTION_TEXT_MAX];
    assert_non_null(getcwd(here, sizeof here - 4));
    assert_string_equal(hak_options.output, strcat(here, "/a:b")); /* only the first colon parts */
}

/* Wherever it stands. */
static void a_former_name_counts_least(void **state)
{
    static char conf[] = "HAKMEM_CONF=whale_capacity:5", former[] = "HKM_WHALE_CAPACITY=3";
    char *first[] = {conf, former, NULL}, *last[] = {former, conf, NULL}, **before = environ;
    (void)state;
    environ = first;
    assert_string_equal(warnings_of_reading(), "");
    assert_int_equal(hak_options.whale_capacity, 5);
    store_relaxed(&hak_option_sources.whale_capacity, OPTION_DEFAULT);
    environ = last;
    assert_string_equal(warnings_of_reading(), "");
    assert_int_equal(hak_options.whale_capacity, 5);
    environ = before;
}

static void unknown_names_get_a_suggestion(void **state)
{
    (void)state;
    setenv("HAKMEM_CONF", "magazin_max:16,retian:1M", 1);
    setenv("HAKMEM_PREFAULTS", "1", 1);
    setenv("HAKMEM_NOPE", "1", 1);
    const char *said = warnings_of_reading();
    clear_environment();
    assert_non_null(strstr(said, "unknown setting 'magazin_max' is ignored; "
                                 "did you mean 'magazine_max'?\n"));
    assert_non_null(strstr(said, "unknown setting 'retian' is ignored; did you mean 'retain'?\n"));
    assert_non_null(
        strstr(said, "unknown setting 'PREFAULTS' is ignored; did you mean 'prefault'?\n"));
    assert_non_null(strstr(said, "unknown setting 'NOPE' is ignored\n"));
    assert_memory_equal(&hak_options, &defaults, sizeof defaults);
}

static void bad_values_are_warned_about_and_ignored(void **state)
{
    (void)state;
    setenv("HAKMEM_CONF", "retain:lots,prefault:maybe,magazine_max", 1);
    const char *said = warnings_of_reading();
    clear_environment();
    assert_non_null(strstr(said, "value 'lots' of 'retain' is ignored: it is not a size"));
    assert_non_null(
        strstr(said, "value 'maybe' of 'prefault' is ignored: it is neither 0 nor 1\n"));
    assert_non_null(strstr(said, "value '' of 'magazine_max' is ignored: it is not a number\n"));
    assert_memory_equal(&hak_options, &defaults, sizeof defaults);
}

static void what_would_be_a_value_is_told(void **state)
{
    (void)state;
    setenv("HAKMEM_CONF", "keep:foo,magazine_max:1,keep_time:20s", 1);
    const char *said = warnings_of_reading();
    clear_environment();
    assert_non_null(strstr(said, "it is none of its words: off|fixed|shadow|size|site|shuffled\n"));
    assert_non_null(strstr(said, "it is out of range: 2 to 4096\n"));
    assert_non_null(strstr(said, "it is out of range: 0 to 16000 ms\n"));
    assert_memory_equal(&hak_options, &defaults, sizeof defaults);
}

static void endless_names_and_values_are_cut(void **state)
{
    (void)state;
    char conf[1024];
    memset(conf, 'n', sizeof conf);
    conf[500] = ':';
    conf[sizeof conf - 1] = '\0';
    setenv("HAKMEM_CONF", conf, 1);
    const char *said = warnings_of_reading();
    clear_environment();
    assert_non_null(strstr(said, "unknown setting 'nnn"));
    assert_true(strlen(said) < 200);
}

int main(void)
{
    clear_environment();
#define TEST(function) cmocka_unit_test_setup_teardown(function, keep_defaults, restore_defaults)
    const struct CMUnitTest tests[] = {
        TEST(sizes_take_suffixes),
        TEST(bad_sizes_change_nothing),
        TEST(counts_have_bounds_and_no_suffix),
        TEST(switches_know_three_ways_to_say_it),
        TEST(times_take_suffixes),
        TEST(words_are_numbers),
        TEST(texts_have_a_longest_length),
        TEST(names_are_matched_whole),
        TEST(the_list_shows_every_setting),
        TEST(the_environment_is_read),
        TEST(a_former_name_counts_least),
        TEST(unknown_names_get_a_suggestion),
        TEST(bad_values_are_warned_about_and_ignored),
        TEST(what_would_be_a_value_is_told),
        TEST(endless_names_and_values_are_cut),
    };
#undef TEST
    return cmocka_run_group_tests(tests, NULL, NULL);
}
