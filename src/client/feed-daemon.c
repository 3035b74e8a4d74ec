/* The daemon's streams: a frame for each published snapshot, and events. If the daemon samples less
 * often than wanted, the feed requests snapshots on demand, which arrive through the stream; if
 * more often, it skips some. When the daemon goes away, the feed reports it and reconnects. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/vec.h"
#include "client/client.h"
#include "client/feed-source.h"
#include "client/list-decode.h"
#include "loop/alarm.h"
#include "loop/fd-watch.h"
#include "model/daemon-status.h"
#include "model/record-copy.h"
#include "model/record-json.h"
#include "sample/scope.h"

/* Shorter than the default, because a person waits for the screen. */
#define ANSWER_MSEC 3000
#define RETRY_MSEC  500
/* How long a daemon may send nothing. */
#define SILENCE_INTERVALS 2.0
#define SILENCE_SECONDS   1.0
/* The number of open anomalies whose details are kept; beyond it only their number is known. */
#define EPISODES_MAX 1000
/* A snapshot that comes early by at most this is shown. */
#define EARLY_RATIO 0.75

#define FRESH_PARAMS "{\"fresh\":true}"

/* An open anomaly with its texts. */
struct open_episode {
    struct anomaly anomaly;
    struct arena arena;
};

struct daemon_feed {
    struct feed *feed;
    struct client *client; /* NULL: not connected */
    struct fd_watch *watch;
    struct alarm *alarm; /* reconnects, or requests a snapshot */
    struct VEC(struct open_episode) episodes;
    int64_t open_anomalies;
    uint64_t last_frame_ns; /* monotonic; 0: none yet */
    double last_timestamp;  /* of its snapshot */
    bool is_jump;           /* the next frame is a jump */
};

/* ---- episodes ---- */

static void clear_episodes(struct daemon_feed *daemon)
{
    for (size_t i = 0; i < daemon->episodes.count; i++)
        arena_done(&daemon->episodes.items[i].arena);
    daemon->episodes.count = 0;
    daemon->open_anomalies = INT_UNKNOWN;
}

static bool is_same_episode(const struct anomaly *a, const struct anomaly *b)
{
    return a->timestamp == b->timestamp && a->pid == b->pid &&
           strcmp(a->anomaly_type, b->anomaly_type) == 0;
}

static void remove_episode(struct daemon_feed *daemon, const struct anomaly *anomaly)
{
    for (size_t i = 0; i < daemon->episodes.count; i++) {
        if (!is_same_episode(&daemon->episodes.items[i].anomaly, anomaly))
            continue;
        arena_done(&daemon->episodes.items[i].arena);
        memmove(&daemon->episodes.items[i], &daemon->episodes.items[i + 1],
                (daemon->episodes.count - i - 1) * sizeof(daemon->episodes.items[0]));
        daemon->episodes.count--;
        return;
    }
}

/* Without memory, or beyond the limit, the anomaly is only counted. */
static void add_episode(struct daemon_feed *daemon, const struct anomaly *anomaly)
{
    struct open_episode episode = {0};

    remove_episode(daemon, anomaly);
    if (daemon->episodes.count >= EPISODES_MAX)
        return;
    if (record_copy(&anomaly_record, anomaly, &episode.arena, &episode.anomaly) < 0 ||
        VEC_PUSH(&daemon->episodes, episode) < 0)
        arena_done(&episode.arena);
}

static int list_episodes(const struct daemon_feed *daemon, struct frame *frame)
{
    struct arena *arena = &frame->arena;
    size_t count = daemon->episodes.count;
    struct anomaly *items = arena_alloc(arena, MAX(count, (size_t)1) * sizeof(*items));

    if (!items)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++)
        if (record_copy(&anomaly_record, &daemon->episodes.items[i].anomaly, arena, &items[i]) < 0)
            return -ENOMEM;
    frame->anomalies = (struct anomaly_list){.items = items, .count = count};
    frame->open_anomalies = daemon->open_anomalies;
    return 0;
}

/* ---- requests ---- */

/* Returns 0, -EPROTO (the daemon answered with an error) or another negative errno. */
static int call_daemon(struct daemon_feed *daemon, const char *method, const char *params,
                       struct arena *arena, struct rpc_reply *ret)
{
    int r = client_call(daemon->client, method, params, arena, ret);

    if (r == 0 && ret->error)
        return -EPROTO;
    return r;
}

static int read_status(struct daemon_feed *daemon)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct daemon_status status;
    struct decode_error error;
    struct rpc_reply reply;

    int r = call_daemon(daemon, "daemon.status", NULL, &arena, &reply);
    if (r == 0)
        r = record_decode(&daemon_status_record, reply.result, reply.result_length, &arena, &status,
                          &error);
    if (r < 0)
        return r;
    daemon->feed->status.interval_seconds = status.interval_seconds;
    daemon->open_anomalies = status.open_anomalies;
    return 0;
}

/* Reads the anomalies that opened earlier. An error is ignored, because not every user may read
 * them. */
static void read_open_episodes(struct daemon_feed *daemon)
{
    static const struct field field = {
        .name = "anomalies", .type = FIELD_RECORDS, .record = &anomaly_record};
    static const struct record record = {
        .name = "Open", .size = sizeof(struct anomaly_list), .fields = &field, .field_count = 1};
    _cleanup_(arena_done) struct arena arena = {0};
    struct anomaly_list list = {0};
    struct decode_error error;
    struct rpc_reply reply;
    char params[64];

    snprintf(params, sizeof(params), "{\"since\":%.3f}", ns_to_sec(clock_real_ns()));
    if (call_daemon(daemon, "report.machine", params, &arena, &reply) < 0 ||
        record_decode(&record, reply.result, reply.result_length, &arena, &list, &error) < 0)
        return;
    for (size_t i = 0; i < list.count; i++)
        if (!real_is_known(list.items[i].cleared_at))
            add_episode(daemon, &list.items[i]);
}

/* Reads the daemon's latest events. An error is ignored: the stream follows. */
static void read_recent_events(struct daemon_feed *daemon)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct decode_error error;
    struct rpc_reply reply;
    struct any_list list;

    if (call_daemon(daemon, "daemon.events", "{\"limit\":100}", &arena, &reply) < 0 ||
        list_decode(&process_event_record, reply.result, reply.result_length, &arena, &list,
                    &error) < 0)
        return;
    const struct process_event *events = list.items;
    for (size_t i = 0; i < list.count; i++) {
        struct event_line line = event_line_of_process(&events[i]);
        feed_send_event(daemon->feed, &line);
    }
}

/* ---- frames ---- */

/* Schedules the next request for a snapshot. A daemon that samples often enough gets one only after
 * a long silence, to detect that it is stopped. */
static void schedule_request(struct daemon_feed *daemon)
{
    double wanted = ns_to_sec(daemon->feed->options->interval_ns);
    double daemon_interval = daemon->feed->status.interval_seconds;
    double wait = daemon_interval > wanted ? wanted : SILENCE_INTERVALS * wanted + SILENCE_SECONDS;

    alarm_set(daemon->alarm, (uint64_t)(wait * 1e3));
}

static int decode_snapshot(const char *json, size_t length, bool is_wrapped, struct snapshot **ret)
{
    static const struct field field = {
        .name = "data", .type = FIELD_RECORD, .record = &snapshot_record, .required = true};
    static const struct record envelope = {
        .name = "Event", .size = sizeof(struct snapshot), .fields = &field, .field_count = 1};
    _cleanup_(snapshot_freep) struct snapshot *snapshot = snapshot_new();
    struct decode_error error;

    if (!snapshot)
        return -ENOMEM;
    int r = record_decode(is_wrapped ? &envelope : &snapshot_record, json, length, &snapshot->arena,
                          snapshot, &error);
    if (r == 0)
        *ret = TAKE_PTR(snapshot);
    return r;
}

static int send_frame(struct daemon_feed *daemon, const char *json, size_t length, bool is_wrapped)
{
    struct frame frame = {.is_jump = daemon->is_jump, .open_anomalies = INT_UNKNOWN};
    struct snapshot *snapshot = NULL;

    int r = decode_snapshot(json, length, is_wrapped, &snapshot);
    if (r == 0 && daemon->feed->job[0])
        scope_keep_job(daemon->feed->job, snapshot);
    frame.snapshot = snapshot;
    /* The stream contains the requested snapshot as well. */
    if (r == 0 && !daemon->is_jump && frame.snapshot->timestamp == daemon->last_timestamp) {
        frame_done(&frame);
        return 0;
    }
    if (r == 0)
        r = list_episodes(daemon, &frame);
    if (r < 0) {
        frame_done(&frame);
        return r;
    }
    daemon->is_jump = false;
    daemon->last_frame_ns = clock_mono_ns();
    daemon->last_timestamp = frame.snapshot->timestamp;
    feed_send_frame(daemon->feed, &frame);
    schedule_request(daemon);
    return 0;
}

static bool is_too_soon(const struct daemon_feed *daemon)
{
    double wanted_ns = (double)daemon->feed->options->interval_ns * EARLY_RATIO;

    return daemon->last_frame_ns && (double)(clock_mono_ns() - daemon->last_frame_ns) < wanted_ns;
}

/* ---- input of the streams ---- */

static int handle_event(struct daemon_feed *daemon, const struct rpc_reply *reply,
                        struct arena *arena)
{
    struct event_line line;

    int r = event_line_decode(reply->result, reply->result_length, arena, &line);
    if (r < 0)
        return r;
    if (line.kind == EVENT_KIND_ANOMALY) {
        if (real_is_known(line.anomaly.cleared_at))
            remove_episode(daemon, &line.anomaly);
        else
            add_episode(daemon, &line.anomaly);
        r = read_status(daemon);
    }
    feed_send_event(daemon->feed, &line);
    return r;
}

static int handle_message(struct daemon_feed *daemon, const struct rpc_reply *reply,
                          struct arena *arena)
{
    char prefix[64];

    if (!reply->result)
        return 0;
    /* Compares the start of the envelope, so that a snapshot can be skipped without parsing. */
    size_t length = (size_t)snprintf(prefix, sizeof(prefix), "{\"event\":\"%s\"",
                                     event_name_text(EVENT_NAME_SNAPSHOT));
    if (reply->result_length < length || memcmp(reply->result, prefix, length) != 0)
        return handle_event(daemon, reply, arena);
    return is_too_soon(daemon) ? 0 : send_frame(daemon, reply->result, reply->result_length, true);
}

/* Reports dropped events as a gap, as the daemon reports its own drops. */
static void report_dropped(struct daemon_feed *daemon)
{
    const struct gap gap = {.kind = GAP_EVENTS,
                            .timestamp = ns_to_sec(clock_real_ns()),
                            .seconds = REAL_UNKNOWN,
                            .lost = (int64_t)client_take_dropped(daemon->client),
                            .reason = "this client did not read the stream in time"};
    const struct event_line line = event_line_of_gap(&gap);

    if (gap.lost)
        feed_send_event(daemon->feed, &line);
}

static int drain(struct daemon_feed *daemon)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct rpc_reply reply;
    int r;

    while ((r = client_next(daemon->client, 0, &arena, &reply)) == 0) {
        report_dropped(daemon);
        r = handle_message(daemon, &reply, &arena);
        if (r < 0 && r != -EBADMSG) /* unknown events of a newer daemon are skipped */
            return r;
        arena_reset(&arena);
    }
    return r == -ETIMEDOUT ? 0 : r;
}

/* ---- connection ---- */

/* Disconnects, reports that the daemon is down, and schedules a retry. `reason` may be empty. */
static void mark_down(struct daemon_feed *daemon, int error, const char *reason)
{
    struct feed_status *status = &daemon->feed->status;

    if (daemon->client && *client_strerror(daemon->client))
        reason = client_strerror(daemon->client);
    snprintf(status->reason, sizeof(status->reason), "%s", *reason ? reason : strerror(-error));
    status->is_down = true;
    status->down_since = ns_to_sec(clock_real_ns());
    fd_watch_close(TAKE_PTR(daemon->watch));
    client_close(TAKE_PTR(daemon->client));
    clear_episodes(daemon);
    alarm_set(daemon->alarm, RETRY_MSEC);
    feed_send_status(daemon->feed);
}

static void on_readable(void *context, int fd _unused_)
{
    struct daemon_feed *daemon = context;
    int r = drain(daemon);

    if (r < 0)
        mark_down(daemon, r, "");
}

/* Requests a snapshot, which arrives through the stream as well. Called when one is overdue. */
static int request_snapshot(struct daemon_feed *daemon)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct rpc_reply reply;

    schedule_request(daemon);
    int r = call_daemon(daemon, "daemon.top", FRESH_PARAMS, &arena, &reply);
    if (r == 0)
        r = drain(daemon);
    return r;
}

static int subscribe(struct daemon_feed *daemon)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct rpc_reply reply;

    int r = client_stream_events(daemon->client, &arena, &reply);
    if (r == 0 && reply.error)
        r = -EPROTO;
    if (r == 0)
        r = call_daemon(daemon, "daemon.top.stream", NULL, &arena, &reply);
    return r;
}

/* Requests a snapshot and sends it at once. Its copy in the stream comes too early and is skipped.
 */
static int send_first_frame(struct daemon_feed *daemon)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct rpc_reply reply;

    int r = call_daemon(daemon, "daemon.top", FRESH_PARAMS, &arena, &reply);
    if (r == 0)
        r = send_frame(daemon, reply.result, reply.result_length, false);
    return r;
}

/* Subscribes, reads the current state and sends the first frame. */
static int start_streams(struct daemon_feed *daemon)
{
    struct feed_status *status = &daemon->feed->status;

    daemon->is_jump = true;
    daemon->last_frame_ns = 0;
    int r = subscribe(daemon);
    if (r == 0)
        r = read_status(daemon);
    if (r == 0)
        r = fd_watch_start(daemon->feed->loop, client_fd(daemon->client), false, on_readable,
                           daemon, &daemon->watch);
    if (r < 0)
        return r;
    status->is_down = false;
    status->reason[0] = '\0';
    feed_send_status(daemon->feed);
    read_open_episodes(daemon);
    r = send_first_frame(daemon);
    if (r == 0)
        read_recent_events(daemon);
    return r < 0 ? r : drain(daemon);
}

static int connect_daemon(struct daemon_feed *daemon, struct feed_error *error)
{
    const struct client_options options = {.socket_paths = daemon->feed->options->socket_paths,
                                           .timeout_msec = ANSWER_MSEC};
    struct client_error client_error = {""};

    int r = client_open(&options, &daemon->client, &client_error);
    return r < 0 ? feed_fail(error, r, "%s", client_error.text) : 0;
}

static void on_alarm(void *context)
{
    struct daemon_feed *daemon = context;
    struct feed_error error;

    if (daemon->client) {
        int r = request_snapshot(daemon);
        if (r < 0)
            mark_down(daemon, r, "");
        return;
    }
    int r = connect_daemon(daemon, &error);
    if (r == 0 && (r = start_streams(daemon)) < 0)
        mark_down(daemon, r, "");
    else if (r < 0)
        alarm_set(daemon->alarm, RETRY_MSEC);
}

/* ---- the source ---- */

static void close_feed(struct feed *feed)
{
    struct daemon_feed *daemon = feed->source_data;

    fd_watch_close(daemon->watch);
    client_close(daemon->client);
    alarm_close(daemon->alarm);
    clear_episodes(daemon);
    VEC_DONE(&daemon->episodes);
    free(daemon);
}

/* Whether a retry may succeed: the daemon is busy, stopped or just exiting. */
static bool is_retryable(int error)
{
    return error != -ENOENT && error != -EACCES && error != -EPERM && error != -ENAMETOOLONG &&
           error != -ENOMEM;
}

static int open_feed(struct feed *feed, struct feed_error *error)
{
    struct daemon_feed *daemon = calloc(1, sizeof(*daemon));

    if (!daemon)
        return -ENOMEM;
    *daemon = (struct daemon_feed){.feed = feed, .open_anomalies = INT_UNKNOWN};
    feed->source_data = daemon;
    feed->status.kind = FEED_DAEMON;
    int r = alarm_new(feed->loop, on_alarm, daemon, &daemon->alarm);
    if (r == 0)
        r = connect_daemon(daemon, error);
    if (r == 0)
        r = start_streams(daemon);
    if (r < 0 && is_retryable(r)) {
        mark_down(daemon, r, error->text);
        r = 0;
    }
    if (r < 0)
        close_feed(feed);
    return r;
}

const struct feed_source feed_daemon_source = {.open = open_feed, .close = close_feed};
