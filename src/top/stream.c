#include "top/stream.h"

#include <stdio.h>
#include <string.h>

#include "model/record-json.h"

struct stream {
    const struct stream_options *options;
    uv_loop_t loop;
    struct text line;
    size_t lines;
    bool has_ended;
    bool has_status;
    bool was_down;
    int result;
};

static void end_stream(struct stream *stream, int result)
{
    stream->result = result;
    stream->has_ended = true;
    uv_stop(&stream->loop);
}

static void on_frame(void *context, struct frame *frame)
{
    struct stream *stream = context;
    const struct stream_options *options = stream->options;
    struct json_writer json = {.out = &stream->line};

    if (stream->has_ended)
        return;
    text_reset(&stream->line);
    record_encode(&snapshot_record, frame->snapshot, &json);
    text_append_char(&stream->line, '\n');
    int r = text_error(&stream->line);
    if (r == 0)
        r = options->on_line(options->context, &stream->line);
    stream->lines++;
    if (r != 0 || stream->lines == options->limit)
        end_stream(stream, r);
}

static void on_status(void *context, const struct feed_status *status)
{
    struct stream *stream = context;
    bool is_change = status->is_down != stream->was_down;

    if (!stream->has_status) /* the first status has the reason why no daemon is used, if any */
        is_change |= status->reason[0] != '\0';
    stream->has_status = true;
    if (is_change)
        stream->options->on_status(stream->options->context, status);
    stream->was_down = status->is_down;
}

static void on_event(void *context _unused_, const struct event_line *line _unused_)
{
}

static void on_end(void *context)
{
    struct stream *stream = context;

    if (!stream->has_ended)
        end_stream(stream, 0);
}

int stream_frames(const struct stream_options *options, struct feed_error *error)
{
    struct stream stream = {.options = options};
    struct feed_options wanted = options->feed;
    const struct feed_sink sink = {.on_frame = on_frame,
                                   .on_event = on_event,
                                   .on_status = on_status,
                                   .on_end = on_end,
                                   .context = &stream};
    struct feed *feed = NULL;

    wanted.is_unpaced = true;
    int r = uv_loop_init(&stream.loop);
    if (r < 0) {
        snprintf(error->text, sizeof(error->text), "%s", strerror(-r));
        return r;
    }
    r = feed_open(&stream.loop, &wanted, &sink, &feed, error);
    if (r == 0 && !stream.has_ended)
        uv_run(&stream.loop, UV_RUN_DEFAULT);
    feed_close(feed);
    while (uv_run(&stream.loop, UV_RUN_DEFAULT)) /* an earlier uv_stop() may end one run */
        ;
    uv_loop_close(&stream.loop);
    text_done(&stream.line);
    return r < 0 ? r : stream.result;
}
