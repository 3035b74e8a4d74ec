/* A program that monitors itself with libsonde while it carries out the given steps. It prints what
 * libsonde and what the kernel report, as JSON, one line each.
 *
 *     planted INTERVAL STEP…
 *
 * STEP is hold:MB:MS (allocates and touches MB for MS, then frees it), keep:MB (does not free it),
 * burn:MS (of CPU time), sleep:MS, or fork:MS (a child that uses this CPU time and is reaped). The
 * mean of the memory comes from a second observer, a thread that reads statm every 2 ms. */
#include <sonde/sonde.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static atomic_bool is_over;
static double observed_sum, observed_sec;

static double now_sec(clockid_t clock)
{
    struct timespec ts;
    clock_gettime(clock, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void nap(long ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static double resident_mb(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    long pages = 0;

    if (!file || fscanf(file, "%*d %ld", &pages) != 1)
        abort();
    fclose(file);
    return (double)pages * (double)sysconf(_SC_PAGESIZE) / 1048576;
}

static void *observe(void *unused)
{
    double last = now_sec(CLOCK_MONOTONIC);

    (void)unused;
    while (!atomic_load(&is_over)) {
        nap(2);
        double now = now_sec(CLOCK_MONOTONIC);
        observed_sum += resident_mb() * (now - last);
        observed_sec += now - last;
        last = now;
    }
    return NULL;
}

static char *take(size_t mb)
{
    char *memory = mmap(NULL, mb << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        abort();
    memset(memory, 1, mb << 20);
    return memory;
}

static void burn(long ms)
{
    double until = now_sec(CLOCK_PROCESS_CPUTIME_ID) + (double)ms / 1e3;

    while (now_sec(CLOCK_PROCESS_CPUTIME_ID) < until)
        ;
}

static void do_step(const char *step)
{
    long mb, ms;

    if (sscanf(step, "hold:%ld:%ld", &mb, &ms) == 2) {
        char *memory = take((size_t)mb);
        nap(ms);
        munmap(memory, (size_t)mb << 20);
    } else if (sscanf(step, "keep:%ld", &mb) == 1) {
        take((size_t)mb);
    } else if (sscanf(step, "burn:%ld", &ms) == 1) {
        burn(ms);
    } else if (sscanf(step, "sleep:%ld", &ms) == 1) {
        nap(ms);
    } else if (sscanf(step, "fork:%ld", &ms) == 1) {
        pid_t child = fork();
        if (child == 0) {
            burn(ms);
            _exit(0);
        }
        waitpid(child, NULL, 0);
    } else {
        abort();
    }
}

static double cpu_seconds(int who)
{
    struct rusage usage;

    getrusage(who, &usage);
    return (double)usage.ru_utime.tv_sec + (double)usage.ru_stime.tv_sec +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

static void check(int r, const struct sonde_error *error)
{
    if (r >= 0)
        return;
    fprintf(stderr, "planted: %s\n", error->text);
    exit(1);
}

int main(int argc, char **argv)
{
    struct sonde_options options = SONDE_OPTIONS_INIT;
    struct sonde_monitor *monitor;
    struct sonde_summary summary;
    struct sonde_timing timing;
    struct sonde_error error = {{0}};
    struct rusage usage;
    pthread_t observer;
    char *json;

    if (argc < 2)
        return 2;
    options.interval_sec = atof(argv[1]);
    options.flags = getenv("PLANTED_DESCENDANTS") ? SONDE_DESCENDANTS : 0;
    check(sonde_monitor_new(&options, &monitor, &error), &error);
    pthread_create(&observer, NULL, observe, NULL);

    check(sonde_monitor_start(monitor, &error), &error);
    double before_mb = resident_mb();
    double own = cpu_seconds(RUSAGE_SELF), children = cpu_seconds(RUSAGE_CHILDREN);
    for (int i = 2; i < argc; i++)
        do_step(argv[i]);
    own = cpu_seconds(RUSAGE_SELF) - own;
    children = cpu_seconds(RUSAGE_CHILDREN) - children;
    double growth_mb = resident_mb() - before_mb;
    sonde_monitor_stop(monitor);
    getrusage(RUSAGE_SELF, &usage);
    atomic_store(&is_over, true);
    pthread_join(observer, NULL);

    sonde_monitor_summary(monitor, &summary);
    sonde_monitor_timing(monitor, &timing);
    check(sonde_summary_to_json(&summary, &json), &error);
    puts(json);
    printf("{\"maxrss_mb\":%.6f,\"own_seconds\":%.6f,\"children_seconds\":%.6f,"
           "\"growth_mb\":%.6f,\"mean_mb\":%.6f,\"missed\":%llu}\n",
           (double)usage.ru_maxrss / 1024, own, children, growth_mb, observed_sum / observed_sec,
           (unsigned long long)timing.missed);
    sonde_free(json);
    sonde_monitor_free(monitor);
    return 0;
}
