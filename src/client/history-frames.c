#include "client/history-frames.h"

#include <errno.h>
#include <string.h>

#include "model/record-copy.h"
#include "sample/scope.h"

/* A week of seconds. */
#define MARKS_MAX 700000
/* A writer's last snapshot is valid for this many of its intervals. */
#define VALID_INTERVALS 2.5
#define WRITERS_MAX     16
#define RUNS_KEPT_MAX   512

void history_frames_done(struct history_frames *frames)
{
    store_reader_close(frames->store);
    VEC_DONE(&frames->marks);
    VEC_DONE(&frames->runs);
    arena_done(&frames->arena);
    arena_done(&frames->runs_arena);
}

/* ---- stored data ---- */

int history_frames_read_anomalies(struct history_frames *frames)
{
    struct arena arena = {0};
    struct anomaly_list found;

    int r = store_read_anomalies(frames->store, NULL, frames->since, REAL_UNKNOWN, &arena, &found);
    if (r < 0) {
        arena_done(&arena);
        return r;
    }
    arena_done(&frames->arena);
    frames->arena = arena;
    frames->anomalies = found;
    return 0;
}

int history_frames_read_marks(struct history_frames *frames, size_t *ret_added)
{
    _cleanup_(arena_done) struct arena arena = {0};
    size_t count = frames->marks.count;
    struct snapshot_mark last = {0}; /* a copy, because the array may move when it grows */
    struct snapshot_mark_list found;

    if (count)
        last = frames->marks.items[count - 1];
    int r = store_read_marks(frames->store, count ? last.timestamp : frames->since,
                             MARKS_MAX - MIN(count, (size_t)MARKS_MAX) + 1, &arena, &found);
    for (size_t i = 0; r == 0 && i < found.count; i++)
        if (!count || found.items[i].timestamp > last.timestamp || found.items[i].id > last.id)
            r = VEC_PUSH(&frames->marks, found.items[i]);
    *ret_added = frames->marks.count - count;
    return r;
}

double history_frames_time_at(const struct history_frames *frames, size_t position)
{
    return frames->marks.items[position].timestamp;
}

size_t history_frames_find(const struct history_frames *frames, double time)
{
    size_t low = 0, high = frames->marks.count - 1;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (history_frames_time_at(frames, middle) < time)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* ---- progress ---- */

static const struct kept_run *find_run(struct history_frames *frames, const char *run_id)
{
    struct kept_run run = {0};
    struct job job;

    for (size_t i = 0; i < frames->runs.count; i++)
        if (strcmp(frames->runs.items[i].run_id, run_id) == 0)
            return &frames->runs.items[i];
    if (frames->runs.count >= RUNS_KEPT_MAX) {
        frames->runs.count = 0;
        arena_reset(&frames->runs_arena);
    }
    run.run_id = arena_strdup(&frames->runs_arena, run_id);
    if (!run.run_id || store_find_job(frames->store, run_id, &frames->runs_arena, &job) < 0 ||
        store_read_sheets(frames->store, run_id, &frames->runs_arena, &run.sheets) < 0)
        return NULL;
    run.total_sheets = job.total_sheets;
    return VEC_PUSH(&frames->runs, run) == 0 ? &frames->runs.items[frames->runs.count - 1] : NULL;
}

/* The progress of the run at that time. */
static struct job_progress progress_at(const struct kept_run *run, double time)
{
    struct job_progress progress;

    record_init(&job_progress_record, &progress);
    progress.total_sheets = run->total_sheets;
    for (size_t i = 0; i < run->sheets.count; i++) {
        const struct sheet *sheet = &run->sheets.items[i];
        if (sheet->ended_at <= time)
            progress.last_completed_sheet = MAX(progress.last_completed_sheet, sheet->sheet_num);
        else if (sheet->started_at <= time)
            progress.current_sheet = sheet->sheet_num;
        if (progress.current_sheet == sheet->sheet_num)
            progress.status = sheet->name;
    }
    return progress;
}

static int add_progress(struct history_frames *frames, struct snapshot *snapshot)
{
    size_t count = snapshot->jobs.count;
    struct job_progress *items = arena_alloc(&snapshot->arena, (count + 1) * sizeof(*items));

    if (!items)
        return -ENOMEM;
    snapshot->job_progress = (struct job_progress_list){.items = items};
    for (size_t i = 0; i < count; i++) {
        const struct job_usage *usage = &snapshot->jobs.items[i];
        const struct kept_run *run = usage->run_id ? find_run(frames, usage->run_id) : NULL;
        if (!run || (!int_is_known(run->total_sheets) && !run->sheets.count))
            continue;
        struct job_progress progress = progress_at(run, snapshot->timestamp);
        progress.job_id = usage->job_id;
        progress.run_id = usage->run_id;
        if (progress.status && !(progress.status = arena_strdup(&snapshot->arena, progress.status)))
            return -ENOMEM;
        items[snapshot->job_progress.count++] = progress;
    }
    return 0;
}

/* ---- several writers ---- */

static bool has_process(const struct process_list *processes, int64_t pid)
{
    for (size_t i = 0; i < processes->count; i++)
        if (processes->items[i].pid == pid)
            return true;
    return false;
}

/* Makes room for `more` items; the array may move. */
static int make_room(struct arena *arena, struct any_list *list, size_t more, size_t item_size)
{
    void *items = arena_alloc(arena, (list->count + more + 1) * item_size);

    if (!items)
        return -ENOMEM;
    if (list->count)
        memcpy(items, list->items, list->count * item_size);
    list->items = items;
    return 0;
}

/* Adds what another writer saw, without duplicates. */
static int merge_snapshot(struct snapshot *into, const struct snapshot *other)
{
    struct process_list *processes = &into->processes;
    struct job_usage_list *jobs = &into->jobs;

    int r = make_room(&into->arena, (struct any_list *)processes, other->processes.count,
                      sizeof(*processes->items));
    for (size_t i = 0; i < other->processes.count && r == 0; i++) {
        const struct process_metric *process = &other->processes.items[i];
        if (!process->run_id || has_process(processes, process->pid))
            continue;
        r = record_copy(&process_metric_record, process, &into->arena,
                        &processes->items[processes->count]);
        processes->count += r == 0;
    }
    if (r == 0)
        r = make_room(&into->arena, (struct any_list *)jobs, other->jobs.count,
                      sizeof(*jobs->items));
    for (size_t i = 0; i < other->jobs.count && r == 0; i++) {
        r = record_copy(&job_usage_record, &other->jobs.items[i], &into->arena,
                        &jobs->items[jobs->count]);
        jobs->count += r == 0;
    }
    into->running_jobs = (int64_t)jobs->count;
    return r;
}

/* The latest valid marks of the other writers at a position. */
static size_t find_other_writers(const struct history_frames *frames, size_t position,
                                 size_t others[WRITERS_MAX])
{
    const struct snapshot_mark *marks = frames->marks.items;
    double longest = 60 * VALID_INTERVALS;
    size_t count = 0;

    for (size_t i = position; i-- > 0 && count < WRITERS_MAX;) {
        double age = marks[position].timestamp - marks[i].timestamp;
        bool is_new = marks[i].session != marks[position].session;
        if (age > longest)
            break;
        for (size_t k = 0; k < count && is_new; k++)
            is_new = marks[others[k]].session != marks[i].session;
        if (is_new && age <= marks[i].resolution_seconds * VALID_INTERVALS)
            others[count++] = i;
    }
    return count;
}

static int merge_other_writers(struct history_frames *frames, size_t position,
                               struct snapshot *snapshot)
{
    size_t others[WRITERS_MAX], count = find_other_writers(frames, position, others);
    int r = 0;

    for (size_t i = 0; i < count && r == 0; i++) {
        _cleanup_(snapshot_freep) struct snapshot *other = NULL;
        r = store_read_snapshot(frames->store, frames->marks.items[others[i]].id, &other);
        if (r == 0)
            r = merge_snapshot(snapshot, other);
        else if (r == -ENOENT)
            r = 0;
    }
    return r;
}

/* ---- frames ---- */

/* Whether `item` was open then. */
static bool was_open(const struct anomaly *item, double time)
{
    return item->timestamp <= time && !(item->cleared_at <= time);
}

static int list_open_anomalies(const struct history_frames *frames, struct frame *frame)
{
    double time = frame->snapshot->timestamp;
    struct arena *arena = &frame->arena;
    size_t count = 0;

    for (size_t i = 0; i < frames->anomalies.count; i++)
        count += was_open(&frames->anomalies.items[i], time);
    struct anomaly *items = arena_alloc(arena, (count + 1) * sizeof(*items));
    if (!items)
        return -ENOMEM;
    frame->anomalies = (struct anomaly_list){.items = items};
    for (size_t i = 0; i < frames->anomalies.count; i++)
        if (was_open(&frames->anomalies.items[i], time) &&
            record_copy(&anomaly_record, &frames->anomalies.items[i], arena,
                        &items[frame->anomalies.count++]) < 0)
            return -ENOMEM;
    frame->open_anomalies = (int64_t)count;
    return 0;
}

int history_frames_read(struct history_frames *frames, size_t position, const char *job,
                        struct frame *ret)
{
    struct frame frame = {.open_anomalies = INT_UNKNOWN};
    struct snapshot *snapshot = NULL;

    int r = store_read_snapshot(frames->store, frames->marks.items[position].id, &snapshot);
    if (r == 0)
        r = merge_other_writers(frames, position, snapshot);
    if (r == 0)
        r = add_progress(frames, snapshot);
    if (r == 0 && job)
        scope_keep_job(job, snapshot);
    frame.snapshot = snapshot;
    if (r == 0)
        r = list_open_anomalies(frames, &frame);
    if (r < 0)
        frame_done(&frame);
    else
        *ret = frame;
    return r;
}
