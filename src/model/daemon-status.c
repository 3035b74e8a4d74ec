#include "model/daemon-status.h"

#include "model/snapshot.h"

static const struct field daemon_losses_fields[] = {
#define FIELD(member, type, ...) FIELD_OF(struct daemon_losses, member, type, __VA_ARGS__)
    FIELD(failed_collections, FIELD_INT, .unit = UNIT_COUNT, .meaning = "failed snapshots"),
    FIELD(failed_detections, FIELD_INT, .unit = UNIT_COUNT, .meaning = "failed anomaly checks"),
    FIELD(missed_ticks, FIELD_INT, .unit = UNIT_COUNT, .meaning = "missed ticks"),
    FIELD(lost_event_batches, FIELD_INT, .unit = UNIT_COUNT,
          .meaning = "overflows of the kernel's event queue"),
    FIELD(skipped_readings, FIELD_INT, .unit = UNIT_COUNT,
          .meaning =
              "ends of runs and steps that lack a last reading, because others took too much "
              "time"),
    FIELD(snapshots_not_stored, FIELD_INT, .unit = UNIT_COUNT,
          .meaning = "snapshots that were not stored"),
    FIELD(events_not_stored, FIELD_INT, .unit = UNIT_COUNT,
          .meaning = "events that were not stored"),
    FIELD(stream_events_dropped, FIELD_INT, .unit = UNIT_COUNT,
          .meaning = "events dropped because a subscriber did not read"),
    FIELD(stream_bytes_dropped, FIELD_INT, .unit = UNIT_BYTES,
          .meaning = "size of these dropped events"),
    FIELD(subscribers_disabled, FIELD_INT, .unit = UNIT_COUNT,
          .meaning = "subscribers disabled after too many consecutive failures"),
    FIELD(connections_refused, FIELD_INT, .unit = UNIT_COUNT,
          .meaning = "connections rejected: too many, or no permission"),
#undef FIELD
};
static const struct record daemon_losses_record =
    RECORD_OF(struct daemon_losses, "DaemonLosses", daemon_losses_fields);

static const struct field daemon_status_fields[] = {
#define FIELD(member, type, ...) FIELD_OF(struct daemon_status, member, type, __VA_ARGS__)
    FIELD(version, FIELD_TEXT, .required = true, .meaning = "version of the daemon"),
    FIELD(pid, FIELD_INT, .required = true, .meaning = "its process id"),
    FIELD(started_at, FIELD_REAL, .unit = UNIT_EPOCH, .resolution = 0.001,
          .meaning = "when it started"),
    FIELD(uptime_seconds, FIELD_REAL, .unit = UNIT_SECONDS, .resolution = 0.001,
          .meaning = "time since its start"),
    FIELD(host, FIELD_TEXT, .meaning = "name of the machine"),
    FIELD(socket, FIELD_TEXT, .meaning = "path of its socket"),
    FIELD(config_file, FIELD_TEXT, .meaning = "configuration file; null: built-in defaults"),
    FIELD(interval_seconds, FIELD_REAL, .unit = UNIT_SECONDS,
          .meaning = "time between two snapshots"),
    FIELD(scope, FIELD_TEXT, .meaning = "which processes are stored and published: jobs or all"),
    FIELD(collector, FIELD_TEXT, .meaning = "collector: bpf or procfs"),
    FIELD(collector_reason, FIELD_TEXT, .meaning = "why this collector is used, as text"),
    FIELD(exact, FIELD_TEXTS, .meaning = "figures that are exact with this collector"),
    FIELD(not_exact, FIELD_TEXTS, .meaning = "figures that are not exact, and how they are found"),
    FIELD(tracer_pids, FIELD_INTS, .meaning = "process ids of its tracers"),
    FIELD(strace, FIELD_TEXT, .meaning = "path of strace, or why it is not available"),
    FIELD(gpu, FIELD_TEXT, .meaning = "sources of GPU figures, or why there are none"),
    FIELD(connections, FIELD_INT, .unit = UNIT_COUNT, .meaning = "open connections"),
    FIELD(subscribers, FIELD_INT, .unit = UNIT_COUNT, .meaning = "open streams"),
    FIELD(running_jobs, FIELD_INT, .unit = UNIT_COUNT, .meaning = "running jobs"),
    FIELD(active_sheets, FIELD_INT, .unit = UNIT_COUNT, .meaning = "active steps"),
    FIELD(open_anomalies, FIELD_INT, .unit = UNIT_COUNT,
          .meaning = "anomalies that have not cleared"),
    FIELD(pressure_level, FIELD_ENUM, .names = pressure_names, .name_count = PRESSURE_COUNT,
          .meaning = "pressure level"),
    FIELD(snapshots, FIELD_INT, .unit = UNIT_COUNT, .meaning = "snapshots since it started"),
    FIELD(last_snapshot_at, FIELD_REAL, .unit = UNIT_EPOCH, .resolution = 0.001,
          .meaning = "time of the last snapshot"),
    FIELD(last_analysis_at, FIELD_REAL, .unit = UNIT_EPOCH, .resolution = 0.001,
          .meaning = "time of the last scheduled analysis of finished runs; null: none yet"),
    FIELD(analysis_error, FIELD_TEXT, .meaning = "error of the last analysis; null: it succeeded"),
    FIELD(rss_mb, FIELD_REAL, .unit = UNIT_MB, .resolution = 0.001,
          .meaning = "the daemon's own memory"),
    FIELD(cpu_percent, FIELD_REAL, .unit = UNIT_PERCENT, .resolution = 0.01,
          .meaning = "the daemon's own CPU use"),
    FIELD(collect_ms, FIELD_REAL, .resolution = 0.001,
          .meaning = "duration of the last snapshot in milliseconds"),
    FIELD(database, FIELD_TEXT, .meaning = "path of the database; null: nothing is stored"),
    FIELD(database_error, FIELD_TEXT, .meaning = "storage error; null: everything is stored"),
    FIELD(jsonl, FIELD_TEXT, .meaning = "path of the JSON log; null: none"),
    FIELD(losses, FIELD_RECORD, .record = &daemon_losses_record, .meaning = "counts of lost data"),
    FIELD(gaps, FIELD_RECORDS, .record = &gap_record, .meaning = "the latest gaps"),
#undef FIELD
};
const struct record daemon_status_record =
    RECORD_OF(struct daemon_status, "DaemonStatus", daemon_status_fields);
