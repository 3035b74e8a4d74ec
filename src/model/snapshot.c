#include "model/snapshot.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/macros.h"

static const struct field gpu_metric_fields[] = {
#define FIELD(member, type, ...) FIELD_OF(struct gpu_metric, member, type, __VA_ARGS__)
    FIELD(index, FIELD_INT, .required = true, .origin = "gpu", .meaning = "index of the device"),
    FIELD(utilization_pct, FIELD_REAL, .rollup = ROLLUP_MEAN, .unit = UNIT_PERCENT, .origin = "gpu",
          .resolution = 0.1, .meaning = "share of time in which it was busy"),
    FIELD(memory_used_mb, FIELD_REAL, .rollup = ROLLUP_MEAN, .unit = UNIT_MB, .origin = "gpu",
          .resolution = 0.01, .meaning = "memory in use"),
    FIELD(memory_total_mb, FIELD_REAL, .unit = UNIT_MB, .origin = "gpu", .resolution = 0.01,
          .meaning = "total memory"),
    FIELD(temperature_c, FIELD_REAL, .rollup = ROLLUP_MEAN, .unit = UNIT_CELSIUS, .origin = "gpu",
          .resolution = 0.1, .meaning = "temperature"),
    FIELD(name, FIELD_TEXT, .origin = "gpu", .meaning = "name that the driver reports"),
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
    FIELD(job_id, FIELD_TEXT, .required = true, .origin = "scheduler",
          .meaning = "name of the job"),
    FIELD(run_id, FIELD_TEXT, .origin = "jobs", .meaning = "id of the run"),
    FIELD(total_sheets, FIELD_INT, .unit = UNIT_COUNT, .origin = "scheduler",
          .meaning = "number of steps"),
    FIELD(last_completed_sheet, FIELD_INT, .origin = "scheduler", .meaning = "last completed step"),
    FIELD(current_sheet, FIELD_INT, .origin = "scheduler", .meaning = "current step"),
    FIELD(status, FIELD_TEXT, .holds_command = true, .origin = "scheduler",
          .meaning = "text of the scheduler"),
#undef FIELD
};
const struct record job_progress_record =
    RECORD_OF(struct job_progress, "JobProgress", job_progress_fields);

static const struct field job_usage_fields[] = {
#define FIELD(member, type, ...) FIELD_OF(struct job_usage, member, type, __VA_ARGS__)
    FIELD(job_id, FIELD_TEXT, .required = true, .origin = "jobs", .meaning = "name of the job"),
    FIELD(
        cpu_percent, FIELD_REAL, .rollup = ROLLUP_MEAN, .unit = UNIT_PERCENT, .origin = "ledger",
        .resolution = 0.01,
        .meaning =
            "CPU use over the last interval, including children that started and ended within it"),
    FIELD(cpu_seconds, FIELD_REAL, .unit = UNIT_SECONDS, .origin = "ledger", .resolution = 0.001,
          .meaning = "CPU time so far"),
    FIELD(rss_mb, FIELD_REAL, .rollup = ROLLUP_MEAN, .unit = UNIT_MB, .origin = "statm",
          .resolution = 0.001, .meaning = "sum of RSS, with shared pages counted in each process"),
    FIELD(unique_min_mb, FIELD_REAL, .rollup = ROLLUP_MEAN, .unit = UNIT_MB, .origin = "ledger",
          .resolution = 0.001,
          .meaning = "memory of all processes with shared pages counted once: lower end"),
    FIELD(unique_mb, FIELD_REAL, .rollup = ROLLUP_MEAN, .unit = UNIT_MB, .origin = "ledger",
          .resolution = 0.001,
          .meaning = "memory of all processes with shared pages counted once: upper end"),
    FIELD(processes, FIELD_INT, .unit = UNIT_COUNT, .origin = "jobs",
          .meaning = "number of living processes"),
    FIELD(run_id, FIELD_TEXT, .origin = "jobs", .meaning = "run of the job"),
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

const char *const pressure_names[PRESSURE_COUNT] = {
    [PRESSURE_UNKNOWN] = NULL,    [PRESSURE_NONE] = "none", [PRESSURE_LOW] = "low",
    [PRESSURE_MEDIUM] = "medium", [PRESSURE_HIGH] = "high", [PRESSURE_CRITICAL] = "critical",
};

static const struct field snapshot_fields[] = {
#define FIELD(member, type, ...) FIELD_OF(struct snapshot, member, type, __VA_ARGS__)
    FIELD(timestamp, FIELD_REAL, .required = true, .unit = UNIT_EPOCH, .origin = "wall clock",
          .resolution = 0.001, .meaning = "time of the snapshot"),
    FIELD(daemon_pid, FIELD_INT, .origin = "sonde", .meaning = "sonde's own process id"),
    FIELD(system_memory_total_mb, FIELD_REAL, .unit = UNIT_MB, .origin = "meminfo, cgroup",
          .resolution = 0.01, .meaning = "memory of the machine, or the cgroup's limit if smaller"),
    FIELD(system_memory_available_mb, FIELD_REAL, .rollup = ROLLUP_MEAN, .unit = UNIT_MB,
          .origin = "meminfo, cgroup", .resolution = 0.01,
          .meaning = "memory available to a new process"),
    FIELD(system_memory_used_mb, FIELD_REAL, .rollup = ROLLUP_MEAN, .unit = UNIT_MB,
          .origin = "meminfo, cgroup", .resolution = 0.01, .meaning = "total minus available"),
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
          .name_count = PRESSURE_COUNT, .meaning = "pressure level"),
    FIELD(running_jobs, FIELD_INT, .unit = UNIT_COUNT, .origin = "jobs",
          .meaning = "number of running jobs"),
    FIELD(active_sheets, FIELD_INT, .unit = UNIT_COUNT, .origin = "jobs",
          .meaning = "number of active steps"),
    FIELD(zombie_count, FIELD_INT, .unit = UNIT_COUNT, .origin = "stat",
          .meaning = "number of ended processes that have not been reaped"),
    FIELD(zombie_pids, FIELD_INTS, .origin = "stat", .meaning = "their process ids"),
    FIELD(job_progress, FIELD_RECORDS, .record = &job_progress_record,
          .meaning = "progress that schedulers reported about their jobs"),
    FIELD(conductor_uptime_seconds, FIELD_REAL, .unit = UNIT_SECONDS, .origin = "sonde",
          .resolution = 0.01, .meaning = "time since sonde started"),
    FIELD(id, FIELD_INT, .origin = "store", .meaning = "id in the database"),
    FIELD(host, FIELD_TEXT, .origin = "kernel", .meaning = "name of the machine"),
    FIELD(cpu_count, FIELD_REAL, .unit = UNIT_COUNT, .origin = "kernel, cgroup", .resolution = 0.01,
          .meaning = "usable cores"),
    FIELD(system_cpu_percent, FIELD_REAL, .rollup = ROLLUP_MEAN, .unit = UNIT_PERCENT,
          .origin = "stat", .resolution = 0.01,
          .meaning = "CPU use of the machine over the last interval"),
    FIELD(psi, FIELD_RECORD, .record = &psi_record, .meaning = "pressure stall information"),
    FIELD(jobs, FIELD_RECORDS, .record = &job_usage_record, .meaning = "resource use of each job"),
    FIELD(daemon_cpu_percent, FIELD_REAL, .rollup = ROLLUP_MEAN, .unit = UNIT_PERCENT,
          .origin = "CPU clock", .resolution = 0.01,
          .meaning = "sonde's own CPU use over the last interval"),
    FIELD(collect_ms, FIELD_REAL, .rollup = ROLLUP_MEAN, .origin = "sonde", .resolution = 0.001,
          .meaning = "duration of taking this snapshot"),
    FIELD(process_total, FIELD_INT, .unit = UNIT_COUNT, .origin = "sonde",
          .meaning = "number of processes before `profiler.scope` is applied"),
    FIELD(resolution_seconds, FIELD_REAL, .unit = UNIT_SECONDS, .origin = "store",
          .resolution = 0.001,
          .meaning = "time that a stored row covers: 60 for averages of a minute"),
#undef FIELD
};
const struct record snapshot_record = RECORD_OF(struct snapshot, "SystemSnapshot", snapshot_fields);

/* The count is beside the snapshot, so that a copy of the struct does not read it. */
struct shared_snapshot {
    struct snapshot snapshot; /* first: both have the same address */
    atomic_uint references;
};

static struct shared_snapshot *shared_of(const struct snapshot *snapshot)
{
    return (struct shared_snapshot *)(uintptr_t)snapshot;
}

struct snapshot *snapshot_new(void)
{
    struct shared_snapshot *shared = calloc(1, sizeof(*shared));
    if (!shared)
        return NULL;
    record_init(&snapshot_record, &shared->snapshot);
    atomic_init(&shared->references, 1);
    return &shared->snapshot;
}

void snapshot_free(struct snapshot *snapshot)
{
    if (!snapshot)
        return;
    arena_done(&snapshot->arena);
    free(shared_of(snapshot));
}

const struct snapshot *snapshot_ref(const struct snapshot *snapshot)
{
    atomic_fetch_add_explicit(&shared_of(snapshot)->references, 1, memory_order_relaxed);
    return snapshot;
}

/* The thread that drops the last reference sees all reads of the others as done. */
void snapshot_unref(const struct snapshot *snapshot)
{
    if (snapshot &&
        atomic_fetch_sub_explicit(&shared_of(snapshot)->references, 1, memory_order_acq_rel) == 1)
        snapshot_free(&shared_of(snapshot)->snapshot);
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
    /* Milliseconds, then three digits of the writer: unique among a thousand writers, and still
     * exact in a double, which JSON readers use. */
    int64_t id = (int64_t)floor(timestamp * 1000) * 1000 + tag % 1000;
    return id > previous ? id : previous + 1000;
}
