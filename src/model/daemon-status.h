/* DaemonStatus: the state of the daemon, and which of its figures are exact. */
#pragma once

#include "model/gap.h"

/* Counts of data that could not be stored or delivered. */
struct daemon_losses {
    int64_t failed_collections;
    int64_t failed_detections;
    int64_t missed_ticks;
    int64_t lost_event_batches; /* overflows of the kernel's event queue */
    int64_t skipped_readings;
    int64_t snapshots_not_stored;
    int64_t events_not_stored;
    int64_t stream_events_dropped; /* because subscribers did not read */
    int64_t stream_bytes_dropped;
    int64_t subscribers_disabled;
    int64_t connections_refused;
};

struct daemon_status {
    const char *version;
    int64_t pid;
    double started_at;
    double uptime_seconds;
    const char *host;
    const char *socket;
    const char *config_file; /* NULL: built-in defaults */
    double interval_seconds;
    const char *scope;
    const char *collector;
    const char *collector_reason; /* why this collector is used */
    struct text_list exact;       /* figures that are exact with this collector */
    struct text_list not_exact;   /* figures that are not exact, and how they are found */
    struct int_list tracer_pids;
    const char *strace; /* its path, or why it is not available */
    const char *gpu;
    int64_t connections;
    int64_t subscribers;
    int64_t running_jobs;
    int64_t active_sheets;
    int64_t open_anomalies;
    int pressure_level; /* enum pressure */
    int64_t snapshots;  /* number taken */
    double last_snapshot_at;
    double last_analysis_at;
    const char *analysis_error;
    double rss_mb;
    double cpu_percent;
    double collect_ms;
    const char *database;
    const char *database_error; /* NULL: everything is stored */
    const char *jsonl;
    struct daemon_losses losses;
    struct gap_list gaps; /* the latest */
};

extern const struct record daemon_status_record;
