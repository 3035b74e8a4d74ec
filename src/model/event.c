#include "model/event.h"

#include "base/macros.h"

const char *const event_type_names[] = {
    [EVENT_UNKNOWN] = NULL, [EVENT_SPAWN] = "spawn",   [EVENT_EXEC] = "exec",
    [EVENT_EXIT] = "exit",  [EVENT_SIGNAL] = "signal", [EVENT_KILL] = "kill",
    [EVENT_OOM] = "oom",
};

static const struct field process_event_fields[] = {
#define FIELD(member, type, ...) FIELD_OF(struct process_event, member, type, __VA_ARGS__)
    FIELD(timestamp, FIELD_REAL, .required = true, .unit = UNIT_EPOCH, .resolution = 0.000001,
          .meaning = "time of the event"),
    FIELD(pid, FIELD_INT, .required = true, .meaning = "process id; 0: none"),
    FIELD(event_type, FIELD_ENUM, .required = true, .names = event_type_names,
          .name_count = ARRAY_SIZE(event_type_names),
          .meaning = "spawn, exec, exit, signal, kill or oom"),
    FIELD(exit_code, FIELD_INT, .meaning = "exit status, if no signal ended the process"),
    FIELD(signal_num, FIELD_INT, .meaning = "signal number, if any"),
    FIELD(job_id, FIELD_TEXT, .meaning = "job of the process"),
    FIELD(sheet_num, FIELD_INT, .meaning = "step of the job"),
    FIELD(details, FIELD_TEXT, .holds_command = true, .meaning = "more details, as text"),
    FIELD(ppid, FIELD_INT, .meaning = "process id of the parent"),
    FIELD(command, FIELD_TEXT, .holds_command = true, .meaning = "command line"),
    FIELD(sender_pid, FIELD_INT, .meaning = "process id of the signal's sender; 0: the kernel"),
    FIELD(sender_command, FIELD_TEXT, .holds_command = true,
          .meaning = "the sender's command line"),
    FIELD(cpu_seconds, FIELD_REAL, .unit = UNIT_SECONDS, .resolution = 0.000001,
          .meaning = "CPU time over the whole life of the process (exit, kill)"),
    FIELD(peak_rss_mb, FIELD_REAL, .unit = UNIT_MB, .resolution = 0.001,
          .meaning = "largest RSS of the process (exit, kill, oom)"),
    FIELD(run_id, FIELD_TEXT, .meaning = "run of the job"),
    FIELD(count, FIELD_INT, .unit = UNIT_COUNT,
          .meaning = "number of equal events of a storm; CPU time is their sum, RSS their largest, "
                     "`command` the program, `pid` 0. null: a single event"),
    FIELD(first_timestamp, FIELD_REAL, .unit = UNIT_EPOCH, .resolution = 0.000001,
          .meaning = "time of the first event of a storm"),
    FIELD(is_step, FIELD_BOOL, .omit_unknown = true,
          .meaning = "true: the event of a step that a scheduler reported, not of a process"),
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
          .meaning = "time when it opened"),
    FIELD(anomaly_type, FIELD_TEXT, .required = true, .meaning = "the rule that fired"),
    FIELD(pid, FIELD_INT, .meaning = "process id, if it concerns one process"),
    FIELD(job_id, FIELD_TEXT, .meaning = "job of the process"),
    FIELD(sheet_num, FIELD_INT, .meaning = "step of the job"),
    FIELD(description, FIELD_TEXT, .holds_command = true, .meaning = "description as text"),
    FIELD(severity, FIELD_ENUM, .names = severity_names, .name_count = ARRAY_SIZE(severity_names),
          .meaning = "low, medium, high or critical"),
    FIELD(metric_value, FIELD_REAL, .meaning = "the measured value"),
    FIELD(threshold, FIELD_REAL, .meaning = "the threshold of the rule"),
    FIELD(cleared_at, FIELD_REAL, .unit = UNIT_EPOCH, .resolution = 0.001,
          .meaning = "time when it cleared"),
    FIELD(run_id, FIELD_TEXT, .meaning = "run of the job"),
#undef FIELD
};
const struct record anomaly_record = RECORD_OF(struct anomaly, "Anomaly", anomaly_fields);
