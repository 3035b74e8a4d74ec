/* The interface of the sources of a feed, private to feed*.c. */
#pragma once

#include "client/feed.h"

struct feed_source {
    /* Opens the source and sets feed->source_data. Returns 0 or a negative errno, with a message in
     * `error` or without one. */
    int (*open)(struct feed *feed, struct feed_error *error);
    void (*close)(struct feed *feed);
    void (*command)(struct feed *feed, const struct feed_command *command); /* NULL: none */
};

/* The size of a job_id with ~N. */
#define FEED_JOB_MAX_BYTES (JOB_ID_NUMBERED_MAX_BYTES + 24)

extern const struct feed_source feed_daemon_source;
extern const struct feed_source feed_local_source;
extern const struct feed_source feed_history_source;

struct feed {
    uv_loop_t *loop;
    const struct feed_options *options;
    struct feed_sink sink;
    const struct feed_source *source;
    void *source_data;            /* owned by the source */
    char job[FEED_JOB_MAX_BYTES]; /* show only this job_id or run_id; empty: all */
    struct feed_status status;
};

/* Formats the error and returns `r`. */
int feed_fail(struct feed_error *error, int r, const char *format, ...) _printf_(3, 4);

/* These pass data to the sink. */
void feed_send_status(const struct feed *feed);
/* Skips events of jobs other than feed->job. */
void feed_send_event(const struct feed *feed, const struct event_line *line);
/* Sends a frame, whose snapshot has no jobs other than feed->job (scope_keep_job()). Frees its
 * content, unless the sink took it. */
void feed_send_frame(const struct feed *feed, struct frame *frame);
