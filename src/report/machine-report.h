/* MachineReport: what happened on the machine in a span of time, in jobs and outside. */
#pragma once

#include "model/event.h"
#include "model/gap.h"
#include "model/job.h"
#include "model/machine-use.h"
#include "report/style.h"

struct machine_report {
    double as_of;
    double since;
    double until;
    struct machine_use use;
    struct job_list jobs;                /* that ran in the span, latest first */
    int64_t jobs_left_out;               /* 0; unknown: at least one */
    struct process_event_list events;    /* notable: signals, kills, OOM kills, failed exits */
    int64_t events_left_out;             /* 0; unknown: at least one */
    struct process_event_list oom_kills; /* of any process, the latest ones */
    struct anomaly_list anomalies;
    struct gap_list gaps;
};

extern const struct record machine_report_record;

/* Returns whether the report contains no data at all. */
bool machine_report_is_empty(const struct machine_report *report);

/* Writes the report as text. Returns 0 or -ENOMEM, which is also the buffer's error. */
int machine_report_format(const struct machine_report *report, const struct report_style *style,
                          struct text *out);
