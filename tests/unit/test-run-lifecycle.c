/* Runs in a real daemon: registry, store and bus agree about each of them. */
#include "unit.h"

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "daemon-world.h"
#include "engine/engine-parts.h"
#include "store/store.h"

static struct bus_subscriber *subscriber;
static struct text published; /* each event is a line */

static int on_event(void *context _unused_, const struct bus_event *event)
{
    text_printf(&published, "%s\n", text_string(bus_event_json(event)));
    return 0;
}

static int set_up(void **state)
{
    static const char *const patterns[] = {"job.*", "sheet.*"};
    const struct bus_view all = {.sees_all = true};

    int r = daemon_world_set_up(state);
    struct daemon *daemon = &((struct daemon_world *)*state)->daemon;
    assert_int_equal(bus_subscribe(daemon->bus, patterns, ARRAY_SIZE(patterns), &all, on_event,
                                   NULL, &subscriber),
                     0);
    return r;
}

static int tear_down(void **state)
{
    text_done(&published);
    published = (struct text){0};
    return daemon_world_tear_down(state);
}

static struct job_start start_of(const char *job_id, pid_t owner_pid)
{
    return (struct job_start){.job_id = job_id,
                              .command = "make all",
                              .cwd = "/src",
                              .uid = 1000,
                              .started_at = ns_to_sec(clock_real_ns()),
                              .total_sheets = INT_UNKNOWN,
                              .origin = RUN_REGISTERED,
                              .owner_pid = owner_pid};
}

static struct run *begin(struct daemon *daemon, const struct job_start *start)
{
    struct run *run = NULL;

    assert_int_equal(run_lifecycle_begin(daemon, start, &run), 0);
    return run;
}

static void finish(struct daemon *daemon, struct run *run, int outcome, int64_t exit_code)
{
    struct job job;

    record_init(&job_record, &job);
    job.outcome = outcome;
    job.exit_code = exit_code;
    run_lifecycle_finish(daemon, run, &job);
}

/* The only job in the store. */
static struct job read_job(struct daemon_world *world, struct arena *arena)
{
    const struct job_filter all = JOB_FILTER_ALL;
    struct job_list jobs;

    assert_int_equal(store_read_jobs(daemon_world_reader(world), &all, arena, &jobs), 0);
    assert_int_equal(jobs.count, 1);
    return jobs.items[0];
}

static size_t count_of(const char *event)
{
    char key[64];
    size_t count = 0;

    snprintf(key, sizeof(key), "\"event\":\"%s\"", event);
    for (const char *at = text_string(&published); (at = strstr(at, key)); at++)
        count++;
    return count;
}

/* A process that has ended. */
static pid_t fork_and_wait(void)
{
    pid_t pid = fork();

    if (pid == 0)
        _exit(0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    return pid;
}

/* A process that lives until end_child(). */
static pid_t fork_child(int *ret_fd)
{
    int fds[2];
    char byte;

    assert_int_equal(pipe(fds), 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(fds[1]);
        _exit(read(fds[0], &byte, 1) < 0);
    }
    close(fds[0]);
    *ret_fd = fds[1];
    return pid;
}

static void end_child(pid_t pid, int fd)
{
    close(fd);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* ---- start and end ---- */

static void test_begin_and_finish(void **state)
{
    struct daemon_world *world = *state;
    struct daemon *daemon = &world->daemon;
    _cleanup_(arena_done) struct arena arena = {0};
    const struct job_start start = start_of("build", getpid());
    char run_id[UUID_TEXT_SIZE];

    struct run *run = begin(daemon, &start);
    strcpy(run_id, run->run_id);
    assert_ptr_equal(registry_find_run(daemon->registry, run_id), run);
    assert_true(run_lifecycle_has_run_of(daemon, getpid()));
    assert_true(run_lifecycle_age(daemon, run) >= 0);
    assert_int_equal(count_of("job.started"), 1);
    struct job job = read_job(world, &arena);
    assert_string_equal(job.run_id, run_id);
    assert_string_equal(job.job_id, "build");
    assert_string_equal(job.command, "make all");
    assert_int_equal(job.outcome, OUTCOME_RUNNING);
    assert_non_null(job.job_type);

    finish(daemon, run, OUTCOME_FAILURE, 3);
    assert_int_equal(count_of("job.finished"), 1);
    assert_has(text_string(&published), run_id);
    assert_null(registry_find_run(daemon->registry, run_id));
    assert_false(run_lifecycle_has_run_of(daemon, getpid()));
    job = read_job(world, &arena);
    assert_int_equal(job.outcome, OUTCOME_FAILURE);
    assert_int_equal(job.exit_code, 3);
    assert_true(job.ended_at >= job.started_at);
    assert_true(job.profile.wall_seconds >= 0);
}

static void test_given_run_id_is_kept(void **state)
{
    struct daemon *daemon = &((struct daemon_world *)*state)->daemon;
    struct job_start start = start_of("build", getpid());

    start.run_id = "01890a5d-ac96-774b-bcce-b302099a8057";
    assert_string_equal(begin(daemon, &start)->run_id, start.run_id);
}

/* The caller stores the rest: no end is published or stored. */
static void test_run_that_its_caller_stores(void **state)
{
    struct daemon_world *world = *state;
    struct daemon *daemon = &world->daemon;
    _cleanup_(arena_done) struct arena arena = {0};
    const struct job_start start = start_of("build", getpid());

    run_lifecycle_leave(daemon, begin(daemon, &start));
    assert_int_equal(registry_run_count(daemon->registry), 0);
    assert_false(run_lifecycle_has_run_of(daemon, getpid()));
    assert_int_equal(count_of("job.finished"), 0);
    assert_int_equal(read_job(world, &arena).outcome, OUTCOME_RUNNING);
}

/* ---- steps ---- */

static int report_step(struct daemon *daemon, struct run *run, int64_t sheet_num, int outcome)
{
    _cleanup_text_ struct text context = {0};
    const struct run_lifecycle_step step = {
        .sheet_num = sheet_num,
        .name = "compile",
        .exit_code = outcome == OUTCOME_RUNNING ? INT_UNKNOWN : 0,
        .outcome = outcome,
        .context_json = &context,
    };

    text_append_string(&context, "{}");
    return run_lifecycle_step(daemon, run, &step);
}

static void test_step_begins_and_ends(void **state)
{
    struct daemon_world *world = *state;
    struct daemon *daemon = &world->daemon;
    _cleanup_(arena_done) struct arena arena = {0};
    const struct job_start start = start_of("build", getpid());
    struct sheet_list sheets;

    struct run *run = begin(daemon, &start);
    assert_int_equal(report_step(daemon, run, 2, OUTCOME_RUNNING), 0);
    assert_int_equal(run->current_sheet, 2);
    assert_non_null(run_find_sheet(run, 2));
    assert_int_equal(report_step(daemon, run, 2, OUTCOME_RUNNING), 0); /* not published again */
    assert_int_equal(count_of("sheet.started"), 1);
    assert_int_equal(report_step(daemon, run, 2, OUTCOME_SUCCESS), 0);
    assert_int_equal(count_of("sheet.completed"), 1);
    assert_false(int_is_known(run->current_sheet));
    assert_int_equal(run->last_completed_sheet, 2);
    assert_null(run_find_sheet(run, 2));
    assert_int_equal(report_step(daemon, run, 3, OUTCOME_RUNNING), 0);
    assert_int_equal(report_step(daemon, run, 3, OUTCOME_FAILURE), 0);
    assert_int_equal(count_of("sheet.failed"), 1);
    assert_int_equal(run->last_completed_sheet, 2);

    assert_int_equal(store_read_sheets(daemon_world_reader(world), run->run_id, &arena, &sheets),
                     0);
    assert_int_equal(sheets.count, 2);
    assert_string_equal(sheets.items[0].name, "compile");
    assert_int_equal(sheets.items[0].outcome, OUTCOME_SUCCESS);
    assert_int_equal(sheets.items[1].outcome, OUTCOME_FAILURE);
}

/* All steps of a run end with one reading: with one each, a client could stop the loop for long. */
static void test_steps_end_with_one_reading(void **state)
{
    struct daemon *daemon = &((struct daemon_world *)*state)->daemon;
    const struct job_start start = start_of("nightly", 0);
    const struct engine_counts *counts = engine_counts(daemon->engine);

    struct run *run = begin(daemon, &start);
    for (int i = 1; i <= 4; i++)
        assert_int_equal(report_step(daemon, run, i, OUTCOME_RUNNING), 0);
    run_lifecycle_is_step(daemon, run, 1);
    assert_int_equal(report_step(daemon, run, 2, OUTCOME_SUCCESS), 0);
    assert_int_equal(counts->run_readings, 1);
    assert_int_equal(report_step(daemon, run, 2, OUTCOME_SUCCESS), 0); /* it is over already */
    assert_int_equal(counts->run_readings, 1);
    finish(daemon, run, OUTCOME_SUCCESS, 0);
    assert_int_equal(counts->run_readings, 2);
    assert_int_equal(counts->skipped_run_readings, 0);
}

/* After readings that took long, the next one is skipped. */
static void test_too_many_readings(void **state)
{
    struct daemon *daemon = &((struct daemon_world *)*state)->daemon;
    const struct job_start start = start_of("nightly", 0);
    const struct engine_counts *counts = engine_counts(daemon->engine);

    struct run *run = begin(daemon, &start);
    assert_int_equal(report_step(daemon, run, 1, OUTCOME_RUNNING), 0);
    assert_int_equal(engine_read_run(daemon->engine, run), 0);
    reading_limit_add(&daemon->engine->reading_limit, 3600 * NS_PER_SEC);
    assert_int_equal(engine_read_run(daemon->engine, run), -EBUSY);
    assert_int_equal(report_step(daemon, run, 1, OUTCOME_SUCCESS), 0);
    assert_int_equal(counts->skipped_run_readings, 2);
    finish(daemon, run, OUTCOME_SUCCESS, 0);
    assert_int_equal(counts->skipped_run_readings, 3);
}

/* A run that is a step of its job ends it. */
static void test_run_that_is_a_step(void **state)
{
    struct daemon *daemon = &((struct daemon_world *)*state)->daemon;
    const struct job_start start = start_of("build", getpid());

    struct run *run = begin(daemon, &start);
    assert_int_equal(report_step(daemon, run, 1, OUTCOME_RUNNING), 0);
    run_lifecycle_is_step(daemon, run, 1);
    finish(daemon, run, OUTCOME_SUCCESS, 0);
    assert_int_equal(count_of("sheet.completed"), 1);
    assert_int_equal(count_of("job.finished"), 1);
}

static void test_too_many_steps(void **state)
{
    struct daemon *daemon = &((struct daemon_world *)*state)->daemon;
    const struct job_start start = start_of("build", getpid());

    struct run *run = begin(daemon, &start);
    for (int64_t i = 0; i < RUN_SHEETS_MAX; i++)
        assert_int_equal(registry_begin_sheet(daemon->registry, run, i, 0), 0);
    assert_int_equal(report_step(daemon, run, RUN_SHEETS_MAX, OUTCOME_RUNNING), -E2BIG);
    assert_int_equal(count_of("sheet.started"), 0);
    assert_int_equal(report_step(daemon, run, 0, OUTCOME_SUCCESS), 0);
    assert_int_equal(report_step(daemon, run, RUN_SHEETS_MAX, OUTCOME_RUNNING), 0);
}

/* ---- sweeps ---- */

/* It ends at the second sweep: its last message may be pending at the first. */
static void test_sweep_ends_a_run_without_owner(void **state)
{
    struct daemon_world *world = *state;
    struct daemon *daemon = &world->daemon;
    _cleanup_(arena_done) struct arena arena = {0};
    int fd;
    pid_t owner = fork_child(&fd);
    const struct job_start start = start_of("build", owner);

    begin(daemon, &start);
    run_lifecycle_sweep(daemon);
    run_lifecycle_sweep(daemon);
    assert_true(run_lifecycle_has_run_of(daemon, owner));
    end_child(owner, fd);
    run_lifecycle_sweep(daemon);
    assert_int_equal(registry_run_count(daemon->registry), 1);
    run_lifecycle_sweep(daemon);
    assert_int_equal(registry_run_count(daemon->registry), 0);
    assert_int_equal(count_of("job.finished"), 1);
    const struct job job = read_job(world, &arena);
    assert_int_equal(job.outcome, OUTCOME_UNKNOWN);
    assert_string_equal(job.cause, "lost");
}

/* An owner that is not visible counts as gone only after a long silence. */
static void test_sweep_keeps_a_run_with_invisible_owner(void **state)
{
    struct daemon *daemon = &((struct daemon_world *)*state)->daemon;
    const struct job_start start = start_of("build", fork_and_wait());

    begin(daemon, &start);
    run_lifecycle_sweep(daemon);
    run_lifecycle_sweep(daemon);
    assert_int_equal(registry_run_count(daemon->registry), 1);
}

/* It has no owner until it is reported again. */
static void test_adopted_run_gets_an_owner(void **state)
{
    struct daemon *daemon = &((struct daemon_world *)*state)->daemon;
    struct job_start start = start_of("build", 0);
    int fd;

    start.is_adopted = true;
    start.origin = RUN_BY_RULE;
    struct run *run = begin(daemon, &start);
    pid_t owner = fork_child(&fd);
    run_lifecycle_sweep(daemon);
    run_lifecycle_sweep(daemon);
    assert_int_equal(registry_run_count(daemon->registry), 1);
    run_lifecycle_set_owner(daemon, run, owner);
    assert_int_equal(run->origin, RUN_REGISTERED);
    assert_true(run_lifecycle_has_run_of(daemon, owner));
    run_lifecycle_set_owner(daemon, run, getpid()); /* only the first report changes the owner */
    assert_false(run_lifecycle_has_run_of(daemon, getpid()));
    end_child(owner, fd);
    run_lifecycle_sweep(daemon);
    run_lifecycle_sweep(daemon);
    assert_int_equal(registry_run_count(daemon->registry), 0);
}

/* ---- events stored by the caller ---- */

static void test_events_stored_by_the_caller(void **state)
{
    struct daemon *daemon = &((struct daemon_world *)*state)->daemon;
    int fd;
    pid_t owner = fork_child(&fd);
    const struct job_start start = start_of("build", owner), other = start_of("other", getpid());
    struct process_event event = {.details_are_calls = false}; /* not a field of the record */

    struct run *run = begin(daemon, &start), *of_daemon = begin(daemon, &other);
    record_init(&process_event_record, &event);
    event.event_type = EVENT_EXIT;
    event.run_id = run->run_id;
    assert_false(run_lifecycle_is_stored_elsewhere(daemon, &event));
    run_lifecycle_leave_events_to_caller(daemon, run);
    assert_true(run_lifecycle_is_stored_elsewhere(daemon, &event));
    event.event_type = EVENT_OOM; /* not of the life of a process */
    assert_false(run_lifecycle_is_stored_elsewhere(daemon, &event));
    event.event_type = EVENT_EXIT;
    event.run_id = of_daemon->run_id;
    assert_false(run_lifecycle_is_stored_elsewhere(daemon, &event));

    /* The daemon continues after the caller is gone. */
    end_child(owner, fd);
    event.run_id = run->run_id;
    run_lifecycle_sweep(daemon);
    assert_false(run_lifecycle_is_stored_elsewhere(daemon, &event));
    assert_false(run->caller_stores_events);
}

#define T(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

/* A rule matches the command line as it is; what the run keeps is redacted, and again after a
 * reload with other words. */
static void test_run_found_by_a_rule_is_redacted(void **state)
{
    static const char *items[] = {"hush"};
    const struct text_list words = {items, 1};
    struct daemon_world *world = *state;
    struct daemon *daemon = &world->daemon;
    const struct process_facts facts = {
        .command = "login --password geheim --hush leise", .cwd = "/srv/token=geheim", .uid = 1000};
    const struct run_options options = {
        .run_id = "run-1", .job_id = "job-1", .uid = 1000, .origin = RUN_BY_RULE};
    _cleanup_(arena_done) struct arena arena = {0};
    struct run *run;

    assert_int_equal(registry_add_run(daemon->registry, &options, &run), 0);
    run_lifecycle_begin_found(daemon, run, &facts);
    assert_has(text_string(&published), "\"command\":\"login --password *** --hush leise\"");
    assert_has(text_string(&published), "\"job_type\":\"login *** @token=***\"");
    assert_has(text_string(&published), "\"cwd\":\"/srv/token=***\"");
    strcpy(run->status, "logs in, hush=leise");
    run_lifecycle_redact(daemon, &words);
    assert_string_equal(run->status, "logs in, hush=***");
    finish(daemon, run, OUTCOME_SUCCESS, 0);
    assert_null(strstr(text_string(&published), "geheim"));
    assert_has(text_string(&published), "\"command\":\"login --password *** --hush ***\"");
    assert_true(store_writer_wait(daemon->writer, 20 * NS_PER_SEC));
    assert_string_equal(read_job(world, &arena).command, "login --password *** --hush ***");
}

/* The last part of a path may be a secret where the whole path is none. */
static void test_derived_type_is_redacted(void **state)
{
    struct daemon *daemon = &((struct daemon_world *)*state)->daemon;
    struct job_start start = start_of("build", getpid());

    start.cwd = "/srv/token: geheim";
    begin(daemon, &start);
    assert_has(text_string(&published), "\"job_type\":\"make all @token: ***\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T(test_begin_and_finish),
        T(test_given_run_id_is_kept),
        T(test_run_that_its_caller_stores),
        T(test_step_begins_and_ends),
        T(test_steps_end_with_one_reading),
        T(test_too_many_readings),
        T(test_run_that_is_a_step),
        T(test_too_many_steps),
        T(test_sweep_ends_a_run_without_owner),
        T(test_sweep_keeps_a_run_with_invisible_owner),
        T(test_adopted_run_gets_an_owner),
        T(test_events_stored_by_the_caller),
        T(test_run_found_by_a_rule_is_redacted),
        T(test_derived_type_is_redacted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
