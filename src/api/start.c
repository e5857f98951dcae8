/* The library's constructor, and what is looked at and printed at exit. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/api.h"
#include "api/operators.h"
#include "control/crash.h"
#include "control/options.h"
#include "control/stats.h"
#include "heap/worker.h"
#include "live/dump.h"
#include "mind/keep.h"
#include "os/lock.h"
#include "os/os.h"
#include "purge/purge.h"

static HAK_COLD void warn_unwritten(const char *setting, const char *file, int error,
                                    const char *so)
{
    char path[2 * OPTION_TEXT_MAX];
    const char *reason = reason_unwritten(error);
    if (hak_has_no_stderr)
        return;
    path_of_process(path, sizeof path, file);
    if (reason != NULL)
        os_warn("%s: cannot write to '%s': %s; %s", setting, path, reason, so);
    else
        os_warn("%s: cannot write to '%s' (error %u); %s", setting, path, (size_t)error, so);
}

static int open_output(void)
{
    if (hak_options.output[0] == '\0')
        return hak_has_no_stderr ? -1 : STDERR_FILENO;
    char path[2 * OPTION_TEXT_MAX];
    path_of_process(path, sizeof path, hak_options.output);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        warn_unwritten("output", hak_options.output, errno, "the counters are not printed");
    return fd;
}

static HAK_COLD void print_numbers(void)
{
    int fd = open_output();
    if (fd < 0)
        return;
    struct numbers n;
    numbers_read(&n);
    int error = numbers_print(&n, fd);
    if (fd == STDERR_FILENO)
        return;
    close(fd);
    if (error != 0)
        warn_unwritten("output", hak_options.output, error, "the counters are not all there");
}

static HAK_COLD void write_profile(void)
{
    front_show_inherited();
    /* ENODATA: it has allocated nothing. */
    int error = dump_profile(hak_options.profile_output);
    if (error != 0 && error != ENODATA)
        warn_unwritten("profile_output", hak_options.profile_output, error, "there is no profile");
}

__attribute__((destructor)) static HAK_COLD void process_exits(void)
{
    front_verify();
    if (option(stats))
        print_numbers();
    if (hak_options.profile_output[0] != '\0')
        write_profile();
}

/* Whether the program's malloc is this library's, as opposed to one that is used by its own names. */
static bool is_interposed(void)
{
#if HAK_INTERPOSE
    return malloc == hak_malloc;
#else
    return false;
#endif
}

static HAK_COLD void start_operators(void)
{
#if HAK_INTERPOSE
    operators_find_next();
#endif
}

__attribute__((constructor)) void hak_start(void)
{
    lock_start_checking();
    front_read_settings();
    region_start();
    /* The fast path reads the window without a fence, so it is chosen before there is a second thread.
     * The first allocation is early enough if it is this library's: glibc allocates the thread-local
     * storage of each thread it creates. A program that allocates nothing needs no window. */
    thread_enter(); /* a signal may interrupt this as well, if the library is opened late */
    if (!is_interposed())
        region_init();
    front_init();
    thread_leave();
    if (hak_options.rules[0] != '\0' && option(learn) && option(keep) != KEEP_OFF)
        purge_load_rules();
    if (option(crash_log) && !HAK_SANITIZED)
        crash_install();
    worker_start_if_wanted();
    if (!region_deletes_are_ours())
        start_operators();
}
