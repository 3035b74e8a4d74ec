/* One published event as one line of text: a process event, an anomaly, a gap, or the start or end
 * of a job or step. The daemon publishes it as {event, timestamp, job_id, sheet_num, data}. */
#pragma once

#include "model/event-name.h"
#include "model/gap.h"
#include "model/job.h"
#include "report/style.h"

/* The data of a job or step. Each event sets only some of the members. */
struct event_line_job {
    const char *run_id;
    const char *command;
    const char *outcome;
    int64_t exit_code;
    int64_t signal_num;
    const char *cause;
    int64_t total_sheets;
    int64_t current_sheet;
    const char *status; /* free text from the scheduler */
    const char *name;   /* of a step */
    int64_t pid;        /* the first process of a step */
};

struct event_line {
    const char *event; /* `process.exit` */
    double timestamp;
    const char *job_id;
    int64_t sheet_num;
    /* OTHER: an unknown event of a newer daemon, of which only the envelope is decoded. */
    enum event_kind kind;
    union {
        struct process_event process;
        struct anomaly anomaly;
        struct gap gap;
        struct event_line_job job; /* EVENT_KIND_JOB and EVENT_KIND_STEP */
    };
};

/* Decodes a published event; texts are placed in `arena`. If `data` does not match the event's
 * name, the kind is EVENT_KIND_OTHER. Returns 0, -EBADMSG (no envelope) or -ENOMEM. */
int event_line_decode(const char *json, size_t length, struct arena *arena, struct event_line *ret);

/* Makes the line of a stored process event, with which it shares its texts. */
struct event_line event_line_of_process(const struct process_event *event);
/* Writes the line of a process event as JSON, without a newline. Errors are the buffer's. */
void event_line_encode_event(const struct event_line *line, struct text *out);

/* Make the line of a stored anomaly, gap or run. `is_end`: an anomaly that cleared, or a run that
 * ended; else its start. Texts are shared with the argument. */
struct event_line event_line_of_anomaly(const struct anomaly *anomaly, bool is_end);
struct event_line event_line_of_gap(const struct gap *gap);
struct event_line event_line_of_job(const struct job *job, bool is_end);

/* Return the process and the run that the event belongs to; 0 and NULL if there is none. */
int64_t event_line_pid(const struct event_line *line);
const char *event_line_run_id(const struct event_line *line);

/* Returns the published name of the event: that of a stored step is not `process.exit`, but
 * `sheet.completed`. EVENT_NAME_UNKNOWN: see `event`. */
enum event_name event_line_name(const struct event_line *line);

/* The parts of a line, for callers with a layout of their own: the time of the event (a daemon
 * publishes the event a little later); a one-word label ("exit", "anomaly"); the label's colour;
 * the details ("status 2, CPU 1.20 s"), appended to an empty buffer, which has any error; the
 * command line, or NULL. */
double event_line_time(const struct event_line *line);
const char *event_line_label(const struct event_line *line);
enum tint event_line_tint(const struct event_line *line);
void event_line_format_details(const struct event_line *line, struct text *out);
const char *event_line_command(const struct event_line *line);

/* Writes time, label, pid, job, details and command, with a newline. The date is omitted if it is
 * that of `day`. Errors are the buffer's. */
void event_line_format(const struct event_line *line, double day, const struct report_style *style,
                       struct text *out);
