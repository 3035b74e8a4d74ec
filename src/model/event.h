/* ProcessEvent: something that happened to a process, or to many in a storm (`count`); Anomaly: a
 * rule that fired. */
#pragma once

#include "model/field.h"

enum event_type {
    EVENT_UNKNOWN,
    EVENT_SPAWN,
    EVENT_EXEC,
    EVENT_EXIT,
    EVENT_SIGNAL, /* one that did not end the process */
    EVENT_KILL,   /* one that did */
    EVENT_OOM,
};

struct process_event {
    double timestamp;
    int64_t pid;
    int event_type; /* enum event_type */
    int64_t exit_code;
    int64_t signal_num;
    const char *job_id;
    int64_t sheet_num;
    const char *details;
    int64_t ppid;
    const char *command;
    int64_t sender_pid;
    const char *sender_command;
    double cpu_seconds;
    double peak_rss_mb;
    const char *run_id;
    int64_t count;          /* of a storm: how many like it were folded into this one */
    double first_timestamp; /* … and when the first of them happened; `timestamp` is the last */

    bool is_step;     /* not a field: a step of a job that a conductor tells of, no process */
    bool tells_calls; /* its details are the system calls that were made, not why it happened */
    int64_t uid;      /* on OOM: of its run, or else of the process; INT_UNKNOWN if not known */
};

enum severity {
    SEVERITY_UNKNOWN,
    SEVERITY_LOW,
    SEVERITY_MEDIUM,
    SEVERITY_HIGH,
    SEVERITY_CRITICAL,
};

struct anomaly {
    double timestamp;
    const char *anomaly_type;
    int64_t pid;
    const char *job_id;
    int64_t sheet_num;
    const char *description;
    int severity; /* enum severity */
    double metric_value;
    double threshold;
    double cleared_at;
    const char *run_id;

    /* Not fields: whose it is (INT_UNKNOWN: the machine's), and whether this is the first that is
     * told of it. */
    int64_t uid;
    bool is_opening;
};

struct process_event_list LIST(struct process_event);
struct anomaly_list LIST(struct anomaly);

/* Of a process that ended, and not well: a status other than 0, or a signal. */
bool event_is_failure(const struct process_event *event);
/* How many things happened: 1, but for a storm. */
int64_t event_count(const struct process_event *event);

extern const struct record process_event_record;
extern const struct record anomaly_record;
