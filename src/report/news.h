/* What a daemon tells as it happens, one line each: an event of a process, an anomaly, a gap, a job
 * or a step that began or ended. It comes in an envelope: {event, timestamp, job_id, sheet_num,
 * data}. */
#pragma once

#include "model/event.h"
#include "model/gap.h"
#include "model/job.h"
#include "report/style.h"

enum news_kind {
    NEWS_OTHER, /* of a newer daemon: its name and its job are known */
    NEWS_PROCESS,
    NEWS_ANOMALY,
    NEWS_GAP,
    NEWS_JOB,
    NEWS_SHEET,
};

/* Of a job or a step: what is said of it, each only where it fits. */
struct news_of_job {
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

struct news {
    const char *event; /* `process.exit` */
    double timestamp;
    const char *job_id;
    int64_t sheet_num;
    enum news_kind kind;
    union {
        struct process_event process;
        struct anomaly anomaly;
        struct gap gap;
        struct news_of_job job; /* NEWS_JOB and NEWS_SHEET */
    };
};

/* Data that is not as it should be makes it NEWS_OTHER. 0, -EBADMSG (no envelope) or -ENOMEM. */
int news_decode(const char *json, size_t length, struct arena *arena, struct news *ret);

/* An event that is stored, as if it were told now; `event` is placed in `arena`. 0 or -ENOMEM. */
int news_of_event(const struct process_event *event, struct arena *arena, struct news *ret);
/* The envelope of that, without a newline. Errors are the buffer's. */
void news_encode_event(const struct news *news, struct text *out);

/* The same for what is not an event of a process: `is_end` tells of the clearing of an anomaly, or
 * of the end of a run. Texts stay where they are. */
struct news news_of_anomaly(const struct anomaly *anomaly, bool is_end);
struct news news_of_gap(const struct gap *gap);
struct news news_of_job(const struct job *job, bool is_end);

/* Of which process and which run; 0 and NULL: of none. */
int64_t news_pid(const struct news *news);
const char *news_run_id(const struct news *news);

/* Its parts, for whoever lays it out otherwise: when it happened; one word for it ("exit",
 * "anomaly"); how well it is; what is known of it ("status 2, CPU 1.20 s"), with an error that is
 * the buffer's; the command line, or NULL. */
double news_time(const struct news *news);
const char *news_word(const struct news *news);
enum tint news_tint(const struct news *news);
void news_format_what(const struct news *news, struct text *out);
const char *news_command(const struct news *news);

/* Time, kind, process, job, what, command; ends in a newline. A time of the day of `day` stands
 * without a date. Errors are the buffer's. */
void news_format(const struct news *news, double day, const struct report_style *style,
                 struct text *out);
