/* SystemSnapshot: the machine and its processes at one moment.
 *
 * A snapshot owns everything that it points to. Its maker completes it; a finished snapshot (const)
 * never changes again, so threads share it by references. */
#pragma once

#include "model/process.h"

struct gpu_metric {
    int64_t index;
    double utilization_pct;
    double memory_used_mb;
    double memory_total_mb;
    double temperature_c;
    const char *name;
    const char *vendor;
    double clock_mhz;
    double power_w;
};

struct job_progress {
    const char *job_id;
    const char *run_id;
    int64_t total_sheets;
    int64_t last_completed_sheet;
    int64_t current_sheet;
    const char *status;
};

/* Resource use of a whole job: CPU from the ledger, memory as the sum over its processes. */
struct job_usage {
    const char *job_id;
    double cpu_percent;
    double cpu_seconds;
    double rss_mb;
    double unique_min_mb;
    double unique_mb;
    int64_t processes;
    const char *run_id;
    int64_t uid; /* owner of the run; not a field: it decides who may see the job */
};

struct psi_line {
    double some_avg10;
    double full_avg10;
};

struct psi {
    struct psi_line cpu;
    struct psi_line memory;
    struct psi_line io;
};

enum pressure {
    PRESSURE_UNKNOWN,
    PRESSURE_NONE,
    PRESSURE_LOW,
    PRESSURE_MEDIUM,
    PRESSURE_HIGH,
    PRESSURE_CRITICAL,
    PRESSURE_COUNT,
};

extern const char *const pressure_names[PRESSURE_COUNT];

struct process_list LIST(struct process_metric);
struct gpu_list LIST(struct gpu_metric);
struct job_usage_list LIST(struct job_usage);
struct job_progress_list LIST(struct job_progress);

struct snapshot {
    double timestamp;
    int64_t daemon_pid;
    double system_memory_total_mb;
    double system_memory_available_mb;
    double system_memory_used_mb;
    double daemon_rss_mb;
    double load_avg_1;
    double load_avg_5;
    double load_avg_15;
    struct process_list processes;
    struct gpu_list gpus;
    int pressure_level; /* enum pressure */
    int64_t running_jobs;
    int64_t active_sheets;
    int64_t zombie_count;
    struct int_list zombie_pids;
    struct job_progress_list job_progress;
    double conductor_uptime_seconds;
    int64_t id;
    const char *host;
    double cpu_count; /* usable cores; a cgroup may allow 1.5 */
    double system_cpu_percent;
    struct psi psi;
    struct job_usage_list jobs;
    double jobs_unique_mb; /* of all jobs together, at most; not a field: it decides the pressure */
    double daemon_cpu_percent;
    double collect_ms;
    int64_t process_total;
    double resolution_seconds;

    struct arena arena; /* owns every text and list above */
};

extern const struct record gpu_metric_record;
extern const struct record job_progress_record;
extern const struct record job_usage_record;
extern const struct record snapshot_record;

/* Returns a snapshot with all fields unknown and one reference, or NULL if out of memory. */
struct snapshot *snapshot_new(void);
/* Adds a reference to a finished snapshot, in any thread. */
const struct snapshot *snapshot_ref(const struct snapshot *snapshot);
/* Drops a reference, in any thread; the last one frees the snapshot. NULL is allowed. */
void snapshot_unref(const struct snapshot *snapshot);
/* Free a snapshot that is not shared. */
void snapshot_free(struct snapshot *snapshot);
void snapshot_freep(struct snapshot **snapshot);

struct snapshot_list LIST(struct snapshot *);

/* Frees the snapshots and the list. */
void snapshot_list_done(struct snapshot_list *list);

/* Returns an id for the next snapshot of a writer without a database query. Ids rise with time and
 * are unique among writers. `previous` is the last id, 0 at first; `tag` is a constant of the
 * writer, usually its pid. */
int64_t snapshot_id_next(int64_t previous, double timestamp, unsigned tag);
