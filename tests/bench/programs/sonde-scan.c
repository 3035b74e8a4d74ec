/* sonde's procfs collector, as a worker.
 *
 *   sonde-scan kept      readings, files kept open while the default budget lasts
 *   sonde-scan anew      readings, no file kept open
 *   sonde-scan snapshot  a finished snapshot, rates and all, files kept open
 *   sonde-scan kernel    readings by the kernel collector
 *   sonde-scan kernel-snapshot  a finished snapshot by it
 */
#include <stdlib.h>
#include <string.h>

#include "config/paths.h"
#include "probe/procfs.h"
#include "sample/collector.h"
#include "worker.h"

static struct procfs *procfs;
static struct readings readings;
static struct collector *collector;
static struct kernel_probe *kernel;

static void check(int r)
{
    if (r < 0) {
        fprintf(stderr, "sonde-scan: %s\n", strerror(-r));
        exit(1);
    }
}

static size_t scan(void *context)
{
    size_t total;

    (void)context;
    check(procfs_scan(procfs, NULL, NULL, &readings, &total));
    return readings.count;
}

static size_t walk(void *context)
{
    size_t total;

    (void)context;
    check(kernel_probe_scan(kernel, NULL, NULL, &readings, &total));
    return readings.count;
}

static void open_kernel(void)
{
    struct kernel_probe_error refusal = {.text = ""};

    if (kernel_probe_open(&(struct kernel_probe_options){.proc_root = PROC_ROOT}, &kernel,
                          &refusal) < 0) {
        fprintf(stderr, "sonde-scan: no kernel collector: %s\n", refusal.text);
        exit(1);
    }
}

static size_t take(void *context)
{
    const struct collect_request request = {0};
    struct snapshot *snapshot;
    struct moment moment;

    (void)context;
    check(collector_take(collector, &request, &snapshot, &moment));
    size_t count = snapshot->processes.count;
    snapshot_free(snapshot);
    return count;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";

    if (strcmp(mode, "snapshot") == 0) {
        check(collector_new(&(struct collector_options){0}, &collector));
        return worker_serve(take, NULL);
    }
    if (strncmp(mode, "kernel", 6) == 0) {
        open_kernel();
        if (strcmp(mode, "kernel") == 0)
            return worker_serve(walk, NULL);
        check(collector_new(&(struct collector_options){0}, &collector));
        collector_use_kernel(collector, kernel);
        return worker_serve(take, NULL);
    }
    check(procfs_new("/proc", strcmp(mode, "kept") == 0 ? procfs_default_budget() : 0, &procfs));
    return worker_serve(scan, NULL);
}
