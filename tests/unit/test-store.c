/* The store returns what was written: snapshots across keyframes and folds, during the session and
 * after it, and all other records. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "store-world.h"

/* ---- snapshots ---- */

/* Several folds, and some ticks after the last. */
#define TICKS 290

static void check_all(const struct store_fixture *fixture, const struct written *written)
{
    _cleanup_(store_reader_closep) struct store_reader *reader = fixture_reader(fixture);
    struct snapshot_list found = {0};

    assert_int_equal(store_read_snapshots(reader, 0, TICKS + 1, &found), 0);
    assert_same_snapshots(written->items, written->count, &found);
    snapshot_list_done(&found);
}

static bool is_time_to_look(size_t count)
{
    return count == 1 || count == 59 || (count >= 60 && count <= 63) || count % 97 == 0;
}

static void round_trip(struct store_fixture *fixture, uint64_t seed)
{
    struct written written = {0};
    struct world world;

    world_init(&world, seed);
    struct store *store = fixture_open(fixture);
    while (written.count < TICKS) {
        write_next(store, &world, &written);
        if (is_time_to_look(written.count))
            check_all(fixture, &written);
    }
    assert_int_equal(store_close(store), 0);
    check_all(fixture, &written);
    assert_int_equal(store_close(fixture_open(fixture)), 0);
    check_all(fixture, &written);
    written_done(&written);
    world_done(&world);
}

static void test_snapshots_1(void **state)
{
    round_trip(*state, 1);
}

static void test_snapshots_2(void **state)
{
    round_trip(*state, 2);
}

static void test_snapshots_3(void **state)
{
    round_trip(*state, 3);
}

static void test_since_and_limit(void **state)
{
    struct store_fixture *fixture = *state;
    struct written written = {0};
    struct snapshot_list found = {0};
    struct world world;

    world_init(&world, 4);
    struct store *store = fixture_open(fixture);
    while (written.count < 130)
        write_next(store, &world, &written);
    _cleanup_(store_reader_closep) struct store_reader *reader = fixture_reader(fixture);
    /* inclusive; the default limit */
    assert_int_equal(store_read_snapshots(reader, written.items[20]->timestamp, 0, &found), 0);
    assert_same_snapshots(written.items + 20, SNAPSHOT_LIMIT_DEFAULT, &found);
    snapshot_list_done(&found);
    assert_int_equal(store_read_snapshots(reader, written.items[129]->timestamp, 7, &found), 0);
    assert_same_snapshots(written.items + 129, 1, &found);
    snapshot_list_done(&found);
    assert_int_equal(store_read_snapshots(reader, world.now + 1, 7, &found), 0);
    assert_int_equal(found.count, 0);
    snapshot_list_done(&found);
    assert_int_equal(store_close(store), 0);
    written_done(&written);
    world_done(&world);
}

/* The expected result of store_read_process(). */
static void check_process(struct store_reader *reader, const struct written *written, int64_t pid,
                          const struct process_metric *only, size_t from)
{
    struct process_point_list found = {0};
    struct arena arena = {0};
    size_t count = 0;

    assert_int_equal(store_read_process(reader, pid, only ? only->start_time : REAL_UNKNOWN,
                                        written->items[from]->timestamp, TICKS, &arena, &found),
                     0);
    for (size_t i = from; i < written->count; i++)
        for (size_t k = 0; k < written->items[i]->processes.count; k++) {
            const struct process_metric *process = &written->items[i]->processes.items[k];
            if (process->pid != pid || (only && process->start_ticks != only->start_ticks))
                continue;
            assert_true(count < found.count);
            const struct process_point *point = &found.items[count++];
            assert_same_record(&process_metric_record, process, &point->process, "point", i);
            assert_true(fabs(point->timestamp - written->items[i]->timestamp) < 0.0006);
            assert_true(point->resolution_seconds == FIXTURE_INTERVAL);
        }
    assert_int_equal(found.count, count);
    arena_done(&arena);
}

static void test_process_history(void **state)
{
    struct store_fixture *fixture = *state;
    struct written written = {0};
    struct world world;

    world_init(&world, 5);
    struct store *store = fixture_open(fixture);
    while (written.count < 150)
        write_next(store, &world, &written);
    struct store_reader *reader = fixture_reader(fixture);
    for (int64_t pid = 99; pid <= 100 + WORLD_PIDS; pid++) {
        check_process(reader, &written, pid, NULL, 0);
        check_process(reader, &written, pid, NULL, 140);
    }
    for (size_t i = 0; i < WORLD_PIDS; i++)
        check_process(reader, &written, world.processes[i].metric.pid, &world.processes[i].metric,
                      0);
    store_reader_close(reader);
    assert_int_equal(store_close(store), 0);
    written_done(&written);
    world_done(&world);
}

/* ---- events and gaps ---- */

#define EVENTS 400

static void make_event(struct world *world, struct process_event *event)
{
    random_event(&world->random, &world->arena, event);
    const struct world_run *run = &world->runs[random_below(&world->random, WORLD_RUNS)];
    bool has_job = random_once_in(&world->random, 2);

    world->now += 0.000125;
    event->timestamp = world->now;
    event->run_id = has_job ? run->run_id : NULL;
    event->job_id = has_job ? run->job_id : NULL;
}

static bool is_wanted(const struct process_event *event, const struct event_filter *filter)
{
    bool is_notable = event->event_type == EVENT_SIGNAL || event->event_type == EVENT_KILL ||
                      event->event_type == EVENT_OOM ||
                      (int_is_known(event->exit_code) && event->exit_code != 0);

    return (isnan(filter->since) || event->timestamp >= filter->since) &&
           (isnan(filter->until) || event->timestamp <= filter->until) &&
           (!filter->run_id || (event->run_id && strcmp(event->run_id, filter->run_id) == 0)) &&
           (!filter->job_id || (event->job_id && strcmp(event->job_id, filter->job_id) == 0)) &&
           (!int_is_known(filter->pid) || event->pid == filter->pid) &&
           (!filter->event_types || ((filter->event_types & EVENT_TYPE_BIT(event->event_type)) &&
                                     event->is_step != TRUTH_YES)) &&
           (!filter->only_notable || is_notable);
}

static void check_events(struct store_reader *reader, const struct process_event *written,
                         const struct event_filter *filter)
{
    const struct process_event *wanted[EVENTS];
    struct process_event_list found = {0};
    struct arena arena = {0};
    size_t count = 0;

    for (size_t i = 0; i < EVENTS; i++)
        if (is_wanted(&written[i], filter))
            wanted[count++] = &written[i];
    size_t first = filter->limit && count > filter->limit ? count - filter->limit : 0;

    assert_int_equal(store_read_events(reader, filter, &arena, &found), 0);
    assert_int_equal(found.count, count - first);
    for (size_t i = 0; i < found.count; i++)
        assert_same_record(&process_event_record, wanted[first + i], &found.items[i], "event", i);
    arena_done(&arena);
}

static void test_events(void **state)
{
    struct store_fixture *fixture = *state;
    struct process_event events[EVENTS];
    struct world world;

    world_init(&world, 6);
    struct store *store = fixture_open(fixture);
    for (size_t i = 0; i < EVENTS; i += 20) {
        for (size_t k = i; k < i + 20; k++) {
            make_event(&world, &events[k]);
            events[k].is_step = k % 11 == 0 ? TRUTH_YES : TRUTH_UNKNOWN;
            if (k % 9 == 0)
                events[k].pid = 4711;
        }
        struct tick tick = {.events = {.items = events + i, .count = 20}};
        assert_int_equal(store_write_tick(store, &tick), 0);
    }
    _cleanup_(store_reader_closep) struct store_reader *reader = fixture_reader(fixture);
    struct event_filter filters[13];
    for (size_t i = 0; i < ARRAY_SIZE(filters); i++)
        filters[i] = EVENT_FILTER_ALL;
    filters[1].limit = 17;
    filters[2].since = events[100].timestamp;
    filters[3].until = events[100].timestamp;
    filters[4].run_id = world.runs[1].run_id;
    filters[5].job_id = world.runs[2].job_id;
    filters[6].pid = 4711;
    filters[7].event_types = EVENT_TYPE_BIT(EVENT_EXEC);
    filters[8].only_notable = true;
    filters[9] = (struct event_filter){.since = events[50].timestamp,
                                       .until = events[350].timestamp,
                                       .run_id = world.runs[0].run_id,
                                       .job_id = world.runs[0].job_id,
                                       .pid = INT_UNKNOWN,
                                       .uid = INT_UNKNOWN,
                                       .only_notable = true,
                                       .limit = 5};
    filters[10].run_id = "no such run";
    filters[11].since = world.now + 1;
    filters[12].event_types = EVENT_TYPE_BIT(EVENT_SPAWN) | EVENT_TYPE_BIT(EVENT_OOM);
    for (size_t i = 0; i < ARRAY_SIZE(filters); i++)
        check_events(reader, events, &filters[i]);
    assert_int_equal(store_close(store), 0);
    for (size_t i = 0; i < ARRAY_SIZE(filters); i++)
        check_events(reader, events, &filters[i]);
    world_done(&world);
}

static size_t count_events_of(struct store_reader *reader, int64_t uid, size_t limit)
{
    struct event_filter filter = EVENT_FILTER_ALL;
    struct process_event_list found = {0};
    struct arena arena = {0};

    filter.uid = uid;
    filter.limit = limit;
    assert_int_equal(store_read_events(reader, &filter, &arena, &found), 0);
    for (size_t i = 0; i < found.count && int_is_known(uid); i++)
        assert_string_equal(found.items[i].job_id, uid == 1000 ? "mine" : "theirs");
    arena_done(&arena);
    return found.count;
}

static void test_events_of_a_user(void **state)
{
    struct store *store = fixture_open(*state);
    struct process_event events[9];
    char name[JOB_ID_NUMBERED_MAX_BYTES];
    struct job job;

    record_init(&job_record, &job);
    for (int64_t uid = 1000; uid <= 1001; uid++) {
        job.run_id = job.job_id = uid == 1000 ? "mine" : "theirs";
        job.uid = uid;
        assert_int_equal(store_begin_job(store, &job, name), 0);
    }
    for (size_t i = 0; i < ARRAY_SIZE(events); i++) {
        init_event(&events[i]);
        events[i].timestamp = 1000 + (double)i;
        events[i].pid = 5;
        events[i].event_type = EVENT_SPAWN;
        if (i % 3) /* else of no run */
            events[i].run_id = events[i].job_id = i % 3 == 1 ? "mine" : "theirs";
    }
    assert_int_equal(
        store_write_tick(store, &(struct tick){.events = {events, ARRAY_SIZE(events)}}), 0);
    _cleanup_(store_reader_closep) struct store_reader *reader = fixture_reader(*state);
    assert_int_equal(count_events_of(reader, 1000, 0), 3);
    assert_int_equal(count_events_of(reader, 1001, 2), 2);
    assert_int_equal(count_events_of(reader, 0, 0), 0);
    assert_int_equal(count_events_of(reader, INT_UNKNOWN, 0), 9);
    assert_int_equal(store_close(store), 0);
}

/* strace may report after the end of its process is stored, whether the process is in the snapshot
 * of that tick (as a zombie) or not. */
static void test_trace_completes_an_end(void **state)
{
    struct store *store = fixture_open(*state);
    struct process_event end;
    struct process_trace trace = {
        .pid = 5, .start_ticks = 7, .run_id = "run", .details = "system calls: write 100%"};
    char name[JOB_ID_NUMBERED_MAX_BYTES];
    struct job job;

    record_init(&job_record, &job);
    job.run_id = job.job_id = "run";
    assert_int_equal(store_begin_job(store, &job, name), 0);
    for (int has_snapshot = 0; has_snapshot <= 1; has_snapshot++) {
        struct tick later = {.traces = {.items = &trace, .count = 1}};

        init_event(&end);
        end.timestamp = 1000 + has_snapshot;
        end.pid = 5;
        end.event_type = EVENT_EXIT;
        end.run_id = end.job_id = "run";
        assert_int_equal(store_write_tick(store, &(struct tick){.events = {&end, 1}}), 0);
        if (has_snapshot) {
            struct process_metric *zombie;
            struct snapshot *snapshot = snapshot_new();
            zombie = arena_alloc(&snapshot->arena, sizeof(*zombie));
            record_init(&process_metric_record, zombie);
            zombie->pid = trace.pid;
            zombie->start_ticks = trace.start_ticks;
            snapshot->timestamp = 1002;
            snapshot->id = snapshot_id_next(0, 1002, 1);
            snapshot->processes.items = zombie;
            snapshot->processes.count = 1;
            later.snapshot = snapshot;
        }
        assert_int_equal(store_write_tick(store, &later), 0);
        snapshot_unref(later.snapshot);
    }
    assert_int_equal(store_close(store), 0);
    sqlite3 *handle = fixture_sqlite(*state);
    assert_int_equal(ask_int(handle, "SELECT count(*) FROM process_events WHERE event_type = 'exit'"
                                     " AND details = 'system calls: write 100%'"),
                     2);
    sqlite3_close(handle);
}

static void test_gaps(void **state)
{
    struct store_fixture *fixture = *state;
    struct gap gaps[60];
    struct gap_list found = {0};
    struct world world;

    world_init(&world, 7);
    struct store *store = fixture_open(fixture);
    for (size_t i = 0; i < ARRAY_SIZE(gaps); i++) {
        random_record(&world.random, &gap_record, &world.arena, &gaps[i]);
        gaps[i].timestamp = world.now += 1;
    }
    assert_int_equal(store_write_tick(store, &(struct tick){.gaps = {gaps, ARRAY_SIZE(gaps)}}), 0);
    _cleanup_(store_reader_closep) struct store_reader *reader = fixture_reader(fixture);
    assert_int_equal(
        store_read_gaps(reader, NULL, REAL_UNKNOWN, REAL_UNKNOWN, &world.arena, &found), 0);
    assert_int_equal(found.count, ARRAY_SIZE(gaps));
    for (size_t i = 0; i < ARRAY_SIZE(gaps); i++)
        assert_same_record(&gap_record, &gaps[i], &found.items[i], "gap", i);
    assert_int_equal(
        store_read_gaps(reader, NULL, gaps[10].timestamp, gaps[20].timestamp, &world.arena, &found),
        0);
    assert_int_equal(found.count, 11);
    assert_int_equal(store_close(store), 0);
    world_done(&world);
}

static void begin(struct store *store, const char *run_id, const char *job_id, double at)
{
    char name[JOB_ID_NUMBERED_MAX_BYTES];
    struct job job;

    record_init(&job_record, &job);
    job.run_id = run_id;
    job.job_id = job_id;
    job.started_at = at;
    assert_int_equal(store_begin_job(store, &job, name), 0);
}

static void test_gaps_of_a_run(void **state)
{
    struct store_fixture *fixture = *state;
    struct gap gaps[] = {
        {GAP_SUSPEND, 900, 50, INT_UNKNOWN, "before it"},
        {GAP_SUSPEND, 1010, 20, INT_UNKNOWN, "into it"},
        {GAP_CLOCK_STEP, 1100, -50, INT_UNKNOWN, "backwards"},
        {GAP_EVENTS, 1200, REAL_UNKNOWN, 5, "unknown duration"},
        {GAP_NOT_STORED, 1300, 0, 5, "at the end"},
    };
    struct arena arena = {0};
    struct gap_list found = {0};
    struct store *store = fixture_open(fixture), *other = fixture_open(fixture);
    struct gap elsewhere = {GAP_SUSPEND, 1150, 1, INT_UNKNOWN, "another writer's"};

    begin(store, "01900000-0000-7000-8000-000000000001", "build", 1000);
    assert_int_equal(store_write_tick(store, &(struct tick){.gaps = {gaps, ARRAY_SIZE(gaps)}}), 0);
    assert_int_equal(store_write_tick(other, &(struct tick){.gaps = {&elsewhere, 1}}), 0);
    struct store_reader *reader = fixture_reader(fixture);
    assert_int_equal(store_read_gaps(reader, "01900000-0000-7000-8000-000000000001", REAL_UNKNOWN,
                                     REAL_UNKNOWN, &arena, &found),
                     0);
    assert_int_equal(found.count, 4);
    for (size_t i = 0; i < found.count; i++)
        assert_same_record(&gap_record, &gaps[i + 1], &found.items[i], "gap", i);
    store_reader_close(reader);
    assert_int_equal(store_close(store), 0);
    assert_int_equal(store_close(other), 0);
    arena_done(&arena);
}

/* ---- jobs and steps ---- */

#define JOBS 40

static void random_job(struct world *world, struct job *job)
{
    random_record(&world->random, &job_record, &world->arena, job);
    job->profile.sheet_metrics = (struct sheet_metric_list){0}; /* the steps have these */
}

static void test_jobs(void **state)
{
    struct store_fixture *fixture = *state;
    struct job jobs[JOBS], found;
    char run_ids[JOBS][40], job_ids[JOBS][16], name[JOB_ID_NUMBERED_MAX_BYTES];
    struct job_list list = {0};
    struct world world;

    world_init(&world, 8);
    struct store *store = fixture_open(fixture);
    for (size_t i = 0; i < JOBS; i++) {
        struct job begun, ended;
        random_job(&world, &begun);
        random_job(&world, &ended);
        snprintf(run_ids[i], sizeof(run_ids[i]), "01900000-0000-7000-8000-%012zu", i);
        snprintf(job_ids[i], sizeof(job_ids[i]), "job %zu", i % 10);
        begun.run_id = ended.run_id = run_ids[i];
        begun.job_id = ended.job_id = job_ids[i];
        begun.profile.job_id = ended.profile.job_id = job_ids[i];
        begun.started_at = ended.started_at = world.now += 1;
        ended.outcome = OUTCOME_SUCCESS + (int)(i % 3);
        assert_int_equal(store_begin_job(store, &begun, name), 0);
        assert_string_equal(name, job_ids[i]);

        jobs[i] = begun;
        jobs[i].outcome = OUTCOME_RUNNING;
        struct store_reader *reader = fixture_reader(fixture);
        assert_int_equal(store_find_job(reader, job_ids[i], &world.arena, &found), 0);
        assert_same_record(&job_record, &jobs[i], &found, "job begun", i);
        store_reader_close(reader);

        assert_int_equal(store_finish_job(store, &ended), 0);
        record_merge(&job_record, &jobs[i], &ended);
    }
    assert_int_equal(store_close(store), 0);

    _cleanup_(store_reader_closep) struct store_reader *reader = fixture_reader(fixture);
    for (size_t i = 0; i < JOBS; i++) {
        assert_int_equal(store_find_job(reader, run_ids[i], &world.arena, &found), 0);
        assert_same_record(&job_record, &jobs[i], &found, "job by run id", i);
        snprintf(name, sizeof(name), "job %zu~%zu", i % 10, (JOBS - 1 - i) / 10);
        assert_int_equal(store_find_job(reader, name, &world.arena, &found), 0);
        assert_same_record(&job_record, &jobs[i], &found, "job by name", i);
    }
    assert_int_equal(store_find_job(reader, "job 0~4", &world.arena, &found), -ENOENT);
    assert_int_equal(store_find_job(reader, "job 0~", &world.arena, &found), -ENOENT);
    assert_int_equal(store_find_job(reader, "job 0~-1", &world.arena, &found), -ENOENT);
    assert_int_equal(store_find_job(reader, "", &world.arena, &found), -ENOENT);
    assert_int_equal(store_read_jobs(reader, &JOB_FILTER_ALL, &world.arena, &list), 0);
    assert_int_equal(list.count, JOBS);
    for (size_t i = 0; i < JOBS; i++)
        assert_same_record(&job_record, &jobs[JOBS - 1 - i], &list.items[i], "job listed", i);
    world_done(&world);
}

static bool job_is_wanted(const struct job *job, const struct job_filter *filter)
{
    return (isnan(filter->since) || isnan(job->ended_at) || job->ended_at >= filter->since) &&
           (isnan(filter->until) || job->started_at <= filter->until) &&
           (!filter->outcome || job->outcome == filter->outcome) &&
           (!filter->job_id || strcmp(job->job_id, filter->job_id) == 0) &&
           (!filter->job_type || strcmp(job->job_type, filter->job_type) == 0) &&
           (!int_is_known(filter->uid) || job->uid == filter->uid) &&
           (!filter->parent_run_id ||
            (job->parent_run_id && strcmp(job->parent_run_id, filter->parent_run_id) == 0));
}

static void check_jobs(struct store_reader *reader, const struct job *jobs,
                       const struct job_filter *filter)
{
    struct arena arena = {0};
    struct job_list found = {0};
    size_t count = 0;

    assert_int_equal(store_read_jobs(reader, filter, &arena, &found), 0);
    for (size_t i = JOBS; i-- > 0;)
        if (job_is_wanted(&jobs[i], filter) && (!filter->limit || count < filter->limit)) {
            assert_true(count < found.count);
            assert_string_equal(found.items[count++].run_id, jobs[i].run_id);
        }
    assert_int_equal(found.count, count);
    arena_done(&arena);
}

static void test_job_filters(void **state)
{
    struct store_fixture *fixture = *state;
    struct job jobs[JOBS];
    char run_ids[JOBS][40], job_ids[JOBS][16], name[JOB_ID_NUMBERED_MAX_BYTES];
    struct store *store = fixture_open(fixture);

    for (size_t i = 0; i < JOBS; i++) {
        struct job *job = &jobs[i];
        record_init(&job_record, job);
        snprintf(run_ids[i], sizeof(run_ids[i]), "01900000-0000-7000-8000-%012zu", i);
        snprintf(job_ids[i], sizeof(job_ids[i]), "job %zu", i % 5 == 4 ? i : i % 20);
        job->run_id = run_ids[i];
        job->job_id = job_ids[i];
        job->job_type = i % 3 ? "make test" : "make";
        job->parent_run_id = i % 7 ? NULL : run_ids[0];
        job->uid = i % 4 == 3 ? INT_UNKNOWN : 1000 + (int64_t)(i % 4);
        job->started_at = 1000 + 10 * (double)i;
        assert_int_equal(store_begin_job(store, job, name), 0);
        assert_string_equal(name, job_ids[i]);
        job->outcome = OUTCOME_RUNNING;
        if (i % 5 == 4) /* still running */
            continue;
        job->ended_at = job->started_at + 100;
        job->outcome = OUTCOME_SUCCESS + (int)(i % 3);
        assert_int_equal(store_finish_job(store, job), 0);
    }

    struct store_reader *reader = fixture_reader(fixture);
    for (size_t limit = 0; limit < 4; limit++)
        for (int outcome = 0; outcome <= OUTCOME_UNKNOWN; outcome++) {
            struct job_filter filter = JOB_FILTER_ALL;
            filter.limit = limit;
            filter.outcome = outcome;
            check_jobs(reader, jobs, &filter);
            filter.since = 1190;
            check_jobs(reader, jobs, &filter);
            filter.until = 1300;
            check_jobs(reader, jobs, &filter);
            filter.job_type = "make test";
            check_jobs(reader, jobs, &filter);
            filter = JOB_FILTER_ALL;
            filter.job_id = "job 3";
            filter.outcome = outcome;
            check_jobs(reader, jobs, &filter);
            filter.job_id = NULL;
            filter.parent_run_id = run_ids[0];
            check_jobs(reader, jobs, &filter);
            filter = JOB_FILTER_ALL;
            filter.outcome = outcome;
            filter.limit = limit;
            filter.uid = 1001;
            check_jobs(reader, jobs, &filter);
            filter.uid = 0; /* root has none */
            check_jobs(reader, jobs, &filter);
        }
    store_reader_close(reader);
    assert_int_equal(store_close(store), 0);
}

static void test_steps(void **state)
{
    struct store_fixture *fixture = *state;
    struct sheet sheets[20];
    struct sheet_list list = {0};
    struct job job;
    struct world world;
    char name[JOB_ID_NUMBERED_MAX_BYTES];

    world_init(&world, 9);
    struct store *store = fixture_open(fixture);
    record_init(&job_record, &job);
    job.run_id = world.runs[0].run_id;
    job.job_id = "build";
    assert_int_equal(store_begin_job(store, &job, name), 0);
    for (size_t i = 0; i < ARRAY_SIZE(sheets); i++) {
        struct sheet later;
        random_record(&world.random, &sheet_record, &world.arena, &sheets[i]);
        random_record(&world.random, &sheet_record, &world.arena, &later);
        sheets[i].run_id = later.run_id = job.run_id;
        sheets[i].sheet_num = later.sheet_num = (int64_t)i;
        assert_int_equal(store_write_sheet(store, &sheets[i]), 0);
        assert_int_equal(store_write_sheet(store, &later), 0);
        record_merge(&sheet_record, &sheets[i], &later);
    }
    struct store_reader *reader = fixture_reader(fixture);
    assert_int_equal(store_read_sheets(reader, job.run_id, &world.arena, &list), 0);
    assert_int_equal(list.count, ARRAY_SIZE(sheets));
    for (size_t i = 0; i < ARRAY_SIZE(sheets); i++)
        assert_same_record(&sheet_record, &sheets[i], &list.items[i], "sheet", i);

    assert_int_equal(store_find_job(reader, "build", &world.arena, &job), 0);
    assert_int_equal(job.profile.sheet_metrics.count, ARRAY_SIZE(sheets));
    for (size_t i = 0; i < ARRAY_SIZE(sheets); i++) {
        const struct sheet_metric *metric = &job.profile.sheet_metrics.items[i];
        assert_int_equal(metric->sheet_num, i);
        assert_true(same_real(record_find(&sheet_record, "peak_rss_mb"), sheets[i].peak_rss_mb,
                              metric->peak_rss_mb));
        assert_true(same_real(record_find(&sheet_record, "max_cpu_pct"), sheets[i].max_cpu_pct,
                              metric->max_cpu_pct));
    }
    store_reader_close(reader);
    assert_int_equal(store_close(store), 0);
    world_done(&world);
}

/* ---- anomalies and patterns ---- */

static void check_anomalies(struct store_reader *reader, const struct anomaly *anomalies,
                            size_t count)
{
    struct arena arena = {0};
    struct anomaly_list found = {0};

    assert_int_equal(store_read_anomalies(reader, NULL, REAL_UNKNOWN, REAL_UNKNOWN, &arena, &found),
                     0);
    assert_int_equal(found.count, count);
    for (size_t i = 0; i < count; i++) {
        assert_same_record(&anomaly_record, &anomalies[i], &found.items[i], "anomaly", i);
        assert_int_equal(found.items[i].uid, anomalies[i].uid);
    }
    arena_done(&arena);
}

static void test_anomalies(void **state)
{
    struct store_fixture *fixture = *state;
    struct anomaly anomalies[60];
    struct anomaly_list found = {0};
    struct world world;

    world_init(&world, 10);
    struct store *store = fixture_open(fixture);
    for (size_t i = 0; i < ARRAY_SIZE(anomalies); i++) {
        struct anomaly *anomaly = &anomalies[i];
        random_anomaly(&world.random, &world.arena, anomaly);
        anomaly->uid = i % 2 ? 1000 + (int64_t)i : INT_UNKNOWN;
        anomaly->timestamp = world.now += 1.0005;
        anomaly->cleared_at = REAL_UNKNOWN;
        anomaly->run_id = i % 3 ? world.runs[i % 3].run_id : NULL;
        assert_int_equal(write_anomaly(store, anomaly), 0);
    }
    struct store_reader *reader = fixture_reader(fixture);
    check_anomalies(reader, anomalies, ARRAY_SIZE(anomalies));
    for (size_t i = 0; i < ARRAY_SIZE(anomalies); i += 2) {
        anomalies[i].cleared_at = world.now += 1;
        anomalies[i].metric_value = 42.5;
        anomalies[i].description = "it is over";
        anomalies[i].severity = SEVERITY_HIGH;
        assert_int_equal(write_anomaly(store, &anomalies[i]), 0);
    }
    check_anomalies(reader, anomalies, ARRAY_SIZE(anomalies));

    assert_int_equal(store_read_anomalies(reader, world.runs[1].run_id, REAL_UNKNOWN, REAL_UNKNOWN,
                                          &world.arena, &found),
                     0);
    assert_int_equal(found.count, ARRAY_SIZE(anomalies) / 3);
    /* still open, or cleared since then */
    assert_int_equal(
        store_read_anomalies(reader, NULL, world.now - 4.5, REAL_UNKNOWN, &world.arena, &found), 0);
    assert_int_equal(found.count, ARRAY_SIZE(anomalies) / 2 + 5);
    assert_int_equal(store_read_anomalies(reader, NULL, REAL_UNKNOWN, anomalies[9].timestamp,
                                          &world.arena, &found),
                     0);
    assert_int_equal(found.count, 10);
    store_reader_close(reader);
    assert_int_equal(store_close(store), 0);
    world_done(&world);
}

static void test_patterns(void **state)
{
    struct store_fixture *fixture = *state;
    struct pattern patterns[20];
    struct pattern_list found = {0};
    char names[ARRAY_SIZE(patterns)][24];
    struct world world;

    world_init(&world, 11);
    struct store *store = fixture_open(fixture);
    for (size_t i = 0; i < ARRAY_SIZE(patterns); i++) {
        random_record(&world.random, &pattern_record, &world.arena, &patterns[i]);
        snprintf(names[i], sizeof(names[i]), "pattern %02zu", i);
        patterns[i].pattern_type = i < 10 ? "RESOURCE_ANOMALY" : "RESOURCE_CORRELATION";
        patterns[i].pattern_name = names[i];
        assert_int_equal(write_pattern(store, &patterns[i]), 0);
    }
    struct store_reader *reader = fixture_reader(fixture);
    assert_int_equal(store_read_patterns(reader, &world.arena, &found), 0);
    assert_int_equal(found.count, ARRAY_SIZE(patterns));
    for (size_t i = 0; i < found.count; i++)
        assert_same_record(&pattern_record, &patterns[i], &found.items[i], "pattern", i);

    assert_int_equal(
        store_renew_patterns(store, "RESOURCE_ANOMALY", &(struct pattern_list){patterns + 4, 6}),
        0);
    assert_int_equal(store_read_patterns(reader, &world.arena, &found), 0);
    assert_int_equal(found.count, ARRAY_SIZE(patterns) - 4);
    assert_string_equal(found.items[0].pattern_name, names[4]);
    store_reader_close(reader);
    assert_int_equal(store_close(store), 0);
    world_done(&world);
}

/* ---- numbers of snapshots ---- */

static void test_ids_rise_despite_the_clock(void **state _unused_)
{
    static const double clock[] = {1.7e9, 1.7e9,         1.7e9 + 0.0001, 1.7e9 - 3600, 0,
                                   -5,    1.7e9 + 1e-12, 1.8e9,          1.7e9,        4e9};
    int64_t id = 0;

    for (int round = 0; round < 100; round++)
        for (size_t i = 0; i < ARRAY_SIZE(clock); i++) {
            int64_t next = snapshot_id_next(id, clock[i], 123456);
            assert_true(next > id);
            id = next;
        }
    /* writers at the same time use different ids */
    for (unsigned tag = 1; tag < 1000; tag++)
        assert_true(snapshot_id_next(0, 1.7e9, 0) != snapshot_id_next(0, 1.7e9, tag));
    /* exact in a double */
    assert_true(snapshot_id_next(0, 4e9, 999) < INT64_C(1) << 53);
}

/* Two writers can still choose the same id. */
static void test_used_id_is_skipped(void **state)
{
    struct store_fixture *fixture = *state;
    struct snapshot_list found = {0};
    struct world world;

    world_init(&world, 12);
    struct store *one = fixture_open(fixture), *other = fixture_open(fixture);
    _cleanup_(snapshot_freep) struct snapshot *snapshot = world_tick(&world);
    write_snapshot(one, snapshot);
    write_snapshot(other, snapshot);
    struct store_reader *reader = fixture_reader(fixture);
    assert_int_equal(store_read_snapshots(reader, 0, 0, &found), 0);
    assert_int_equal(found.count, 2);
    assert_true(found.items[0]->id != found.items[1]->id);
    snapshot_list_done(&found);
    store_reader_close(reader);
    assert_int_equal(store_close(one), 0);
    assert_int_equal(store_close(other), 0);
    world_done(&world);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, store_fixture_set_up, store_fixture_tear_down)
    const struct CMUnitTest tests[] = {
        T(test_snapshots_1),
        T(test_snapshots_2),
        T(test_snapshots_3),
        T(test_since_and_limit),
        T(test_process_history),
        T(test_events),
        T(test_events_of_a_user),
        T(test_trace_completes_an_end),
        T(test_gaps),
        T(test_gaps_of_a_run),
        T(test_jobs),
        T(test_job_filters),
        T(test_steps),
        T(test_anomalies),
        T(test_patterns),
        cmocka_unit_test(test_ids_rise_despite_the_clock),
        T(test_used_id_is_skipped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
