#include "client/run-link.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/json-writer.h"
#include "base/uuid.h"
#include "client/client.h"
#include "client/params.h"
#include "model/process.h"
#include "model/record-json.h"
#include "rpc/first-version.h"

/* A daemon with a full backlog is stopped or overloaded: sonde stores the run itself. */
#define CONNECT_MSEC 100
/* The wait for the answer to job.start at the end of a short run. */
#define UNANSWERED_MSEC 500

enum {
    ID_START = 1,
    ID_FINISH,
    ID_OTHER, /* for requests whose answer is ignored */
};

struct run_link {
    struct run_backend backend;
    const char *const *socket_paths;
    const char *store_path; /* NULL: nothing is stored here */
    struct client *client;  /* NULL: not connected */
    struct rpc_framer framer;
    enum backend_state state;
    bool is_finished; /* the daemon acknowledged the end of the run */
    bool has_events;  /* and all events of its processes */
    /* The daemon refused a parameter: it may be of version 0.1.0, and gets what that knew. */
    bool is_first_version;
    char run_id[UUID_TEXT_SIZE];
    char job_id[JOB_ID_NUMBERED_MAX_BYTES];
    struct job end;     /* as the daemon stores it: cause (NULL: not reported) and chain */
    struct arena arena; /* holds cause and chain */
};

/* ---- the wire ---- */

static void disconnect(struct run_link *link)
{
    client_close(TAKE_PTR(link->client));
    rpc_framer_done(&link->framer);
    link->framer = (struct rpc_framer){.max_bytes = CLIENT_ANSWER_MAX_BYTES};
    link->state = BACKEND_ABSENT;
}

/* Requests are small: if one does not fit into the socket's buffer, the daemon does not read. */
static int send_request(struct run_link *link, int64_t id, const char *method,
                        const struct text *params)
{
    _cleanup_text_ struct text out = {0};

    rpc_write_request(&out, id, method, text_string(params));
    text_append_char(&out, '\n');
    if (text_error(params) < 0 || text_error(&out) < 0)
        return -ENOMEM;
    ssize_t sent =
        send(client_fd(link->client), out.bytes, out.length, MSG_NOSIGNAL | MSG_DONTWAIT);
    return sent == (ssize_t)out.length ? 0 : sent < 0 ? -errno : -EAGAIN;
}

struct start_answer {
    int has_events; /* enum truth; unknown: an older daemon */
};

static const struct field start_fields[] = {
    FIELD_OF(struct start_answer, has_events, FIELD_BOOL),
};
static const struct record start_record = RECORD_OF(struct start_answer, "Start", start_fields);

/* The part of a run in the answers to job.start and job.finish. */
static const struct field names_fields[] = {
    FIELD_OF(struct job, run_id, FIELD_TEXT, .required = true),
    FIELD_OF(struct job, job_id, FIELD_TEXT, .required = true),
    FIELD_OF(struct job, cause, FIELD_TEXT),
    FIELD_OF(struct job, chain, FIELD_RECORDS, .record = &process_event_record),
};
static const struct record names_record = RECORD_OF(struct job, "Names", names_fields);

static void read_names(struct run_link *link, const struct rpc_reply *reply)
{
    struct decode_error error;
    struct job names;

    if (record_decode(&names_record, reply->result, reply->result_length, &link->arena, &names,
                      &error) < 0)
        return;
    if (strlen(names.job_id) < sizeof(link->job_id))
        strcpy(link->job_id, names.job_id);
    link->end = names;
}

static void read_start_answer(struct run_link *link, const struct rpc_reply *reply)
{
    struct decode_error error;
    struct start_answer answer;

    link->has_events = record_decode(&start_record, reply->result, reply->result_length,
                                     &link->arena, &answer, &error) < 0 ||
                       answer.has_events != TRUTH_NO;
}

static void handle_reply(struct run_link *link, const struct rpc_reply *reply)
{
    if (reply->is_event || reply->id == ID_OTHER)
        return;
    if (reply->error == RPC_INVALID_PARAMS && reply->id == ID_FINISH && !link->is_first_version) {
        link->is_first_version = true;
        return;
    }
    if (reply->error) {
        link->state = BACKEND_ABSENT;
        return;
    }
    read_names(link, reply);
    if (reply->id == ID_START)
        read_start_answer(link, reply);
    link->state = BACKEND_ACTIVE;
    link->is_finished |= reply->id == ID_FINISH;
}

static void handle_lines(struct run_link *link)
{
    const char *line;
    size_t length;

    while (rpc_framer_next(&link->framer, &line, &length)) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct rpc_reply reply;
        if (rpc_reply_parse(line, length, &arena, &reply) == 0)
            handle_reply(link, &reply);
        else
            link->state = BACKEND_ABSENT;
    }
}

/* Reads and handles all pending input; disconnects if the daemon is gone or rejects the run. */
static void receive(struct run_link *link)
{
    char bytes[4096];
    ssize_t length;

    while ((length = recv(client_fd(link->client), bytes, sizeof(bytes), MSG_DONTWAIT)) > 0) {
        if (rpc_framer_feed(&link->framer, bytes, (size_t)length) < 0) {
            link->state = BACKEND_ABSENT;
            break;
        }
        handle_lines(link);
    }
    bool is_gone = length == 0 || (length < 0 && errno != EAGAIN && errno != EINTR);
    if (is_gone || link->state == BACKEND_ABSENT)
        disconnect(link);
}

/* ---- parameters ---- */

static void write_field(struct json_writer *json, const char *key, const struct field *field,
                        const void *value)
{
    if (!field_is_known(field, value))
        return;
    json_write_key(json, key);
    field_encode(field, value, json);
}

static void write_figures(struct json_writer *json, const struct job_profile *profile)
{
    for (size_t i = 0; i < job_profile_record.field_count; i++) {
        const struct field *field = &job_profile_record.fields[i];
        if (field->is_reported)
            write_field(json, field->name, field, (const char *)profile + field->offset);
    }
}

/* Writes the figures that version 0.1.0 knew, under the names that it knew. */
static void write_first_version_figures(struct json_writer *json, const struct job_profile *profile)
{
    const struct record *record = &job_profile_record;
    const char *previous = "";

    for (const char *const *name = first_version_figures; *name; name++) {
        const struct field *field = record_find(record, *name);
        write_field(json, *name, field, (const char *)profile + field->offset);
    }
    for (const struct rpc_alias *alias = first_version_exactness; alias->name; alias++) {
        size_t offset;
        const struct field *field = rpc_alias_field(alias, record, &offset);
        if (strcmp(alias->name, previous) != 0) /* its first field stands for all */
            write_field(json, alias->name, field, (const char *)profile + offset);
        previous = alias->name;
    }
}

/* ---- the backend ---- */

static enum backend_state offer(void *context, const struct job *job, pid_t pid, int64_t sheet_num,
                                bool was_kept, bool keeps_events)
{
    struct run_link *link = context;
    const struct client_options options = {.socket_paths = link->socket_paths,
                                           .timeout_msec = CONNECT_MSEC};
    _cleanup_text_ struct text params = {0};
    struct json_writer json = {.out = &params};
    struct client_error error;

    disconnect(link);
    strcpy(link->run_id, job->run_id);
    if (client_open(&options, &link->client, &error) < 0)
        return BACKEND_ABSENT;
    json_write_begin_object(&json);
    params_write_text(&json, "run_id", job->run_id);
    params_write_text(&json, "job_id", job->job_id);
    params_write_text(&json, "job_type", job->job_type);
    params_write_text(&json, "command", job->command);
    params_write_text(&json, "cwd", job->cwd);
    params_write_real(&json, "started_at", job->started_at);
    params_write_int(&json, "pid", pid);
    params_write_int(&json, "sheet_num", sheet_num);
    params_write_true(&json, "unique");
    params_write_true(&json, "adopts_orphans");
    params_write_text(&json, "stores_in", link->store_path);
    if (was_kept)
        params_write_true(&json, "again");
    else
        params_write_true(&json, "offers_events");
    if (keeps_events)
        params_write_true(&json, "keeps_events");
    json_write_end_object(&json);
    if (send_request(link, ID_START, "job.start", &params) < 0)
        disconnect(link);
    else
        link->state = BACKEND_ASKED;
    return link->state;
}

static int get_fd(void *context)
{
    const struct run_link *link = context;
    return link->client ? client_fd(link->client) : -1;
}

static enum backend_state check(void *context)
{
    struct run_link *link = context;

    if (link->client)
        receive(link);
    return link->state;
}

static const char *get_job_id(void *context)
{
    const struct run_link *link = context;
    return link->job_id;
}

static bool has_events(void *context)
{
    const struct run_link *link = context;
    return link->has_events;
}

static const char *get_cause(void *context, struct process_event_list *ret_chain)
{
    const struct run_link *link = context;

    *ret_chain = link->end.chain;
    return link->end.cause;
}

static void signalled(void *context, pid_t pid, const struct process_event *sent)
{
    struct run_link *link = context;
    _cleanup_text_ struct text params = {0};
    struct json_writer json = {.out = &params};

    if (!link->client)
        return;
    json_write_begin_object(&json);
    params_write_text(&json, "job_id", link->run_id);
    params_write_int(&json, "pid", pid);
    params_write_int(&json, "signal_num", sent->signal_num);
    params_write_int(&json, "sender_pid", sent->sender_pid);
    params_write_text(&json, "sender_command", sent->sender_command);
    params_write_text(&json, "details", sent->details);
    json_write_end_object(&json);
    send_request(link, ID_OTHER, "job.signal", &params); /* without it, the sender stays unknown */
}

static int send_finish(struct run_link *link, const struct job *job)
{
    const struct field *outcome = record_find(&job_record, "outcome");
    _cleanup_text_ struct text params = {0};
    struct json_writer json = {.out = &params};

    json_write_begin_object(&json);
    params_write_text(&json, "job_id", job->run_id);
    params_write_text(&json, "outcome", field_enum_name(outcome, job->outcome));
    params_write_int(&json, "exit_code", job->exit_code);
    params_write_int(&json, "signal_num", job->signal_num);
    params_write_text(&json, "cause", job->cause);
    if (job->cause)
        params_write_true(&json, "cause_is_derived");
    if (job->chain.count) {
        json_write_key(&json, "chain");
        field_encode(record_find(&job_record, "chain"), &job->chain, &json);
    }
    params_write_real(&json, "ended_at", job->ended_at);
    if (link->is_first_version)
        write_first_version_figures(&json, &job->profile);
    else
        write_figures(&json, &job->profile);
    json_write_end_object(&json);
    return send_request(link, ID_FINISH, "job.finish", &params);
}

/* Waits for input and handles it. Returns whether it came in time. */
static bool await_input(struct run_link *link, uint64_t until_ns)
{
    uint64_t now_ns = clock_mono_ns();
    struct pollfd waited = {.fd = client_fd(link->client), .events = POLLIN};

    if (now_ns >= until_ns)
        return false;
    poll(&waited, 1, (int)((until_ns - now_ns) / NS_PER_MSEC) + 1);
    receive(link);
    return true;
}

static void leave(void *context)
{
    struct run_link *link = context;
    _cleanup_text_ struct text params = {0};
    struct json_writer json = {.out = &params};

    /* The daemon may still read job.start; then it finds this request after it. */
    if (link->state == BACKEND_ASKED && link->client) {
        json_write_begin_object(&json);
        params_write_text(&json, "job_id", link->run_id);
        params_write_text(&json, "stores_in", link->store_path);
        json_write_end_object(&json);
        send_request(link, ID_OTHER, "job.leave", &params);
    }
    disconnect(link);
}

static enum backend_state await_answer(void *context)
{
    struct run_link *link = context;
    uint64_t until_ns = clock_mono_ns() + UNANSWERED_MSEC * NS_PER_MSEC;

    while (link->state == BACKEND_ASKED && await_input(link, until_ns))
        ;
    if (link->state == BACKEND_ASKED)
        leave(link);
    return link->state;
}

static int finish(void *context, const struct job *job)
{
    struct run_link *link = context;
    uint64_t until_ns = clock_mono_ns() + RUN_LINK_FINISH_MSEC * NS_PER_MSEC;

    int r = link->client ? send_finish(link, job) : -ENOTCONN;
    while (r == 0 && link->client && !link->is_finished) {
        bool was_first_version = link->is_first_version;
        if (!await_input(link, until_ns))
            return -ETIMEDOUT;
        if (link->client && link->is_first_version && !was_first_version)
            r = send_finish(link, job);
    }
    return r < 0 ? r : link->is_finished ? 0 : -EPIPE;
}

/* ---- start and end ---- */

struct run_link *run_link_new(const char *const *socket_paths, const char *store_path)
{
    struct run_link *link = calloc(1, sizeof(*link));

    if (!link)
        return NULL;
    link->socket_paths = socket_paths;
    link->store_path = store_path;
    link->backend = (struct run_backend){
        .context = link,
        .offer = offer,
        .get_fd = get_fd,
        .check = check,
        .await_answer = await_answer,
        .get_job_id = get_job_id,
        .has_events = has_events,
        .get_cause = get_cause,
        .signalled = signalled,
        .finish = finish,
        .leave = leave,
    };
    return link;
}

void run_link_free(struct run_link *link)
{
    if (!link)
        return;
    disconnect(link);
    rpc_framer_done(&link->framer);
    arena_done(&link->arena);
    free(link);
}

const struct run_backend *run_link_backend(const struct run_link *link)
{
    return &link->backend;
}
