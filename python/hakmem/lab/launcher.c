/* Runs one command and reports what it cost, as lines "key value" on standard output.
 *
 *   launcher [-c CPU] [-t SECONDS] [-r] -o FILE -e FILE -- COMMAND [ARG...]
 *
 * It is a program of its own because Linux carries the peak resident size of the process that
 * forks over into the child's: started from an interpreter, no program would seem to need less
 * memory than the interpreter. Linked statically, it also stays free of what LD_PRELOAD brings.
 *
 * -c pins the command to one processor, -t kills it and all it started after a time, -r turns the
 * random placement of memory off. Standard input is handed through. A command that writes without
 * end (a prompt whose input has ended) is killed before it fills the disk.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { OWN_FAILURE = 125, CANNOT_RUN = 126, NOT_FOUND = 127 };
enum { OUTPUT_MOST = 1 << 30, LOOK_S = 1 };

struct order {
    int cpu;
    double timeout_s;
    int fixed_layout;
    const char *output;
    const char *errors;
    char **command;
};

static void die(const char *what)
{
    fprintf(stderr, "launcher: %s: %s\n", what, strerror(errno));
    exit(OWN_FAILURE);
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double seconds(struct timeval t)
{
    return (double)t.tv_sec + 1e-6 * (double)t.tv_usec;
}

static void redirect(const char *path, int to)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || dup2(fd, to) < 0)
        die(path);
}

/* If memory runs out, the measured program shall be what the kernel ends. */
static void be_first_to_go(void)
{
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd >= 0) {
        if (write(fd, "1000", 4) != 4)
            errno = 0; /* a wish, not a condition */
        close(fd);
    }
}

static void become(const struct order *order, const sigset_t *mask)
{
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    be_first_to_go();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (order->cpu >= 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET((unsigned)order->cpu, &set);
        if (sched_setaffinity(0, sizeof set, &set) != 0)
            die("cannot pin to a processor");
    }
    if (order->fixed_layout)
        personality(ADDR_NO_RANDOMIZE);
    redirect(order->output, STDOUT_FILENO);
    redirect(order->errors, STDERR_FILENO);
    /* What an interpreter ignores would stay ignored in the command. */
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
    sigprocmask(SIG_SETMASK, mask, NULL);
    execvp(order->command[0], order->command);
    int status = errno == ENOENT ? NOT_FOUND : CANNOT_RUN;
    fprintf(stderr, "%s: %s\n", order->command[0], strerror(errno));
    _exit(status);
}

static int is_too_long(const char *file)
{
    struct stat s;
    return stat(file, &s) == 0 && s.st_size > OUTPUT_MOST;
}

static int writes_too_much(const struct order *order)
{
    return is_too_long(order->output) || is_too_long(order->errors);
}

/* Waits for the leader: 1 if it ended by itself, 0 on a time-out or when it writes too much. */
static int wait_leader(const struct order *order, pid_t leader, const sigset_t *set,
                       double deadline, int *status, struct rusage *usage)
{
    for (;;) {
        if (wait4(leader, status, WNOHANG, usage) == leader)
            return 1;
        double left = deadline - now();
        if (left <= 0 || writes_too_much(order))
            return 0;
        left = left < LOOK_S ? left : LOOK_S;
        struct timespec t = {(time_t)left, (long)(1e9 * (left - (double)(time_t)left))};
        int got = sigtimedwait(set, NULL, &t);
        if (got == SIGTERM || got == SIGINT || got == SIGHUP) {
            kill(-leader, SIGKILL);
            /* The one told to stop so early that the child is not in a session of its own yet. */
            kill(leader, SIGKILL);
            wait4(leader, status, 0, usage); /* or it would make its files while they are removed */
            exit(OWN_FAILURE);
        }
    }
}

static void report(double wall_s, int status, int timed_out, int too_much,
                   const struct rusage *usage)
{
    printf("wall_s %.9f\n", wall_s);
    printf("user_s %.6f\n", seconds(usage->ru_utime));
    printf("sys_s %.6f\n", seconds(usage->ru_stime));
    printf("peak_rss_kib %ld\n", usage->ru_maxrss);
    printf("page_faults %ld\n", usage->ru_minflt);
    printf("major_faults %ld\n", usage->ru_majflt);
    printf("voluntary_switches %ld\n", usage->ru_nvcsw);
    printf("involuntary_switches %ld\n", usage->ru_nivcsw);
    printf("timed_out %d\n", timed_out);
    printf("too_much %d\n", too_much);
    printf("status %d\n", WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status));
}

static void run(const struct order *order)
{
    sigset_t watched, before;
    sigemptyset(&watched);
    sigaddset(&watched, SIGCHLD);
    sigaddset(&watched, SIGTERM);
    sigaddset(&watched, SIGINT);
    sigaddset(&watched, SIGHUP);
    sigprocmask(SIG_BLOCK, &watched, &before);
    prctl(PR_SET_PDEATHSIG, SIGTERM);

    double begun = now();
    pid_t leader = fork();
    if (leader < 0)
        die("fork");
    if (leader == 0) {
        setsid();
        become(order, &before);
    }
    printf("pid %ld\n", (long)leader);
    fflush(stdout);

    int status = 0;
    struct rusage usage;
    double deadline = begun + order->timeout_s;
    int ended = wait_leader(order, leader, &watched, deadline, &status, &usage);
    double wall_s = now() - begun;
    kill(-leader, SIGKILL); /* nothing it started may disturb the next run */
    if (!ended)
        wait4(leader, &status, 0, &usage);
    int too_much = !ended && writes_too_much(order);
    report(wall_s, status, !ended && !too_much, too_much, &usage);
}

int main(int argc, char **argv)
{
    struct order order = {.cpu = -1, .timeout_s = 1e9};
    for (int option; (option = getopt(argc, argv, "+c:t:ro:e:")) != -1;) {
        switch (option) {
        case 'c':
            order.cpu = atoi(optarg);
            break;
        case 't':
            order.timeout_s = atof(optarg);
            break;
        case 'r':
            order.fixed_layout = 1;
            break;
        case 'o':
            order.output = optarg;
            break;
        case 'e':
            order.errors = optarg;
            break;
        default:
            return OWN_FAILURE;
        }
    }
    order.command = argv + optind;
    if (!order.output || !order.errors || !order.command[0]) {
        fprintf(stderr, "launcher: needs -o FILE -e FILE -- COMMAND\n");
        return OWN_FAILURE;
    }
    run(&order);
    return 0;
}
