#include "model/snapshot.h"

#include <math.h>
#include <stdlib.h>

#include "base/macros.h"

static const struct field gpu_metric_fields[] = {
#define FIELD(member, type, ...) FIELD_OF(struct gpu_metric, member, type, __VA_ARGS__)
    FIELD(index, FIELD_INT, .required = true, .origin = "gpu", .meaning = "number of the device"),
    FIELD(utilization_pct, FIELD_REAL, .rollup = ROLLUP_MEAN, .unit = UNIT_PERCENT, .origin = "gpu",
          .resolution = 0.1, .meaning = "share of time it was busy"),
    FIELD(memory_used_mb, FIELD_REAL, .rollup = ROLLUP_MEAN, .unit = UNIT_MB, .origin = "gpu",
          .resolution = 0.01, .meaning = "memory in use"),
    FIELD(memory_total_mb, FIELD_REAL, .unit = UNIT_MB, .origin = "gpu", .resolution = 0.01,
          .meaning = "memory in all"),
    FIELD(temperature_c, FIELD_REAL, .rollup = ROLLUP_MEAN, .unit = UNIT_CELSIUS, .origin = "gpu",
          .resolution = 0.1, .meaning = "temperature"),
    FIELD(name, FIELD_TEXT, .origin = "gpu", .meaning = "what the driver calls it"),
    FIELD(vendor, FIELD_TEXT, .origin = "gpu", .meaning = "NVIDIA, AMD or Intel"),
    FIELD(clock_mhz, FIELD_REAL, .rollup = ROLLUP_MEAN, .unit = UNIT_MHZ, .origin = "gpu",
          .resolution = 1, .meaning = "graphics clock"),
    FIELD(power_w, FIELD_REAL, .rollup = ROLLUP_MEAN, .unit = UNIT_WATT, .origin = "gpu",
          .resolution = 0.01, .meaning = "power draw"),
#undef FIELD
};
const struct record gpu_metric_record =
    RECORD_OF(struct gpu_metric, "GpuMetric", gpu_metric_fields);

static const struct field job_progress_fields[] = {
#define FIELD(member, type, ...) FIELD_OF(struct job_progress, member, type, __VA_ARGS__)
    FIELD(job_id, FIELD_TEXT, .required = true, .origin = "conductor", .meaning = "the job"),
    FIELD(run_id, FIELD_TEXT, .origin = "jobs", .meaning = "its run"),
    FIELD(total_sheets, FIELD_INT, .unit = UNIT_COUNT, .origin = "conductor",
          .meaning = "how many steps it has"),
    FIELD(last_completed_sheet, FIELD_INT, .origin = "conductor", .meaning = "last step done"),
    FIELD(current_sheet, FIELD_INT, .origin = "conductor", .meaning = "step that is running"),
    FIELD(status, FIELD_TEXT, .origin = "conductor", .meaning = "in the conductor's words"),
#undef FIELD
};
const struct record job_progress_record =
    RECORD_OF(struct job_progress, "JobProgress", job_progress_fields);

static const struct field job_usage_fields[] = {
#define FIELD(member, type, ...) FIELD_OF(struct job_usage, member, type, __VA_ARGS__)
    FIELD(job_id, FIELD_TEXT, .required = true, .origin = "jobs", .meaning = "the job"),
    FIELD(cpu_percent, FIELD_REAL, .rollup = ROLLUP_MEAN, .unit = UNIT_PERCENT, .origin = "ledger",
          .resolution = 0.01,
          .meaning = "CPU over the last interval, children that came and went included"),
    FIELD(cpu_seconds, FIELD_REAL, .unit = UNIT_SECONDS, .origin = "ledger", .resolution = 0.001,
          .meaning = "CPU time so far"),
    FIELD(rss_mb, FIELD_REAL, .rollup = ROLLUP_MEAN, .unit = UNIT_MB, .origin = "statm",
          .resolution = 0.001, .meaning = "sum of RSS, shared pages counted in each process"),
    FIELD(unique_mb, FIELD_REAL, .rollup = ROLLUP_MEAN, .unit = UNIT_MB, .origin = "statm",
          .resolution = 0.001,
          .meaning = "sum of RSS less shared, and the largest shared part once"),
    FIELD(processes, FIELD_INT, .unit = UNIT_COUNT, .origin = "jobs", .meaning = "processes alive"),
    FIELD(run_id, FIELD_TEXT, .origin = "jobs", .meaning = "the run of that job"),
#undef FIELD
};
const struct record job_usage_record = RECORD_OF(struct job_usage, "JobUsage", job_usage_fields);

static const struct field psi_line_fields[] = {
#define FIELD(member, type, ...) FIELD_OF(struct psi_line, member, type, __VA_ARGS__)
    FIELD(some_avg10, FIELD_REAL, .rollup = ROLLUP_MEAN, .unit = UNIT_PERCENT, .origin = "pressure",
          .resolution = 0.01, .meaning = "share of the last 10 s in which some task was stalled"),
    FIELD(full_avg10, FIELD_REAL, .rollup = ROLLUP_MEAN, .unit = UNIT_PERCENT, .origin = "pressure",
          .resolution = 0.01, .meaning = "share of the last 10 s in which all tasks were stalled"),
#undef FIELD
};
static const struct record psi_line_record = RECORD_OF(struct psi_line, "PsiLine", psi_line_fields);

static const struct field psi_fields[] = {
#define FIELD(member, type, ...) FIELD_OF(struct psi, member, type, __VA_ARGS__)
    FIELD(cpu, FIELD_RECORD, .record = &psi_line_record, .meaning = "waiting for a CPU"),
    FIELD(memory, FIELD_RECORD, .record = &psi_line_record, .meaning = "waiting for memory"),
    FIELD(io, FIELD_RECORD, .record = &psi_line_record, .meaning = "waiting for storage"),
#undef FIELD
};
static const struct record psi_record = RECORD_OF(struct psi, "Psi", psi_fields);

static const char *const pressure_names[] = {
    [PRESSURE_UNKNOWN] = NULL,    [PRESSURE_NONE] = "none", [PRESSURE_LOW] = "low",
    [PRESSURE_MEDIUM] = "medium", [PRESSURE_HIGH] = "high", [PRESSURE_CRITICAL] = "critical",
};

static const struct field snapshot_fields[] = {
#define FIELD(member, type, ...) FIELD_OF(struct snapshot, member, type, __VA_ARGS__)
    FIELD(timestamp, FIELD_REAL, .required = true, .unit = UNIT_EPOCH, .origin = "wall clock",
          .resolution = 0.001, .meaning = "when it was taken"),
    FIELD(daemon_pid, FIELD_INT, .origin = "sonde", .meaning = "sonde's own process id"),
    FIELD(system_memory_total_mb, FIELD_REAL, .unit = UNIT_MB, .origin = "meminfo, cgroup",
          .resolution = 0.01, .meaning = "memory of the machine, or the cgroup's limit if smaller"),
    FIELD(system_memory_available_mb, FIELD_REAL, .rollup = ROLLUP_MEAN, .unit = UNIT_MB,
          .origin = "meminfo, cgroup", .resolution = 0.01,
          .meaning = "what a new process could still get"),
    FIELD(system_memory_used_mb, FIELD_REAL, .rollup = ROLLUP_MEAN, .unit = UNIT_MB,
          .origin = "meminfo, cgroup", .resolution = 0.01, .meaning = "total less available"),
    FIELD(daemon_rss_mb, FIELD_REAL, .rollup = ROLLUP_MEAN, .unit = UNIT_MB, .origin = "statm",
          .resolution = 0.001, .meaning = "sonde's own memory"),
    FIELD(load_avg_1, FIELD_REAL, .rollup = ROLLUP_MEAN, .origin = "loadavg", .resolution = 0.01,
          .meaning = "load average over 1 minute"),
    FIELD(load_avg_5, FIELD_REAL, .rollup = ROLLUP_MEAN, .origin = "loadavg", .resolution = 0.01,
          .meaning = "load average over 5 minutes"),
    FIELD(load_avg_15, FIELD_REAL, .rollup = ROLLUP_MEAN, .origin = "loadavg", .resolution = 0.01,
          .meaning = "load average over 15 minutes"),
    FIELD(processes, FIELD_RECORDS, .record = &process_metric_record,
          .meaning = "the processes in scope"),
    FIELD(gpus, FIELD_RECORDS, .record = &gpu_metric_record, .meaning = "the GPUs, if any"),
    FIELD(pressure_level, FIELD_ENUM, .origin = "detect", .names = pressure_names,
          .name_count = ARRAY_SIZE(pressure_names), .meaning = "how full the machine is"),
    FIELD(running_jobs, FIELD_INT, .unit = UNIT_COUNT, .origin = "jobs", .meaning = "jobs"),
    FIELD(active_sheets, FIELD_INT, .unit = UNIT_COUNT, .origin = "jobs", .meaning = "steps"),
    FIELD(zombie_count, FIELD_INT, .unit = UNIT_COUNT, .origin = "stat",
          .meaning = "ended processes that nobody has reaped"),
    FIELD(zombie_pids, FIELD_INTS, .origin = "stat", .meaning = "their process ids"),
    FIELD(job_progress, FIELD_RECORDS, .record = &job_progress_record,
          .meaning = "what conductors said of their jobs"),
    FIELD(conductor_uptime_seconds, FIELD_REAL, .unit = UNIT_SECONDS, .origin = "sonde",
          .resolution = 0.01, .meaning = "how long sonde has been running"),
    FIELD(id, FIELD_INT, .origin = "store", .meaning = "its number in the store"),
    FIELD(host, FIELD_TEXT, .origin = "kernel", .meaning = "name of the machine"),
    FIELD(cpu_count, FIELD_REAL, .unit = UNIT_COUNT, .origin = "kernel, cgroup", .resolution = 0.01,
          .meaning = "cores that may be used"),
    FIELD(system_cpu_percent, FIELD_REAL, .rollup = ROLLUP_MEAN, .unit = UNIT_PERCENT,
          .origin = "stat", .resolution = 0.01,
          .meaning = "CPU of the machine over the last interval"),
    FIELD(psi, FIELD_RECORD, .record = &psi_record, .meaning = "pressure stall information"),
    FIELD(jobs, FIELD_RECORDS, .record = &job_usage_record, .meaning = "each job as a whole"),
    FIELD(daemon_cpu_percent, FIELD_REAL, .rollup = ROLLUP_MEAN, .unit = UNIT_PERCENT,
          .origin = "CPU clock", .resolution = 0.01,
          .meaning = "sonde's own CPU over the last interval"),
    FIELD(collect_ms, FIELD_REAL, .rollup = ROLLUP_MEAN, .origin = "sonde", .resolution = 0.001,
          .meaning = "how long it took to take this snapshot"),
    FIELD(process_total, FIELD_INT, .unit = UNIT_COUNT, .origin = "sonde",
          .meaning = "processes seen, before scope left some out"),
    FIELD(resolution_seconds, FIELD_REAL, .unit = UNIT_SECONDS, .origin = "store",
          .resolution = 0.001,
          .meaning = "what it stands for in the store: 60 for a minute's averages"),
#undef FIELD
};
const struct record snapshot_record = RECORD_OF(struct snapshot, "SystemSnapshot", snapshot_fields);

struct snapshot *snapshot_new(void)
{
    struct snapshot *snapshot = calloc(1, sizeof(*snapshot));
    if (snapshot)
        record_init(&snapshot_record, snapshot);
    return snapshot;
}

void snapshot_free(struct snapshot *snapshot)
{
    if (!snapshot)
        return;
    arena_done(&snapshot->arena);
    free(snapshot);
}

void snapshot_freep(struct snapshot **snapshot)
{
    snapshot_free(*snapshot);
}

void snapshot_list_done(struct snapshot_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        snapshot_free(list->items[i]);
    free(list->items);
    *list = (struct snapshot_list){0};
}

int64_t snapshot_id_next(int64_t previous, double timestamp, unsigned tag)
{
    /* Milliseconds, then the writer: unique among a thousand of them, and still exact in a double,
     * for those who read JSON. */
    int64_t id = (int64_t)floor(timestamp * 1000) * 1000 + tag % 1000;
    return id > previous ? id : previous + 1000;
}
