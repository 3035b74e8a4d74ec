/* Samples one process at a fixed interval with sonde's collector, and reads its ticks at the same
 * times.
 *
 *   busy-samples PID INTERVAL_MS COUNT
 *
 * Prints a line per interval: cpu_percent by sonde, by the ticks of /proc/PID/stat, and the
 * milliseconds for which the process was ready to run but had no core. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sample/collector.h"

/* The figures of the process in the kernel's files. */
struct view {
    uint64_t mono_ns;
    uint64_t cpu_ticks;
    uint64_t waited_ns;
};

static void check(int r)
{
    if (r < 0) {
        fprintf(stderr, "busy-samples: %s\n", strerror(-r));
        exit(1);
    }
}

static struct view look_at(pid_t pid)
{
    struct view view = {0};
    char path[64];
    unsigned long long user = 0, system = 0, waited = 0;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (!file || fscanf(file, "%*d %*s %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu",
                        &user, &system) != 2)
        check(-ESRCH);
    view.mono_ns = clock_mono_ns();
    fclose(file);
    snprintf(path, sizeof(path), "/proc/%d/schedstat", (int)pid);
    file = fopen(path, "r");
    if (file) { /* not every kernel has it */
        if (fscanf(file, "%*u %llu", &waited) != 1)
            waited = 0;
        fclose(file);
    }
    view.cpu_ticks = user + system;
    view.waited_ns = waited;
    return view;
}

static double sonde_percent(struct collector *collector, pid_t pid)
{
    const struct collect_request request = {.pids = &pid, .pid_count = 1};
    struct snapshot *snapshot;
    struct moment moment;

    check(collector_take(collector, &request, &snapshot, &moment));
    if (snapshot->processes.count != 1)
        check(-ESRCH);
    double percent = snapshot->processes.items[0].cpu_percent;
    snapshot_free(snapshot);
    return percent;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    pid_t pid = (pid_t)atoi(argv[1]);
    uint64_t interval_ns = strtoull(argv[2], NULL, 10) * NS_PER_MSEC;
    double ns_per_tick = 1e9 / (double)sysconf(_SC_CLK_TCK);
    struct collector *collector;

    check(collector_new(&(struct collector_options){0}, &collector));
    /* The start causes interrupts, also on the core of the busy loop. */
    sonde_percent(collector, pid);
    nanosleep(&(struct timespec){.tv_nsec = 300 * NS_PER_MSEC}, NULL);
    sonde_percent(collector, pid);
    struct view last = look_at(pid);
    uint64_t next_ns = last.mono_ns;
    for (int left = atoi(argv[3]); left > 0; left--) {
        next_ns += interval_ns;
        struct timespec until = {.tv_sec = (time_t)(next_ns / NS_PER_SEC),
                                 .tv_nsec = (long)(next_ns % NS_PER_SEC)};
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
            ;
        double percent = sonde_percent(collector, pid);
        struct view view = look_at(pid);
        printf("%.3f %.3f %.3f\n", percent,
               100 * (double)(view.cpu_ticks - last.cpu_ticks) * ns_per_tick /
                   (double)(view.mono_ns - last.mono_ns),
               (double)(view.waited_ns - last.waited_ns) / 1e6);
        last = view;
    }
    collector_free(collector);
    return 0;
}
