/* Handlers of daemon.*: status, snapshots, events and streams. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "daemon/connection.h"
#include "daemon/daemon-state.h"
#include "daemon/dispatch.h"
#include "daemon/methods.h"
#include "daemon/server.h"
#include "daemon/status.h"
#include "model/event-name.h"
#include "model/record-json.h"

/* The shortest interval of snapshots on demand, so that a client that requests them in a loop
 * causes little load. Each is stored and published like any other snapshot. */
#define FRESH_EVERY_NS           (100 * NS_PER_MSEC)
#define FRESH_EVERY_NS_OF_OTHERS (1 * NS_PER_SEC)

static struct bus_view view_of(const struct connection *connection, const char *job)
{
    const struct peer *peer = connection_peer(connection);

    return (struct bus_view){.sees_all = peer->sees_all, .uid = peer->uid, .job = job};
}

static void handle_daemon_status(struct daemon *daemon, struct connection *connection _unused_,
                                 const struct rpc_request *request _unused_, struct answer *answer)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct daemon_status status;

    int r = status_fill(daemon, &arena, &status);
    if (r < 0)
        answer_fail_errno(answer, r);
    else
        record_encode(&daemon_status_record, &status, &answer->json);
}

static void handle_daemon_top(struct daemon *daemon, struct connection *connection,
                              const struct rpc_request *request, struct answer *answer)
{
    const struct bus_view view = view_of(connection, NULL);
    uint64_t every_ns = view.sees_all ? FRESH_EVERY_NS : FRESH_EVERY_NS_OF_OTHERS;
    bool is_due = !daemon->live.latest || clock_mono_ns() - daemon->live.taken_ns > every_ns;

    if (rpc_bool(request, "fresh", false) && is_due) {
        int r = engine_collect(daemon->engine);
        if (r < 0) {
            answer_fail(answer, RPC_INTERNAL_ERROR, "snapshot failed: %s", collector_strerror(r));
            return;
        }
    }
    if (daemon->live.latest)
        bus_encode_snapshot(daemon->live.latest, &view, daemon_owner_of, daemon, &answer->result);
    else
        json_write_null(&answer->json);
}

static void start_stream(struct connection *connection, const char *const *patterns, size_t count,
                         const struct bus_view *view, struct answer *answer)
{
    int r = connection_stream(connection, patterns, count, view);

    if (r == -E2BIG)
        answer_fail(answer, RPC_RESOURCES_EXHAUSTED, "a connection may have at most %d streams",
                    CONNECTION_STREAMS_MAX);
    else if (r == -EINVAL)
        answer_fail(answer, RPC_INVALID_PARAMS,
                    "events: give 1 to %d names, or prefixes that end with '*'", BUS_PATTERNS_MAX);
    else if (r < 0)
        answer_fail_errno(answer, r);
}

static void handle_daemon_top_stream(struct daemon *daemon, struct connection *connection,
                                     const struct rpc_request *request, struct answer *answer)
{
    const char *const patterns[] = {event_name_text(EVENT_NAME_SNAPSHOT)};
    const struct bus_view view = view_of(connection, rpc_text(request, "job"));
    const char *path = daemon->config->jsonl_path;

    start_stream(connection, patterns, ARRAY_SIZE(patterns), &view, answer);
    json_write_begin_object(&answer->json);
    json_write_key(&answer->json, "jsonl_path");
    /* The log contains the processes of all users. */
    json_write_string(&answer->json, view.sees_all && path && *path ? path : NULL);
    json_write_end_object(&answer->json);
}

static void handle_daemon_monitor_stream(struct daemon *daemon _unused_,
                                         struct connection *connection,
                                         const struct rpc_request *request, struct answer *answer)
{
    const struct bus_view view = view_of(connection, NULL);
    const struct text_list *events = &rpc_value(request, "events")->texts;
    const struct field field = {.type = FIELD_TEXTS};

    for (size_t i = 0; i < events->count && !answer->error; i++) {
        _cleanup_text_ struct text groups = {0};

        if (event_name_exists(events->items[i]))
            continue;
        event_name_append_groups(&groups);
        answer_fail(answer, RPC_INVALID_PARAMS,
                    "events: there is no event '%.60s'; names begin with %s, and '*' means all "
                    "events",
                    events->items[i], text_string(&groups));
    }
    if (answer->error)
        return;
    start_stream(connection, events->items, events->count, &view, answer);
    json_write_begin_object(&answer->json);
    json_write_key(&answer->json, "events");
    field_encode(&field, events, &answer->json);
    json_write_end_object(&answer->json);
}

static bool may_see(const struct peer *peer, const struct live_event *event)
{
    return peer->sees_all || event->uid == (int64_t)peer->uid;
}

static void handle_daemon_events(struct daemon *daemon, struct connection *connection,
                                 const struct rpc_request *request, struct answer *answer)
{
    const struct peer *peer = connection_peer(connection);
    size_t limit = (size_t)rpc_int(request, "limit", 50), visible = 0;
    const struct live_event *event;

    for (size_t i = 0; (event = live_event_at(&daemon->live, i)); i++)
        visible += may_see(peer, event);
    json_write_begin_array(&answer->json);
    for (size_t i = 0; (event = live_event_at(&daemon->live, i)); i++)
        if (may_see(peer, event) && visible-- <= limit)
            record_encode(&process_event_record, &event->event, &answer->json);
    json_write_end_array(&answer->json);
}

static void write_change(void *context, const struct config_change *change)
{
    struct json_writer *json = context;

    json_write_begin_object(json);
    json_write_key(json, "key");
    json_write_string(json, change->key);
    json_write_key(json, "from");
    json_write_string(json, change->from);
    json_write_key(json, "to");
    json_write_string(json, change->to);
    json_write_key(json, "needs_restart");
    json_write_bool(json, change->needs_restart);
    json_write_end_object(json);
}

static void handle_daemon_reload(struct daemon *daemon, struct connection *connection,
                                 const struct rpc_request *request _unused_, struct answer *answer)
{
    _cleanup_config_errors_ struct config_errors errors = {0};

    if (!connection_peer(connection)->sees_all) {
        answer_fail(answer, RPC_NOT_PERMITTED,
                    "only root and the daemon's owner may reload the configuration");
        return;
    }
    json_write_begin_object(&answer->json);
    json_write_key(&answer->json, "changed");
    json_write_begin_array(&answer->json);
    int r = daemon_reload(daemon, write_change, &answer->json, &errors);
    json_write_end_array(&answer->json);
    json_write_end_object(&answer->json);
    if (r < 0)
        answer_fail(answer, RPC_INVALID_PARAMS, "the configuration did not change: %s",
                    errors.count ? errors.lines[0] : strerror(-r));
}

/* ---- the table entries ---- */

const struct rpc_method method_daemon_status = {
    .name = "daemon.status",
    .summary = "Returns the state of the daemon.",
    .result = "a DaemonStatus: version, pid, uptime, the collector and which figures are "
              "exact with it, tracers, availability of strace and GPUs, lost data, gaps",
    .handler = handle_daemon_status,
};

static const struct rpc_param top_params[] = {
    PARAM_BOOL("fresh", .meaning = "take a snapshot now; the schedule does not change"),
};

const struct rpc_method method_daemon_top = {
    .name = "daemon.top",
    .summary = "Returns the latest snapshot.",
    RPC_PARAMS(top_params),
    .result = "a SystemSnapshot; null before the first snapshot",
    .handler = handle_daemon_top,
};

static const struct rpc_param top_stream_params[] = {
    PARAM_RUN("job", .meaning = "only the processes of this job"),
};

const struct rpc_method method_daemon_top_stream = {
    .name = "daemon.top.stream",
    .summary = "Sends a snapshot at each tick from now on.",
    RPC_PARAMS(top_stream_params),
    .result = "{`jsonl_path`}, then a notification for each tick",
    .handler = handle_daemon_top_stream,
};

static const struct rpc_param daemon_events_params[] = {
    PARAM_LIMIT(200, 50),
};

const struct rpc_method method_daemon_events = {
    .name = "daemon.events",
    .summary = "Returns the latest events from the daemon's memory.",
    RPC_PARAMS(daemon_events_params),
    .result = "a list of ProcessEvent, oldest first; the daemon keeps the last 200",
    .handler = handle_daemon_events,
};

static const struct rpc_param monitor_stream_params[] = {
    PARAM_TEXTS("events", RPC_PATTERNS_MAX, .is_required = true,
                .meaning = "event names, or prefixes with a star: `sheet.*`, `*`"),
};

const struct rpc_method method_daemon_monitor_stream = {
    .name = "daemon.monitor.stream",
    .summary = "Sends events as they happen, from now on.",
    RPC_PARAMS(monitor_stream_params),
    .result = "{`events`}, then a notification for each event",
    .handler = handle_daemon_monitor_stream,
};

const struct rpc_method method_daemon_reload = {
    .name = "daemon.reload",
    .summary = "Reads the configuration again, like SIGHUP.",
    .result = "{`changed`: [{`key`, `from`, `to`, `needs_restart`}]}; if `needs_restart` is true, "
              "the daemon keeps its value until it is started again; after an error the old "
              "configuration stays in force",
    .handler = handle_daemon_reload,
};
