/* What a daemon tells as it happens, one line each: an event of a process, an anomaly, a gap, a job
 * or a step that began or ended. It comes in an envelope: {event, timestamp, job_id, sheet_num,
 * data}. */
#pragma once

#include "model/event.h"
#include "model/gap.h"
#include "model/job.h"
#include "report/style.h"

enum event_line_kind {
    EVENT_LINE_OTHER, /* of a newer daemon: its name and its job are known */
    EVENT_LINE_PROCESS,
    EVENT_LINE_ANOMALY,
    EVENT_LINE_GAP,
    EVENT_LINE_JOB,
    EVENT_LINE_SHEET,
};

/* Of a job or a step: what is said of it, each only where it fits. */
struct event_line_job {
    const char *run_id;
    const char *command;
    const char *outcome;
    int64_t exit_code;
    int64_t signal_num;
    const char *cause;
    int64_t total_sheets;
    int64_t current_sheet;
    const char *status; /* in the conductor's words */
    const char *name;   /* of a step */
    int64_t pid;        /* the first process of a step */
};

struct event_line {
    const char *event; /* `process.exit` */
    double timestamp;
    const char *job_id;
    int64_t sheet_num;
    enum event_line_kind kind;
    union {
        struct process_event process;
        struct anomaly anomaly;
        struct gap gap;
        struct event_line_job job; /* EVENT_LINE_JOB and EVENT_LINE_SHEET */
    };
};

/* Data that is not as it should be makes it EVENT_LINE_OTHER. 0, -EBADMSG (no envelope) or -ENOMEM.
 */
int event_line_decode(const char *json, size_t length, struct arena *arena, struct event_line *ret);

/* An event that is stored, as if it were told now; `event` is placed in `arena`. 0 or -ENOMEM. */
int event_line_of_process(const struct process_event *event, struct arena *arena,
                          struct event_line *ret);
/* The envelope of that, without a newline. Errors are the buffer's. */
void event_line_encode_event(const struct event_line *news, struct text *out);

/* The same for what is not an event of a process: `is_end` tells of the clearing of an anomaly, or
 * of the end of a run. Texts stay where they are. */
struct event_line event_line_of_anomaly(const struct anomaly *anomaly, bool is_end);
struct event_line event_line_of_gap(const struct gap *gap);
struct event_line event_line_of_job(const struct job *job, bool is_end);

/* Of which process and which run; 0 and NULL: of none. */
int64_t event_line_pid(const struct event_line *news);
const char *event_line_run_id(const struct event_line *news);

/* Its parts, for whoever lays it out otherwise: when it happened; one word for it ("exit",
 * "anomaly"); how well it is; what is known of it ("status 2, CPU 1.20 s"), with an error that is
 * the buffer's; the command line, or NULL. */
double event_line_time(const struct event_line *news);
const char *event_line_label(const struct event_line *news);
enum tint event_line_tint(const struct event_line *news);
void event_line_format_details(const struct event_line *news, struct text *out);
const char *event_line_command(const struct event_line *news);

/* Time, kind, process, job, what, command; ends in a newline. A time of the day of `day` stands
 * without a date. Errors are the buffer's. */
void event_line_format(const struct event_line *news, double day, const struct report_style *style,
                       struct text *out);
