/* The interface of the sources of a feed, private to feed*.c. */
#pragma once

#include "client/feed.h"

struct feed_source {
    int (*open)(struct feed *feed, struct feed_error *error);
    void (*close)(struct feed *feed);
    void (*command)(struct feed *feed, const struct feed_command *command); /* NULL: none */
};

/* A job_id with ~N. */
#define FEED_JOB_MAX_BYTES (JOB_ID_NUMBERED_MAX_BYTES + 24)

extern const struct feed_source feed_daemon_source;
extern const struct feed_source feed_local_source;
extern const struct feed_source feed_history_source;

struct feed {
    uv_loop_t *loop;
    const struct feed_options *options;
    struct feed_sink sink;
    const struct feed_source *source;
    void *own;                    /* the source's */
    char job[FEED_JOB_MAX_BYTES]; /* a job_id or a run_id; empty: all */
    struct feed_status status;
};

/* Formats the error and returns `r`. */
int feed_fail(struct feed_error *error, int r, const char *format, ...) _printf_(3, 4);

void feed_tell_status(const struct feed *feed);
/* Skips events of other jobs. */
void feed_tell_news(const struct feed *feed, const struct event_line *news);
void feed_give_frame(const struct feed *feed, struct frame *frame);

/* Removes all processes and jobs of other jobs; `job` is a job_id or a run_id. */
void frame_keep_job(struct frame *frame, const char *job);
