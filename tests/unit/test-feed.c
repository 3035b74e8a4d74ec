/* The reader behind `sonde top`: stored data, replayed and sought; a daemon that sends invalid
 * data, disconnects and restarts; both in a thread. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/vec.h"
#include "client/client.h"
#include "client/feed-thread.h"
#include "client/foreign-runs.h"
#include "fake-daemon.h"
#include "store-world.h"

#define TICKS 40
#define RUN   "01900000-0000-7000-8000-00000000000a"

/* The data that a feed delivered. */
struct seen {
    uv_loop_t loop;
    struct VEC(double) times; /* of frames that are shown */
    size_t past;              /* frames that precede the shown one */
    size_t jumps;
    struct frame last;
    struct feed_status status;
    struct text news; /* one letter or name per event */
    bool has_ended;
    size_t wanted;   /* frames after which the loop stops */
    sqlite3 *breaks; /* a handle, with which … */
    const char *how; /* … this is run as soon as a preceding frame has arrived */
};

static void on_frame(void *context, struct frame *frame)
{
    struct seen *seen = context;

    seen->jumps += frame->is_jump;
    if (frame->is_past) {
        if (!seen->past++ && seen->breaks)
            run_sql(seen->breaks, seen->how);
        return;
    }
    assert_int_equal(VEC_PUSH(&seen->times, frame->snapshot->timestamp), 0);
    frame_done(&seen->last);
    seen->last = frame_take(frame);
    if (seen->times.count == seen->wanted)
        uv_stop(&seen->loop);
}

static void on_event(void *context, const struct event_line *news)
{
    struct seen *seen = context;
    text_append_string(&seen->news, event_line_label(news));
    if (news->kind == EVENT_KIND_GAP)
        text_printf(&seen->news, "(%lld)", (long long)news->gap.lost);
    text_append_char(&seen->news, ' ');
}

static void on_status(void *context, const struct feed_status *status)
{
    struct seen *seen = context;
    seen->status = *status;
}

static void on_end(void *context)
{
    struct seen *seen = context;
    seen->has_ended = true;
}

static struct feed_sink sink_of(struct seen *seen)
{
    return (struct feed_sink){on_frame, on_event, on_status, on_end, seen};
}

static struct feed *open_feed(struct seen *seen, const struct feed_options *options)
{
    const struct feed_sink sink = sink_of(seen);
    struct feed_error error = {""};
    struct feed *feed = NULL;

    assert_int_equal(uv_loop_init(&seen->loop), 0);
    if (feed_open(&seen->loop, options, &sink, &feed, &error) < 0)
        fail_msg("%s", error.text);
    return feed;
}

static void close_feed(struct seen *seen, struct feed *feed)
{
    feed_close(feed);
    uv_run(&seen->loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&seen->loop), 0);
    frame_done(&seen->last);
    VEC_DONE(&seen->times);
    text_done(&seen->news);
}

static void run_until(struct seen *seen, size_t frames)
{
    seen->wanted = frames;
    uv_run(&seen->loop, UV_RUN_DEFAULT);
}

/* ---- stored data ---- */

static double time_of(size_t tick)
{
    return WORLD_START + (double)tick * FIXTURE_INTERVAL;
}

static void begin_job(struct store *store)
{
    char job_id[JOB_ID_NUMBERED_MAX_BYTES];
    struct job job;

    record_init(&job_record, &job);
    job.run_id = RUN;
    job.job_id = "nightly";
    job.started_at = time_of(0);
    job.total_sheets = 2;
    assert_int_equal(store_begin_job(store, &job, job_id), 0);
    for (int64_t i = 1; i <= 2; i++) {
        struct sheet sheet;
        record_init(&sheet_record, &sheet);
        sheet.run_id = RUN;
        sheet.sheet_num = i;
        sheet.started_at = time_of(i == 1 ? 0 : 15);
        if (i == 1)
            sheet.ended_at = time_of(15);
        assert_int_equal(store_write_sheet(store, &sheet), 0);
    }
}

static void write_ticks(struct store *store, size_t first, size_t end)
{
    int64_t last_id = 0;

    for (size_t i = first; i < end; i++) {
        _cleanup_(snapshot_freep) struct snapshot *snapshot = snapshot_new();
        struct process_metric process;
        struct job_usage usage;
        struct anomaly anomaly;
        struct process_event event;
        assert_non_null(snapshot);
        record_init(&process_metric_record, &process);
        process.pid = 77;
        process.start_ticks = 100;
        process.command = "train";
        process.rss_mb = (double)i;
        process.run_id = RUN;
        process.job_id = "nightly";
        record_init(&job_usage_record, &usage);
        usage.job_id = "nightly";
        usage.run_id = RUN;
        snapshot->timestamp = time_of(i);
        snapshot->id = last_id = snapshot_id_next(last_id, snapshot->timestamp, 1);
        snapshot->processes = (struct process_list){&process, 1};
        snapshot->jobs = (struct job_usage_list){&usage, 1};
        init_event(&event);
        event.event_type = EVENT_EXEC;
        event.pid = 77;
        event.timestamp = time_of(i) - 1;
        init_anomaly(&anomaly);
        anomaly.timestamp = time_of(20);
        anomaly.anomaly_type = "memory_spike";
        anomaly.pid = 77;
        anomaly.severity = SEVERITY_HIGH;
        anomaly.is_opening = i == 20;
        if (i == 25)
            anomaly.cleared_at = time_of(25);
        struct tick tick = {.snapshot = snapshot,
                            .events = {&event, 1},
                            .anomalies = {&anomaly, i == 20 || i == 25}};
        assert_int_equal(store_write_tick(store, &tick), 0);
    }
}

/* TICKS snapshots of a job with two steps; the process grows, and an episode is open from tick 20
 * to 25. */
static void write_history(const struct store_fixture *fixture)
{
    struct store *store = fixture_open(fixture);

    begin_job(store);
    write_ticks(store, 0, TICKS);
    assert_int_equal(store_close(store), 0);
}

static struct feed_options history_of(const struct store_fixture *fixture)
{
    return (struct feed_options){.database_path = fixture->path, .since = WORLD_START};
}

static void order(struct feed *feed, enum feed_order order, double amount)
{
    const struct feed_command command = {order, amount};
    feed_command(feed, &command);
}

static void test_history_all_at_once(void **state)
{
    const struct store_fixture *fixture = *state;
    struct seen seen = {0};

    write_history(fixture);
    struct feed_options options = history_of(fixture);
    options.is_unpaced = true;
    struct feed *feed = open_feed(&seen, &options);
    assert_true(seen.has_ended);
    assert_int_equal(seen.times.count, TICKS);
    for (size_t i = 0; i < TICKS; i++)
        assert_true(seen.times.items[i] == time_of(i));
    close_feed(&seen, feed);
}

static void test_history_steps_and_jumps(void **state)
{
    const struct store_fixture *fixture = *state;
    struct seen seen = {0};

    write_history(fixture);
    struct feed_options options = history_of(fixture);
    struct feed *feed = open_feed(&seen, &options);
    assert_int_equal(seen.status.kind, FEED_HISTORY);
    assert_int_equal(seen.status.count, TICKS);
    assert_int_equal(seen.status.position, 0);
    assert_true(seen.status.is_playing);
    assert_int_equal(seen.jumps, 1);

    order(feed, FEED_STEP, 3);
    assert_false(seen.status.is_playing); /* seeking pauses the replay */
    assert_int_equal(seen.status.position, 3);
    assert_true(seen.last.snapshot->timestamp == time_of(3));
    assert_true(seen.last.snapshot->processes.items[0].rss_mb == 3);
    assert_int_equal(seen.jumps, 1); /* the frames before belong to it */
    assert_int_equal(seen.past, 2);
    order(feed, FEED_STEP, -1);
    assert_int_equal(seen.status.position, 2);
    assert_int_equal(seen.jumps, 2);
    assert_int_equal(seen.past, 4); /* for the graphs of the time before */
    order(feed, FEED_STEP, -100);
    assert_int_equal(seen.status.position, 0);
    order(feed, FEED_STEP, 1000);
    assert_int_equal(seen.status.position, TICKS - 1);
    order(feed, FEED_SEEK, time_of(7) - 0.5);
    assert_int_equal(seen.status.position, 7);
    order(feed, FEED_SEEK, 0);
    assert_int_equal(seen.status.position, 0);
    order(feed, FEED_SEEK, time_of(1000));
    assert_int_equal(seen.status.position, TICKS - 1);
    order(feed, FEED_SKIP, -60);
    assert_int_equal(seen.status.position, TICKS - 1 - 12);
    order(feed, FEED_SPEED, 2);
    assert_true(seen.status.speed == 2 * FEED_SPEED_DEFAULT);
    order(feed, FEED_SPEED, 1e9);
    assert_true(seen.status.speed == FEED_SPEED_MAX);
    close_feed(&seen, feed);
}

static void test_history_finds_anomalies(void **state)
{
    const struct store_fixture *fixture = *state;
    struct seen seen = {0};

    write_history(fixture);
    struct feed_options options = history_of(fixture);
    struct feed *feed = open_feed(&seen, &options);
    assert_int_equal(seen.status.next_anomalies, 1);
    text_reset(&seen.news);
    order(feed, FEED_ANOMALY, 1);
    assert_int_equal(seen.status.position, 20);
    assert_int_equal(seen.status.next_anomalies, 0);
    assert_int_equal(seen.last.open_anomalies, 1);
    assert_string_equal(seen.last.anomalies.items[0].anomaly_type, "memory_spike");
    assert_non_null(strstr(text_string(&seen.news), "anomaly"));
    assert_null(strstr(text_string(&seen.news), "cleared"));
    order(feed, FEED_ANOMALY, 1); /* there is no other anomaly: the position stays */
    assert_int_equal(seen.status.position, 20);
    text_reset(&seen.news);
    order(feed, FEED_SEEK, time_of(25));
    assert_int_equal(seen.last.open_anomalies, 0);
    assert_string_equal(text_string(&seen.news), "exec exec exec exec exec cleared ");
    order(feed, FEED_ANOMALY, -1);
    assert_int_equal(seen.status.position, 20);
    close_feed(&seen, feed);
}

static void test_history_has_progress(void **state)
{
    const struct store_fixture *fixture = *state;
    struct seen seen = {0};

    write_history(fixture);
    struct feed_options options = history_of(fixture);
    options.job = RUN;
    struct feed *feed = open_feed(&seen, &options);
    const struct job_progress *progress = &seen.last.snapshot->job_progress.items[0];
    assert_int_equal(seen.last.snapshot->job_progress.count, 1);
    assert_string_equal(progress->run_id, RUN);
    assert_int_equal(progress->total_sheets, 2);
    assert_int_equal(progress->current_sheet, 1);
    assert_int_equal(progress->last_completed_sheet, INT_UNKNOWN);
    order(feed, FEED_SEEK, time_of(30));
    progress = &seen.last.snapshot->job_progress.items[0];
    assert_int_equal(progress->current_sheet, 2);
    assert_int_equal(progress->last_completed_sheet, 1);
    close_feed(&seen, feed);
}

static void test_history_plays(void **state)
{
    const struct store_fixture *fixture = *state;
    struct seen seen = {0};

    write_history(fixture);
    struct feed_options options = history_of(fixture);
    struct feed *feed = open_feed(&seen, &options);
    order(feed, FEED_SPEED, 1e9);
    run_until(&seen, 3);
    assert_true(seen.times.items[0] < seen.times.items[1]);
    assert_true(seen.times.items[1] < seen.times.items[2]);
    order(feed, FEED_PLAY_OR_PAUSE, 0);
    assert_false(seen.status.is_playing);
    uv_run(&seen.loop, UV_RUN_NOWAIT); /* no timer is due any more */
    assert_int_equal(seen.times.count, 3);
    close_feed(&seen, feed);
}

/* Many frames are stored after the last one was shown; the anomaly can no longer be read. */
static void test_history_grows(void **state)
{
    const struct store_fixture *fixture = *state;
    struct seen seen = {0};

    write_history(fixture);
    struct feed_options options = history_of(fixture);
    struct feed *feed = open_feed(&seen, &options);
    order(feed, FEED_STEP, TICKS);
    struct store *store = fixture_open(fixture);
    write_ticks(store, TICKS, 20 * TICKS);
    assert_int_equal(store_close(store), 0);
    sqlite3 *handle = fixture_sqlite(fixture);
    run_sql(handle, "ALTER TABLE anomalies RENAME TO lost");
    sqlite3_close(handle);
    order(feed, FEED_PLAY_OR_PAUSE, 0);
    run_until(&seen, 3);
    assert_true(seen.times.items[2] > time_of(TICKS - 1));
    assert_int_equal(seen.status.count, 20 * TICKS);
    order(feed, FEED_ANOMALY, -1);
    assert_int_equal(seen.status.anomalies, 1);
    assert_int_equal(seen.status.position, 20);
    assert_string_equal(seen.last.anomalies.items[0].anomaly_type, "memory_spike");
    close_feed(&seen, feed);
}

/* Neither the first frame nor those before it can be read: there is an error and a position. */
static void test_database_error_during_replay(void **state)
{
    const struct store_fixture *fixture = *state;
    char job_id[JOB_ID_NUMBERED_MAX_BYTES];
    struct seen seen = {.how = "ALTER TABLE usage RENAME TO lost"};
    struct job job;

    write_history(fixture);
    struct store *store = fixture_open(fixture);
    record_init(&job_record, &job);
    job.run_id = "01900000-0000-7000-8000-00000000000b";
    job.job_id = "later";
    job.started_at = time_of(30);
    assert_int_equal(store_begin_job(store, &job, job_id), 0);
    assert_int_equal(store_close(store), 0);
    seen.breaks = fixture_sqlite(fixture);
    struct feed_options options = history_of(fixture);
    options.job = "later";
    struct feed *feed = open_feed(&seen, &options);
    assert_int_equal(seen.past, 1);
    assert_int_equal(seen.times.count, 0);
    assert_int_equal(seen.status.position, 30);
    assert_true(seen.status.reason[0]);
    order(feed, FEED_STEP, 1);
    assert_int_equal(seen.status.position, 31);
    run_sql(seen.breaks, "ALTER TABLE lost RENAME TO usage");
    order(feed, FEED_STEP, 1);
    assert_true(seen.last.snapshot->timestamp == time_of(32));
    assert_string_equal(seen.status.reason, "");
    sqlite3_close(seen.breaks);
    close_feed(&seen, feed);
}

static void expect_refusal(const struct feed_options *options, int error, const char *words)
{
    struct seen seen = {0};
    const struct feed_sink sink = sink_of(&seen);
    struct feed_error why = {""};
    struct feed *feed = NULL;

    assert_int_equal(uv_loop_init(&seen.loop), 0);
    assert_int_equal(feed_open(&seen.loop, options, &sink, &feed, &why), error);
    assert_non_null(strstr(why.text, words));
    uv_run(&seen.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&seen.loop), 0);
}

static void test_replay_without_data(void **state)
{
    const struct store_fixture *fixture = *state;
    struct feed_options options = history_of(fixture);

    expect_refusal(&options, -ENOENT, "no data yet in");
    write_history(fixture);
    options.since = time_of(TICKS + 10);
    expect_refusal(&options, -ENODATA, "no data is stored for that time");
    options.since = WORLD_START;
    options.job = "no-such-job";
    expect_refusal(&options, -ENOENT, "no job named 'no-such-job'");
    options.database_path = NULL;
    expect_refusal(&options, -ENOENT, "no state directory");
}

/* ---- runs of other processes ---- */

#define CROWD 250 /* more than the feed reads */

static void begin_run(struct store *store, int number)
{
    char run_id[UUID_TEXT_SIZE], job_id[JOB_ID_NUMBERED_MAX_BYTES];
    struct job job;

    snprintf(run_id, sizeof(run_id), "01900000-0000-7000-8000-%012d", number);
    record_init(&job_record, &job);
    job.run_id = run_id;
    job.job_id = "crowd";
    job.started_at = time_of((size_t)number);
    job.outcome = OUTCOME_RUNNING;
    assert_int_equal(store_begin_job(store, &job, job_id), 0);
}

static void drop_box(void *context _unused_, struct tick_box *box)
{
    tick_box_free(box);
}

static void note_job(void *context, const struct job *job, bool is_end)
{
    struct text *listed = context;

    if (is_end)
        text_printf(listed, "%s ", job->run_id + strlen(job->run_id) - 1);
}

/* A run that continues does not end because many others have begun since. */
static void test_many_runs(void **state)
{
    const struct store_fixture *fixture = *state;
    struct store *store = fixture_open(fixture);
    struct registry *registry = NULL;
    struct engine *engine = NULL;
    struct foreign_runs runs;
    struct text listed = {0};
    uv_loop_t loop;

    assert_int_equal(uv_loop_init(&loop), 0);
    assert_int_equal(registry_new(&registry), 0);
    const struct engine_options options = {
        .settings.interval_ns = NS_PER_SEC, .registry = registry, .on_tick = drop_box};
    assert_int_equal(engine_start(&loop, &options, &engine), 0);
    foreign_runs_init(&runs, fixture->path);
    runs.on_job = note_job;
    runs.context = &listed;
    begin_run(store, 1);
    begin_run(store, 2);
    assert_true(foreign_runs_update(&runs, engine, registry));
    for (int i = 3; i < CROWD; i++)
        begin_run(store, i);
    assert_true(foreign_runs_update(&runs, engine, registry));
    assert_string_equal(text_string(&listed), "");
    assert_non_null(registry_find_run(registry, "01900000-0000-7000-8000-000000000001"));

    struct job end;
    record_init(&job_record, &end);
    end.run_id = "01900000-0000-7000-8000-000000000001";
    end.outcome = OUTCOME_SUCCESS;
    end.ended_at = time_of(CROWD);
    assert_int_equal(store_finish_job(store, &end), 0);
    assert_true(foreign_runs_update(&runs, engine, registry));
    assert_string_equal(text_string(&listed), "1 ");
    assert_null(registry_find_run(registry, "01900000-0000-7000-8000-000000000001"));
    assert_non_null(registry_find_run(registry, "01900000-0000-7000-8000-000000000002"));
    assert_false(foreign_runs_update(&runs, engine, registry));

    foreign_runs_done(&runs);
    assert_int_equal(store_close(store), 0);
    engine_close(engine);
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    registry_free(registry);
    text_done(&listed);
}

/* ---- a daemon ---- */

#define SNAPSHOT                                                                                   \
    "{\"timestamp\":%d,\"processes\":[{\"pid\":5,\"command\":\"x\",\"job_id\":\"j\"},"             \
    "{\"pid\":6}],\"jobs\":[{\"job_id\":\"j\"}]}"

struct fake {
    int answers;        /* to daemon.top so far */
    const char *poison; /* lines that come with the streams */
    const char *report; /* of the machine; NULL: not permitted */
    bool repeats;       /* the stream sends each snapshot, and the one before it once more */
};

static void send_snapshot(struct text *out, int timestamp)
{
    char json[512], envelope[640];

    snprintf(json, sizeof(json), SNAPSHOT, timestamp);
    snprintf(envelope, sizeof(envelope), "{\"event\":\"monitor.snapshot\",\"data\":%s}", json);
    fake_event(out, envelope);
}

static bool answer(void *context, const struct rpc_request *request, struct text *out)
{
    struct fake *fake = context;
    char json[512];

    if (!request)
        return true;
    if (request->method == &method_daemon_status) {
        fake_result(out, request,
                    "{\"version\":\"1\",\"pid\":7,\"interval_seconds\":1,\"open_anomalies\":3}");
    } else if (request->method == &method_daemon_top) {
        snprintf(json, sizeof(json), SNAPSHOT, ++fake->answers);
        fake_result(out, request, json);
        if (fake->repeats && fake->answers > 1) {
            send_snapshot(out, fake->answers - 1);
            send_snapshot(out, fake->answers);
        }
    } else if (request->method == &method_daemon_top_stream) {
        fake_result(out, request, "{}");
        if (fake->poison)
            text_append_string(out, fake->poison);
    } else if (request->method == &method_daemon_monitor_stream) {
        fake_result(out, request, "{}");
    } else if (request->method == &method_daemon_events) {
        fake_result(out, request, "[]");
    } else if (request->method == &method_report_machine && fake->report) {
        fake_result(out, request, fake->report);
    } else {
        fake_error(out, request, RPC_NOT_PERMITTED, "not you");
    }
    return true;
}

struct socket_place {
    char dir[64];
    char path[96];
    const char *paths[2];
};

static void make_place(struct socket_place *place)
{
    strcpy(place->dir, "/tmp/sonde-test-feed-XXXXXX");
    assert_non_null(mkdtemp(place->dir));
    snprintf(place->path, sizeof(place->path), "%s/sonde.sock", place->dir);
    place->paths[0] = place->path;
    place->paths[1] = NULL;
}

static void remove_place(const struct socket_place *place)
{
    unlink(place->path);
    assert_int_equal(rmdir(place->dir), 0);
}

static struct feed_options live_at(const struct socket_place *place)
{
    return (struct feed_options){
        .socket_paths = place->paths, .interval_ns = 50 * NS_PER_MSEC, .since = REAL_UNKNOWN};
}

/* The feed requests figures that the stream sends too rarely, and omits those of other jobs. */
static void test_frames_from_a_daemon(void **state)
{
    struct seen seen = {0};
    struct fake fake = {0};
    struct socket_place place;
    (void)state;

    make_place(&place);
    struct fake_daemon *daemon = fake_daemon_start(place.path, answer, &fake);
    struct feed_options options = live_at(&place);
    options.job = "j";
    struct feed *feed = open_feed(&seen, &options);
    assert_int_equal(seen.status.kind, FEED_DAEMON);
    assert_int_equal(seen.times.count, 1);
    assert_true(seen.last.is_jump);
    assert_int_equal(seen.last.snapshot->processes.count, 1);
    assert_int_equal(seen.last.snapshot->processes.items[0].pid, 5);
    close_feed(&seen, feed);
    fake_daemon_stop(daemon);
    remove_place(&place);
}

#define EPISODE(time, type) "\"timestamp\":" time ",\"anomaly_type\":\"" type "\",\"pid\":5"
#define OPENED(time, type)                                                                         \
    RPC_EVENT_PREFIX "{\"event\":\"monitor.anomaly\",\"timestamp\":" time                          \
                     ",\"data\":{" EPISODE(time, type) "}}" RPC_EVENT_SUFFIX "\n"
#define CLEARED(time, type)                                                                        \
    RPC_EVENT_PREFIX "{\"event\":\"monitor.anomaly\",\"timestamp\":90,\"data\":{" EPISODE(         \
        time, type) ",\"cleared_at\":90}}" RPC_EVENT_SUFFIX "\n"

/* Episodes that were open before, and those that the stream has reported since. */
static void test_daemon_has_open_episodes(void **state _unused_)
{
    struct seen seen = {0};
    struct fake fake = {
        .repeats = true,
        .report = "{\"anomalies\":[{" EPISODE("10", "zombie") "},{" EPISODE(
            "11", "memory_leak") "},"
                                 "{" EPISODE("12", "runaway_process") ",\"cleared_at\":13}]}",
        .poison = OPENED("20", "memory_spike") OPENED("20", "memory_spike") CLEARED("10", "zombie")
            CLEARED("10", "memory_leak"), /* another one of that type, which was not open here */
    };
    struct socket_place place;

    make_place(&place);
    struct fake_daemon *daemon = fake_daemon_start(place.path, answer, &fake);
    struct feed_options options = live_at(&place);
    struct feed *feed = open_feed(&seen, &options);
    run_until(&seen, 4);
    assert_int_equal(seen.last.anomalies.count, 2);
    assert_string_equal(seen.last.anomalies.items[0].anomaly_type, "memory_leak");
    assert_string_equal(seen.last.anomalies.items[1].anomaly_type, "memory_spike");
    assert_int_equal(seen.last.open_anomalies, 3);
    close_feed(&seen, feed);
    fake_daemon_stop(daemon);
    remove_place(&place);
}

/* More events than are kept while the feed waits for an answer. */
static void test_events_that_are_dropped(void **state _unused_)
{
    _cleanup_text_ struct text flood = {0};
    struct seen seen = {0};
    struct socket_place place;

    for (int i = 0; i < CLIENT_KEPT_MAX_EVENTS + 3; i++)
        fake_event(&flood, "{\"event\":\"process.exit\",\"timestamp\":1,\"data\":"
                           "{\"timestamp\":1,\"pid\":5,\"event_type\":\"exit\"}}");
    struct fake fake = {.poison = text_string(&flood)};
    make_place(&place);
    struct fake_daemon *daemon = fake_daemon_start(place.path, answer, &fake);
    struct feed_options options = live_at(&place);
    struct feed *feed = open_feed(&seen, &options);
    assert_memory_equal(text_string(&seen.news), "gap(3) exit ", strlen("gap(3) exit "));
    assert_null(strstr(text_string(&seen.news) + 1, "gap"));
    close_feed(&seen, feed);
    fake_daemon_stop(daemon);
    remove_place(&place);
}

static void test_daemon_that_repeats_a_snapshot(void **state _unused_)
{
    struct seen seen = {0};
    struct fake fake = {.repeats = true};
    struct socket_place place;

    make_place(&place);
    struct fake_daemon *daemon = fake_daemon_start(place.path, answer, &fake);
    struct feed_options options = live_at(&place);
    struct feed *feed = open_feed(&seen, &options);
    run_until(&seen, 4);
    for (size_t i = 1; i < seen.times.count; i++)
        assert_true(seen.times.items[i] > seen.times.items[i - 1]);
    close_feed(&seen, feed);
    fake_daemon_stop(daemon);
    remove_place(&place);
}

/* Lines that no daemon should send: the feed skips them or treats the daemon as gone; it shows
 * nothing that does not exist. */
static void test_daemon_sends_invalid_data(void **state)
{
    static const char *const lines[] = {
        "{}\n",
        "nonsense\n",
        RPC_EVENT_PREFIX "{\"event\":\"monitor.snapshot\",\"data\":{}}}\n",
        RPC_EVENT_PREFIX "{\"event\":\"monitor.snapshot\",\"data\":{\"timestamp\":\"x\"}}}\n",
        RPC_EVENT_PREFIX "{\"event\":\"monitor.snapshot\",\"data\":{\"timestamp\":1}\n",
        RPC_EVENT_PREFIX "{{{{}\n",
        RPC_EVENT_PREFIX "{}}\n",
        RPC_EVENT_PREFIX "{\"event\":\"monitor.anomaly\",\"timestamp\":1,\"data\":{}}}\n",
        RPC_EVENT_PREFIX "{\"event\":\"process.exit\",\"timestamp\":1,\"data\":{\"pid\":\"\"}}}\n",
        "{\"jsonrpc\":\"2.0\",\"method\":\"monitor.event\"}\n",
        "\xff\xfe\n",
    };
    (void)state;

    for (size_t i = 0; i < ARRAY_SIZE(lines); i++) {
        struct seen seen = {0};
        struct fake fake = {.poison = lines[i]};
        struct socket_place place;
        const struct feed_sink sink = sink_of(&seen);
        struct feed_error error;
        struct feed *feed = NULL;
        make_place(&place);
        struct fake_daemon *daemon = fake_daemon_start(place.path, answer, &fake);
        struct feed_options options = live_at(&place);
        assert_int_equal(uv_loop_init(&seen.loop), 0);
        assert_int_equal(feed_open(&seen.loop, &options, &sink, &feed, &error), 0);
        for (int turn = 0; turn < 5; turn++)
            uv_run(&seen.loop, UV_RUN_NOWAIT);
        assert_int_equal(seen.status.kind, FEED_DAEMON);
        assert_true(seen.times.count >= 1 || seen.status.is_down);
        close_feed(&seen, feed);
        fake_daemon_stop(daemon);
        remove_place(&place);
    }
}

static void test_daemon_restart(void **state)
{
    struct seen seen = {0};
    struct fake fake = {0};
    struct socket_place place;
    (void)state;

    make_place(&place);
    struct fake_daemon *daemon = fake_daemon_start(place.path, answer, &fake);
    struct feed_options options = live_at(&place);
    struct feed *feed = open_feed(&seen, &options);
    fake_daemon_stop(daemon);
    while (!seen.status.is_down)
        uv_run(&seen.loop, UV_RUN_ONCE);
    assert_non_null(strstr(seen.status.reason, "closed the connection"));
    unlink(place.path);
    daemon = fake_daemon_start(place.path, answer, &fake);
    while (seen.status.is_down)
        uv_run(&seen.loop, UV_RUN_ONCE);
    assert_int_equal(seen.times.count, 2);
    assert_true(seen.last.is_jump);
    close_feed(&seen, feed);
    fake_daemon_stop(daemon);
    remove_place(&place);
}

/* ---- in a thread ---- */

struct received {
    uv_loop_t loop;
    size_t frames, headlines, statuses;
};

static void receive_frame(void *context, struct frame *frame)
{
    struct received *received = context;

    frame_done(frame);
    if (++received->frames == 2)
        uv_stop(&received->loop);
}

static void receive_headline(void *context, struct headline *headline)
{
    struct received *received = context;

    received->headlines++;
    free(headline);
}

static void receive_status(void *context, const struct feed_status *status _unused_)
{
    struct received *received = context;
    received->statuses++;
}

static void test_feed_in_a_thread(void **state)
{
    const struct store_fixture *fixture = *state;
    struct received received = {0};
    const struct feed_receiver receiver = {receive_frame, receive_headline, receive_status,
                                           &received};
    struct feed_options options = history_of(fixture);
    struct feed_thread *thread = NULL;
    struct feed_error error = {""};

    assert_int_equal(uv_loop_init(&received.loop), 0);
    assert_int_equal(feed_thread_start(&received.loop, &options, &receiver, &thread, &error),
                     -ENOENT);
    assert_non_null(strstr(error.text, "no data yet"));
    write_history(fixture);
    assert_int_equal(feed_thread_start(&received.loop, &options, &receiver, &thread, &error), 0);
    uv_run(&received.loop, UV_RUN_ONCE);
    for (int i = 0; i < 20; i++)
        feed_thread_command(thread, &(struct feed_command){FEED_STEP, 1});
    uv_run(&received.loop, UV_RUN_DEFAULT);
    assert_true(received.frames >= 2 && received.statuses && received.headlines);
    feed_thread_stop(thread);
    uv_run(&received.loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&received.loop), 0);
}

int main(void)
{
#define T(test) cmocka_unit_test_setup_teardown(test, store_fixture_set_up, store_fixture_tear_down)
    const struct CMUnitTest tests[] = {
        T(test_history_all_at_once),
        T(test_history_steps_and_jumps),
        T(test_history_finds_anomalies),
        T(test_history_has_progress),
        T(test_history_plays),
        T(test_history_grows),
        T(test_database_error_during_replay),
        T(test_replay_without_data),
        T(test_many_runs),
        cmocka_unit_test(test_frames_from_a_daemon),
        cmocka_unit_test(test_daemon_has_open_episodes),
        cmocka_unit_test(test_events_that_are_dropped),
        cmocka_unit_test(test_daemon_that_repeats_a_snapshot),
        cmocka_unit_test(test_daemon_sends_invalid_data),
        cmocka_unit_test(test_daemon_restart),
        T(test_feed_in_a_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
