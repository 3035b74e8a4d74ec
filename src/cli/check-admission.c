#include "cli/check-admission.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/utf8.h"
#include "cli/load-config.h"
#include "client/admission-decode.h"
#include "client/params.h"
#include "detect/admission.h"
#include "sample/collector.h"

#define WAIT_MIN_SECONDS 1
#define WAIT_MAX_SECONDS 60
/* The delay suggested while the daemon does not answer. */
#define UNANSWERED_DELAY_SECONDS 10

/* ---- the daemon ---- */

static int request_admission(struct client *client, const char *job_type, struct arena *arena,
                             struct rpc_reply *ret)
{
    _cleanup_text_ struct text params = {0};
    struct json_writer json = {.out = &params};

    json_write_begin_object(&json);
    params_write_text(&json, "job_type", job_type);
    json_write_end_object(&json);
    int r = text_error(&params);
    return r < 0 ? r : client_call(client, "pressure.should_accept_job", params.bytes, arena, ret);
}

/* Whether an error of client_open() means that there is no daemon for this user. Other errors are
 * faults of a running daemon. */
static bool has_no_daemon(int error)
{
    switch (error) {
    case -ENOENT:
    case -EACCES:
    case -EPERM:
    case -ENAMETOOLONG:
    case -ENOTSOCK:
    case -EPROTOTYPE: return true;
    default: return false;
    }
}

/* Denies the start: a daemon that cannot answer may be a symptom of an overloaded machine. */
static void deny(const char *reason, struct admission *ret)
{
    *ret =
        (struct admission){.level = PRESSURE_CRITICAL, .delay_seconds = UNANSWERED_DELAY_SECONDS};
    utf8_clean(ret->reason, sizeof(ret->reason), reason, strlen(reason));
}

static void deny_by_error(const struct client *client, const struct rpc_reply *reply,
                          struct admission *ret)
{
    char reason[sizeof(ret->reason)];

    snprintf(reason, sizeof(reason), "the daemon at '%s' returned an error: %s",
             client_socket_path(client), reply->message);
    deny(reason, ret);
}

/* Returns 0, -ENOENT (no daemon) or -ENOMEM. */
static int decide_by_daemon(const struct command_context *context, const char *job_type,
                            struct admission *ret)
{
    _cleanup_socket_paths_ struct socket_paths sockets = {0};
    _cleanup_(client_closep) struct client *client = NULL;
    _cleanup_(arena_done) struct arena arena = {0};
    struct client_error error;
    struct rpc_reply reply;

    int r = paths_sockets(context->socket_path, context->state_dir, getenv, geteuid(), &sockets);
    if (r < 0)
        return r;
    const struct client_options options = {.socket_paths = (const char *const *)sockets.items};
    r = client_open(&options, &client, &error);
    if (has_no_daemon(r))
        return -ENOENT;
    if (r == 0)
        r = request_admission(client, job_type, &arena, &reply);
    if (r == 0 && reply.error) {
        deny_by_error(client, &reply, ret);
        return 0;
    }
    if (r == 0)
        r = admission_decode(reply.result, reply.result_length, ret);
    if (r == 0 || r == -ENOMEM)
        return r;
    const char *message = client ? client_strerror(client) : error.text;
    deny(*message ? message : "the daemon sent an invalid answer", ret);
    return 0;
}

/* ---- without a daemon ---- */

/* Reads only this process, because only the figures of the machine are needed. */
static int take_snapshot(struct snapshot **ret)
{
    _cleanup_(collector_freep) struct collector *collector = NULL;
    pid_t own_pid = getpid();
    const struct collect_request request = {.pids = &own_pid, .pid_count = 1};
    struct moment moment;

    int r = collector_new(&(struct collector_options){0}, &collector);
    return r < 0 ? r : collector_take(collector, &request, ret, &moment);
}

/* Returns 0, 1 (no data about the type) or a negative errno. */
static int find_estimate(const struct command_context *context, const char *job_type,
                         struct resource_estimate *ret)
{
    _cleanup_(store_reader_closep) struct store_reader *reader = NULL;
    _cleanup_config_ struct config *config = NULL;
    _cleanup_(arena_done) struct arena arena = {0};
    struct store_error error;

    if (!job_type)
        return 1;
    int r = load_config(context, &config);
    if (r < 0)
        return r;
    if (resolve_paths(context, config) < 0 ||
        store_reader_open(config->storage_path, &reader, &error) < 0)
        return 1;
    r = query_estimate(reader, job_type, geteuid(), &arena, ret);
    return r == -ENOMEM ? r : r < 0;
}

static int decide_without_daemon(const struct command_context *context, const char *job_type,
                                 struct admission *ret)
{
    _cleanup_(snapshot_freep) struct snapshot *snapshot = NULL;
    struct resource_estimate estimate;

    int is_unknown = find_estimate(context, job_type, &estimate);
    if (is_unknown < 0)
        return is_unknown;
    int r = take_snapshot(&snapshot);
    if (r == -ENOMEM)
        return r;
    admission_without_daemon(snapshot, is_unknown ? NULL : &estimate, ret);
    return 0;
}

/* ---- both ---- */

int check_admission(const struct command_context *context, const char *job_type,
                    struct admission *ret, struct reader_error *error)
{
    int r = decide_by_daemon(context, job_type, ret);

    error->text[0] = '\0';
    if (r == -ENOENT)
        r = decide_without_daemon(context, job_type, ret);
    if (r == -ENOMEM)
        snprintf(error->text, sizeof(error->text), "%s", strerror(-r));
    return r;
}

static int sleep_seconds(double seconds)
{
    const struct timespec span = {.tv_sec = (time_t)seconds,
                                  .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};

    return nanosleep(&span, NULL) < 0 ? -errno : 0;
}

int await_admission(const struct command_context *context, const char *job_type, double timeout_sec,
                    struct admission *ret, struct reader_error *error)
{
    double started = ns_to_sec(clock_mono_ns());
    bool has_reported = false;

    for (;;) {
        int r = check_admission(context, job_type, ret, error);
        if (r < 0 || ret->allowed)
            return r;
        double left = timeout_sec - (ns_to_sec(clock_mono_ns()) - started);
        if (left <= 0)
            return -ETIMEDOUT;
        if (!has_reported)
            log_note("waiting until a job may start: %s", ret->reason);
        has_reported = true;
        double wait =
            MIN(MAX(ret->delay_seconds, (double)WAIT_MIN_SECONDS), (double)WAIT_MAX_SECONDS);
        r = sleep_seconds(left < wait ? left : wait);
        if (r < 0)
            return r;
    }
}
