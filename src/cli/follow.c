/* Nothing is to be missed between what is stored and what is streamed: the stream is opened first,
 * then the store is read, then what the daemon has in memory and has not stored yet; what comes
 * through the stream and was shown already is passed over. A daemon that comes back is treated in
 * the same way, from the last event that was shown. */
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

#define STREAM_PARAMS                                                                              \
    "{\"events\":[\"process.*\",\"monitor.anomaly\",\"monitor.anomaly_cleared\",\"monitor.gap\","  \
    "\"job.*\",\"sheet.*\"]}"
/* All that a daemon has in memory. */
#define MEMORY_PARAMS "{\"limit\":200}"
/* Of what happened while the daemon was away. */
#define CATCH_UP_LIMIT 1000
#define RETRY_MSEC     1000
/* Times go through JSON and SQLite, which keep microseconds. */
#define SAME_TIME_SECONDS 2e-6

/* An event that was shown, by what tells it from others. */
struct shown {
    double timestamp;
    int64_t pid;
    int event_type;
};

struct follow {
    const struct follow_options *options;
    struct report_style style;
    struct client *client;
    struct VEC(struct shown) shown; /* since the stream was opened, of what was not streamed */
    double newest;                  /* of all that was shown; unknown: none */
};

/* Beside exit statuses: to go on. */
#define GO_ON (-1)

/* ---- what is wanted ---- */

static bool is_of_job(const char *job, const struct news *news)
{
    const char *run_id = news_run_id(news);

    return (news->job_id && strcmp(news->job_id, job) == 0) || (run_id && strcmp(run_id, job) == 0);
}

bool follow_wants(const struct follow_options *options, const struct news *news)
{
    if (options->job && !is_of_job(options->job, news))
        return false;
    if (options->filter.event_type &&
        (news->kind != NEWS_PROCESS || news->process.event_type != options->filter.event_type))
        return false;
    return !int_is_known(options->filter.pid) || news_pid(news) == options->filter.pid;
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

/* At once, because whoever reads it is waiting. GO_ON, or the exit status. */
static int put_out(struct text *line)
{
    if (text_error(line) < 0) {
        log_error("events: %s", strerror(-text_error(line)));
        return 1;
    }
    fwrite(line->bytes, 1, line->length, stdout);
    if (finish_output())
        return 1;
    return ferror(stdout) ? 0 : GO_ON; /* the reader has gone, which is no failure */
}

static int show(struct follow *follow, const struct news *news, const struct rpc_reply *raw)
{
    _cleanup_text_ struct text line = {0};

    if (!follow->options->as_json) {
        news_format(news, ns_to_sec(clock_real_ns()), &follow->style, &line);
    } else {
        if (raw)
            text_append(&line, raw->result, raw->result_length);
        else
            news_encode_event(news, &line);
        text_append_char(&line, '\n');
    }
    return put_out(&line);
}

/* An event that did not come through the stream. */
static int show_stored(struct follow *follow, const struct process_event *event)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct news news;

    int r = news_of_event(event, &arena, &news);
    if (r == 0 && (!follow_wants(follow->options, &news) || was_shown(follow, event)))
        return GO_ON;
    if (r == 0)
        r = VEC_PUSH(&follow->shown,
                     (struct shown){event->timestamp, event->pid, event->event_type});
    if (r < 0) {
        log_error("events: %s", strerror(-r));
        return 1;
    }
    follow->newest = fmax(follow->newest, event->timestamp);
    return show(follow, &news, NULL);
}

static int show_list(struct follow *follow, const struct process_event_list *events)
{
    int status = GO_ON;

    for (size_t i = 0; i < events->count && status == GO_ON; i++)
        status = show_stored(follow, &events->items[i]);
    return status;
}

/* ---- what there was before ---- */

static int read_stored(const struct follow *follow, double since, size_t limit, struct arena *arena,
                       struct process_event_list *ret)
{
    const struct follow_options *options = follow->options;
    _cleanup_(reader_closep) struct reader *reader = NULL;
    struct event_filter filter = options->filter;

    if (!limit)
        return GO_ON;
    int status = open_reader(options->command, options->context, &reader);
    if (status)
        return status;
    filter.since = since;
    filter.limit = limit;
    int r = reader_events(reader, options->job, &filter, arena, ret);
    if (r == -ENOENT) { /* it may come yet */
        log_note("there is no job '%s' yet; waiting for it", options->job);
        return GO_ON;
    }
    return r < 0 ? reader_failed(options->command, reader, r) : GO_ON;
}

/* What the daemon has not stored yet. One that does not tell has nothing to tell. */
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

/* Drops what is not wanted, or not after `since`; then all but the latest `limit`. */
static void narrow(const struct follow *follow, double since, size_t limit, struct arena *arena,
                   struct process_event_list *events)
{
    size_t kept = 0;

    for (size_t i = 0; i < events->count; i++) {
        struct news news;
        if (events->items[i].timestamp > since &&
            news_of_event(&events->items[i], arena, &news) == 0 &&
            follow_wants(follow->options, &news))
            events->items[kept++] = events->items[i];
    }
    events->count = kept;
    keep_latest(events, limit);
}

static double last_time(const struct process_event_list *events, double otherwise)
{
    return events->count ? events->items[events->count - 1].timestamp : otherwise;
}

/* GO_ON, or the exit status. */
static int catch_up(struct follow *follow, double since, size_t limit)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct process_event_list stored = {0}, memory = {0};

    int status = read_stored(follow, since, limit, &arena, &stored);
    if (status != GO_ON)
        return status;
    if (limit)
        read_memory(follow, &arena, &memory);
    double from = last_time(&stored, real_is_known(since) ? since : -HUGE_VAL);
    narrow(follow, from, limit, &arena, &memory);
    /* Both together are not more than was asked for. */
    keep_latest(&stored, limit - memory.count);
    status = show_list(follow, &stored);
    return status == GO_ON ? show_list(follow, &memory) : status;
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
    r = client_call(client, "daemon.monitor.stream", STREAM_PARAMS, &arena, &reply);
    if (r < 0)
        snprintf(error->text, sizeof(error->text), "%s", client_strerror(client));
    else if (reply.error) {
        snprintf(error->text, sizeof(error->text), "the daemon at '%s' does not stream: %.300s",
                 client_socket_path(client), reply.message);
        r = -EPROTO;
    }
    if (r == 0)
        follow->client = TAKE_PTR(client);
    return r;
}

/* Whether whoever reads stdout has gone: it would not be noticed before the next line. */
static bool wait_or_lose_reader(int fd, int timeout_msec)
{
    struct pollfd fds[] = {{.fd = STDOUT_FILENO}, {.fd = fd, .events = POLLIN}};

    poll(fds, fd < 0 ? 1 : 2, timeout_msec);
    return fds[0].revents != 0;
}

/* Tries until it is back. GO_ON, or the exit status. */
static int await_daemon(struct follow *follow)
{
    struct client_error error;

    log_note("%s; waiting for it to come back", client_strerror(follow->client));
    client_close(TAKE_PTR(follow->client));
    do {
        if (wait_or_lose_reader(-1, RETRY_MSEC))
            return 0;
    } while (open_stream(follow, &error) < 0);
    log_note("the daemon at '%s' is back", client_socket_path(follow->client));
    if (!real_is_known(follow->newest))
        return GO_ON;
    follow->shown.count = 0;
    /* If it is gone again already, that is noticed at its stream. */
    int status = catch_up(follow, follow->newest + SAME_TIME_SECONDS, CATCH_UP_LIMIT);
    return status > 0 ? GO_ON : status;
}

static int handle(struct follow *follow, const struct rpc_reply *reply, struct arena *arena)
{
    struct news news;

    int r = news_decode(reply->result, reply->result_length, arena, &news);
    if (r == -ENOMEM) {
        log_error("events: %s", strerror(-r));
        return 1;
    }
    if (r < 0 || !follow_wants(follow->options, &news) ||
        (news.kind == NEWS_PROCESS && was_shown(follow, &news.process)))
        return GO_ON;
    if (news.kind == NEWS_PROCESS)
        follow->newest = fmax(follow->newest, news.process.timestamp);
    return show(follow, &news, reply);
}

/* Only requests make the client keep events, and drop those that it cannot keep. */
static void report_dropped(struct follow *follow)
{
    uint64_t dropped = client_take_dropped(follow->client);

    if (dropped)
        log_note("%llu %s dropped, which came faster than they were read; 'sonde events' lists "
                 "those that are stored",
                 (unsigned long long)dropped, dropped == 1 ? "event was" : "events were");
}

static int follow_stream(struct follow *follow)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct rpc_reply reply;
    int status = GO_ON;

    while (status == GO_ON) {
        arena_reset(&arena);
        report_dropped(follow);
        int r = client_next(follow->client, 0, &arena, &reply);
        if (r == 0)
            status = handle(follow, &reply, &arena);
        else if (r == -ETIMEDOUT)
            status = wait_or_lose_reader(client_fd(follow->client), -1) ? 0 : GO_ON;
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

    if (open_stream(&follow, &error) < 0)
        log_error("events: --follow needs the daemon: %s", error.text);
    else
        status = catch_up(&follow, options->filter.since, options->filter.limit);
    if (status == GO_ON)
        status = follow_stream(&follow);
    client_close(follow.client);
    VEC_DONE(&follow.shown);
    return status;
}
