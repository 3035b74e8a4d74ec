/* JobReport: everything worth knowing about one run, for a person, an AI or a program. */
#pragma once

#include "model/event.h"
#include "model/gap.h"
#include "model/job.h"
#include "report/earlier-runs.h"
#include "report/style.h"

struct job_report {
    double as_of; /* when it was asked for; a run that goes on has its figures so far */
    struct job job;
    struct sheet_list sheets;
    struct job_list runs_within;          /* started by it, latest first */
    struct process_event_list events;     /* notable: signals, kills, OOM kills, failed exits */
    int64_t events_left_out;              /* notable ones beside these; unknown: some */
    struct process_event_list storms;     /* what was folded of them, see `count` */
    struct memory_point_list last_memory; /* of one that failed: its last seconds */
    struct anomaly_list anomalies;
    struct gap_list gaps;
    struct earlier_runs earlier_runs; /* of its type */
};

extern const struct record job_report_record;

/* As text, the outcome and its cause first. Errors are the buffer's; 0 or -ENOMEM. */
int job_report_format(const struct job_report *report, const struct report_style *style,
                      struct text *out);
