/* What happened, as tables: events of processes, anomalies, gaps. Times of the day of `day` stand
 * without a date. */
#pragma once

#include "model/event.h"
#include "model/gap.h"
#include "report/style.h"

struct event_table_options {
    double day;
    size_t indent;
    bool without_job; /* where all are of one job */
};

void event_table_format(const struct process_event_list *events,
                        const struct event_table_options *options, const struct report_style *style,
                        struct text *out);

void anomaly_table_format(const struct anomaly_list *anomalies,
                          const struct event_table_options *options,
                          const struct report_style *style, struct text *out);

void gap_table_format(const struct gap_list *gaps, const struct event_table_options *options,
                      const struct report_style *style, struct text *out);

/* Their parts, for whoever shows one at a time. */

/* What is known of it: "status 2, CPU 1.20 s, 12.0 MB peak", "SIGKILL from pid 812 (timeout 5)";
 * into an empty buffer. */
void event_format(const struct process_event *event, struct text *out);
enum tint event_tint(const struct process_event *event);
/* "12.0 s not sampled: the machine slept". */
void gap_format(const struct gap *gap, struct text *out);
