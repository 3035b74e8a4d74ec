/* Measures two phases of a program. Build and run:
 *
 *     cc -o monitor monitor.c $(pkg-config --cflags --libs sonde) && ./monitor
 */
#include <sonde/sonde.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static volatile unsigned long sink;

static void load(void)
{
    size_t size = (size_t)64 << 20;
    char *table = malloc(size);

    if (!table)
        return;
    memset(table, 1, size);
    sink += (unsigned long)table[size / 2];
    free(table);
}

static void compute(void)
{
    for (unsigned long i = 0; i < 100000000; i++)
        sink += i;
}

static int fail(const char *what, const struct sonde_error *error)
{
    fprintf(stderr, "%s: %s\n", what, error->text);
    return 1;
}

int main(void)
{
    struct sonde_monitor *monitor;
    struct sonde_summary summary;
    struct sonde_phase *phases;
    struct sonde_error error;
    size_t count;
    char *json;

    if (sonde_monitor_new(NULL, &monitor, &error) < 0)
        return fail("sonde_monitor_new", &error);
    if (sonde_monitor_start(monitor, &error) < 0)
        return fail("sonde_monitor_start", &error);
    if (sonde_monitor_mark(monitor, "load", &error) < 0)
        return fail("sonde_monitor_mark", &error);
    load();
    if (sonde_monitor_mark(monitor, "compute", &error) < 0)
        return fail("sonde_monitor_mark", &error);
    compute();
    sonde_monitor_stop(monitor);

    if (sonde_monitor_phases(monitor, &phases, &count) < 0)
        return 1;
    for (size_t i = 0; i < count; i++)
        printf("%-8s %6.1f MB peak, %.3f s CPU\n", phases[i].name, phases[i].summary.peak_rss_mb,
               phases[i].summary.cpu_seconds);
    sonde_free(phases);

    sonde_monitor_summary(monitor, &summary);
    if (sonde_summary_to_json(&summary, &json) < 0)
        return 1;
    puts(json);
    sonde_free(json);
    sonde_monitor_free(monitor);
    return 0;
}
