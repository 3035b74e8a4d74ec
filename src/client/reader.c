#include "client/reader-parts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/suggest.h"
#include "base/utf8.h"
#include "client/list-decode.h"
#include "client/params.h"

/* The largest `limit` that the method table allows. */
#define DAEMON_LIMIT_MAX 10000
/* Suggestions come from the latest jobs only. */
#define SIMILAR_AMONG 1000

#define NO_DATA_IN "no data yet in '%s'"

/* ---- errors ---- */

static int set_error(struct reader *reader, int r, const char *format, ...) _printf_(3, 4);
static void set_note(struct reader *reader, const char *format, ...) _printf_(2, 3);

static int set_error(struct reader *reader, int r, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(reader->error, sizeof(reader->error), format, arguments);
    va_end(arguments);
    return r;
}

static void set_note(struct reader *reader, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(reader->note, sizeof(reader->note), format, arguments);
    va_end(arguments);
}

/* ---- opening ---- */

static int open_store(struct reader *reader, struct store_error *error)
{
    if (reader->store)
        return 0;
    return reader->database_path ? store_reader_open(reader->database_path, &reader->store, error)
                                 : -ENOENT;
}

bool reader_has_store(struct reader *reader)
{
    struct store_error error = {""};

    return open_store(reader, &error) == 0;
}

/* Describes why neither the daemon nor the database can be opened. An error of the daemon comes
 * first. */
static void set_open_error(const struct reader *reader, int daemon_error,
                           const struct client_error *daemon_error_text, int store_error,
                           const struct store_error *store_error_text, struct reader_error *error)
{
    bool is_alone = daemon_error == -ENOENT;
    const char *about_daemon = is_alone ? "" : daemon_error_text->text;

    if (!reader->database_path)
        snprintf(error->text, sizeof(error->text), "%s%s", about_daemon,
                 is_alone ? "no state directory; set HOME or use --state-dir DIR" : "");
    else if (store_error == -ENOENT)
        snprintf(error->text, sizeof(error->text),
                 is_alone ? "%s" NO_DATA_IN "; run a job with: sonde run -- CMD"
                          : "%s; and there is " NO_DATA_IN,
                 about_daemon, reader->database_path);
    else
        snprintf(error->text, sizeof(error->text), "%s",
                 store_error_text->text[0] ? store_error_text->text : strerror(-store_error));
}

static int open_any(struct reader *reader, const struct reader_options *options,
                    struct reader_error *error)
{
    const struct client_options client_options = {.socket_paths = options->socket_paths};
    struct client_error daemon_error_text = {""};
    struct store_error store_error_text = {""};
    int daemon_error = -ENOENT;

    if (options->socket_paths) {
        daemon_error = client_open(&client_options, &reader->client, &daemon_error_text);
        if (daemon_error == 0 || daemon_error == -ENOMEM)
            return daemon_error;
    }
    reader->answered = READER_STORE;
    int r = open_store(reader, &store_error_text);
    if (r < 0) {
        set_open_error(reader, daemon_error, &daemon_error_text, r, &store_error_text, error);
        return r == -ENOENT ? daemon_error : r;
    }
    /* A daemon that rejects this user is normal; any other failure is worth a note. */
    if (daemon_error == -EACCES)
        reader->daemon_error = daemon_error_text;
    else if (daemon_error != -ENOENT && daemon_error != -ENAMETOOLONG)
        set_note(reader, "%s; this is from '%s'", daemon_error_text.text, reader->database_path);
    return r;
}

int reader_open(const struct reader_options *options, struct reader **ret,
                struct reader_error *error)
{
    _cleanup_(reader_closep) struct reader *reader = calloc(1, sizeof(*reader));
    int r = -ENOMEM;

    if (reader && options->database_path)
        reader->database_path = strdup(options->database_path);
    if (reader && (reader->database_path || !options->database_path))
        r = open_any(reader, options, error);
    if (r == -ENOMEM)
        snprintf(error->text, sizeof(error->text), "%s", strerror(ENOMEM));
    if (r == 0)
        *ret = TAKE_PTR(reader);
    return r;
}

void reader_close(struct reader *reader)
{
    if (!reader)
        return;
    client_close(reader->client);
    store_reader_closep(&reader->store);
    free(reader->database_path);
    free(reader);
}

void reader_closep(struct reader **reader)
{
    reader_close(*reader);
}

enum reader_source reader_source(const struct reader *reader)
{
    return reader->answered;
}

const char *reader_place(const struct reader *reader)
{
    return reader->answered == READER_DAEMON ? client_socket_path(reader->client)
                                             : reader->database_path;
}

bool reader_sees_only_own(const struct reader *reader)
{
    return reader->answered == READER_DAEMON && !client_sees_all(reader->client);
}

const char *reader_strerror(const struct reader *reader)
{
    return reader->error;
}

const char *reader_note(const struct reader *reader)
{
    return reader->note[0] ? reader->note : NULL;
}

const char *reader_daemon_error(const struct reader *reader)
{
    return reader->daemon_error.text[0] ? reader->daemon_error.text : NULL;
}

/* ---- requests to the daemon ---- */

/* The daemon cannot answer, for the reason in `error`: falls back to the own database if there is
 * one. */
static int fall_back(struct reader *reader, int r)
{
    struct store_error store_error_text = {""};
    size_t length = strlen(reader->error);

    int store_error = open_store(reader, &store_error_text);
    if (store_error == 0) {
        set_note(reader, "%s; this is from '%s'", reader->error, reader->database_path);
        return READ_STORE;
    }
    if (store_error != -ENOENT)
        snprintf(reader->error + length, sizeof(reader->error) - length, "; and %s",
                 store_error_text.text);
    else if (reader->database_path)
        snprintf(reader->error + length, sizeof(reader->error) - length,
                 "; and there is " NO_DATA_IN, reader->database_path);
    return r;
}

/* Closes the connection, so that no further requests are sent, and falls back. */
static int give_up_daemon(struct reader *reader, int r)
{
    client_close(TAKE_PTR(reader->client));
    reader->answered = READER_STORE;
    return fall_back(reader, r);
}

/* The daemon answered with an error. Returns READ_STORE or a negative errno. */
static int handle_error_reply(struct reader *reader, const char *method,
                              const struct rpc_reply *reply)
{
    const char *place = client_socket_path(reader->client);
    const char *message = reply->message ? reply->message : "an error";

    switch (reply->error) {
    case RPC_JOB_NOT_FOUND:
        return set_error(reader, -ENOENT, "the daemon at '%s' returned an error: %s", place,
                         message);
    case RPC_NOT_PERMITTED:
        return set_error(reader, -EPERM, "%s (from the daemon at '%s')", message, place);
    case RPC_METHOD_NOT_FOUND:
        set_error(reader, 0,
                  "the daemon at '%s' has another version and does not know '%s'; restart it",
                  place, method);
        return fall_back(reader, -EOPNOTSUPP);
    case RPC_INVALID_PARAMS: /* the options were checked before: it does not know one of them */
        set_error(reader, 0,
                  "the daemon at '%s' refuses the request: %s; restart it if it is older", place,
                  message);
        return fall_back(reader, -EOPNOTSUPP);
    default:
        set_error(reader, 0, "the daemon at '%s' returned an error: %s", place, message);
        return fall_back(reader, -EIO);
    }
}

int reader_request(struct reader *reader, const char *method, const struct text *params,
                   struct arena *arena, struct rpc_reply *ret)
{
    int r = text_error(params);

    reader->reply_error = 0;
    if (r < 0)
        return set_error(reader, r, "%s", strerror(-r));
    r = client_call(reader->client, method, text_string(params), arena, ret);
    if (r < 0) {
        set_error(reader, 0, "%s", client_strerror(reader->client));
        return give_up_daemon(reader, r);
    }
    reader->reply_error = ret->error;
    return ret->error ? handle_error_reply(reader, method, ret) : 0;
}

/* Handles the result of decoding: falls back to the own database if the answer is invalid. */
static int check_decoded(struct reader *reader, int r, const struct decode_error *error)
{
    if (r == -EBADMSG) {
        set_error(
            reader, 0,
            "the daemon at '%s' sent an answer that this sonde cannot decode (%s); check that both "
            "have the same version",
            client_socket_path(reader->client), error->text);
        return fall_back(reader, r);
    }
    return r < 0 ? set_error(reader, r, "%s", strerror(-r)) : 0;
}

int reader_decode(struct reader *reader, const struct record *record, const char *json,
                  size_t length, struct arena *arena, void *ret)
{
    struct decode_error error = {""};

    int r = record_decode(record, json, length, arena, ret, &error);
    return check_decoded(reader, r, &error);
}

int reader_request_record(struct reader *reader, const char *method, const struct text *params,
                          const struct record *record, struct arena *arena, void *ret)
{
    struct rpc_reply reply;

    int r = reader_request(reader, method, params, arena, &reply);
    return r ? r : reader_decode(reader, record, reply.result, reply.result_length, arena, ret);
}

int reader_request_list(struct reader *reader, const char *method, const struct text *params,
                        const struct record *record, struct arena *arena, struct any_list *ret)
{
    struct decode_error error = {""};
    struct rpc_reply reply;

    int r = reader_request(reader, method, params, arena, &reply);
    if (r)
        return r;
    r = list_decode(record, reply.result, reply.result_length, arena, ret, &error);
    return check_decoded(reader, r, &error);
}

/* ---- parameters ---- */

static void write_limit(struct json_writer *json, size_t limit)
{
    params_write_int(json, "limit", (int64_t)(limit ? limit : DAEMON_LIMIT_MAX));
}

static void write_jobs_params(const struct job_filter *filter, struct text *out)
{
    struct json_writer json = {.out = out};

    json_write_begin_object(&json);
    params_write_real(&json, "since", filter->since);
    params_write_real(&json, "until", filter->until);
    params_write_text(&json, "outcome",
                      field_enum_name(record_find(&job_record, "outcome"), filter->outcome));
    params_write_text(&json, "job", filter->job_id);
    params_write_text(&json, "type", filter->job_type);
    write_limit(&json, filter->limit);
    json_write_end_object(&json);
}

/* Writes one type as `type`, which daemons of version 0.1.0 know, and several as `types`. */
static void write_event_types(struct json_writer *json, unsigned types)
{
    const struct field *field = record_find(&process_event_record, "event_type");
    bool is_list = types & (types - 1);

    if (is_list) {
        json_write_key(json, "types");
        json_write_begin_array(json);
    }
    for (int type = EVENT_SPAWN; type <= EVENT_OOM; type++) {
        if (!(types & EVENT_TYPE_BIT(type)))
            continue;
        if (is_list)
            json_write_string(json, field_enum_name(field, type));
        else
            params_write_text(json, "type", field_enum_name(field, type));
    }
    if (is_list)
        json_write_end_array(json);
}

static void write_events_params(const char *job, const struct event_filter *filter, unsigned types,
                                struct text *out)
{
    struct json_writer json = {.out = out};

    json_write_begin_object(&json);
    params_write_real(&json, "since", filter->since);
    params_write_real(&json, "until", filter->until);
    params_write_text(&json, "job", job);
    write_event_types(&json, types);
    params_write_int(&json, "pid", filter->pid);
    if (filter->only_notable)
        params_write_true(&json, "notable");
    write_limit(&json, filter->limit);
    json_write_end_object(&json);
}

/* Whether a run can have this name; the protocol does not carry other names. */
static bool can_be_a_run(const char *name)
{
    size_t length = strlen(name);

    if (!length || length > RPC_JOB_NAME_MAX_BYTES)
        return false;
    for (size_t i = 0; i < length;) {
        uint32_t character;
        size_t size = utf8_decode(name + i, length - i, &character);
        if (!size || utf8_is_control(character))
            return false;
        i += size;
    }
    return true;
}

static int check_limit(struct reader *reader, size_t limit)
{
    if (limit <= DAEMON_LIMIT_MAX)
        return 0;
    set_error(reader, 0, "the daemon at '%s' returns at most %d at once (--limit %d)",
              client_socket_path(reader->client), DAEMON_LIMIT_MAX, DAEMON_LIMIT_MAX);
    return fall_back(reader, -E2BIG);
}

/* ---- queries ---- */

int reader_begin(struct reader *reader)
{
    reader->answered = reader->client ? READER_DAEMON : READER_STORE;
    if (!reader->client) /* without either source, the previous error stays */
        return reader->store ? READ_STORE : -ENOTCONN;
    reader->note[0] = '\0';
    return 0;
}

int reader_end(struct reader *reader, int r)
{
    const char *error = store_reader_error(reader->store);

    reader->answered = READER_STORE;
    if (r < 0)
        set_error(reader, r, "%s", error && *error ? error : strerror(-r));
    return r;
}

/* Whether to query the own database after the daemon returned `r`: it found nothing, or nothing
 * that this user may see. */
static bool found_nothing(int r)
{
    return r == -ENOENT || r == -EPERM;
}

void reader_note_fallback(struct reader *reader, int r)
{
    if (r == -EPERM)
        set_note(reader, "%s; this is from '%s'", reader->error, reader->database_path);
    else
        set_note(reader, "the daemon at '%s' has no such data; this is from '%s'",
                 client_socket_path(reader->client), reader->database_path);
    reader->answered = READER_STORE;
}

static int jobs_from_daemon(struct reader *reader, const struct job_filter *filter,
                            struct arena *arena, struct job_list *ret)
{
    _cleanup_text_ struct text params = {0};
    struct any_list list = {0};

    int r = check_limit(reader, filter->limit);
    if (r)
        return r;
    write_jobs_params(filter, &params);
    r = reader_request_list(reader, "job.list", &params, &job_record, arena, &list);
    if (r == 0)
        *ret = (struct job_list){.items = list.items, .count = list.count};
    return r;
}

int reader_jobs(struct reader *reader, const struct job_filter *filter, double now,
                struct arena *arena, struct job_list *ret)
{
    struct job_list own = {0};

    int r = reader_begin(reader);
    if (r == 0)
        r = jobs_from_daemon(reader, filter, arena, ret);
    if (r == READ_STORE)
        return reader_end(reader, query_jobs(reader->store, filter, now, arena, ret));
    if (r == 0 && !ret->count && reader_has_store(reader) &&
        query_jobs(reader->store, filter, now, arena, &own) == 0 && own.count) {
        *ret = own;
        reader_note_fallback(reader, r);
    }
    return r;
}

static int request_events(struct reader *reader, const char *job, const struct event_filter *filter,
                          unsigned types, struct arena *arena, struct process_event_list *ret)
{
    _cleanup_text_ struct text params = {0};
    struct any_list list = {0};

    write_events_params(job, filter, types, &params);
    int r =
        reader_request_list(reader, "events.list", &params, &process_event_record, arena, &list);
    if (r == 0)
        *ret = (struct process_event_list){.items = list.items, .count = list.count};
    return r;
}

/* Merges two lists that begin with the oldest event, and keeps the latest `limit` events. */
static int merge_events(const struct process_event_list *a, const struct process_event_list *b,
                        size_t limit, struct arena *arena, struct process_event_list *ret)
{
    struct process_event_list merged = {0};
    size_t i = 0, k = 0;

    merged.items = arena_alloc(arena, (a->count + b->count + 1) * sizeof(*merged.items));
    if (!merged.items)
        return -ENOMEM;
    while (i < a->count || k < b->count) {
        bool is_a =
            k == b->count || (i < a->count && a->items[i].timestamp <= b->items[k].timestamp);
        merged.items[merged.count++] = is_a ? a->items[i++] : b->items[k++];
    }
    if (merged.count > limit) {
        merged.items += merged.count - limit;
        merged.count = limit;
    }
    *ret = merged;
    return 0;
}

/* A daemon of version 0.1.0 has no parameter `types`: sends a request for each type. */
static int request_events_by_type(struct reader *reader, const char *job,
                                  const struct event_filter *filter, struct arena *arena,
                                  struct process_event_list *ret)
{
    const size_t limit = filter->limit ? filter->limit : DAEMON_LIMIT_MAX;
    struct process_event_list all = {0};

    reader->note[0] = '\0'; /* of the refused request */
    for (int type = EVENT_SPAWN; type <= EVENT_OOM; type++) {
        struct process_event_list events = {0};
        if (!(filter->event_types & EVENT_TYPE_BIT(type)))
            continue;
        int r = request_events(reader, job, filter, EVENT_TYPE_BIT(type), arena, &events);
        if (r)
            return r;
        r = merge_events(&all, &events, limit, arena, &all);
        if (r < 0)
            return set_error(reader, r, "%s", strerror(-r));
    }
    *ret = all;
    return 0;
}

static int events_from_daemon(struct reader *reader, const char *job,
                              const struct event_filter *filter, struct arena *arena,
                              struct process_event_list *ret)
{
    const unsigned types = filter->event_types;

    int r = check_limit(reader, filter->limit);
    if (r)
        return r;
    if (job && !can_be_a_run(job))
        return -ENOENT;
    if (int_is_known(filter->pid) && filter->pid > RPC_PID_MAX) { /* no process has this pid */
        *ret = (struct process_event_list){0};
        return 0;
    }
    r = request_events(reader, job, filter, types, arena, ret);
    if (reader->reply_error == RPC_INVALID_PARAMS && (types & (types - 1)))
        r = request_events_by_type(reader, job, filter, arena, ret);
    return r;
}

int reader_events(struct reader *reader, const char *job, const struct event_filter *filter,
                  struct arena *arena, struct process_event_list *ret)
{
    struct process_event_list own = {0};

    int r = reader_begin(reader);
    if (r == 0)
        r = events_from_daemon(reader, job, filter, arena, ret);
    if (r == READ_STORE)
        return reader_end(reader, query_events(reader->store, job, filter, arena, ret));
    if ((found_nothing(r) || (r == 0 && !ret->count)) && reader_has_store(reader) &&
        query_events(reader->store, job, filter, arena, &own) == 0 && (own.count || r < 0)) {
        *ret = own;
        reader_note_fallback(reader, r);
        return 0;
    }
    return r;
}

static int report_from_daemon(struct reader *reader, const char *name, struct arena *arena,
                              struct job_report *ret)
{
    _cleanup_text_ struct text params = {0};
    struct json_writer json = {.out = &params};

    if (name && !can_be_a_run(name))
        return -ENOENT;
    json_write_begin_object(&json);
    params_write_text(&json, "job", name);
    json_write_end_object(&json);
    return reader_request_record(reader, "report.job", &params, &job_report_record, arena, ret);
}

int reader_job_report(struct reader *reader, const char *name, double now, struct arena *arena,
                      struct job_report *ret)
{
    int r = reader_begin(reader);

    if (r == 0)
        r = report_from_daemon(reader, name, arena, ret);
    if (r == READ_STORE)
        return reader_end(reader,
                          query_job_report(reader->store, name, INT_UNKNOWN, now, arena, ret));
    if (found_nothing(r) && reader_has_store(reader) &&
        query_job_report(reader->store, name, INT_UNKNOWN, now, arena, ret) == 0) {
        reader_note_fallback(reader, r);
        return 0;
    }
    return r;
}

static int machine_from_daemon(struct reader *reader, double since, double until,
                               struct arena *arena, struct machine_report *ret)
{
    _cleanup_text_ struct text params = {0};
    struct json_writer json = {.out = &params};

    json_write_begin_object(&json);
    params_write_real(&json, "since", since);
    params_write_real(&json, "until", until);
    json_write_end_object(&json);
    client_set_timeout(reader->client, LONG_TIMEOUT_MSEC);
    return reader_request_record(reader, "report.machine", &params, &machine_report_record, arena,
                                 ret);
}

int reader_machine_report(struct reader *reader, double since, double until, double now,
                          struct arena *arena, struct machine_report *ret)
{
    struct machine_report own;

    int r = reader_begin(reader);
    if (r == 0)
        r = machine_from_daemon(reader, since, until, arena, ret);
    if (r == READ_STORE)
        return reader_end(reader,
                          query_machine_report(reader->store, since, until, now, arena, ret));
    if ((found_nothing(r) || (r == 0 && machine_report_is_empty(ret))) &&
        reader_has_store(reader) &&
        query_machine_report(reader->store, since, until, now, arena, &own) == 0 &&
        !machine_report_is_empty(&own)) {
        *ret = own;
        reader_note_fallback(reader, r);
        return 0;
    }
    return r;
}

/* The latest runs, from either source. */
static int read_latest(struct reader *reader, struct arena *arena, struct job_list *ret)
{
    struct job_filter filter = JOB_FILTER_ALL;

    filter.limit = SIMILAR_AMONG;
    int r = reader_begin(reader);
    if (r == 0)
        r = jobs_from_daemon(reader, &filter, arena, ret);
    if (r == READ_STORE)
        return reader_end(reader, store_read_jobs(reader->store, &filter, arena, ret));
    return r;
}

int reader_similar_type(struct reader *reader, const char *job_type, struct arena *arena,
                        const char **ret)
{
    struct suggestion near = {0};
    struct job_list jobs = {0};

    int r = read_latest(reader, arena, &jobs);
    for (size_t i = 0; r == 0 && i < jobs.count; i++)
        if (jobs.items[i].job_type)
            suggestion_consider(&near, job_type, strlen(job_type), jobs.items[i].job_type,
                                strlen(jobs.items[i].job_type));
    if (r == 0)
        *ret = near.name;
    return r;
}

int reader_similar_job(struct reader *reader, const char *name, struct arena *arena,
                       const char **ret)
{
    struct suggestion near = {0};
    struct job_list jobs = {0};
    size_t length = strcspn(name, "~");

    int r = read_latest(reader, arena, &jobs);
    for (size_t i = 0; r == 0 && i < jobs.count; i++)
        suggestion_consider(&near, name, length, jobs.items[i].job_id,
                            strlen(jobs.items[i].job_id));
    if (r == 0)
        *ret = near.name;
    return r;
}
