/* JobReport: outcome, figures and events of one run. */
#pragma once

#include "model/event.h"
#include "model/gap.h"
#include "model/job.h"
#include "report/earlier-runs.h"
#include "report/style.h"

struct job_report {
    double as_of; /* when it was made; the figures of a running job are those so far */
    struct job job;
    struct sheet_list sheets;
    struct job_list runs_within;          /* started by this run, latest first */
    struct process_event_list events;     /* notable: signals, kills, OOM kills, failed exits */
    int64_t events_left_out;              /* number of older events; unknown: at least one */
    struct process_event_list storms;     /* events that were only counted, see `count` */
    struct memory_point_list last_memory; /* of a run that failed or was lost: its last 30 s */
    struct anomaly_list anomalies;
    struct gap_list gaps;
    struct earlier_runs earlier_runs; /* comparison with runs of the same type */
};

extern const struct record job_report_record;

/* Returns the wall time of a step; of a running one, until `as_of`. */
double sheet_wall_seconds(const struct sheet *sheet, double as_of);

/* Writes the report as text, outcome and cause first. Returns 0 or -ENOMEM, which is also the
 * buffer's error. */
int job_report_format(const struct job_report *report, const struct report_style *style,
                      struct text *out);
