/* JobReport: outcome, figures and events of one run. */
#pragma once

#include "model/event.h"
#include "model/gap.h"
#include "model/job.h"
#include "report/earlier-runs.h"
#include "report/style.h"

struct job_report {
    double as_of; /* when it was made; a running job has its figures so far */
    struct job job;
    struct sheet_list sheets;
    struct job_list runs_within;          /* started by it, latest first */
    struct process_event_list events;     /* notable: signals, kills, OOM kills, failed exits */
    int64_t events_left_out;              /* how many more; unknown: some */
    struct process_event_list storms;     /* events that were only counted, see `count` */
    struct memory_point_list last_memory; /* of a run that failed or was lost: its last 30 s */
    struct anomaly_list anomalies;
    struct gap_list gaps;
    struct earlier_runs earlier_runs; /* comparison with its type */
};

extern const struct record job_report_record;

/* Writes the report as text, outcome and cause first. Returns 0 or -ENOMEM, which is also the
 * buffer's error. */
int job_report_format(const struct job_report *report, const struct report_style *style,
                      struct text *out);
