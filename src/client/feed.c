#include "client/feed.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "client/feed-source.h"
#include "sample/scope.h"

void frame_done(struct frame *frame)
{
    snapshot_unref(frame->snapshot);
    arena_done(&frame->arena);
    *frame = (struct frame){.open_anomalies = INT_UNKNOWN};
}

struct frame frame_take(struct frame *frame)
{
    struct frame taken = *frame;

    *frame = (struct frame){.open_anomalies = INT_UNKNOWN};
    return taken;
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
    if (feed->job[0]) { /* the source leaves the processes of other jobs out */
        SCOPE_KEEP_JOB(&frame->anomalies, feed->job);
        frame->open_anomalies = (int64_t)frame->anomalies.count;
    }
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
