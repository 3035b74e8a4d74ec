/* DaemonStatus: how the daemon is doing, and how far what it tells can be trusted. */
#pragma once

#include "model/gap.h"

/* What could not be kept or delivered. */
struct daemon_losses {
    int64_t failed_collections;
    int64_t failed_detections;
    int64_t missed_ticks;
    int64_t lost_event_batches; /* times that the kernel's queue of events overflowed */
    int64_t snapshots_not_stored;
    int64_t events_not_stored;
    int64_t stream_events_dropped; /* for subscribers that did not read */
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
    const char *collector_reason; /* why this one */
    struct text_list exact;       /* what is exact with it */
    struct text_list not_exact;   /* what is not, and why */
    struct int_list tracer_pids;
    const char *strace; /* where it is, or why there is none */
    const char *gpu;
    int64_t connections;
    int64_t subscribers;
    int64_t running_jobs;
    int64_t active_sheets;
    int64_t open_anomalies;
    int pressure_level; /* enum pressure */
    int64_t snapshots;  /* taken */
    double last_snapshot_at;
    double last_analysis_at;
    const char *analysis_error;
    double rss_mb;
    double cpu_percent;
    double collect_ms;
    const char *database;
    const char *database_error; /* why not all is stored; NULL: all of it is */
    const char *jsonl;
    struct daemon_losses losses;
    struct gap_list gaps; /* the latest */
};

extern const struct record daemon_status_record;
