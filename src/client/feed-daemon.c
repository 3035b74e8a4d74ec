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
#include "rpc/event-name.h"

/* Shorter than the default, because a person waits for the screen. */
#define ANSWER_MSEC 3000
#define RETRY_MSEC  500
/* How long a daemon may send nothing. */
#define SILENCE_INTERVALS 2.0
#define SILENCE_SECONDS   1.0
/* Of open episodes; beyond it only their number is known. */
#define BOOK_MAX 1000
/* A snapshot that comes early by at most this is shown. */
#define EARLY_RATIO 0.75

#define EVENTS_PARAMS                                                                              \
    "{\"events\":[\"process.*\",\"job.*\",\"sheet.*\",\"" EVENT_NAME_ANOMALY                       \
    "\",\"" EVENT_NAME_ANOMALY_CLEARED "\",\"" EVENT_NAME_GAP "\"]}"
#define FRESH_PARAMS "{\"fresh\":true}"
/* The start of a snapshot's envelope, so that a snapshot can be skipped without parsing. */
#define SNAPSHOT_PREFIX "{\"event\":\"" EVENT_NAME_SNAPSHOT "\""

/* An open episode with its texts. */
struct booked {
    struct anomaly anomaly;
    struct arena arena;
};

struct daemon_feed {
    struct feed *feed;
    struct client *client; /* NULL: not connected */
    struct fd_watch *watch;
    struct alarm *alarm; /* to reconnect, or to request a snapshot */
    struct VEC(struct booked) book;
    int64_t open_anomalies;
    uint64_t last_frame_ns; /* monotonic; 0: none yet */
    double last_timestamp;  /* of its snapshot */
    bool is_jump;           /* the next frame is a jump */
};

/* ---- episodes ---- */

static void forget_episodes(struct daemon_feed *own)
{
    for (size_t i = 0; i < own->book.count; i++)
        arena_done(&own->book.items[i].arena);
    own->book.count = 0;
    own->open_anomalies = INT_UNKNOWN;
}

static bool is_same(const struct anomaly *a, const struct anomaly *b)
{
    return a->timestamp == b->timestamp && a->pid == b->pid &&
           strcmp(a->anomaly_type, b->anomaly_type) == 0;
}

static void unbook(struct daemon_feed *own, const struct anomaly *anomaly)
{
    for (size_t i = 0; i < own->book.count; i++) {
        if (!is_same(&own->book.items[i].anomaly, anomaly))
            continue;
        arena_done(&own->book.items[i].arena);
        memmove(&own->book.items[i], &own->book.items[i + 1],
                (own->book.count - i - 1) * sizeof(own->book.items[0]));
        own->book.count--;
        return;
    }
}

/* Without memory or room, the episode is only counted. */
static void book(struct daemon_feed *own, const struct anomaly *anomaly)
{
    struct booked booked = {0};

    unbook(own, anomaly);
    if (own->book.count >= BOOK_MAX)
        return;
    if (record_copy(&anomaly_record, anomaly, &booked.arena, &booked.anomaly) < 0 ||
        VEC_PUSH(&own->book, booked) < 0)
        arena_done(&booked.arena);
}

static int list_episodes(const struct daemon_feed *own, struct frame *frame)
{
    struct arena *arena = &frame->snapshot->arena;
    size_t count = own->book.count;
    struct anomaly *items = arena_alloc(arena, MAX(count, (size_t)1) * sizeof(*items));

    if (!items)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++)
        if (record_copy(&anomaly_record, &own->book.items[i].anomaly, arena, &items[i]) < 0)
            return -ENOMEM;
    frame->anomalies = (struct anomaly_list){.items = items, .count = count};
    frame->open_anomalies = own->open_anomalies;
    return 0;
}

/* ---- requests ---- */

/* Returns 0, -EPROTO (the daemon answered with an error) or another negative errno. */
static int ask(struct daemon_feed *own, const char *method, const char *params, struct arena *arena,
               struct rpc_reply *ret)
{
    int r = client_call(own->client, method, params, arena, ret);

    if (r == 0 && ret->error)
        return -EPROTO;
    return r;
}

static int learn_status(struct daemon_feed *own)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct daemon_status status;
    struct decode_error error;
    struct rpc_reply reply;

    int r = ask(own, "daemon.status", NULL, &arena, &reply);
    if (r == 0)
        r = record_decode(&daemon_status_record, reply.result, reply.result_length, &arena, &status,
                          &error);
    if (r < 0)
        return r;
    own->feed->status.interval_seconds = status.interval_seconds;
    own->open_anomalies = status.open_anomalies;
    return 0;
}

/* Reads the episodes that opened before; optional, because not every user may. */
static void learn_episodes(struct daemon_feed *own)
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
    if (ask(own, "report.machine", params, &arena, &reply) < 0 ||
        record_decode(&record, reply.result, reply.result_length, &arena, &list, &error) < 0)
        return;
    for (size_t i = 0; i < list.count; i++)
        if (!real_is_known(list.items[i].cleared_at))
            book(own, &list.items[i]);
}

/* Reads the daemon's latest events. */
static void learn_events(struct daemon_feed *own)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct decode_error error;
    struct rpc_reply reply;
    struct any_list list;

    if (ask(own, "daemon.events", "{\"limit\":100}", &arena, &reply) < 0 ||
        list_decode(&process_event_record, reply.result, reply.result_length, &arena, &list,
                    &error) < 0)
        return;
    const struct process_event *events = list.items;
    for (size_t i = 0; i < list.count; i++) {
        struct event_line news;
        if (event_line_of_process(&events[i], &arena, &news) == 0)
            feed_tell_news(own->feed, &news);
    }
}

/* ---- frames ---- */

/* A daemon that samples often enough gets a request only after a long silence, to detect that it is
 * stopped. */
static void plan_question(struct daemon_feed *own)
{
    double wanted = ns_to_sec(own->feed->options->interval_ns);
    double own_pace = own->feed->status.interval_seconds;
    double wait = own_pace > wanted ? wanted : SILENCE_INTERVALS * wanted + SILENCE_SECONDS;

    alarm_set(own->alarm, (uint64_t)(wait * 1e3));
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

static int give_frame(struct daemon_feed *own, const char *json, size_t length, bool is_wrapped)
{
    struct frame frame = {.is_jump = own->is_jump, .open_anomalies = INT_UNKNOWN};

    int r = decode_snapshot(json, length, is_wrapped, &frame.snapshot);
    /* The stream contains the requested snapshot as well. */
    if (r == 0 && !own->is_jump && frame.snapshot->timestamp == own->last_timestamp) {
        frame_done(&frame);
        return 0;
    }
    if (r == 0)
        r = list_episodes(own, &frame);
    if (r < 0) {
        frame_done(&frame);
        return r;
    }
    own->is_jump = false;
    own->last_frame_ns = clock_mono_ns();
    own->last_timestamp = frame.snapshot->timestamp;
    feed_give_frame(own->feed, &frame);
    plan_question(own);
    return 0;
}

static bool is_too_soon(const struct daemon_feed *own)
{
    double wanted_ns = (double)own->feed->options->interval_ns * EARLY_RATIO;

    return own->last_frame_ns && (double)(clock_mono_ns() - own->last_frame_ns) < wanted_ns;
}

/* ---- input of the streams ---- */

static int handle_news(struct daemon_feed *own, const struct rpc_reply *reply, struct arena *arena)
{
    struct event_line news;

    int r = event_line_decode(reply->result, reply->result_length, arena, &news);
    if (r < 0)
        return r;
    if (news.kind == EVENT_LINE_ANOMALY) {
        if (real_is_known(news.anomaly.cleared_at))
            unbook(own, &news.anomaly);
        else
            book(own, &news.anomaly);
        r = learn_status(own);
    }
    feed_tell_news(own->feed, &news);
    return r;
}

static int handle(struct daemon_feed *own, const struct rpc_reply *reply, struct arena *arena)
{
    size_t prefix = strlen(SNAPSHOT_PREFIX);

    if (!reply->result)
        return 0;
    if (reply->result_length < prefix || memcmp(reply->result, SNAPSHOT_PREFIX, prefix) != 0)
        return handle_news(own, reply, arena);
    return is_too_soon(own) ? 0 : give_frame(own, reply->result, reply->result_length, true);
}

/* In the form in which the daemon reports its own drops. Newer events were kept and follow. */
static void report_dropped(struct daemon_feed *own)
{
    const struct gap gap = {.kind = GAP_EVENTS,
                            .timestamp = ns_to_sec(clock_real_ns()),
                            .seconds = REAL_UNKNOWN,
                            .lost = (int64_t)client_take_dropped(own->client),
                            .reason = "this client did not read the stream in time"};
    const struct event_line news = event_line_of_gap(&gap);

    if (gap.lost)
        feed_tell_news(own->feed, &news);
}

static int drain(struct daemon_feed *own)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct rpc_reply reply;
    int r;

    while ((r = client_next(own->client, 0, &arena, &reply)) == 0) {
        report_dropped(own);
        r = handle(own, &reply, &arena);
        if (r < 0 && r != -EBADMSG) /* unknown events of a newer daemon are skipped */
            return r;
        arena_reset(&arena);
    }
    return r == -ETIMEDOUT ? 0 : r;
}

/* ---- connection ---- */

/* `words` is the reason and may be empty. */
static void go_down(struct daemon_feed *own, int error, const char *words)
{
    struct feed_status *status = &own->feed->status;

    if (own->client && *client_strerror(own->client))
        words = client_strerror(own->client);

    snprintf(status->words, sizeof(status->words), "%s", *words ? words : strerror(-error));
    status->is_down = true;
    status->down_since = ns_to_sec(clock_real_ns());
    fd_watch_close(TAKE_PTR(own->watch));
    client_close(TAKE_PTR(own->client));
    forget_episodes(own);
    alarm_set(own->alarm, RETRY_MSEC);
    feed_tell_status(own->feed);
}

static void on_readable(void *context, int fd _unused_)
{
    struct daemon_feed *own = context;
    int r = drain(own);

    if (r < 0)
        go_down(own, r, "");
}

/* A snapshot is overdue: the daemon samples less often than wanted, or there was none yet. */
static int ask_for_snapshot(struct daemon_feed *own)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct rpc_reply reply;

    plan_question(own);
    int r = ask(own, "daemon.top", FRESH_PARAMS, &arena, &reply);
    if (r == 0)
        r = drain(own);
    return r;
}

static int subscribe(struct daemon_feed *own)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct rpc_reply reply;

    int r = ask(own, "daemon.monitor.stream", EVENTS_PARAMS, &arena, &reply);
    if (r == 0)
        r = ask(own, "daemon.top.stream", NULL, &arena, &reply);
    return r;
}

/* Shows the answer at once; its copy in the stream comes too early and is skipped. */
static int give_first(struct daemon_feed *own)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct rpc_reply reply;

    int r = ask(own, "daemon.top", FRESH_PARAMS, &arena, &reply);
    if (r == 0)
        r = give_frame(own, reply.result, reply.result_length, false);
    return r;
}

static int go_live(struct daemon_feed *own)
{
    struct feed_status *status = &own->feed->status;

    own->is_jump = true;
    own->last_frame_ns = 0;
    int r = subscribe(own);
    if (r == 0)
        r = learn_status(own);
    if (r == 0)
        r = fd_watch_start(own->feed->loop, client_fd(own->client), false, on_readable, own,
                           &own->watch);
    if (r < 0)
        return r;
    snprintf(status->place, sizeof(status->place), "%s", client_socket_path(own->client));
    status->is_down = false;
    status->words[0] = '\0';
    feed_tell_status(own->feed);
    learn_episodes(own);
    r = give_first(own);
    if (r == 0)
        learn_events(own);
    return r < 0 ? r : drain(own);
}

static int connect_daemon(struct daemon_feed *own, struct feed_error *error)
{
    const struct client_options options = {.socket_paths = own->feed->options->socket_paths,
                                           .timeout_msec = ANSWER_MSEC};
    struct client_error words = {""};

    int r = client_open(&options, &own->client, &words);
    if (r < 0)
        return feed_fail(error, r, "%s", words.text);
    return 0;
}

static void on_alarm(void *context)
{
    struct daemon_feed *own = context;
    struct feed_error error;

    if (own->client) {
        int r = ask_for_snapshot(own);
        if (r < 0)
            go_down(own, r, "");
        return;
    }
    int r = connect_daemon(own, &error);
    if (r == 0 && (r = go_live(own)) < 0)
        go_down(own, r, "");
    else if (r < 0)
        alarm_set(own->alarm, RETRY_MSEC);
}

/* ---- the source ---- */

static void close_feed(struct feed *feed)
{
    struct daemon_feed *own = feed->own;

    fd_watch_close(own->watch);
    client_close(own->client);
    alarm_close(own->alarm);
    forget_episodes(own);
    VEC_DONE(&own->book);
    free(own);
}

/* Whether a retry may succeed: the daemon is busy, stopped or just exiting. */
static bool may_come_back(int error)
{
    return error != -ENOENT && error != -EACCES && error != -EPERM && error != -ENAMETOOLONG &&
           error != -ENOMEM;
}

static int open_feed(struct feed *feed, struct feed_error *error)
{
    struct daemon_feed *own = calloc(1, sizeof(*own));

    if (!own)
        return -ENOMEM;
    *own = (struct daemon_feed){.feed = feed, .open_anomalies = INT_UNKNOWN};
    feed->own = own;
    feed->status.kind = FEED_DAEMON;
    int r = alarm_new(feed->loop, on_alarm, own, &own->alarm);
    if (r == 0)
        r = connect_daemon(own, error);
    if (r == 0)
        r = go_live(own);
    if (r < 0 && may_come_back(r)) {
        go_down(own, r, error->text);
        r = 0;
    }
    if (r < 0)
        close_feed(feed);
    return r;
}

const struct feed_source feed_daemon_source = {.open = open_feed, .close = close_feed};
