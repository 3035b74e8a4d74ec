#include "client/feed.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "client/feed-source.h"

void frame_done(struct frame *frame)
{
    snapshot_free(frame->snapshot);
    *frame = (struct frame){.open_anomalies = INT_UNKNOWN};
}

/* ---- one job only ---- */

/* Keeps the items of a list for which the condition on `item` is true. */
#define KEEP_IF(list, item, ...)                                                                   \
    do {                                                                                           \
        size_t kept_ = 0;                                                                          \
        for (size_t i_ = 0; i_ < (list)->count; i_++) {                                            \
            __typeof__((list)->items) item = &(list)->items[i_];                                   \
            if (__VA_ARGS__)                                                                       \
                (list)->items[kept_++] = *item;                                                    \
        }                                                                                          \
        (list)->count = kept_;                                                                     \
    } while (0)

/* Removes the data of other jobs; `job` is a job_id or a run_id. */
static void keep_job(struct frame *frame, const char *job)
{
    struct snapshot *snapshot = frame->snapshot;

    KEEP_IF(&snapshot->processes, item, job_is_named(job, item->job_id, item->run_id));
    KEEP_IF(&snapshot->jobs, item, job_is_named(job, item->job_id, item->run_id));
    KEEP_IF(&snapshot->job_progress, item, job_is_named(job, item->job_id, item->run_id));
    KEEP_IF(&frame->anomalies, item, job_is_named(job, item->job_id, item->run_id));
    frame->open_anomalies = (int64_t)frame->anomalies.count;
}

/* ---- sending to the sink ---- */

int feed_fail(struct feed_error *error, int r, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(error->text, sizeof(error->text), format, arguments);
    va_end(arguments);
    return r;
}

void feed_send_status(const struct feed *feed)
{
    feed->sink.on_status(feed->sink.context, &feed->status);
}

void feed_send_event(const struct feed *feed, const struct event_line *line)
{
    if (!feed->job[0] || job_is_named(feed->job, line->job_id, event_line_run_id(line)))
        feed->sink.on_event(feed->sink.context, line);
}

void feed_send_frame(const struct feed *feed, struct frame *frame)
{
    frame->boot_ns = clock_boot_ns();
    if (feed->job[0])
        keep_job(frame, feed->job);
    feed->sink.on_frame(feed->sink.context, frame);
    frame_done(frame);
}

/* ---- opening ---- */

static int open_source(struct feed *feed, const struct feed_source *source,
                       struct feed_error *error)
{
    feed->source = source;
    return source->open(feed, error);
}

/* If a daemon rejects this user, uses the local collector and puts the reason into the status. */
static int open_live(struct feed *feed, struct feed_error *error)
{
    struct feed_error daemon_error = {""};
    int r = -ENOENT;

    if (feed->options->socket_paths)
        r = open_source(feed, &feed_daemon_source, &daemon_error);
    if (r == 0 || r == -ENOMEM)
        return r;
    if (r != -ENOENT)
        snprintf(feed->status.reason, sizeof(feed->status.reason), "%s", daemon_error.text);
    return open_source(feed, &feed_local_source, error);
}

int feed_open(uv_loop_t *loop, const struct feed_options *options, const struct feed_sink *sink,
              struct feed **ret, struct feed_error *error)
{
    struct feed *feed = calloc(1, sizeof(*feed));

    if (!feed)
        return feed_fail(error, -ENOMEM, "%s", strerror(ENOMEM));
    *feed = (struct feed){.loop = loop, .options = options, .sink = *sink};
    feed->status.interval_seconds = ns_to_sec(options->interval_ns);
    snprintf(feed->job, sizeof(feed->job), "%s", options->job ? options->job : "");
    error->text[0] = '\0';
    int r = real_is_known(options->since) ? open_source(feed, &feed_history_source, error)
                                          : open_live(feed, error);
    if (r < 0) {
        if (!error->text[0])
            feed_fail(error, r, "%s", strerror(-r));
        free(feed);
        return r;
    }
    *ret = feed;
    return 0;
}

void feed_close(struct feed *feed)
{
    if (!feed)
        return;
    feed->source->close(feed);
    free(feed);
}

void feed_command(struct feed *feed, const struct feed_command *command)
{
    if (feed->source->command)
        feed->source->command(feed, command);
}
