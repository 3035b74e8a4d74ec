/* The first process of a job, which measures the job beside sonde:
 *
 *   witness [-g CGROUP] [-n ACCOUNTING] FILE COMMAND [ARGUMENT…]
 *
 * Runs COMMAND, waits for it, and writes what the kernel reported about it to FILE, one "NAME
 * NUMBER" a line, always including this process itself:
 *
 *   user_seconds, system_seconds    getrusage and wait4, of all processes that were waited for
 *   peak_rss_kb                     the largest of them
 *   read_bytes, write_bytes         /proc/self/io, into which the kernel adds each reaped child
 *   wall_seconds
 *   cpu_before_seconds              with -g: own CPU time before this process joined CGROUP; the
 * driver reads the time of the cgroup when everything in it has ended
 *
 * -n runs COMMAND in its own pid namespace and lets the kernel write one record for each process
 * that ends there to ACCOUNTING (acct(2)). Exits with 0 or the status of COMMAND, or 99 if it
 * cannot do what it should.
 *
 * The peak of this process itself is VmHWM, not ru_maxrss, which would include sonde before the
 * exec. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "witness: %s: %s\n", what, strerror(errno));
    _exit(99);
}

static double seconds(struct timeval time)
{
    return (double)time.tv_sec + (double)time.tv_usec / 1e6;
}

static double now_seconds(clockid_t clock)
{
    struct timespec now;

    if (clock_gettime(clock, &now) < 0)
        fail("clock_gettime");
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* The number after `name` in a file of /proc/self, or -1. */
static long long own_value(const char *path, const char *name)
{
    char line[256];
    long long value = -1;
    FILE *file = fopen(path, "re");

    if (!file)
        return -1;
    while (fgets(line, sizeof(line), file))
        if (strncmp(line, name, strlen(name)) == 0)
            value = strtoll(line + strlen(name), NULL, 10);
    fclose(file);
    return value;
}

static void join(const char *cgroup)
{
    char path[4096];

    snprintf(path, sizeof(path), "%s/cgroup.procs", cgroup);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, "0", 1) != 1)
        fail(path);
    close(fd);
}

static void run(char **command, const char *accounting)
{
    if (accounting && acct(accounting) < 0)
        fail("acct");
    execvp(command[0], command);
    fail(command[0]);
}

static void report(const char *path, double started, double before)
{
    struct rusage self, children;
    long long own_peak_kb = own_value("/proc/self/status", "VmHWM:");
    long long read_bytes = own_value("/proc/self/io", "read_bytes:");
    long long write_bytes = own_value("/proc/self/io", "write_bytes:");
    FILE *file = fopen(path, "we");

    if (!file)
        fail(path);
    getrusage(RUSAGE_CHILDREN, &children);
    fprintf(file, "peak_rss_kb %lld\n",
            own_peak_kb > children.ru_maxrss ? own_peak_kb : (long long)children.ru_maxrss);
    fprintf(file, "read_bytes %lld\nwrite_bytes %lld\n", read_bytes, write_bytes);
    fprintf(file, "cpu_before_seconds %.9f\n", before);
    fprintf(file, "wall_seconds %.6f\n", now_seconds(CLOCK_MONOTONIC) - started);
    /* last, because this process uses CPU time until its end */
    getrusage(RUSAGE_SELF, &self);
    fprintf(file, "user_seconds %.6f\nsystem_seconds %.6f\n",
            seconds(self.ru_utime) + seconds(children.ru_utime),
            seconds(self.ru_stime) + seconds(children.ru_stime));
    if (fclose(file) != 0)
        fail(path);
}

int main(int argc, char **argv)
{
    const char *cgroup = NULL, *accounting = NULL;
    double started = now_seconds(CLOCK_MONOTONIC), before = 0;
    int option, status;

    while ((option = getopt(argc, argv, "+g:n:")) != -1) {
        if (option == 'g')
            cgroup = optarg;
        else if (option == 'n')
            accounting = optarg;
        else
            return 99;
    }
    if (argc - optind < 2) {
        fprintf(stderr, "usage: witness [-g CGROUP] [-n ACCOUNTING] FILE COMMAND [ARGUMENT…]\n");
        return 99;
    }
    if (cgroup) {
        join(cgroup);
        before = now_seconds(CLOCK_PROCESS_CPUTIME_ID);
    }
    if (accounting && unshare(CLONE_NEWPID) < 0)
        fail("unshare");
    pid_t pid = fork();
    if (pid < 0)
        fail("fork");
    if (pid == 0)
        run(argv + optind + 1, accounting);
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            fail("waitpid");
    report(argv[optind], started, before);
    if (WIFSIGNALED(status))
        return 128 + WTERMSIG(status);
    return WEXITSTATUS(status);
}
