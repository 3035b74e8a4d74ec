#include "top-world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NOW 1789000000.0

void top_world_init(struct top_world *world)
{
    struct snapshot *snapshot = snapshot_new();

    if (!snapshot)
        abort();
    snapshot->timestamp = NOW;
    snapshot->host = arena_strdup(&snapshot->arena, "vm");
    snapshot->cpu_count = 2;
    snapshot->system_cpu_percent = 87.5;
    snapshot->system_memory_total_mb = 8192;
    snapshot->system_memory_used_mb = 2048;
    snapshot->system_memory_available_mb = 6144;
    snapshot->load_avg_1 = 1.25;
    snapshot->load_avg_5 = 0.5;
    snapshot->load_avg_15 = 0.25;
    snapshot->pressure_level = PRESSURE_LOW;
    snapshot->running_jobs = 0;
    snapshot->active_sheets = 0;
    snapshot->conductor_uptime_seconds = 3725;
    snapshot->process_total = 0;
    world->snapshot = snapshot;
    world->frame = (struct frame){.snapshot = snapshot, .boot_ns = 1000 * NS_PER_SEC};
}

void top_world_done(struct top_world *world)
{
    frame_done(&world->frame);
}

/* One more item at the end of a list, all unknown. */
static void *add(struct top_world *world, void *list, const struct record *record)
{
    struct any_list *any = list;
    char *items = arena_alloc(&world->snapshot->arena, (any->count + 1) * record->size);

    if (!items)
        abort();
    if (any->count)
        memcpy(items, any->items, any->count * record->size);
    memset(items + any->count * record->size, 0, record->size);
    record_init(record, items + any->count * record->size);
    any->items = items;
    return items + any->count++ * record->size;
}

static const char *keep(struct top_world *world, const char *text)
{
    return text ? arena_strdup(&world->snapshot->arena, text) : NULL;
}

struct process_metric *add_process(struct top_world *world, int64_t pid, int64_t ppid,
                                   const char *command, double cpu_percent, double rss_mb)
{
    struct process_metric *process =
        add(world, &world->snapshot->processes, &process_metric_record);

    process->pid = pid;
    process->ppid = ppid;
    process->command = keep(world, command);
    process->state = 'S';
    process->cpu_percent = cpu_percent;
    process->rss_mb = rss_mb;
    process->threads = 1;
    process->age_seconds = 100;
    process->start_time = NOW - 100;
    process->cpu_seconds = cpu_percent / 10;
    process->uid = 1000;
    world->snapshot->process_total++;
    return process;
}

struct process_metric *add_member(struct top_world *world, const char *job_id, int64_t sheet_num,
                                  int64_t pid, int64_t ppid, const char *command,
                                  double cpu_percent, double rss_mb)
{
    struct process_metric *process = add_process(world, pid, ppid, command, cpu_percent, rss_mb);

    process->job_id = process->run_id = keep(world, job_id);
    process->sheet_num = sheet_num;
    return process;
}

struct job_usage *add_job_usage(struct top_world *world, const char *job_id, double cpu_percent,
                                double rss_mb)
{
    struct job_usage *job = add(world, &world->snapshot->jobs, &job_usage_record);

    job->job_id = job->run_id = keep(world, job_id);
    job->cpu_percent = cpu_percent;
    job->rss_mb = job->unique_mb = rss_mb;
    job->cpu_seconds = 12.5;
    world->snapshot->running_jobs++;
    return job;
}

struct job_progress *add_progress(struct top_world *world, const char *job_id, int64_t completed,
                                  int64_t total)
{
    struct job_progress *progress =
        add(world, &world->snapshot->job_progress, &job_progress_record);

    progress->job_id = progress->run_id = keep(world, job_id);
    progress->last_completed_sheet = completed;
    progress->current_sheet = completed + 1;
    progress->total_sheets = total;
    return progress;
}

struct anomaly *add_anomaly(struct top_world *world, const char *type, int64_t pid,
                            const char *job_id, int severity)
{
    struct anomaly *anomaly = add(world, &world->frame.anomalies, &anomaly_record);

    anomaly->timestamp = NOW - 5;
    anomaly->anomaly_type = keep(world, type);
    anomaly->pid = pid;
    anomaly->job_id = anomaly->run_id = keep(world, job_id);
    anomaly->severity = severity;
    anomaly->description = keep(world, "it grew");
    world->frame.open_anomalies++;
    return anomaly;
}

void top_world_fill(struct top_world *world)
{
    add_job_usage(world, "nightly", 120, 500);
    add_job_usage(world, "backup", 5, 50);
    add_progress(world, "nightly", 2, 5);
    world->snapshot->active_sheets = 1;
    add_member(world, "nightly", INT_UNKNOWN, 100, 1, "conductor.py", 0, 20);
    add_member(world, "nightly", 3, 110, 100, "sh -c train", 0, 2);
    add_member(world, "nightly", 3, 111, 110, "python3 train.py", 119, 450);
    add_member(world, "nightly", 3, 112, 110, "python3 load.py", 1, 28);
    add_member(world, "backup", INT_UNKNOWN, 200, 1, "tar cf -", 5, 50);
    add_process(world, 1, 0, "/sbin/init", 0, 10);
    add_process(world, 300, 1, "sshd", 0.5, 6);
    add_process(world, 301, 300, "bash", 0, 4);
    add_anomaly(world, "memory_spike", 111, "nightly", SEVERITY_CRITICAL);
}

void top_world_crowd(struct top_world *world, size_t count)
{
    struct process_list *processes = &world->snapshot->processes;
    struct process_metric *items =
        arena_alloc(&world->snapshot->arena, (processes->count + count) * sizeof(*items));

    if (!items)
        abort();
    memset(items, 0, (processes->count + count) * sizeof(*items));
    if (processes->count)
        memcpy(items, processes->items, processes->count * sizeof(*items));
    for (size_t i = 0; i < count; i++) {
        struct process_metric *process = &items[processes->count + i];
        record_init(&process_metric_record, process);
        process->pid = 10000 + (int64_t)i;
        process->ppid = i ? 10000 + (int64_t)(i - 1) / 2 : 1;
        process->command = "crowd";
        process->cpu_percent = (double)(i % 97);
        process->rss_mb = (double)(i % 89);
        process->start_time = NOW - 50;
    }
    processes->items = items;
    processes->count += count;
}
