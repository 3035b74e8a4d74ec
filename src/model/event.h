/* ProcessEvent: an event of a process, or of many processes in a storm (`count`). Anomaly: a rule
 * that fired. */
#pragma once

#include "model/field.h"

enum event_type {
    EVENT_UNKNOWN,
    EVENT_SPAWN,
    EVENT_EXEC,
    EVENT_EXIT,
    EVENT_SIGNAL, /* a signal that did not end the process */
    EVENT_KILL,   /* a signal that ended the process */
    EVENT_OOM,
};

/* A type in a set of types. */
#define EVENT_TYPE_BIT(type) (1U << (unsigned)(type))

extern const char *const event_type_names[];

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
    int64_t count;          /* of a storm: number of equal events */
    double first_timestamp; /* of a storm: time of the first event; `timestamp` is the last */
    int is_step;            /* enum truth: TRUTH_YES for a step that a scheduler reported */

    bool details_are_calls; /* `details` lists system calls, not the reason of the event */
    int64_t uid; /* for EVENT_OOM: owner of the run, or else of the process, or INT_UNKNOWN */
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

    /* Not fields: the owner (INT_UNKNOWN: the machine), and whether this is the first report of the
     * episode. */
    int64_t uid;
    bool is_opening;
};

struct process_event_list LIST(struct process_event);
struct anomaly_list LIST(struct anomaly);

/* The details of an event with which a scheduler reports a step: its number and the last word of
 * the event's name, see event-name.h. Databases contain them. */
#define STEP_DETAILS_FORMAT "Sheet %lld %s"

/* Returns whether a process ended with a nonzero status or by a signal. */
bool event_is_failure(const struct process_event *event);
/* Returns the number of events that this one stands for: 1, or more for a storm. */
int64_t event_count(const struct process_event *event);

extern const struct record process_event_record;
extern const struct record anomaly_record;
