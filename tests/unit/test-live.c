/* The daemon's current data after a reload with other words of redaction. */
#include "unit.h"

#include "base/macros.h"
#include "daemon/live.h"

static const char *word_items[] = {"key"};
static const struct text_list words = {word_items, 1};

static struct snapshot *make_snapshot(void)
{
    struct snapshot *snapshot = snapshot_new();

    assert_non_null(snapshot);
    struct process_metric *process = arena_alloc(&snapshot->arena, sizeof(*process));
    struct job_progress *progress = arena_alloc(&snapshot->arena, sizeof(*progress));
    struct job_usage *job = arena_alloc(&snapshot->arena, sizeof(*job));
    record_init(&process_metric_record, process);
    record_init(&job_progress_record, progress);
    record_init(&job_usage_record, job);
    process->pid = 7;
    process->command = "login key=abc";
    progress->job_id = job->job_id = "job-1";
    progress->status = "logs in with key=abc";
    job->uid = 1000;
    snapshot->processes = (struct process_list){process, 1};
    snapshot->job_progress = (struct job_progress_list){progress, 1};
    snapshot->jobs = (struct job_usage_list){job, 1};
    snapshot->host = "host.example";
    return snapshot;
}

/* Others may still read the snapshot, so it does not change: live has another one. */
static void test_other_words(void **state _unused_)
{
    struct live live = {.latest = NULL};
    struct snapshot *snapshot = make_snapshot();
    struct process_event event;

    record_init(&process_event_record, &event);
    event.event_type = EVENT_EXEC;
    event.command = "sh --key abc";
    for (size_t i = 0; i < LIVE_EVENTS_MAX + 1; i++)
        live_note_event(&live, &event, 1000);
    live_redact(&live, &words); /* no snapshot yet */
    assert_null(live.latest);
    live_note_snapshot(&live, snapshot);
    live_redact(&live, &words);

    for (size_t i = 0; i < LIVE_EVENTS_MAX; i++)
        assert_string_equal(live_event_at(&live, i)->event.command, "sh --key ***");
    assert_string_equal(live_find_process(&live, 7)->command, "login key=***");
    assert_string_equal(live.latest->job_progress.items[0].status, "logs in with key=***");
    assert_string_equal(live.latest->host, "host.example");
    assert_int_equal(live.latest->jobs.items[0].uid, 1000); /* decides who sees the job */
    assert_string_equal(snapshot->processes.items[0].command, "login key=abc");
    snapshot_unref(snapshot);
    live_done(&live);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_other_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
