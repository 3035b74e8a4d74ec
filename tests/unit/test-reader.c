#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "client/reader.h"
#include "fake-daemon.h"
#include "model/daemon-status.h"
#include "model/record-json.h"
#include "store-world.h"

#define NOW (WORLD_START + 1000)

/* A daemon and a database with different data. */
struct scene {
    struct store_fixture *fixture;
    char socket[96];
    const char *sockets[2];
    struct arena arena;

    /* the daemon's answers */
    const char *jobs;   /* JSON; NULL: "[]" */
    const char *report; /* JSON; NULL: there is no such job */
    int error;          /* the answer to everything; 0: none */
    char asked[256];    /* method and parameters of the last request */
};

static int set_up(void **state)
{
    struct scene *scene = calloc(1, sizeof(*scene));
    void *fixture = NULL;

    if (!scene || store_fixture_set_up(&fixture) != 0)
        return -1;
    scene->fixture = fixture;
    snprintf(scene->socket, sizeof(scene->socket), "%s/sonde.sock", scene->fixture->dir);
    scene->sockets[0] = scene->socket;
    *state = scene;
    return 0;
}

static int tear_down(void **state)
{
    struct scene *scene = *state;
    void *fixture = scene->fixture;

    arena_done(&scene->arena);
    free(scene);
    return store_fixture_tear_down(&fixture);
}

/* ---- the daemon ---- */

static void note_asked(struct scene *scene, const struct rpc_request *request)
{
    const struct rpc_method *method = request->method;
    size_t length = (size_t)snprintf(scene->asked, sizeof(scene->asked), "%s", method->name);

    for (size_t i = 0; i < method->param_count && length < sizeof(scene->asked); i++) {
        const struct rpc_value *value = &request->values[i];
        const struct rpc_param *param = &method->params[i];
        char *at = scene->asked + length;
        size_t size = sizeof(scene->asked) - length;
        if (!value->is_given)
            continue;
        if (param->type == RPC_TEXT)
            length += (size_t)snprintf(at, size, " %s=%s", param->name, value->text);
        else if (param->type == RPC_ENUM)
            length +=
                (size_t)snprintf(at, size, " %s=%s", param->name, param->names[value->enumerator]);
        else if (param->type == RPC_ENUMS)
            length += (size_t)snprintf(at, size, " %s=%#x", param->name, value->enumerators);
        else if (param->type == RPC_REAL)
            length += (size_t)snprintf(at, size, " %s=%.3f", param->name, value->real);
        else if (param->type == RPC_BOOL)
            length += (size_t)snprintf(at, size, " %s=%d", param->name, value->boolean);
        else
            length +=
                (size_t)snprintf(at, size, " %s=%lld", param->name, (long long)value->integer);
    }
}

static bool answer(void *context, const struct rpc_request *request, struct text *out)
{
    struct scene *scene = context;

    if (!request)
        return true;
    if (request->error) {
        fake_error(out, request, request->error, request->error_text);
        return true;
    }
    note_asked(scene, request);
    if (scene->error)
        fake_error(out, request, scene->error, "words of the daemon");
    else if (request->method == &method_report_job && !scene->report)
        fake_error(out, request, RPC_JOB_NOT_FOUND, "there is no such job");
    else if (request->method == &method_report_job || request->method == &method_report_machine)
        fake_result(out, request, scene->report);
    else
        fake_result(out, request, scene->jobs ? scene->jobs : "[]");
    return true;
}

static bool go_away(void *context _unused_, const struct rpc_request *request,
                    struct text *out _unused_)
{
    return !request;
}

/* A daemon of version 0.1.0, without the parameter `types`. It has a kill at 1, 3 and 5 and an OOM
 * kill at 2 and 3, and fails for other types if the scene has an error. */
static bool answer_as_first_version(void *context, const struct rpc_request *request,
                                    struct text *out)
{
#define EVENT_AT(time, type) "{\"timestamp\":" time ",\"pid\":1,\"event_type\":\"" type "\"}"
    const struct scene *scene = context;

    if (!request)
        return true;
    int type = rpc_enum(request, "type", EVENT_UNKNOWN);
    if (rpc_enums(request, "types"))
        fake_error(out, request, RPC_INVALID_PARAMS, "there is no parameter 'types'");
    else if (type == EVENT_KILL)
        fake_result(
            out, request,
            "[" EVENT_AT("1", "kill") "," EVENT_AT("3", "kill") "," EVENT_AT("5", "kill") "]");
    else if (type == EVENT_OOM)
        fake_result(out, request, "[" EVENT_AT("2", "oom") "," EVENT_AT("3", "oom") "]");
    else if (scene->error)
        fake_error(out, request, scene->error, "words of the daemon");
    else
        fake_result(out, request, "[]");
    return true;
}

/* ---- the database ---- */

static void store_job(const struct scene *scene, const char *job_id, const char *run_id)
{
    struct store *store = fixture_open(scene->fixture);
    char name[JOB_ID_NUMBERED_MAX_BYTES];
    struct job job;

    record_init(&job_record, &job);
    job.run_id = run_id;
    job.job_id = job_id;
    job.job_type = "type";
    job.uid = geteuid();
    job.started_at = WORLD_START;
    job.outcome = OUTCOME_RUNNING;
    assert_int_equal(store_begin_job(store, &job, name), 0);
    job.outcome = OUTCOME_SUCCESS;
    job.ended_at = WORLD_START + 5;
    assert_int_equal(store_finish_job(store, &job), 0);
    assert_int_equal(store_close(store), 0);
}

static struct reader *open_reader(struct scene *scene, bool with_database)
{
    const struct reader_options options = {
        .socket_paths = scene->sockets,
        .database_path = with_database ? scene->fixture->path : NULL,
    };
    struct reader_error error = {""};
    struct reader *reader = NULL;

    assert_int_equal(reader_open(&options, &reader, &error), 0);
    return reader;
}

#define RUN_A  "0197c2f4-7d1a-7000-8000-00000000000a"
#define RUN_B  "0197c2f4-7d1a-7000-8000-00000000000b"
#define JOB_A  "{\"run_id\":\"" RUN_A "\",\"job_id\":\"nightly\"}"
#define JOBS_A "[" JOB_A "]"

/* ---- which one answers ---- */

static void test_the_daemon_answers(void **state)
{
    struct scene *scene = *state;
    struct job_filter filter = JOB_FILTER_ALL;
    struct job_list jobs = {0};

    store_job(scene, "own", RUN_B);
    scene->jobs = JOBS_A;
    struct fake_daemon *daemon = fake_daemon_start(scene->socket, answer, scene);
    _cleanup_(reader_closep) struct reader *reader = open_reader(scene, true);
    assert_int_equal(reader_source(reader), READER_DAEMON);
    assert_string_equal(reader_place(reader), scene->socket);

    filter.limit = 20;
    filter.since = 100.5;
    filter.outcome = OUTCOME_FAILURE;
    filter.job_id = "nightly";
    filter.job_type = "make";
    assert_int_equal(reader_jobs(reader, &filter, NOW, &scene->arena, &jobs), 0);
    assert_int_equal(jobs.count, 1);
    assert_string_equal(jobs.items[0].job_id, "nightly");
    assert_false(real_is_known(jobs.items[0].started_at));
    assert_null(reader_note(reader));
    assert_string_equal(scene->asked,
                        "job.list since=100.500 outcome=failure job=nightly type=make limit=20");
    fake_daemon_stop(daemon);
}

static void test_event_filters_are_sent(void **state)
{
    struct scene *scene = *state;
    struct event_filter filter = EVENT_FILTER_ALL;
    struct process_event_list events = {0};
    struct fake_daemon *daemon = fake_daemon_start(scene->socket, answer, scene);
    _cleanup_(reader_closep) struct reader *reader = open_reader(scene, false);

    scene->jobs = "[{\"timestamp\":7,\"pid\":12,\"event_type\":\"kill\",\"signal_num\":9}]";
    filter.limit = 50;
    filter.pid = 12;
    filter.event_types = EVENT_TYPE_BIT(EVENT_KILL);
    filter.only_notable = true;
    assert_int_equal(reader_events(reader, "make~1", &filter, &scene->arena, &events), 0);
    assert_int_equal(events.count, 1);
    assert_int_equal(events.items[0].event_type, EVENT_KILL);
    assert_int_equal(events.items[0].exit_code, INT_UNKNOWN);
    assert_string_equal(scene->asked, "events.list job=make~1 type=kill pid=12 notable=1 limit=50");

    filter.event_types = EVENT_TYPE_BIT(EVENT_KILL) | EVENT_TYPE_BIT(EVENT_OOM);
    assert_int_equal(reader_events(reader, NULL, &filter, &scene->arena, &events), 0);
    assert_string_equal(scene->asked, "events.list types=0x60 pid=12 notable=1 limit=50");

    /* Fields that are not sent are unknown. */
    filter.pid = 99999999999;
    assert_int_equal(reader_events(reader, NULL, &filter, &scene->arena, &events), 0);
    assert_int_equal(events.count, 0);
    filter.pid = INT_UNKNOWN;
    assert_int_equal(reader_events(reader, "a\033b", &filter, &scene->arena, &events), -ENOENT);
    assert_int_equal(reader_events(reader, "", &filter, &scene->arena, &events), -ENOENT);
    fake_daemon_stop(daemon);
}

static void test_several_types_with_a_daemon_of_the_first_version(void **state)
{
    static const struct {
        double timestamp;
        int type;
    } expected[] = {
        {1, EVENT_KILL}, {2, EVENT_OOM}, {3, EVENT_KILL}, {3, EVENT_OOM}, {5, EVENT_KILL}};
    struct scene *scene = *state;
    struct event_filter filter = EVENT_FILTER_ALL;
    struct fake_daemon *daemon = fake_daemon_start(scene->socket, answer_as_first_version, scene);

    store_job(scene, "own", RUN_B);
    _cleanup_(reader_closep) struct reader *reader = open_reader(scene, true);
    filter.event_types = EVENT_TYPE_BIT(EVENT_KILL) | EVENT_TYPE_BIT(EVENT_OOM);
    for (size_t limit = 0; limit <= 5; limit++) { /* 0: all */
        struct process_event_list events = {0};
        filter.limit = limit;
        assert_int_equal(reader_events(reader, NULL, &filter, &scene->arena, &events), 0);
        assert_int_equal(events.count, limit ? limit : 5);
        for (size_t i = 0; i < events.count; i++) {
            assert_true(events.items[i].timestamp == expected[5 - events.count + i].timestamp);
            assert_int_equal(events.items[i].event_type, expected[5 - events.count + i].type);
        }
        assert_int_equal(reader_source(reader), READER_DAEMON);
        assert_null(reader_note(reader));
    }

    /* The database answers only if a request of one type fails, too. */
    struct process_event_list events = {0};
    scene->error = RPC_INVALID_PARAMS;
    filter.event_types |= EVENT_TYPE_BIT(EVENT_EXIT);
    assert_int_equal(reader_events(reader, NULL, &filter, &scene->arena, &events), 0);
    assert_int_equal(events.count, 0);
    assert_int_equal(reader_source(reader), READER_STORE);
    assert_non_null(strstr(reader_note(reader), "words of the daemon"));
    fake_daemon_stop(daemon);
}

static void test_the_database_answers_without_a_daemon(void **state)
{
    struct scene *scene = *state;
    struct job_filter filter = JOB_FILTER_ALL;
    struct job_list jobs = {0};

    store_job(scene, "own", RUN_B);
    _cleanup_(reader_closep) struct reader *reader = open_reader(scene, true);
    assert_int_equal(reader_source(reader), READER_STORE);
    assert_string_equal(reader_place(reader), scene->fixture->path);
    assert_int_equal(reader_jobs(reader, &filter, NOW, &scene->arena, &jobs), 0);
    assert_int_equal(jobs.count, 1);
    assert_null(reader_note(reader));
    assert_null(reader_daemon_error(reader));
}

static void test_no_daemon_and_no_database(void **state)
{
    struct scene *scene = *state;
    struct reader_options options = {.socket_paths = scene->sockets,
                                     .database_path = scene->fixture->path};
    struct reader_error error = {""};
    struct reader *reader = NULL;
    char expected[256];

    assert_int_equal(reader_open(&options, &reader, &error), -ENOENT);
    snprintf(expected, sizeof(expected), "no data yet in '%s'; run a job with: sonde run -- CMD",
             scene->fixture->path);
    assert_string_equal(error.text, expected);
    options.database_path = NULL;
    assert_int_equal(reader_open(&options, &reader, &error), -ENOENT);
    assert_non_null(strstr(error.text, "--state-dir"));
    assert_null(reader);
}

/* ---- requests that the daemon cannot answer ---- */

static void expect_fallback(struct scene *scene, struct reader *reader, const char *words)
{
    struct job_filter filter = JOB_FILTER_ALL;
    struct job_list jobs = {0};

    assert_int_equal(reader_jobs(reader, &filter, NOW, &scene->arena, &jobs), 0);
    assert_int_equal(jobs.count, 1);
    assert_string_equal(jobs.items[0].job_id, "own");
    assert_int_equal(reader_source(reader), READER_STORE);
    assert_non_null(reader_note(reader));
    assert_non_null(strstr(reader_note(reader), words));
    assert_non_null(strstr(reader_note(reader), scene->fixture->path));
}

static void test_database_instead_of_a_failing_daemon(void **state)
{
    static const struct {
        int error;
        const char *jobs, *words;
    } cases[] = {
        {RPC_METHOD_NOT_FOUND, NULL, "has another version"},
        {RPC_INVALID_PARAMS, NULL, "refuses the request: words of the daemon; restart it"},
        {RPC_SHUTTING_DOWN, NULL, "words of the daemon"},
        {RPC_INTERNAL_ERROR, NULL, "words of the daemon"},
        {0, "[{\"job_id\":7}]", "cannot decode"},
        {0, "{}", "cannot decode"},
    };
    struct scene *scene = *state;

    store_job(scene, "own", RUN_B);
    for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
        scene->error = cases[i].error;
        scene->jobs = cases[i].jobs;
        struct fake_daemon *daemon = fake_daemon_start(scene->socket, answer, scene);
        _cleanup_(reader_closep) struct reader *reader = open_reader(scene, true);
        expect_fallback(scene, reader, cases[i].words);
        fake_daemon_stop(daemon);
    }
    struct fake_daemon *daemon = fake_daemon_start(scene->socket, go_away, scene);
    _cleanup_(reader_closep) struct reader *reader = open_reader(scene, true);
    expect_fallback(scene, reader, "closed the connection");
    expect_fallback(scene, reader, "closed the connection"); /* and is not asked again */
    fake_daemon_stop(daemon);
}

static void test_a_daemon_that_fails_and_no_database(void **state)
{
    struct scene *scene = *state;
    struct job_filter filter = JOB_FILTER_ALL;
    struct job_list jobs = {0};
    struct fake_daemon *daemon = fake_daemon_start(scene->socket, answer, scene);
    _cleanup_(reader_closep) struct reader *reader = open_reader(scene, false);

    scene->error = RPC_METHOD_NOT_FOUND;
    assert_int_equal(reader_jobs(reader, &filter, NOW, &scene->arena, &jobs), -EOPNOTSUPP);
    assert_non_null(strstr(reader_strerror(reader), "job.list"));
    assert_non_null(strstr(reader_strerror(reader), scene->socket));
    fake_daemon_stop(daemon);
    assert_int_equal(reader_jobs(reader, &filter, NOW, &scene->arena, &jobs), -EPIPE);
    assert_true(reader_jobs(reader, &filter, NOW, &scene->arena, &jobs) < 0);
    assert_non_null(strstr(reader_strerror(reader), "closed the connection"));
}

/* A list is never "not found": the message of the daemon is the error. */
static void test_not_found_keeps_the_message(void **state)
{
    struct scene *scene = *state;
    struct job_filter filter = JOB_FILTER_ALL;
    struct job_list jobs = {0};
    struct fake_daemon *daemon = fake_daemon_start(scene->socket, answer, scene);
    _cleanup_(reader_closep) struct reader *reader = open_reader(scene, false);

    scene->error = RPC_JOB_NOT_FOUND;
    assert_int_equal(reader_jobs(reader, &filter, NOW, &scene->arena, &jobs), -ENOENT);
    assert_non_null(strstr(reader_strerror(reader), "returned an error: words of the daemon"));
    fake_daemon_stop(daemon);
}

static void test_more_than_a_daemon_answers_at_once(void **state)
{
    struct scene *scene = *state;
    struct event_filter filter = EVENT_FILTER_ALL;
    struct process_event_list events = {0};
    struct fake_daemon *daemon = fake_daemon_start(scene->socket, answer, scene);

    filter.limit = 10001;
    {
        _cleanup_(reader_closep) struct reader *reader = open_reader(scene, false);
        assert_int_equal(reader_events(reader, NULL, &filter, &scene->arena, &events), -E2BIG);
        assert_non_null(strstr(reader_strerror(reader), "--limit 10000"));
    }
    store_job(scene, "own", RUN_B);
    _cleanup_(reader_closep) struct reader *reader = open_reader(scene, true);
    assert_int_equal(reader_events(reader, NULL, &filter, &scene->arena, &events), 0);
    assert_int_equal(reader_source(reader), READER_STORE);
    /* The next request goes to the daemon again. */
    filter.limit = 10000;
    assert_int_equal(reader_events(reader, NULL, &filter, &scene->arena, &events), 0);
    assert_int_equal(reader_source(reader), READER_DAEMON);
    assert_null(reader_note(reader));
    fake_daemon_stop(daemon);
}

static void test_run_of_another_user(void **state)
{
    struct scene *scene = *state;
    struct job_report report;
    struct fake_daemon *daemon = fake_daemon_start(scene->socket, answer, scene);

    store_job(scene, "own", RUN_B);
    _cleanup_(reader_closep) struct reader *reader = open_reader(scene, true);
    scene->error = RPC_NOT_PERMITTED;
    assert_int_equal(reader_job_report(reader, "secret", NOW, &scene->arena, &report), -EPERM);
    assert_non_null(strstr(reader_strerror(reader), "words of the daemon (from the daemon at "));
    assert_null(reader_note(reader));
    /* A run of the same name that belongs to this user. */
    assert_int_equal(reader_job_report(reader, "own", NOW, &scene->arena, &report), 0);
    assert_non_null(strstr(reader_note(reader), "words of the daemon"));
    assert_int_equal(reader_source(reader), READER_STORE);
    fake_daemon_stop(daemon);
}

static void test_run_that_the_daemon_does_not_know(void **state)
{
    struct scene *scene = *state;
    struct job_filter filter = JOB_FILTER_ALL;
    struct job_list jobs = {0};
    struct job_report report;
    const char *similar = NULL;
    struct fake_daemon *daemon = fake_daemon_start(scene->socket, answer, scene);

    store_job(scene, "own", RUN_B);
    _cleanup_(reader_closep) struct reader *reader = open_reader(scene, true);
    assert_int_equal(reader_job_report(reader, "own", NOW, &scene->arena, &report), 0);
    assert_string_equal(report.job.run_id, RUN_B);
    assert_non_null(strstr(reader_note(reader), "has no such data"));
    assert_int_equal(reader_job_report(reader, "none", NOW, &scene->arena, &report), -ENOENT);
    assert_int_equal(reader_source(reader), READER_DAEMON);
    assert_null(reader_note(reader));

    filter.job_id = "own";
    assert_int_equal(reader_jobs(reader, &filter, NOW, &scene->arena, &jobs), 0);
    assert_int_equal(jobs.count, 1);
    assert_non_null(reader_note(reader));

    scene->jobs = JOBS_A;
    assert_int_equal(reader_similar_job(reader, "nigthly~3", &scene->arena, &similar), 0);
    assert_string_equal(similar, "nightly");
    fake_daemon_stop(daemon);
}

/* ---- the same from both ---- */

/* ---- learning ---- */

static const struct analysis_request want_analysis = {
    .now = NOW, .min_sample_size = 1, .uid = INT_UNKNOWN};

static void test_learning_of_the_daemon(void **state)
{
    struct scene *scene = *state;
    struct fake_daemon *daemon = fake_daemon_start(scene->socket, answer, scene);
    _cleanup_(reader_closep) struct reader *reader = open_reader(scene, false);
    struct calibration_list calibrations = {0};
    struct resource_estimate estimate;
    struct pattern_renewal renewal;
    struct analysis analysis;

    scene->jobs = "{\"as_of\":5,\"runs\":12,\"correlations\":[{\"pattern_name\":\"x\","
                  "\"significant\":true}]}";
    assert_int_equal(reader_analysis(reader, &want_analysis, &scene->arena, &analysis, &renewal),
                     0);
    assert_string_equal(scene->asked, "analyze.run");
    assert_int_equal(analysis.runs, 12);
    assert_int_equal(analysis.correlations.items[0].significant, TRUTH_YES);
    assert_false(renewal.is_due); /* the daemon has done it */

    scene->jobs = "{\"confidence\":0.5,\"sample_size\":7}";
    assert_int_equal(reader_estimate(reader, "make all", &scene->arena, &estimate), 0);
    assert_string_equal(scene->asked, "estimate.job job_type=make all");
    assert_int_equal(estimate.sample_size, 7);
    assert_false(real_is_known(estimate.peak_memory_mb_p95));
    scene->jobs = "null";
    assert_int_equal(reader_estimate(reader, "make all", &scene->arena, &estimate), -ENODATA);

    scene->jobs = "[{\"job_type\":\"make\",\"memory\":{\"checked\":3,\"held\":2}}]";
    assert_int_equal(reader_calibration(reader, "make", &scene->arena, &calibrations), 0);
    assert_string_equal(scene->asked, "estimate.calibration job_type=make");
    assert_int_equal(calibrations.count, 1);
    assert_int_equal(calibrations.items[0].memory.held, 2);
    assert_int_equal(reader_calibration(reader, NULL, &scene->arena, &calibrations), 0);
    assert_string_equal(scene->asked, "estimate.calibration");
    fake_daemon_stop(daemon);
}

static void test_learning_without_data_in_the_daemon(void **state)
{
    struct scene *scene = *state;
    struct fake_daemon *daemon = fake_daemon_start(scene->socket, answer, scene);
    struct resource_estimate estimate;
    struct pattern_renewal renewal;
    struct analysis analysis;

    store_job(scene, "own", "run-1");
    _cleanup_(reader_closep) struct reader *reader = open_reader(scene, true);
    scene->jobs = "{\"as_of\":5,\"runs\":0}";
    assert_int_equal(reader_analysis(reader, &want_analysis, &scene->arena, &analysis, &renewal),
                     0);
    assert_int_equal(analysis.runs, 1);
    assert_int_equal(analysis.verdict, VERDICT_ALL_ALIKE);
    assert_true(renewal.is_due);
    assert_int_equal(reader_source(reader), READER_STORE);
    assert_non_null(strstr(reader_note(reader), "has no such data"));

    scene->jobs = "null";
    assert_int_equal(reader_estimate(reader, "type", &scene->arena, &estimate), 0);
    assert_int_equal(estimate.sample_size, 1);
    assert_int_equal(reader_source(reader), READER_STORE);
    assert_int_equal(reader_estimate(reader, "typo", &scene->arena, &estimate), -ENODATA);
    fake_daemon_stop(daemon);
}

/* A daemon from before learning. */
static void test_learning_with_an_old_daemon(void **state)
{
    struct scene *scene = *state;
    struct fake_daemon *daemon = fake_daemon_start(scene->socket, answer, scene);
    struct calibration_list calibrations = {0};
    struct pattern_renewal renewal;
    struct analysis analysis;

    store_job(scene, "own", "run-1");
    _cleanup_(reader_closep) struct reader *reader = open_reader(scene, true);
    scene->error = RPC_METHOD_NOT_FOUND;
    assert_int_equal(reader_analysis(reader, &want_analysis, &scene->arena, &analysis, &renewal),
                     0);
    assert_int_equal(analysis.runs, 1);
    assert_non_null(strstr(reader_note(reader), "does not know 'analyze.run'"));
    assert_int_equal(reader_calibration(reader, NULL, &scene->arena, &calibrations), 0);
    assert_int_equal(calibrations.count, 0);
    fake_daemon_stop(daemon);
}

static void test_suggested_type(void **state)
{
    struct scene *scene = *state;
    const char *similar = NULL;

    store_job(scene, "own", "run-1");
    _cleanup_(reader_closep) struct reader *reader = open_reader(scene, true);
    assert_int_equal(reader_similar_type(reader, "typo", &scene->arena, &similar), 0);
    assert_string_equal(similar, "type");
    assert_int_equal(reader_similar_type(reader, "elephant", &scene->arena, &similar), 0);
    assert_null(similar);
}

static void encode(const struct record *record, const void *object, struct text *out)
{
    struct json_writer json = {.out = out};

    record_encode(record, object, &json);
    assert_int_equal(text_error(out), 0);
}

static void test_records_are_unchanged_by_the_protocol(void **state)
{
    static const struct record *const records[] = {&job_report_record, &machine_report_record,
                                                   &daemon_status_record};
    struct scene *scene = *state;
    struct chance chance = {.state = 7, .is_tame = true};

    for (int round = 0; round < 100; round++)
        for (size_t i = 0; i < ARRAY_SIZE(records); i++) {
            _cleanup_text_ struct text first = {0}, second = {0};
            struct decode_error error = {""};
            union {
                struct job_report job;
                struct machine_report machine;
                struct daemon_status status;
            } written, read;
            random_record(&chance, records[i], &scene->arena, &written);
            encode(records[i], &written, &first);
            assert_int_equal(
                record_decode(records[i], first.bytes, first.length, &scene->arena, &read, &error),
                0);
            encode(records[i], &read, &second);
            assert_string_equal(first.bytes, second.bytes);
            arena_reset(&scene->arena);
        }
}

static void test_a_report_is_the_same_from_both(void **state)
{
    struct scene *scene = *state;
    _cleanup_text_ struct text by_store = {0}, by_daemon = {0};
    struct job_report report;

    store_job(scene, "own", RUN_B);
    {
        _cleanup_(reader_closep) struct reader *reader = open_reader(scene, true);
        assert_int_equal(reader_job_report(reader, NULL, NOW, &scene->arena, &report), 0);
        encode(&job_report_record, &report, &by_store);
    }
    scene->report = by_store.bytes;
    struct fake_daemon *daemon = fake_daemon_start(scene->socket, answer, scene);
    _cleanup_(reader_closep) struct reader *reader = open_reader(scene, false);
    assert_int_equal(reader_job_report(reader, NULL, NOW, &scene->arena, &report), 0);
    encode(&job_report_record, &report, &by_daemon);
    assert_string_equal(by_store.bytes, by_daemon.bytes);
    assert_string_equal(scene->asked, "report.job");
    fake_daemon_stop(daemon);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_the_daemon_answers),
        TEST(test_event_filters_are_sent),
        TEST(test_several_types_with_a_daemon_of_the_first_version),
        TEST(test_the_database_answers_without_a_daemon),
        TEST(test_no_daemon_and_no_database),
        TEST(test_database_instead_of_a_failing_daemon),
        TEST(test_a_daemon_that_fails_and_no_database),
        TEST(test_not_found_keeps_the_message),
        TEST(test_more_than_a_daemon_answers_at_once),
        TEST(test_run_of_another_user),
        TEST(test_run_that_the_daemon_does_not_know),
        TEST(test_records_are_unchanged_by_the_protocol),
        TEST(test_learning_of_the_daemon),
        TEST(test_learning_without_data_in_the_daemon),
        TEST(test_learning_with_an_old_daemon),
        TEST(test_suggested_type),
        TEST(test_a_report_is_the_same_from_both),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
