/* The limit of the control group, out of made-up files; what follows from it, and when it is looked at. */
#include "unit.h"

#include <stdio.h>

#include "control/options.h"
#include "os/os.h"
#include "pressure/cgroup.h"
#include "pressure/pressure.h"

/* ---- the files: cgroup.c is linked to these ---- */

struct file {
    const char *path, *text;
};

enum { FILES_MOST = 16 };
static struct file files[FILES_MOST];
static size_t file_count, files_read;

bool __wrap_os_read_file(const char *path, char *out, size_t room);
bool __wrap_os_read_file(const char *path, char *out, size_t room)
{
    files_read++;
    for (size_t i = 0; i < file_count; i++) {
        if (strcmp(files[i].path, path) == 0) {
            snprintf(out, room, "%s", files[i].text);
            return true;
        }
    }
    out[0] = '\0';
    return false;
}

static uint64_t clock_ms = 1000000;
uint64_t __wrap_os_now_ms(void);
uint64_t __wrap_os_now_ms(void)
{
    return clock_ms;
}

static void no_files(void)
{
    file_count = files_read = 0;
}

static void file(const char *path, const char *text)
{
    assert_true(file_count < FILES_MOST);
    files[file_count++] = (struct file){path, text};
}

static void check_room(size_t limit, size_t used, bool stalled)
{
    struct cgroup_room room = cgroup_look(true);
    assert_int_equal(room.limit, limit);
    assert_int_equal(room.used, used);
    assert_int_equal(room.stalled, stalled);
}

/* ---- the group ---- */

#define V2 "/sys/fs/cgroup"
#define V1 "/sys/fs/cgroup/memory"

static void no_group_has_no_limit(void **state)
{
    (void)state;
    no_files();
    check_room(SIZE_MAX, 0, false);
    file("/proc/self/cgroup", "0::/a\n");
    check_room(SIZE_MAX, 0, false);
    file(V2 "/a/memory.max", "max\n");
    file(V2 "/a/memory.high", "max\n");
    file(V2 "/a/memory.current", "1000\n");
    check_room(SIZE_MAX, 0, false);
}

static void the_lower_of_two_limits_counts(void **state)
{
    (void)state;
    no_files();
    file("/proc/self/cgroup", "0::/a\n");
    file(V2 "/a/memory.max", "9000\n");
    file(V2 "/a/memory.high", "8000\n");
    file(V2 "/a/memory.current", "1000\n");
    check_room(8000, 1000, false);
}

static void the_group_with_least_left_counts(void **state)
{
    (void)state;
    no_files();
    file("/proc/self/cgroup", "0::/a/b/c\n");
    file(V2 "/a/b/c/memory.max", "9000\n");
    file(V2 "/a/b/c/memory.current", "100\n");
    file(V2 "/a/b/memory.max", "max\n");
    file(V2 "/a/b/memory.current", "1000\n");
    file(V2 "/a/memory.max", "20000\n");
    file(V2 "/a/memory.current", "12000\n");
    check_room(20000, 12000, false);
    files[6].text = "10000\n"; /* the others have ended */
    check_room(9000, 100, false);
}

/* The list names the group as it is called outside. */
static void a_container_sees_its_own_group_on_top(void **state)
{
    (void)state;
    no_files();
    file("/proc/self/cgroup", "12:cpu,cpuacct:/x\n4:hugetlb,memory:/docker/0123\n0::/\n");
    file(V1 "/memory.limit_in_bytes", "5000\n");
    file(V1 "/memory.usage_in_bytes", "10\n");
    check_room(5000, 10, false);
}

static void the_first_version_has_a_largest_number(void **state)
{
    (void)state;
    no_files();
    file("/proc/self/cgroup", "4:memory:/a\n3:memoryless:/b\n0::/\n");
    file(V1 "/a/memory.limit_in_bytes", "9223372036854771712\n");
    file(V1 "/a/memory.soft_limit_in_bytes", "9223372036854771712\n");
    file(V1 "/a/memory.usage_in_bytes", "10\n");
    check_room(SIZE_MAX, 0, false);
    files[2].text = "7000\n";
    check_room(7000, 10, false);
}

static void cache_that_goes_first_is_not_used(void **state)
{
    (void)state;
    no_files();
    file("/proc/self/cgroup", "0::/a\n4:memory:/a\n");
    file(V2 "/a/memory.max", "10000\n");
    file(V2 "/a/memory.current", "9900\n");
    file(V2 "/a/memory.stat", "anon 100\ninactive_anon 7\ninactive_file 8000\nactive_file 1000\n");
    check_room(10000, 1400, false);
    files[3].text = "inactive_file 99999\n"; /* read a moment later */
    check_room(10000, 0, false);
    no_files();
    file("/proc/self/cgroup", "4:memory:/a\n");
    file(V1 "/a/memory.limit_in_bytes", "10000\n");
    file(V1 "/a/memory.usage_in_bytes", "9900\n");
    file(V1 "/a/memory.stat", "inactive_file 1\ntotal_inactive_file 800\ntotal_active_file 200\n");
    check_room(10000, 9000, false);
}

static void tasks_that_wait_are_seen(void **state)
{
    (void)state;
    no_files();
    file("/proc/self/cgroup", "0::/a\n");
    file(V2 "/a/memory.max", "10000\n");
    file(V2 "/a/memory.current", "10\n");
    file(V2 "/a/memory.pressure",
         "some avg10=9.99 avg60=50.00 avg300=0 total=1\nfull avg10=0.00\n");
    check_room(10000, 10, false);
    files[3].text = "some avg10=10.00 avg60=0.00 avg300=0.00 total=1\n";
    check_room(10000, 10, true);
}

static void nonsense_is_no_limit(void **state)
{
    (void)state;
    static const char *const lists[] = {
        "",       "\n",    "::",        "0:",
        "x\n0::", "0::/a", ":memory:/", "0::/a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q/r/s/t/u/v/w/x/y/z"};
    for (size_t i = 0; i < ARRAY_LENGTH(lists); i++) {
        no_files();
        file("/proc/self/cgroup", lists[i]);
        check_room(SIZE_MAX, 0, false);
    }
    no_files();
    file("/proc/self/cgroup", "0::/a\n");
    file(V2 "/a/memory.max", "99999999999999999999999\n");
    file(V2 "/a/memory.current", "10\n");
    check_room(SIZE_MAX, 0, false);
    files[1].text = "";
    check_room(SIZE_MAX, 0, false);
}

/* A group's path of any length. */
static void a_path_that_is_too_long_is_the_top(void **state)
{
    (void)state;
    static char list[4096];
    no_files();
    memset(list, 'x', sizeof list - 1);
    memcpy(list, "0::/", 4);
    file("/proc/self/cgroup", list);
    file(V2 "/memory.max", "300\n");
    file(V2 "/memory.current", "10\n");
    check_room(300, 10, false);
}

/* What does not fit into what is read of the list ends in the middle of a path. */
static void a_list_that_is_cut_is_the_top(void **state)
{
    (void)state;
    static char list[8192];
    char rest[4096];
    no_files();
    for (size_t n = 0; n < 4000; n += 10)
        memcpy(list + n, "9:cpu:/aa\n", 11);
    memset(rest, 'x', sizeof rest - 1);
    rest[sizeof rest - 1] = '\0';
    strcat(list, "8:memory:/abcd/");
    strcat(list, rest);
    file("/proc/self/cgroup", list);
    file(V1 "/memory.limit_in_bytes", "300\n");
    file(V1 "/memory.usage_in_bytes", "10\n");
    file(V1 "/abcd/memory.limit_in_bytes", "200\n");
    file(V1 "/abcd/memory.usage_in_bytes", "10\n");
    check_room(300, 10, false);
}

/* ---- levels ---- */

static void a_level_is_entered_and_left_at_different_places(void **state)
{
    (void)state;
    enum { LIMIT = 48000 };
    static const struct {
        size_t left;
        enum pressure_level level;
    } steps[] = {
        {LIMIT, PRESSURE_NONE}, {6000, PRESSURE_NONE},  {5999, PRESSURE_NEAR},
        {7999, PRESSURE_NEAR},  {3000, PRESSURE_NEAR},  {2999, PRESSURE_TIGHT},
        {3999, PRESSURE_TIGHT}, {0, PRESSURE_TIGHT},    {4000, PRESSURE_NEAR},
        {3000, PRESSURE_NEAR},  {8000, PRESSURE_NONE},  {7999, PRESSURE_NONE},
        {100, PRESSURE_TIGHT},  {LIMIT, PRESSURE_NONE},
    };
    enum pressure_level level = PRESSURE_NONE;
    for (size_t i = 0; i < ARRAY_LENGTH(steps); i++) {
        level = pressure_next(level, LIMIT, steps[i].left);
        assert_at(level == steps[i].level, i);
    }
}

/* ---- looks ---- */

static char used_text[24], limit_text[24];

static void group_with(size_t limit)
{
    no_files();
    snprintf(limit_text, sizeof limit_text, "%zu\n", limit);
    file("/proc/self/cgroup", "4:memory:/a\n");
    file(V1 "/a/memory.limit_in_bytes", limit_text);
    file(V1 "/a/memory.usage_in_bytes", used_text);
}

static void use(size_t used)
{
    snprintf(used_text, sizeof used_text, "%zu\n", used);
}

/* As if the process had just started. */
static void start_over(void)
{
    clock_ms += 100000;
    use(0);
    group_with(1024 * MIB);
    pressure_look(0, 0);
    store_relaxed(&hak_pressure.look_at, 16 * MIB);
    files_read = 0;
}

static uint32_t level(void)
{
    return load_relaxed(&hak_pressure.level);
}

static void a_small_process_reads_nothing(void **state)
{
    (void)state;
    for (size_t held = 0; held < 16 * MIB; held += UNIT_SIZE)
        pressure_note_growth(held, UNIT_SIZE);
    pressure_note_time(15 * MIB);
    assert_int_equal(files_read, 0);
}

/* However fast it grows: between two looks it does not pass a level, and the looks are few. */
static void growth_does_not_leap_over_a_level(void **state)
{
    (void)state;
    start_over();
    uint32_t before = PRESSURE_NONE;
    for (size_t held = 0; held < 1024 * MIB; held += UNIT_SIZE) {
        use(held);
        pressure_note_growth(held + UNIT_SIZE, UNIT_SIZE);
        assert_at(level() <= before + 1, held);
        before = level();
    }
    assert_int_equal(level(), PRESSURE_TIGHT);
    assert_true(files_read < 1000);
}

static void one_large_block_is_seen_before_it_is_touched(void **state)
{
    (void)state;
    start_over();
    use(100 * MIB);
    pressure_note_growth(1000 * MIB, 900 * MIB);
    assert_int_equal(level(), PRESSURE_TIGHT);
}

static void others_in_the_group_are_seen_with_time(void **state)
{
    (void)state;
    start_over();
    use(100 * MIB);
    pressure_note_growth(100 * MIB, UNIT_SIZE);
    assert_int_equal(level(), PRESSURE_NONE);
    use(1000 * MIB);
    pressure_note_time(100 * MIB);
    assert_int_equal(level(), PRESSURE_NONE); /* no time has passed */
    clock_ms += 100;
    pressure_note_time(100 * MIB);
    assert_int_equal(level(), PRESSURE_TIGHT);
    use(100 * MIB);
    clock_ms += 100;
    pressure_note_time(100 * MIB);
    assert_int_equal(level(), PRESSURE_NONE);
}

static void growth_counts_from_the_lowest_point(void **state)
{
    (void)state;
    start_over();
    pressure_note_growth(900 * MIB, UNIT_SIZE);
    pressure_note_time(100 * MIB);
    assert_true(load_relaxed(&hak_pressure.look_at) < 200 * MIB);
}

static void rounds_go_on_while_memory_is_tight(void **state)
{
    (void)state;
    start_over();
    uint32_t rounds = load_relaxed(&hak_pressure.rounds);
    use(1000 * MIB);
    pressure_look(1000 * MIB, 0);
    assert_int_equal(load_relaxed(&hak_pressure.rounds), rounds + 1);
    assert_true(exchange_acquire(&hak_pressure.due, false));
    pressure_look(1000 * MIB, 0); /* nothing has changed */
    assert_int_equal(load_relaxed(&hak_pressure.rounds), rounds + 1);
    pressure_look(1002 * MIB, 0);
    assert_int_equal(load_relaxed(&hak_pressure.rounds), rounds + 2);
    clock_ms += 1000;
    pressure_look(1002 * MIB, 0);
    assert_int_equal(load_relaxed(&hak_pressure.rounds), rounds + 3);
    start_over();
    assert_int_equal(load_relaxed(&hak_pressure.rounds), rounds + 3);
}

static void without_a_limit_looks_are_rare(void **state)
{
    (void)state;
    start_over();
    no_files();
    clock_ms += 10000;
    pressure_look(100 * MIB, 0);
    size_t first = files_read;
    for (size_t held = 100 * MIB; held < (size_t)64 << 30; held += GRANULE_SIZE)
        pressure_note_growth(held, GRANULE_SIZE);
    assert_int_equal(files_read, first);
    clock_ms += 2000;
    pressure_look((size_t)64 << 30, 0);
    assert_true(files_read > first);
}

static void a_setting_counts_what_the_process_holds(void **state)
{
    (void)state;
    start_over();
    hak_options.soft_limit = 64 * MIB;
    pressure_note_growth(60 * MIB, 60 * MIB);
    assert_int_equal(level(), PRESSURE_NEAR);
    pressure_look(62 * MIB, 0);
    assert_int_equal(level(), PRESSURE_TIGHT);
    hak_options.pressure = 0;
    pressure_look(62 * MIB, 0);
    assert_int_equal(level(), PRESSURE_NONE);
    hak_options.pressure = 1;
    hak_options.soft_limit = 0;
}

/* Else who lives near the setting touches anew whatever it takes. Of the group's limit nothing may be: there it is killed. */
static void a_share_of_what_the_setting_leaves_may_be_free(void **state)
{
    (void)state;
    start_over();
    use(944 * MIB); /* of 1,024 */
    pressure_look(500 * MIB, 0);
    assert_int_equal(load_relaxed(&hak_pressure.allowed), 0);
    use(0);
    hak_options.soft_limit = 640 * MIB;
    pressure_look(480 * MIB, 0);
    assert_int_equal(load_relaxed(&hak_pressure.allowed), 20 * MIB);
    pressure_look(640 * MIB, 0);
    assert_int_equal(load_relaxed(&hak_pressure.allowed), 10 * MIB);
    hak_options.soft_limit = 0;
}

static void of_setting_and_group_the_one_with_the_smaller_share_left_counts(void **state)
{
    (void)state;
    start_over();
    hak_options.soft_limit = 10000 * MIB;
    use(1000 * MIB); /* of the group's 1,024 */
    pressure_look(500 * MIB, 0);
    assert_int_equal(level(), PRESSURE_TIGHT);
    hak_options.soft_limit = 512 * MIB;
    use(800 * MIB);
    pressure_look(500 * MIB, 0);
    assert_int_equal(level(), PRESSURE_TIGHT);
    pressure_look(300 * MIB, 0);
    assert_int_equal(level(), PRESSURE_NONE);
    no_files();
    pressure_look(500 * MIB, 0);
    assert_int_equal(level(), PRESSURE_TIGHT);
    hak_options.soft_limit = 0;
}

/* Of a large one next to nothing is used at the first look. */
static void a_setting_counts_from_the_first_look_on(void **state)
{
    (void)state;
    const size_t limit = (size_t)64 << 30;
    start_over();
    no_files();
    hak_options.soft_limit = limit;
    for (size_t held = GRANULE_SIZE; held < limit / 16 * 15; held += GRANULE_SIZE)
        pressure_note_growth(held, GRANULE_SIZE);
    assert_true(level() >= PRESSURE_NEAR);
    hak_options.soft_limit = 0;
}

/* Of which a smaller share is left, but more. */
static void a_setting_counts_below_the_limit_of_a_large_group(void **state)
{
    (void)state;
    start_over();
    file(V1 "/a/memory.limit_in_bytes", "68719476736\n");
    use(8192 * MIB);
    hak_options.soft_limit = 1024 * MIB;
    clock_ms += 10000;
    size_t held = GRANULE_SIZE;
    for (; held < 2048 * MIB && level() < PRESSURE_NEAR; held += GRANULE_SIZE)
        pressure_note_growth(held, GRANULE_SIZE);
    assert_true(held < 1024 * MIB);
    hak_options.soft_limit = 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_small_process_reads_nothing),
        cmocka_unit_test(no_group_has_no_limit),
        cmocka_unit_test(the_lower_of_two_limits_counts),
        cmocka_unit_test(the_group_with_least_left_counts),
        cmocka_unit_test(a_container_sees_its_own_group_on_top),
        cmocka_unit_test(the_first_version_has_a_largest_number),
        cmocka_unit_test(cache_that_goes_first_is_not_used),
        cmocka_unit_test(tasks_that_wait_are_seen),
        cmocka_unit_test(nonsense_is_no_limit),
        cmocka_unit_test(a_path_that_is_too_long_is_the_top),
        cmocka_unit_test(a_list_that_is_cut_is_the_top),
        cmocka_unit_test(a_level_is_entered_and_left_at_different_places),
        cmocka_unit_test(growth_does_not_leap_over_a_level),
        cmocka_unit_test(one_large_block_is_seen_before_it_is_touched),
        cmocka_unit_test(others_in_the_group_are_seen_with_time),
        cmocka_unit_test(growth_counts_from_the_lowest_point),
        cmocka_unit_test(rounds_go_on_while_memory_is_tight),
        cmocka_unit_test(without_a_limit_looks_are_rare),
        cmocka_unit_test(a_setting_counts_what_the_process_holds),
        cmocka_unit_test(a_share_of_what_the_setting_leaves_may_be_free),
        cmocka_unit_test(a_setting_counts_from_the_first_look_on),
        cmocka_unit_test(a_setting_counts_below_the_limit_of_a_large_group),
        cmocka_unit_test(of_setting_and_group_the_one_with_the_smaller_share_left_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
