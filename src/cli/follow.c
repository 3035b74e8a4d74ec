/* No event may be lost between the stored and the streamed ones. So the stream is opened first,
 * then the store is read, then the events that the daemon has in memory and has not stored yet.
 * Streamed events that were already shown are skipped. When a daemon returns, the same happens from
 * the last event shown. */
#include "cli/follow.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/vec.h"
#include "cli/output.h"
#include "client/list-decode.h"

/* The number of events that a daemon keeps in memory. */
#define MEMORY_PARAMS "{\"limit\":200}"
/* Events shown of the time while the daemon was away. */
#define CATCH_UP_LIMIT 1000
#define RETRY_MSEC     1000
/* Times go through JSON and SQLite, which keep microseconds. */
#define SAME_TIME_SECONDS 2e-6

/* The identity of an event that was shown. */
struct shown {
    double timestamp;
    int64_t pid;
    int event_type;
};

struct follow {
    const struct follow_options *options;
    struct report_style style;
    struct client *client;
    struct VEC(struct shown) shown; /* stored events shown since the stream was opened */
    double newest;                  /* time of the newest event shown; unknown: none */
};

/* A result beside the exit statuses: there is more to print. */
#define CONTINUE (-1)

/* ---- selecting ---- */

bool follow_matches(const struct follow_options *options, const struct event_line *line)
{
    if (options->job && !job_is_named(options->job, line->job_id, event_line_run_id(line)))
        return false;
    if (options->filter.event_types &&
        (line->kind != EVENT_KIND_PROCESS ||
         !(options->filter.event_types & EVENT_TYPE_BIT(line->process.event_type))))
        return false;
    return !int_is_known(options->filter.pid) || event_line_pid(line) == options->filter.pid;
}

static bool was_shown(const struct follow *follow, const struct process_event *event)
{
    for (size_t i = 0; i < follow->shown.count; i++) {
        const struct shown *shown = &follow->shown.items[i];
        if (shown->pid == event->pid && shown->event_type == event->event_type &&
            fabs(shown->timestamp - event->timestamp) < SAME_TIME_SECONDS)
            return true;
    }
    return false;
}

/* ---- showing ---- */

/* Flushes each line, because the reader waits for it. Returns CONTINUE or the exit status. */
static int print_line(const struct follow *follow, struct text *line)
{
    if (text_error(line) < 0) {
        log_error("events: %s", strerror(-text_error(line)));
        return 1;
    }
    fwrite(line->bytes, 1, line->length, stdout);
    if (finish_output(follow->options->command))
        return 1;
    return ferror(stdout) ? 0 : CONTINUE; /* the reader has ended, which is not a failure */
}

/* Prints an event. `raw` is the message that contained it; NULL: it was stored. */
static int show(struct follow *follow, const struct event_line *line, const struct rpc_reply *raw)
{
    _cleanup_text_ struct text out = {0};

    if (!follow->options->as_json) {
        event_line_format(line, ns_to_sec(clock_real_ns()), &follow->style, &out);
        output_adapt(&out);
    } else {
        if (raw)
            text_append(&out, raw->result, raw->result_length);
        else
            event_line_encode_event(line, &out);
        text_append_char(&out, '\n');
    }
    return print_line(follow, &out);
}

/* Shows an event from the store or from the memory of the daemon. */
static int show_stored(struct follow *follow, const struct process_event *event)
{
    const struct event_line line = event_line_of_process(event);

    if (!follow_matches(follow->options, &line) || was_shown(follow, event))
        return CONTINUE;
    int r =
        VEC_PUSH(&follow->shown, (struct shown){event->timestamp, event->pid, event->event_type});
    if (r < 0) {
        log_error("events: %s", strerror(-r));
        return 1;
    }
    follow->newest = fmax(follow->newest, event->timestamp);
    return show(follow, &line, NULL);
}

static int show_list(struct follow *follow, const struct process_event_list *events)
{
    int status = CONTINUE;

    for (size_t i = 0; i < events->count && status == CONTINUE; i++)
        status = show_stored(follow, &events->items[i]);
    return status;
}

/* ---- earlier events ---- */

static int read_stored(const struct follow *follow, double since, size_t limit, struct arena *arena,
                       struct process_event_list *ret)
{
    const struct follow_options *options = follow->options;
    _cleanup_(reader_closep) struct reader *reader = NULL;
    struct event_filter filter = options->filter;

    if (!limit)
        return CONTINUE;
    int status = open_reader(options->command, options->context, &reader);
    if (status)
        return status;
    filter.since = since;
    filter.limit = limit;
    int r = reader_events(reader, options->job, &filter, arena, ret);
    if (r == -ENOENT) { /* it may start later */
        log_note("no job named '%s' yet; waiting for it", options->job);
        return CONTINUE;
    }
    return r < 0 ? reader_failed(options->command, reader, r) : CONTINUE;
}

/* Events that the daemon has not stored yet. An error is treated as an empty list. */
static void read_memory(struct follow *follow, struct arena *arena, struct process_event_list *ret)
{
    struct decode_error error;
    struct rpc_reply reply;
    struct any_list list;

    if (client_call(follow->client, "daemon.events", MEMORY_PARAMS, arena, &reply) < 0 ||
        reply.error)
        return;
    if (list_decode(&process_event_record, reply.result, reply.result_length, arena, &list,
                    &error) == 0)
        *ret = (struct process_event_list){.items = list.items, .count = list.count};
}

static void keep_latest(struct process_event_list *events, size_t limit)
{
    if (events->count > limit) {
        events->items += events->count - limit;
        events->count = limit;
    }
}

/* Keeps the latest `limit` of the events that match and are after `since`. */
static void filter_events(const struct follow *follow, double since, size_t limit,
                          struct process_event_list *events)
{
    size_t kept = 0;

    for (size_t i = 0; i < events->count; i++) {
        const struct event_line line = event_line_of_process(&events->items[i]);
        if (events->items[i].timestamp > since && follow_matches(follow->options, &line))
            events->items[kept++] = events->items[i];
    }
    events->count = kept;
    keep_latest(events, limit);
}

static double last_time(const struct process_event_list *events, double otherwise)
{
    return events->count ? events->items[events->count - 1].timestamp : otherwise;
}

/* Prints the latest `limit` events since `since`: stored ones, then those that only the daemon has.
 * Returns CONTINUE or the exit status. */
static int catch_up(struct follow *follow, double since, size_t limit)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct process_event_list stored = {0}, memory = {0};

    int status = read_stored(follow, since, limit, &arena, &stored);
    if (status != CONTINUE)
        return status;
    if (limit)
        read_memory(follow, &arena, &memory);
    double from = last_time(&stored, real_is_known(since) ? since : -HUGE_VAL);
    filter_events(follow, from, limit, &memory);
    /* Both lists together must not exceed the limit. */
    keep_latest(&stored, limit - memory.count);
    status = show_list(follow, &stored);
    return status == CONTINUE ? show_list(follow, &memory) : status;
}

/* ---- the stream ---- */

static int open_stream(struct follow *follow, struct client_error *error)
{
    const struct command_context *context = follow->options->context;
    _cleanup_socket_paths_ struct socket_paths sockets = {0};
    _cleanup_(client_closep) struct client *client = NULL;
    _cleanup_(arena_done) struct arena arena = {0};
    struct rpc_reply reply;

    int r = paths_sockets(context->socket_path, context->state_dir, getenv, geteuid(), &sockets);
    if (r < 0) {
        snprintf(error->text, sizeof(error->text), "%s", strerror(-r));
        return r;
    }
    const struct client_options options = {.socket_paths = (const char *const *)sockets.items};
    r = client_open(&options, &client, error);
    if (r < 0)
        return r;
    r = client_stream_events(client, &arena, &reply);
    if (r < 0)
        snprintf(error->text, sizeof(error->text), "%s", client_strerror(client));
    else if (reply.error) {
        snprintf(error->text, sizeof(error->text), "the daemon at '%s' returned an error: %.300s",
                 client_socket_path(client), reply.message);
        r = -EPROTO;
    }
    if (r == 0)
        follow->client = TAKE_PTR(client);
    return r;
}

/* Waits for input on `fd` (-1: none) or for the timeout. Returns whether the reader of stdout has
 * ended, which a write would notice only with the next line. */
static bool wait_for_input(int fd, int timeout_msec)
{
    struct pollfd fds[] = {{.fd = STDOUT_FILENO}, {.fd = fd, .events = POLLIN}};

    poll(fds, fd < 0 ? 1 : 2, timeout_msec);
    return fds[0].revents != 0;
}

/* Retries until the daemon is back. Returns CONTINUE or the exit status. */
static int await_daemon(struct follow *follow)
{
    struct client_error error;

    log_note("%s; waiting for it to return", client_strerror(follow->client));
    client_close(TAKE_PTR(follow->client));
    do {
        if (wait_for_input(-1, RETRY_MSEC))
            return 0;
    } while (open_stream(follow, &error) < 0);
    log_note("the daemon at '%s' is back", client_socket_path(follow->client));
    if (!real_is_known(follow->newest))
        return CONTINUE;
    follow->shown.count = 0;
    /* An error here means that the daemon is gone again, which the stream will show. */
    int status = catch_up(follow, follow->newest + SAME_TIME_SECONDS, CATCH_UP_LIMIT);
    return status > 0 ? CONTINUE : status;
}

static int handle_message(struct follow *follow, const struct rpc_reply *reply, struct arena *arena)
{
    struct event_line line;

    int r = event_line_decode(reply->result, reply->result_length, arena, &line);
    if (r == -ENOMEM) {
        log_error("events: %s", strerror(-r));
        return 1;
    }
    if (r < 0 || !follow_matches(follow->options, &line) ||
        (line.kind == EVENT_KIND_PROCESS && was_shown(follow, &line.process)))
        return CONTINUE;
    if (line.kind == EVENT_KIND_PROCESS)
        follow->newest = fmax(follow->newest, line.process.timestamp);
    return show(follow, &line, reply);
}

/* While a request waits for its answer, the client queues events, and drops those beyond its limit.
 */
static void report_dropped(struct follow *follow)
{
    uint64_t dropped = client_take_dropped(follow->client);

    if (dropped)
        log_note("%llu %s dropped because they arrived too fast; 'sonde events' lists the stored "
                 "ones",
                 (unsigned long long)dropped, dropped == 1 ? "event was" : "events were");
}

static int follow_stream(struct follow *follow)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct rpc_reply reply;
    int status = CONTINUE;

    while (status == CONTINUE) {
        arena_reset(&arena);
        report_dropped(follow);
        int r = client_next(follow->client, 0, &arena, &reply);
        if (r == 0)
            status = handle_message(follow, &reply, &arena);
        else if (r == -ETIMEDOUT)
            status = wait_for_input(client_fd(follow->client), -1) ? 0 : CONTINUE;
        else if (r == -ENOMEM) {
            log_error("events: %s", client_strerror(follow->client));
            status = 1;
        } else
            status = await_daemon(follow);
    }
    return status;
}

int follow_events(const struct follow_options *options)
{
    struct follow follow = {
        .options = options,
        .style = output_style(SIZE_MAX),
        .newest = REAL_UNKNOWN,
    };
    struct client_error error = {""};
    int status = 1;

    int r = open_stream(&follow, &error);
    if (r < 0) {
        log_error("events: --follow needs the daemon: %s", error.text);
        status = r == -ENOENT ? EXIT_NO_DATA : 1;
    } else
        status = catch_up(&follow, options->filter.since, options->filter.limit);
    if (status == CONTINUE)
        status = follow_stream(&follow);
    client_close(follow.client);
    VEC_DONE(&follow.shown);
    return status;
}
