/* A connection is freed in the close callback of its pipe. Requests are answered in order. While
 * the client does not read its output, no further input is read. */
#include "daemon/connection.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "daemon/daemon-state.h"
#include "daemon/exchange.h"
#include "daemon/server.h"
#include "model/event-name.h"
#include "rpc/codec.h"

#define READ_BYTES (64 * 1024)

struct connection {
    uv_pipe_t pipe;
    struct server *server;
    struct daemon *daemon;
    struct peer peer;
    struct rpc_framer framer;
    struct bus_subscriber *streams[CONNECTION_STREAMS_MAX];
    size_t stream_count;
    uint64_t reported_drops;   /* dropped events that the client knows of */
    struct exchange *exchange; /* in progress; NULL: none */
    bool is_closing;
    bool is_ending; /* no more input; closes when all answers are written */
    /* Input is paused: a request is being answered, the client does not read its output, or other
     * clients have their turn. */
    bool is_paused;
    uv_timer_t turn; /* continues its requests in the next iteration of the loop */
    int open_handles;
    bool is_kept_open;   /* see connection_keep_open() */
    bool waits_for_room; /* the bus holds an event for it */
    uint64_t active_ns;  /* time of the last request, monotonic */
    uint64_t stalled_ns; /* since when it has unread output; 0: it has none */
    uint64_t partial_ns; /* since when a line is incomplete; 0: none is */
};

/* ---- output ---- */

/* A message that is being written: an answer, or a shared event. */
struct outgoing {
    uv_write_t request;
    struct connection *connection;
    struct text text;
    struct bus_event *event;
};

static void outgoing_free(struct outgoing *outgoing)
{
    text_done(&outgoing->text);
    if (outgoing->event)
        bus_event_unref(outgoing->event);
    free(outgoing);
}

static size_t waiting_bytes(const struct connection *connection)
{
    return uv_stream_get_write_queue_size((const uv_stream_t *)&connection->pipe);
}

static void pause_input(struct connection *connection)
{
    if (!connection->is_paused)
        uv_read_stop((uv_stream_t *)&connection->pipe);
    connection->is_paused = true;
}

static void resume(struct connection *connection);
static void close_if_done(struct connection *connection);

static void on_written(uv_write_t *request, int status)
{
    struct outgoing *outgoing = request->data;
    struct connection *connection = outgoing->connection;

    outgoing_free(outgoing);
    if (connection->is_closing)
        return;
    if (status < 0) {
        connection_close(connection);
        return;
    }
    connection->stalled_ns = waiting_bytes(connection) ? clock_mono_ns() : 0;
    if (waiting_bytes(connection) < CONNECTION_OUTPUT_BYTES / 2)
        resume(connection);
    close_if_done(connection);
}

static int transmit(struct connection *connection, struct outgoing *outgoing,
                    const uv_buf_t *buffers, unsigned count)
{
    outgoing->connection = connection;
    outgoing->request.data = outgoing;
    int r =
        uv_write(&outgoing->request, (uv_stream_t *)&connection->pipe, buffers, count, on_written);
    if (r < 0) {
        outgoing_free(outgoing);
        return r;
    }
    if (waiting_bytes(connection) && !connection->stalled_ns)
        connection->stalled_ns = clock_mono_ns();
    if (waiting_bytes(connection) > CONNECTION_OUTPUT_BYTES)
        pause_input(connection);
    return 0;
}

/* Takes ownership of the text. */
static int send_text(struct connection *connection, struct text *text)
{
    struct outgoing *outgoing = calloc(1, sizeof(*outgoing));

    if (!outgoing)
        return -ENOMEM;
    outgoing->text = *text;
    *text = (struct text){0};
    uv_buf_t buffer = uv_buf_init(outgoing->text.bytes, (unsigned)outgoing->text.length);
    return transmit(connection, outgoing, &buffer, 1);
}

/* Reports dropped events before the next event. */
static void report_drops(struct connection *connection)
{
    _cleanup_text_ struct text out = {0};
    double now = ns_to_sec(clock_real_ns());
    uint64_t dropped = 0;

    for (size_t i = 0; i < connection->stream_count; i++)
        dropped += bus_subscriber_drops(connection->streams[i]).events;
    if (dropped == connection->reported_drops)
        return;
    text_printf(&out,
                RPC_EVENT_PREFIX
                "{\"event\":\"%s\",\"timestamp\":%.3f,\"job_id\":null,"
                "\"sheet_num\":null,\"data\":{\"kind\":\"events\","
                "\"timestamp\":%.3f,\"seconds\":null,\"lost\":%llu,"
                "\"reason\":\"this stream was not read in time\"}}" RPC_EVENT_SUFFIX "\n",
                event_name_text(EVENT_NAME_GAP), now, now,
                (unsigned long long)(dropped - connection->reported_drops));
    if (text_error(&out) == 0 && send_text(connection, &out) == 0)
        connection->reported_drops = dropped;
}

/* Whether more can be written: the client reads, and the unread output of its user is within the
 * limit. */
static bool has_room(const struct connection *connection)
{
    size_t waiting = waiting_bytes(connection);

    return waiting <= CONNECTION_OUTPUT_BYTES &&
           (!waiting || server_has_output(connection->server, &connection->peer));
}

/* The envelope is shared by all subscribers; only the notification around it is added. */
static int on_event(void *context, const struct bus_event *event)
{
    static char prefix[] = RPC_EVENT_PREFIX, suffix[] = RPC_EVENT_SUFFIX "\n";
    struct connection *connection = context;
    const struct text *json = bus_event_json(event);

    if (connection->is_closing)
        return -EPIPE;
    if (!has_room(connection)) {
        connection->waits_for_room = true;
        return 1;
    }
    report_drops(connection);
    struct outgoing *outgoing = calloc(1, sizeof(*outgoing));
    if (!outgoing)
        return -ENOMEM;
    outgoing->event = bus_event_ref(event);
    const uv_buf_t buffers[] = {
        uv_buf_init(prefix, sizeof(prefix) - 1),
        uv_buf_init(json->bytes, (unsigned)json->length),
        uv_buf_init(suffix, sizeof(suffix) - 1),
    };
    return transmit(connection, outgoing, buffers, ARRAY_SIZE(buffers));
}

/* ---- input ---- */

static void send_answers(struct connection *connection, struct text *out)
{
    if (text_error(out) < 0 || (out->length && send_text(connection, out) < 0))
        connection_close(connection); /* better than a client that waits for an answer */
}

/* All requests of a line are answered. */
static void on_answers(struct connection *connection, struct text *out)
{
    bool was_waited_for = TAKE_PTR(connection->exchange) != NULL;

    send_answers(connection, out);
    if (was_waited_for && !connection->is_closing) {
        connection->partial_ns = 0; /* its input was paused, so the time does not count */
        resume(connection);
        close_if_done(connection);
    }
}

static void answer_line(struct connection *connection, const char *line, size_t length)
{
    int error;

    connection->active_ns = clock_mono_ns();
    connection->exchange =
        exchange_start(connection->daemon, connection, line, length, on_answers, &error);
    if (error < 0)
        connection_close(connection);
    else if (connection->exchange)
        pause_input(connection);
}

/* Whether the client has used its time in this iteration of the loop. The limit keeps ticks and
 * other clients from being delayed. */
static bool is_turn_over(const struct connection *connection)
{
    return uv_hrtime() / NS_PER_MSEC - uv_now(connection->pipe.loop) >= CONNECTION_TURN_MSEC;
}

static void on_turn(uv_timer_t *timer)
{
    struct connection *connection = timer->data;

    if (waiting_bytes(connection) < CONNECTION_OUTPUT_BYTES / 2)
        resume(connection);
    close_if_done(connection);
}

static void yield_turn(struct connection *connection)
{
    pause_input(connection);
    uv_timer_start(&connection->turn, on_turn, 1, 0);
}

/* Handles all complete lines, unless the client does not read its answers. */
static void answer_lines(struct connection *connection)
{
    const char *line;
    size_t length;

    while (!connection->is_closing && !connection->is_paused &&
           rpc_framer_next(&connection->framer, &line, &length)) {
        connection->partial_ns = 0;
        answer_line(connection, line, length);
        if (!connection->is_closing && is_turn_over(connection))
            yield_turn(connection);
    }
}

/* The client has closed its end, or sent input that cannot be framed. */
static void end_input(struct connection *connection)
{
    connection->is_ending = true;
    uv_read_stop((uv_stream_t *)&connection->pipe);
    close_if_done(connection);
}

static void close_if_done(struct connection *connection)
{
    if (connection->is_ending && !connection->is_paused && !connection->is_closing &&
        !connection->stream_count && !waiting_bytes(connection))
        connection_close(connection);
}

static void end_streams(struct connection *connection)
{
    for (size_t i = 0; i < connection->stream_count; i++)
        bus_unsubscribe(connection->daemon->bus, connection->streams[i]);
    connection->stream_count = 0;
}

static void reject_line(struct connection *connection, int error)
{
    _cleanup_text_ struct text out = {0};

    switch (error) {
    case -EMSGSIZE:
        rpc_write_error(&out, NULL, RPC_INVALID_REQUEST, "a request may have at most 1 MiB");
        break;
    case -ENOBUFS:
        rpc_write_error(&out, NULL, RPC_RESOURCES_EXHAUSTED,
                        "too many incomplete requests of this user");
        break;
    default: rpc_write_error(&out, NULL, RPC_INTERNAL_ERROR, "no memory left");
    }
    text_append_char(&out, '\n');
    end_streams(connection);
    if (text_error(&out) < 0 || send_text(connection, &out) < 0)
        connection_close(connection);
    else
        end_input(connection);
}

/* Whether the client is gone, or has only closed its sending end and still reads. */
static bool has_hung_up(const struct connection *connection)
{
    struct pollfd peer = {.events = POLLIN};

    return uv_fileno((const uv_handle_t *)&connection->pipe, &peer.fd) == 0 &&
           poll(&peer, 1, 0) > 0 && (peer.revents & (POLLHUP | POLLERR));
}

static void note_partial(struct connection *connection)
{
    if (!rpc_framer_has_partial(&connection->framer))
        connection->partial_ns = 0;
    else if (!connection->partial_ns)
        connection->partial_ns = clock_mono_ns();
}

static void on_read(uv_stream_t *stream, ssize_t length, const uv_buf_t *buffer)
{
    struct connection *connection = stream->data;

    if (length < 0) {
        if (length == UV_EOF && !has_hung_up(connection))
            end_input(connection);
        else
            connection_close(connection);
        return;
    }
    int r = rpc_framer_feed(&connection->framer, buffer->base, (size_t)length);
    if (r == 0 && connection_buffered(connection) > CONNECTION_SMALL_BYTES &&
        !server_has_buffer(connection->server, &connection->peer))
        r = -ENOBUFS;
    answer_lines(connection);
    if (r < 0 && !connection->is_closing)
        reject_line(connection, r);
    if (connection->is_closing)
        return;
    note_partial(connection);
}

/* One buffer for all connections: it is emptied before the next read. */
static void on_alloc(uv_handle_t *handle _unused_, size_t suggested _unused_, uv_buf_t *ret)
{
    static char bytes[READ_BYTES];

    *ret = uv_buf_init(bytes, sizeof(bytes));
}

/* Continues after a pause: first pending requests, then input, then streams. */
static void resume(struct connection *connection)
{
    if (uv_is_active((uv_handle_t *)&connection->turn) || connection->exchange)
        return; /* other clients have their turn, or its own answer comes first */
    if (connection->is_paused) {
        connection->is_paused = false;
        answer_lines(connection);
        if (connection->is_closing || connection->is_paused)
            return;
        if (!connection->is_ending &&
            uv_read_start((uv_stream_t *)&connection->pipe, on_alloc, on_read) < 0) {
            connection_close(connection);
            return;
        }
        note_partial(connection);
    }
    if (!TAKE(connection->waits_for_room, false))
        return;
    for (size_t i = 0; i < connection->stream_count && !connection->is_closing; i++)
        bus_resume(connection->daemon->bus, connection->streams[i]);
}

/* ---- start and end ---- */

static void on_closed(uv_handle_t *handle)
{
    struct connection *connection = handle->data;

    if (--connection->open_handles)
        return;
    rpc_framer_done(&connection->framer);
    free(connection);
}

static void close_handles(struct connection *connection)
{
    uv_close((uv_handle_t *)&connection->turn, on_closed);
    uv_close((uv_handle_t *)&connection->pipe, on_closed);
}

int connection_open(struct server *server, struct daemon *daemon, int fd, const struct peer *peer,
                    struct connection **ret)
{
    struct connection *connection = calloc(1, sizeof(*connection));
    if (!connection) {
        close_fd(fd);
        return -ENOMEM;
    }
    connection->server = server;
    connection->daemon = daemon;
    connection->peer = *peer;
    connection->active_ns = clock_mono_ns();
    uv_pipe_init(&daemon->loop, &connection->pipe, 0);
    uv_timer_init(&daemon->loop, &connection->turn);
    connection->pipe.data = connection->turn.data = connection;
    connection->open_handles = 2;
    int r = uv_pipe_open(&connection->pipe, fd);
    if (r < 0)
        close_fd(fd);
    else
        r = uv_read_start((uv_stream_t *)&connection->pipe, on_alloc, on_read);
    if (r < 0) {
        close_handles(connection);
        return r;
    }
    *ret = connection;
    return 0;
}

void connection_close(struct connection *connection)
{
    if (connection->is_closing)
        return;
    connection->is_closing = true;
    if (connection->exchange)
        exchange_abandon(TAKE_PTR(connection->exchange));
    end_streams(connection);
    server_forget(connection->server, connection);
    close_handles(connection);
}

size_t connection_unread(const struct connection *connection)
{
    return waiting_bytes(connection);
}

size_t connection_buffered(const struct connection *connection)
{
    return connection->framer.buffer.length;
}

const struct peer *connection_peer(const struct connection *connection)
{
    return &connection->peer;
}

static bool has_run(const struct connection *connection)
{
    return connection->is_kept_open &&
           run_lifecycle_has_run_of(connection->daemon, connection->peer.pid);
}

bool connection_is_stale(const struct connection *connection, uint64_t now_ns)
{
    uint64_t stall_ns = (uint64_t)(connection->daemon->config->daemon_stall_seconds * 1e9);
    bool is_stalled = connection->stalled_ns && now_ns - connection->stalled_ns > stall_ns;
    bool is_slow = connection->partial_ns && !connection->exchange &&
                   now_ns - connection->partial_ns > stall_ns;
    bool is_idle = now_ns - connection->active_ns > CONNECTION_IDLE_SEC * NS_PER_SEC;

    /* Nothing is read from it any more, so only this check notices that it is gone. */
    if (connection->is_ending && has_hung_up(connection))
        return true;
    if (connection->stream_count)
        return is_slow; /* the bus drops events that it does not read */
    return is_stalled || is_slow || (is_idle && !has_run(connection));
}

bool connection_has_left(const struct connection *connection)
{
    struct pollfd end = {.fd = -1, .events = POLLRDHUP};

    uv_fileno((const uv_handle_t *)&connection->pipe, &end.fd);
    return connection->is_closing || (poll(&end, 1, 0) > 0 && end.revents);
}

void connection_keep_open(struct connection *connection)
{
    connection->is_kept_open = true;
}

int connection_stream(struct connection *connection, const char *const *patterns, size_t count,
                      const struct bus_view *view)
{
    if (connection->stream_count == CONNECTION_STREAMS_MAX)
        return -E2BIG;
    int r = bus_subscribe(connection->daemon->bus, patterns, count, view, on_event, connection,
                          &connection->streams[connection->stream_count]);
    if (r == 0)
        connection->stream_count++;
    return r;
}
