#include "model/event.h"

#include "base/macros.h"

static const char *const event_type_names[] = {
    [EVENT_UNKNOWN] = NULL, [EVENT_SPAWN] = "spawn",   [EVENT_EXEC] = "exec",
    [EVENT_EXIT] = "exit",  [EVENT_SIGNAL] = "signal", [EVENT_KILL] = "kill",
    [EVENT_OOM] = "oom",
};

static const struct field process_event_fields[] = {
#define FIELD(member, type, ...) FIELD_OF(struct process_event, member, type, __VA_ARGS__)
    FIELD(timestamp, FIELD_REAL, .required = true, .unit = UNIT_EPOCH, .resolution = 0.000001,
          .meaning = "when it happened"),
    FIELD(pid, FIELD_INT, .required = true, .meaning = "the process; 0 if none"),
    FIELD(event_type, FIELD_ENUM, .required = true, .names = event_type_names,
          .name_count = ARRAY_SIZE(event_type_names),
          .meaning = "spawn, exec, exit, signal, kill or oom"),
    FIELD(exit_code, FIELD_INT, .meaning = "exit status, if it ended by itself"),
    FIELD(signal_num, FIELD_INT, .meaning = "the signal, if there was one"),
    FIELD(job_id, FIELD_TEXT, .meaning = "the job it belongs to"),
    FIELD(sheet_num, FIELD_INT, .meaning = "the step of that job"),
    FIELD(details, FIELD_TEXT, .meaning = "more, in words"),
    FIELD(ppid, FIELD_INT, .meaning = "its parent"),
    FIELD(command, FIELD_TEXT, .meaning = "its command line"),
    FIELD(sender_pid, FIELD_INT, .meaning = "who sent the signal"),
    FIELD(sender_command, FIELD_TEXT, .meaning = "the sender's command line"),
    FIELD(cpu_seconds, FIELD_REAL, .unit = UNIT_SECONDS, .resolution = 0.000001,
          .meaning = "CPU time over its whole life (exit)"),
    FIELD(peak_rss_mb, FIELD_REAL, .unit = UNIT_MB, .resolution = 0.001,
          .meaning = "its largest RSS (exit)"),
    FIELD(run_id, FIELD_TEXT, .meaning = "the run of that job"),
    FIELD(count, FIELD_INT, .unit = UNIT_COUNT,
          .meaning = "of a storm: how many alike it stands for; CPU time is their sum, RSS the "
                     "largest, `command` the program, `pid` 0. null: it is one"),
    FIELD(first_timestamp, FIELD_REAL, .unit = UNIT_EPOCH, .resolution = 0.000001,
          .meaning = "of a storm: when the first of them happened"),
#undef FIELD
};
const struct record process_event_record =
    RECORD_OF(struct process_event, "ProcessEvent", process_event_fields);

bool event_is_failure(const struct process_event *event)
{
    return event->event_type == EVENT_KILL ||
           (event->event_type == EVENT_EXIT && int_is_known(event->exit_code) &&
            event->exit_code != 0);
}

int64_t event_count(const struct process_event *event)
{
    return int_is_known(event->count) ? event->count : 1;
}

static const char *const severity_names[] = {
    [SEVERITY_UNKNOWN] = NULL, [SEVERITY_LOW] = "low",           [SEVERITY_MEDIUM] = "medium",
    [SEVERITY_HIGH] = "high",  [SEVERITY_CRITICAL] = "critical",
};

static const struct field anomaly_fields[] = {
#define FIELD(member, type, ...) FIELD_OF(struct anomaly, member, type, __VA_ARGS__)
    FIELD(timestamp, FIELD_REAL, .required = true, .unit = UNIT_EPOCH, .resolution = 0.001,
          .meaning = "when it opened"),
    FIELD(anomaly_type, FIELD_TEXT, .required = true, .meaning = "the rule that fired"),
    FIELD(pid, FIELD_INT, .meaning = "the process, if it is about one"),
    FIELD(job_id, FIELD_TEXT, .meaning = "the job it belongs to"),
    FIELD(sheet_num, FIELD_INT, .meaning = "the step of that job"),
    FIELD(description, FIELD_TEXT, .meaning = "what was seen, in words"),
    FIELD(severity, FIELD_ENUM, .names = severity_names, .name_count = ARRAY_SIZE(severity_names),
          .meaning = "low, medium, high or critical"),
    FIELD(metric_value, FIELD_REAL, .meaning = "the value that fired it"),
    FIELD(threshold, FIELD_REAL, .meaning = "the value it is held against"),
    FIELD(cleared_at, FIELD_REAL, .unit = UNIT_EPOCH, .resolution = 0.001,
          .meaning = "when it was over"),
    FIELD(run_id, FIELD_TEXT, .meaning = "the run of that job"),
#undef FIELD
};
const struct record anomaly_record = RECORD_OF(struct anomaly, "Anomaly", anomaly_fields);
