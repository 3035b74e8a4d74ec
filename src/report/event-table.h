/* Tables of process events, anomalies and gaps. Errors are the buffer's. */
#pragma once

#include "model/event.h"
#include "model/gap.h"
#include "report/style.h"

struct event_table_options {
    double day; /* times omit the date if it is that of this time */
    size_t indent;
    bool without_job; /* omit the column JOB */
};

void event_table_format(const struct process_event_list *events,
                        const struct event_table_options *options, const struct report_style *style,
                        struct text *out);

void anomaly_table_format(const struct anomaly_list *anomalies,
                          const struct event_table_options *options,
                          const struct report_style *style, struct text *out);

void gap_table_format(const struct gap_list *gaps, const struct event_table_options *options,
                      const struct report_style *style, struct text *out);

/* Return an event in one word ("exit", "step") and its colour. */
const char *event_label(const struct process_event *event);
enum tint event_tint(const struct process_event *event);
/* Writes the details of one event into an empty buffer: "status 2, CPU 1.20 s, 12.0 MB peak",
 * "SIGKILL from pid 812 (timeout)". */
void event_format(const struct process_event *event, struct text *out);
/* Appends what happened to a step: "2 failed, status 3". */
void step_format(int64_t number, const char *state, int64_t exit_code, struct text *out);
/* Writes what one gap means: "12.0 s not sampled: the machine was suspended". */
void gap_format(const struct gap *gap, struct text *out);
/* Returns the last `max` gaps of a list, whose items it shares. */
struct gap_list gap_list_latest(const struct gap_list *gaps, size_t max);
