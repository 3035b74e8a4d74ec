/* Storms of events: which events are stored one by one, which are folded, and that the counts are
 * complete. */
#include "unit.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "store-world.h"
#include "store/folded-events.h"

#define RUN   "01a1e3e1-45ae-78cc-abb3-504d935c0c4a"
#define OTHER "01a1e3e1-45ae-78cc-abb3-504d935c0c4b"

/* Some boxes of a storm are as long as this. */
#define TICK_MAX 4096

static struct process_event events[TICK_MAX];
static size_t count;
static double now;
static int64_t next_pid;
static const char *run_id;

static int set_up(void **state)
{
    now = WORLD_START;
    next_pid = 1000;
    run_id = RUN;
    count = 0;
    return store_fixture_set_up(state);
}

/* ---- storms ---- */

static void flush(struct store *store)
{
    struct tick tick = {.events = {events, count}};

    if (store_write_tick(store, &tick) < 0)
        fail_msg("%s", store_error(store));
    count = 0;
}

static struct process_event *add(struct store *store, int type, int64_t pid)
{
    if (count == TICK_MAX)
        flush(store);
    struct process_event *event = &events[count++];
    init_event(event);
    event->timestamp = now;
    event->event_type = type;
    event->pid = pid;
    event->run_id = run_id;
    event->job_id = "storm";
    return event;
}

/* A process starts and ends; `cpu_seconds` may be unknown. */
static void live(struct store *store, const char *command, int64_t status, double cpu_seconds)
{
    int64_t pid = next_pid++;

    add(store, EVENT_SPAWN, pid)->ppid = 1;
    add(store, EVENT_EXEC, pid)->command = command;
    struct process_event *exit = add(store, EVENT_EXIT, pid);
    exit->command = command;
    exit->exit_code = status;
    exit->cpu_seconds = cpu_seconds;
    exit->peak_rss_mb = 1 + (double)(pid % 8);
}

static void live_many(struct store *store, size_t times, double per_second, const char *command,
                      int64_t status)
{
    for (size_t i = 0; i < times; i++) {
        live(store, command, status, 0.001);
        now += 1 / per_second;
    }
    flush(store);
}

/* ---- queries ---- */

static int64_t ask(const struct store_fixture *fixture, const char *sql)
{
    sqlite3 *handle = fixture_sqlite(fixture);
    int64_t answer = ask_int(handle, sql);

    sqlite3_close(handle);
    return answer;
}

static int64_t count_of(const struct process_event_list *list, int type, const char *command)
{
    int64_t sum = 0;

    for (size_t i = 0; i < list->count; i++)
        if (list->items[i].event_type == type &&
            (!command || (list->items[i].command && strstr(list->items[i].command, command))))
            sum += event_count(&list->items[i]);
    return sum;
}

static struct process_event_list read_all(const struct store_fixture *fixture,
                                          const struct event_filter *filter, struct arena *arena)
{
    struct store_reader *reader = fixture_reader(fixture);
    struct process_event_list list = {0};

    assert_int_equal(store_read_events(reader, filter, arena, &list), 0);
    store_reader_close(reader);
    for (size_t i = 1; i < list.count; i++)
        assert_true(list.items[i - 1].timestamp <= list.items[i].timestamp);
    return list;
}

static struct job find_job(const struct store_fixture *fixture, const char *name,
                           struct arena *arena)
{
    struct store_reader *reader = fixture_reader(fixture);
    struct job job;

    assert_int_equal(store_find_job(reader, name, arena, &job), 0);
    store_reader_close(reader);
    return job;
}

/* ---- tests ---- */

static void test_few_events_are_not_folded(void **state)
{
    const struct store_fixture *fixture = *state;
    struct store *store = fixture_open(fixture);

    /* at the rate of the refill, and a burst within the budget */
    live_many(store, 3000, 30, "cc -c a.c", 0);
    now += 60;
    live_many(store, 300, 1000, "cc -c b.c", 0);
    assert_int_equal(ask(fixture, "SELECT count(*) FROM event"), 9900);
    assert_int_equal(ask(fixture, "SELECT count(*) FROM folded_events"), 0);
    assert_int_equal(store_close(store), 0);
}

static void test_storm(void **state)
{
    const struct store_fixture *fixture = *state;
    struct store *store = fixture_open(fixture);
    struct event_filter filter = EVENT_FILTER_ALL;
    struct arena arena = {0};

    live_many(store, 20000, 5000, "/bin/true", 0);
    double ended = now;
    struct process_event_list all = read_all(fixture, &filter, &arena);
    assert_int_equal(count_of(&all, EVENT_SPAWN, NULL), 20000);
    assert_int_equal(count_of(&all, EVENT_EXEC, "true"), 20000);
    assert_int_equal(count_of(&all, EVENT_EXIT, "true"), 20000);
    assert_in_range(all.count, FOLD_BURST, FOLD_BURST + 4 * FOLD_PER_SECOND + 3);
    struct job job = find_job(fixture, RUN, &arena);
    assert_int_equal(job.profile.processes, 20000);
    assert_int_equal(job.profile.exit_count, 20000);
    assert_int_equal(job.profile.failed_exit_count, 0);

    filter.only_folded = true;
    filter.event_types = EVENT_TYPE_BIT(EVENT_EXIT);
    all = read_all(fixture, &filter, &arena);
    assert_int_equal(all.count, 1);
    const struct process_event *exit = &all.items[0];
    assert_string_equal(exit->command, "true");
    assert_int_equal(exit->exit_code, 0);
    assert_int_equal(exit->pid, 0);
    assert_true(fabs(exit->cpu_seconds - (double)exit->count * 0.001) < 1e-6);
    assert_true(exit->peak_rss_mb == 8);
    assert_null(exit->details); /* CPU time of all is known */
    assert_true(exit->first_timestamp > WORLD_START && exit->timestamp < ended &&
                exit->timestamp > ended - 0.01);
    assert_string_equal(exit->run_id, RUN);
    assert_string_equal(exit->job_id, "storm");
    filter.event_types |= EVENT_TYPE_BIT(EVENT_SPAWN);
    all = read_all(fixture, &filter, &arena);
    assert_true(count_of(&all, EVENT_EXIT, "true") && count_of(&all, EVENT_SPAWN, NULL));
    assert_int_equal(count_of(&all, EVENT_EXEC, "true"), 0);
    arena_done(&arena);
    assert_int_equal(store_close(store), 0);
}

/* Between storms, events are stored one by one. */
static void test_storm_ends(void **state)
{
    const struct store_fixture *fixture = *state;
    struct store *store = fixture_open(fixture);

    live_many(store, 2000, 5000, "true", 0);
    int64_t folded = ask(fixture, "SELECT sum(count) FROM folded_events");
    live_many(store, 10, 20, "after a moment", 0); /* still the storm */
    assert_int_equal(ask(fixture, "SELECT sum(count) FROM folded_events"), folded + 30);
    now += 0.6 * FOLD_BURST / FOLD_PER_SECOND;
    live_many(store, 10, 1000, "later", 0);
    assert_int_equal(ask(fixture, "SELECT sum(count) FROM folded_events"), folded + 30);
    /* another run has a budget of its own */
    run_id = OTHER;
    live_many(store, 300, 5000, "true", 0);
    assert_int_equal(ask(fixture, "SELECT sum(count) FROM folded_events"), folded + 30);
    assert_int_equal(store_close(store), 0);
}

static void test_notable_events_have_their_own_budget(void **state)
{
    const struct store_fixture *fixture = *state;
    struct store *store = fixture_open(fixture);
    struct event_filter filter = EVENT_FILTER_ALL;
    struct arena arena = {0};

    live_many(store, 5000, 5000, "true", 0);
    for (int i = 0; i < 500; i++)
        live_many(store, 1, 5000, "test -e x", 1);
    struct process_event *kill = add(store, EVENT_KILL, 7);
    kill->signal_num = SIGKILL;
    kill->sender_pid = 8;
    add(store, EVENT_SIGNAL, 7)->signal_num = SIGTERM;
    add(store, EVENT_OOM, 7)->details = "words of the kernel";
    flush(store);
    assert_int_equal(ask(fixture, "SELECT count(*) FROM event WHERE exit_code = 1"), 500);
    assert_int_equal(ask(fixture, "SELECT count(*) FROM event WHERE event_type IN"
                                  " ('kill', 'signal', 'oom')"),
                     3);
    /* and beyond a limit they are folded as well, with their statuses */
    live_many(store, 2000, 5000, "test -e x", 1);
    live_many(store, 2000, 5000, "cmp a b", 2);
    for (int i = 0; i < 50; i++)
        add(store, EVENT_KILL, i)->signal_num = SIGSEGV;
    flush(store);
    filter.only_notable = true;
    struct process_event_list all = read_all(fixture, &filter, &arena);
    assert_int_equal(count_of(&all, EVENT_EXIT, "test"), 2500);
    assert_int_equal(count_of(&all, EVENT_EXIT, "cmp"), 2000);
    assert_int_equal(count_of(&all, EVENT_KILL, NULL), 51);
    assert_in_range(all.count, FOLD_NOTABLE_BURST, FOLD_NOTABLE_BURST + 30);
    filter.only_folded = true;
    all = read_all(fixture, &filter, &arena);
    for (size_t i = 0; i < all.count; i++) {
        const struct process_event *event = &all.items[i];
        if (event->event_type == EVENT_KILL)
            assert_int_equal(event->signal_num, SIGSEGV);
        else
            assert_int_equal(event->exit_code, strcmp(event->command, "test") == 0 ? 1 : 2);
    }
    struct job job = find_job(fixture, RUN, &arena);
    assert_int_equal(job.profile.failed_exit_count, 4500);
    assert_int_equal(job.profile.kill_count, 51);
    assert_int_equal(job.profile.exit_count, 5000 + 4500 + 51);
    assert_int_equal(job.profile.oom_count, 1);
    arena_done(&arena);
    assert_int_equal(store_close(store), 0);
}

/* An incomplete sum is marked; unknown is not 0. */
static void test_unknown_figures(void **state)
{
    const struct store_fixture *fixture = *state;
    struct store *store = fixture_open(fixture);
    struct event_filter filter = EVENT_FILTER_ALL;
    struct arena arena = {0};

    live_many(store, 1000, 5000, "warm-up", 0);
    for (int i = 0; i < 100; i++)
        live(store, "some", 0, i % 4 ? 0.5 : REAL_UNKNOWN);
    for (int i = 0; i < 100; i++)
        live(store, NULL, 0, REAL_UNKNOWN);
    flush(store);
    filter.only_folded = true;
    filter.event_types = EVENT_TYPE_BIT(EVENT_EXIT);
    struct process_event_list all = read_all(fixture, &filter, &arena);
    assert_int_equal(all.count, 3);
    for (size_t i = 0; i < all.count; i++) {
        const struct process_event *event = &all.items[i];
        if (!event->command) {
            assert_int_equal(event->count, 100);
            assert_false(real_is_known(event->cpu_seconds));
            assert_null(event->details);
        } else if (strcmp(event->command, "some") == 0) {
            assert_true(fabs(event->cpu_seconds - 37.5) < 1e-6);
            assert_string_equal(event->details, "CPU time of 75 of them");
        }
    }
    arena_done(&arena);
    assert_int_equal(store_close(store), 0);
}

static void test_filters(void **state)
{
    const struct store_fixture *fixture = *state;
    struct store *store = fixture_open(fixture);
    struct event_filter filter = EVENT_FILTER_ALL;
    struct arena arena = {0};

    live_many(store, 3000, 5000, "first", 0);
    double between = now + 60;
    now += 120;
    run_id = OTHER;
    live_many(store, 3000, 5000, "second", 0);
    filter.since = between;
    struct process_event_list all = read_all(fixture, &filter, &arena);
    assert_int_equal(count_of(&all, EVENT_EXIT, NULL), 3000);
    assert_int_equal(count_of(&all, EVENT_EXIT, "second"), 3000);
    filter = EVENT_FILTER_ALL;
    filter.until = between;
    all = read_all(fixture, &filter, &arena);
    assert_int_equal(count_of(&all, EVENT_EXIT, "first"), 3000);
    assert_int_equal(count_of(&all, EVENT_EXIT, "second"), 0);
    filter = EVENT_FILTER_ALL;
    filter.run_id = OTHER;
    all = read_all(fixture, &filter, &arena);
    assert_int_equal(count_of(&all, EVENT_EXIT, NULL), 3000);
    filter.limit = 3;
    all = read_all(fixture, &filter, &arena);
    assert_int_equal(all.count, 3);
    assert_true(int_is_known(all.items[2].count)); /* the storm is the last event */
    filter = EVENT_FILTER_ALL;
    filter.pid = next_pid - 1; /* an event of the storm has no pid */
    assert_int_equal(read_all(fixture, &filter, &arena).count, 0);
    filter = EVENT_FILTER_ALL;
    filter.only_notable = true;
    assert_int_equal(read_all(fixture, &filter, &arena).count, 0);
    arena_done(&arena);
    assert_int_equal(store_close(store), 0);
}

/* Many different program names do not fill the disk. */
static void test_program_limit(void **state)
{
    const struct store_fixture *fixture = *state;
    struct store *store = fixture_open(fixture);
    struct event_filter filter = EVENT_FILTER_ALL;
    static char names[50000][24];
    struct arena arena = {0};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        snprintf(names[i], sizeof(names[i]), "/opt/p%zu --x", i);
        live(store, names[i], 0, 0.001);
        now += 0.0002;
    }
    flush(store);
    assert_in_range(ask(fixture, "SELECT count(*) FROM folded_events"), 100,
                    2 * (FOLD_MINUTE_MAX + 10));
    struct process_event_list all = read_all(fixture, &filter, &arena);
    assert_int_equal(count_of(&all, EVENT_SPAWN, NULL), 50000);
    assert_int_equal(count_of(&all, EVENT_EXIT, NULL), 50000);
    assert_true(count_of(&all, EVENT_EXIT, FOLD_OTHERS) > 40000);
    arena_done(&arena);
    assert_int_equal(store_close(store), 0);
}

static void test_machine(void **state)
{
    const struct store_fixture *fixture = *state;
    struct store *store = fixture_open(fixture);
    struct machine_use use;
    struct arena arena = {0};

    live_many(store, 5000, 5000, "true", 0);
    struct store_reader *reader = fixture_reader(fixture);
    record_init(&machine_use_record, &use);
    assert_int_equal(store_read_machine(reader, WORLD_START - 1, now + 1, 5, &arena, &use), 0);
    assert_int_equal(use.event_counts.count, 3);
    for (size_t i = 0; i < 3; i++)
        assert_true(use.event_counts.items[i].value == 5000);
    store_reader_close(reader);
    arena_done(&arena);
    assert_int_equal(store_close(store), 0);
}

/* The figures of a lost run include single and folded events. */
static void test_lost_run(void **state)
{
    const struct store_fixture *fixture = *state;
    struct store *store = fixture_open(fixture);
    struct arena arena = {0};

    live_many(store, 5000, 5000, "true", 0);
    sqlite3 *handle = fixture_sqlite(fixture);
    run_sql(handle, "UPDATE jobs SET process_spawn_count = NULL, exit_count = 7");
    sqlite3_close(handle);
    assert_int_equal(store_close(store), 0); /* without a reported end */
    struct job job = find_job(fixture, RUN, &arena);
    assert_string_equal(job.cause, "lost");
    assert_int_equal(job.profile.processes, 5000);
    assert_int_equal(job.profile.exit_count, 5000);
    arena_done(&arena);
}

/* A session that takes a run over reports its last moments again: folded events must not count
 * twice. */
static void test_run_taken_over_during_storm(void **state)
{
    const struct store_fixture *fixture = *state;
    struct store *first = fixture_open(fixture);
    char name[JOB_ID_NUMBERED_MAX_BYTES];
    struct job job;

    record_init(&job_record, &job);
    job.run_id = RUN;
    job.job_id = "storm";
    job.started_at = now;
    assert_int_equal(store_begin_job(first, &job, name), 0);
    for (int i = 0; i < 1000; i++, now += 0.0002)
        live(first, "true", 0, 0.001);
    /* every event has its own time, as in reality */
    for (size_t i = 0; i < count; i++)
        events[i].timestamp = WORLD_START + (double)i * 0.0002;
    static struct process_event again[TICK_MAX];
    size_t again_count = count;
    memcpy(again, events, sizeof(again));
    flush(first);
    int64_t folded = ask(fixture, "SELECT sum(count) FROM folded_events");
    assert_true(folded > 1500);

    struct store *second = fixture_open(fixture);
    assert_int_equal(store_begin_job(second, &job, name), 0);
    memcpy(events, again, sizeof(again));
    count = again_count;
    flush(second);
    assert_int_equal(ask(fixture, "SELECT sum(count) FROM folded_events"), folded);
    assert_int_equal(ask(fixture, "SELECT count(*) FROM event"), 3000 - folded);
    now = WORLD_START + 1;
    live_many(second, 100, 100, "after", 0);
    assert_int_equal(ask(fixture, "SELECT (SELECT count(*) FROM event)"
                                  " + (SELECT sum(count) FROM folded_events)"),
                     3300);
    assert_int_equal(store_close(second), 0);
    assert_int_equal(store_close(first), 0);
}

static void test_retention(void **state)
{
    struct store_fixture *fixture = *state;

    fixture->options.retention.events_days = 30;
    struct store *store = fixture_open(fixture);
    live_many(store, 2000, 5000, "old", 0);
    now += 20 * 86400;
    live_many(store, 2000, 5000, "new", 0);
    assert_int_equal(store_retain(store, now + 5 * 86400), 0);
    assert_true(ask(fixture, "SELECT count(*) FROM folded_events WHERE program = 'old'") > 0);
    assert_int_equal(store_retain(store, now + 11 * 86400), 0);
    assert_int_equal(ask(fixture, "SELECT count(*) FROM folded_events WHERE program = 'old'"), 0);
    assert_true(ask(fixture, "SELECT count(*) FROM folded_events WHERE program = 'new'") > 0);
    assert_int_equal(store_close(store), 0);
}

/* A tick that failed is written again: the same events are stored one by one. */
static void test_failed_tick_is_written_again(void **state)
{
    const struct store_fixture *fixture = *state;
    struct store *store = fixture_open(fixture);
    struct tick tick;

    for (int i = 0; i < 400; i++, now += 0.001)
        live(store, "true", 0, 0.001);
    tick = (struct tick){.events = {events, count}};
    sqlite3 *handle = fixture_sqlite(fixture);
    run_sql(handle, "CREATE TRIGGER stop BEFORE INSERT ON folded_events BEGIN"
                    " SELECT RAISE(ABORT, 'stop'); END");
    for (int i = 0; i < 3; i++)
        assert_true(store_write_tick(store, &tick) < 0);
    run_sql(handle, "DROP TRIGGER stop");
    sqlite3_close(handle);
    assert_int_equal(ask(fixture, "SELECT count(*) FROM event"), 0);
    flush(store);
    assert_in_range(ask(fixture, "SELECT count(*) FROM event"), FOLD_BURST, FOLD_BURST + 40);
    assert_int_equal(ask(fixture, "SELECT (SELECT count(*) FROM event)"
                                  " + (SELECT sum(count) FROM folded_events)"),
                     1200);
    assert_int_equal(store_close(store), 0);
}

static void test_failure_chain(void **state)
{
    struct store_fixture *fixture = *state;
    char name[JOB_ID_NUMBERED_MAX_BYTES];
    struct process_event chain[2];
    struct arena arena = {0};
    struct job job;

    struct store *store = fixture_open(fixture);
    record_init(&job_record, &job);
    job.run_id = RUN;
    job.job_id = "dead";
    job.started_at = now;
    assert_int_equal(store_begin_job(store, &job, name), 0);
    for (size_t i = 0; i < 2; i++) {
        init_event(&chain[i]);
        chain[i].timestamp = now + 0.5 * (double)i;
        chain[i].pid = 10 - (int64_t)i;
        chain[i].event_type = i ? EVENT_EXIT : EVENT_KILL;
    }
    chain[0].signal_num = SIGKILL;
    chain[0].sender_pid = 5;
    chain[0].command = "work --quietly";
    chain[1].exit_code = 137;
    job.outcome = OUTCOME_FAILURE;
    job.chain = (struct process_event_list){chain, 2};
    assert_int_equal(store_finish_job(store, &job), 0);
    struct job found = find_job(fixture, "dead", &arena);
    assert_int_equal(found.chain.count, 2);
    assert_string_equal(found.chain.items[0].command, "work --quietly");
    assert_int_equal(found.chain.items[0].sender_pid, 5);
    assert_int_equal(found.chain.items[1].exit_code, 137);

    /* a shorter cause of another writer does not replace it */
    job.cause = "exit status 137: work (10) killed by SIGKILL → sh exited 137";
    assert_int_equal(store_finish_job(store, &job), 0);
    job.cause = "exit status 137";
    job.chain = (struct process_event_list){&chain[1], 1};
    assert_int_equal(store_finish_job(store, &job), 0);
    found = find_job(fixture, "dead", &arena);
    assert_int_equal(found.chain.count, 2);
    assert_non_null(strstr(found.cause, "work (10)"));
    job.cause = "another cause";
    assert_int_equal(store_finish_job(store, &job), 0);
    assert_string_equal(find_job(fixture, "dead", &arena).cause, "another cause");
    arena_done(&arena);
    assert_int_equal(store_close(store), 0);
}

/* Budgets that are full again are dropped; one in a storm is not. */
static void test_budgets_of_ended_runs_are_dropped(void **state _unused_)
{
    enum { STORM = 7, RUNS = 100 };
    struct process_event event;
    struct folded_events folded;

    folded_events_init(&folded, NULL, 1);
    init_event(&event);
    event.event_type = EVENT_SPAWN;
    event.timestamp = now;
    for (int64_t run = 0; run < RUNS; run++)
        assert_int_equal(folded_events_must_fold(&folded, run, &event), 0);
    for (int i = 0; i < FOLD_BURST - 1; i++)
        assert_int_equal(folded_events_must_fold(&folded, STORM, &event), 0);
    assert_int_equal(folded_events_must_fold(&folded, STORM, &event), 1);
    folded_events_commit(&folded);
    assert_int_equal(folded.budgets.count, RUNS); /* none is full at the same moment */

    event.timestamp += 1;
    assert_int_equal(folded_events_must_fold(&folded, STORM, &event), 1);
    folded_events_commit(&folded);
    assert_int_equal(folded.budgets.count, 1);
    assert_int_equal(folded_events_must_fold(&folded, STORM, &event), 1);
    folded_events_done(&folded);
}

#define T(test) cmocka_unit_test_setup_teardown(test, set_up, store_fixture_tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_few_events_are_not_folded),
        T(test_storm),
        T(test_storm_ends),
        T(test_notable_events_have_their_own_budget),
        T(test_unknown_figures),
        T(test_filters),
        T(test_program_limit),
        T(test_machine),
        T(test_lost_run),
        T(test_run_taken_over_during_storm),
        T(test_retention),
        T(test_failed_tick_is_written_again),
        T(test_failure_chain),
        T(test_budgets_of_ended_runs_are_dropped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
