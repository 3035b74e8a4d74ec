/* Idles while libsonde samples, and prints the cost for this process.
 *
 *     library-cost bare|self|tree INTERVAL_SECONDS SECONDS [PID]
 *
 * `self` samples this process, `tree` PID and its descendants; `bare` is a thread that wakes up by
 * the same clock and does nothing: the minimum of any sampler. Prints CPU seconds, wall seconds,
 * the samples of that time, and by how much the intervals were off, in µs: median, 99th percentile,
 * worst. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "sonde/sonde.h"

#define SAMPLES_MAX 1000000
#define SETTLE_SEC  0.5

static double times[SAMPLES_MAX];
static size_t count;
static double since; /* when it began to count */
static atomic_bool is_over;

static double now_sec(clockid_t clock)
{
    struct timespec ts;
    clock_gettime(clock, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static struct timespec timespec_of(double seconds)
{
    return (struct timespec){.tv_sec = (time_t)seconds,
                             .tv_nsec = (long)((seconds - floor(seconds)) * 1e9)};
}

static void nap(double seconds)
{
    struct timespec ts = timespec_of(seconds);
    nanosleep(&ts, NULL);
}

static void *wake_up(void *interval)
{
    double due = now_sec(CLOCK_MONOTONIC);

    while (!atomic_load(&is_over) && count < SAMPLES_MAX) {
        due += *(double *)interval;
        struct timespec ts = timespec_of(due);
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL);
        times[count++] = now_sec(CLOCK_MONOTONIC);
    }
    return NULL;
}

static double sit_still(double seconds, double *ret_wall)
{
    nap(SETTLE_SEC);
    double cpu = now_sec(CLOCK_PROCESS_CPUTIME_ID);
    since = now_sec(CLOCK_MONOTONIC);
    nap(seconds);
    *ret_wall = now_sec(CLOCK_MONOTONIC) - since;
    return now_sec(CLOCK_PROCESS_CPUTIME_ID) - cpu;
}

static double run_bare(double interval, double seconds, double *ret_wall)
{
    pthread_t thread;

    pthread_create(&thread, NULL, wake_up, &interval);
    double cpu = sit_still(seconds, ret_wall);
    atomic_store(&is_over, true);
    pthread_join(thread, NULL);
    return cpu;
}

static double run_monitor(double interval, double seconds, int pid, double *ret_wall)
{
    struct sonde_options options = SONDE_OPTIONS_INIT;
    struct sonde_monitor *monitor;
    struct sonde_sample *samples;
    struct sonde_error error;

    options.interval_sec = interval;
    options.pid = pid;
    options.flags = pid ? SONDE_DESCENDANTS : 0;
    options.max_samples = SAMPLES_MAX;
    if (sonde_monitor_new(&options, &monitor, &error) < 0 ||
        sonde_monitor_start(monitor, &error) < 0) {
        fprintf(stderr, "library-cost: %s\n", error.text);
        exit(1);
    }
    double cpu = sit_still(seconds, ret_wall);
    sonde_monitor_stop(monitor);
    if (sonde_monitor_samples(monitor, &samples, &count) < 0)
        exit(1);
    count--; /* the last sample is taken at the stop, not by the clock */
    for (size_t i = 0; i < count; i++)
        times[i] = samples[i].timestamp;
    sonde_free(samples);
    sonde_monitor_free(monitor);
    return cpu;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    double wall, cpu;

    if (argc < 4)
        return 2;
    double interval = atof(argv[2]), seconds = atof(argv[3]);
    if (strcmp(argv[1], "bare") == 0)
        cpu = run_bare(interval, seconds, &wall);
    else
        cpu = run_monitor(interval, seconds, argc > 4 ? atoi(argv[4]) : 0, &wall);

    size_t intervals = count - 1, counted = 0;
    for (size_t i = 0; i < count; i++)
        counted += times[i] >= since && times[i] < since + wall;
    for (size_t i = 0; i < intervals; i++)
        times[i] = fabs(times[i + 1] - times[i] - interval) * 1e6;
    qsort(times, intervals, sizeof(*times), compare);
    printf("%.9f %.9f %zu %.1f %.1f %.1f\n", cpu, wall, counted, times[intervals / 2],
           times[intervals * 99 / 100], times[intervals - 1]);
    return 0;
}
