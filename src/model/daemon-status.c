#include "model/daemon-status.h"

#include "base/macros.h"
#include "model/snapshot.h"

static const char *const pressure_names[] = {
    [PRESSURE_UNKNOWN] = NULL,    [PRESSURE_NONE] = "none", [PRESSURE_LOW] = "low",
    [PRESSURE_MEDIUM] = "medium", [PRESSURE_HIGH] = "high", [PRESSURE_CRITICAL] = "critical",
};

static const struct field daemon_losses_fields[] = {
#define FIELD(member, type, ...) FIELD_OF(struct daemon_losses, member, type, __VA_ARGS__)
    FIELD(failed_collections, FIELD_INT, .unit = UNIT_COUNT,
          .meaning = "times that nothing could be read"),
    FIELD(failed_detections, FIELD_INT, .unit = UNIT_COUNT,
          .meaning = "times that anomalies could not be looked for"),
    FIELD(missed_ticks, FIELD_INT, .unit = UNIT_COUNT, .meaning = "snapshots that came too late"),
    FIELD(lost_event_batches, FIELD_INT, .unit = UNIT_COUNT,
          .meaning = "times that the kernel's queue of events overflowed"),
    FIELD(snapshots_not_stored, FIELD_INT, .unit = UNIT_COUNT,
          .meaning = "snapshots that were taken and not kept"),
    FIELD(events_not_stored, FIELD_INT, .unit = UNIT_COUNT,
          .meaning = "events that happened and were not kept"),
    FIELD(stream_events_dropped, FIELD_INT, .unit = UNIT_COUNT,
          .meaning = "for subscribers that did not read"),
    FIELD(stream_bytes_dropped, FIELD_INT, .unit = UNIT_BYTES,
          .meaning = "for subscribers that did not read"),
    FIELD(subscribers_disabled, FIELD_INT, .unit = UNIT_COUNT,
          .meaning = "for failing too often in a row"),
    FIELD(connections_refused, FIELD_INT, .unit = UNIT_COUNT,
          .meaning = "for want of room, or of permission"),
#undef FIELD
};
static const struct record daemon_losses_record =
    RECORD_OF(struct daemon_losses, "DaemonLosses", daemon_losses_fields);

static const struct field daemon_status_fields[] = {
#define FIELD(member, type, ...) FIELD_OF(struct daemon_status, member, type, __VA_ARGS__)
    FIELD(version, FIELD_TEXT, .required = true, .meaning = "of the daemon"),
    FIELD(pid, FIELD_INT, .required = true, .meaning = "its process id"),
    FIELD(started_at, FIELD_REAL, .unit = UNIT_EPOCH, .resolution = 0.001,
          .meaning = "when it started"),
    FIELD(uptime_seconds, FIELD_REAL, .unit = UNIT_SECONDS, .resolution = 0.001,
          .meaning = "for how long it has been running"),
    FIELD(host, FIELD_TEXT, .meaning = "name of the machine"),
    FIELD(socket, FIELD_TEXT, .meaning = "where it listens"),
    FIELD(config_file, FIELD_TEXT, .meaning = "its configuration; null: built-in defaults"),
    FIELD(interval_seconds, FIELD_REAL, .unit = UNIT_SECONDS,
          .meaning = "time between two snapshots"),
    FIELD(scope, FIELD_TEXT, .meaning = "what is stored and published: jobs or all"),
    FIELD(collector, FIELD_TEXT, .meaning = "where the facts come from"),
    FIELD(collector_reason, FIELD_TEXT, .meaning = "why it is this one, in words"),
    FIELD(exact, FIELD_TEXTS, .meaning = "what is exact with it"),
    FIELD(not_exact, FIELD_TEXTS, .meaning = "what is not, and why"),
    FIELD(tracer_pids, FIELD_INTS, .meaning = "its tracers"),
    FIELD(strace, FIELD_TEXT, .meaning = "where it is, or why there is none"),
    FIELD(gpu, FIELD_TEXT, .meaning = "where its figures come from, or why there are none"),
    FIELD(connections, FIELD_INT, .unit = UNIT_COUNT, .meaning = "open at the moment"),
    FIELD(subscribers, FIELD_INT, .unit = UNIT_COUNT, .meaning = "streams at the moment"),
    FIELD(running_jobs, FIELD_INT, .unit = UNIT_COUNT, .meaning = "runs that go on"),
    FIELD(active_sheets, FIELD_INT, .unit = UNIT_COUNT, .meaning = "steps that go on"),
    FIELD(open_anomalies, FIELD_INT, .unit = UNIT_COUNT, .meaning = "that have not cleared"),
    FIELD(pressure_level, FIELD_ENUM, .names = pressure_names,
          .name_count = ARRAY_SIZE(pressure_names), .meaning = "how full the machine is"),
    FIELD(snapshots, FIELD_INT, .unit = UNIT_COUNT, .meaning = "taken since it started"),
    FIELD(last_snapshot_at, FIELD_REAL, .unit = UNIT_EPOCH, .resolution = 0.001,
          .meaning = "when the last one was taken"),
    FIELD(last_analysis_at, FIELD_REAL, .unit = UNIT_EPOCH, .resolution = 0.001,
          .meaning = "when finished runs were last analyzed on the interval; null: not yet"),
    FIELD(analysis_error, FIELD_TEXT,
          .meaning = "why they could not be the last time; null: they "
                     "could"),
    FIELD(rss_mb, FIELD_REAL, .unit = UNIT_MB, .resolution = 0.001, .meaning = "its own memory"),
    FIELD(cpu_percent, FIELD_REAL, .unit = UNIT_PERCENT, .resolution = 0.01,
          .meaning = "its own CPU"),
    FIELD(collect_ms, FIELD_REAL, .resolution = 0.001,
          .meaning = "milliseconds that the last snapshot took"),
    FIELD(database, FIELD_TEXT, .meaning = "where it stores; null: nowhere"),
    FIELD(database_error, FIELD_TEXT, .meaning = "why not all is stored; null: all of it is"),
    FIELD(jsonl, FIELD_TEXT, .meaning = "its log of snapshots; null: none is written"),
    FIELD(losses, FIELD_RECORD, .record = &daemon_losses_record,
          .meaning = "what could not be kept or delivered"),
    FIELD(gaps, FIELD_RECORDS, .record = &gap_record, .meaning = "the latest"),
#undef FIELD
};
const struct record daemon_status_record =
    RECORD_OF(struct daemon_status, "DaemonStatus", daemon_status_fields);
