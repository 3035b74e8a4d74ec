#include "store-writer-world.h"

#include <string.h>

static void on_notice(void *context _unused_, const char *text)
{
    pthread_mutex_lock(&fake.lock);
    VEC_PUSH(&fake.notices, strdup(text));
    pthread_cond_broadcast(&fake.changed);
    pthread_mutex_unlock(&fake.lock);
}

static struct store_writer *start_as(struct store_pace pace, bool stays)
{
    /* All data of the tick is freed when this returns. */
    char path[] = "/nowhere/monitor.db", host[] = "here";
    struct store_writer *writer = NULL;
    const struct store_writer_options options = {
        .store = {.path = path,
                  .host = host,
                  .boot_id = "boot",
                  .collector = "procfs",
                  .interval_seconds = 1,
                  .is_long_lived = stays},
        .pace = pace,
        .on_notice = on_notice,
    };

    assert_int_equal(store_writer_start(&options, &writer), 0);
    memset(path, 'x', sizeof(path) - 1);
    memset(host, 'x', sizeof(host) - 1);
    return writer;
}

struct store_writer *start_with(struct store_pace pace)
{
    return start_as(pace, false);
}

struct store_writer *start_staying(void)
{
    return start_as((struct store_pace){.retry_ns = MSEC, .retry_busy_ns = MSEC}, true);
}

struct store_writer *start(void)
{
    return start_with((struct store_pace){.retry_ns = MSEC, .retry_busy_ns = MSEC});
}

struct store_report stop(struct store_writer *writer)
{
    struct store_report report;

    store_writer_stop(writer, &report);
    return report;
}

struct store_report ask(struct store_writer *writer)
{
    struct store_report report;

    store_writer_report(writer, &report);
    return report;
}

struct tick_box *make_tick(int64_t id, size_t events)
{
    const struct event_owner owner = {
        .run_id = "run", .job_id = "job", .uid = 0, .sheet_num = INT_UNKNOWN};
    struct tick_box *box = tick_box_new();

    assert_non_null(box);
    for (size_t i = 0; i < events; i++)
        assert_non_null(tick_box_add_spawn(box, owner, (pid_t)i + 1, 1, 1000.0 + (double)id));
    struct snapshot *snapshot = snapshot_new();
    assert_non_null(snapshot);
    snapshot->id = id;
    snapshot->timestamp = 1000.0 + (double)id;
    box->tick.snapshot = snapshot;
    return box;
}

void send_ticks(struct store_writer *writer, int64_t from, int64_t to)
{
    for (int64_t id = from; id <= to; id++)
        store_writer_tick(writer, make_tick(id, 2));
}

void begin_job(struct store_writer *writer, const char *job_id)
{
    char command[] = "make all";
    struct job job;

    record_init(&job_record, &job);
    job.run_id = "run";
    job.job_id = job_id;
    job.command = command;
    assert_int_equal(store_writer_begin_job(writer, &job), 0);
    memset(command, 'x', sizeof(command) - 1);
}

void finish_job(struct store_writer *writer)
{
    struct job job;

    record_init(&job_record, &job);
    job.run_id = "run";
    job.job_id = "job";
    job.exit_code = 3;
    assert_int_equal(store_writer_finish_job(writer, &job), 0);
}
