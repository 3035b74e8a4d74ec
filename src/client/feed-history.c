/* Plays stored data. A frame is a snapshot; if several writers stored at once (several `sonde
 * run`), it also contains the last snapshots of the others. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/vec.h"
#include "client/feed-source.h"
#include "loop/alarm.h"
#include "model/record-copy.h"
#include "store/store.h"

/* A week of seconds. */
#define MARKS_MAX 700000
/* Time without stored data is skipped. */
#define WAIT_MAX_MSEC 1500
/* The shortest time between frames; higher speeds skip frames. */
#define WAIT_MIN_MSEC 40
/* How often the end of the data is checked for more. */
#define AT_END_MSEC 1000
/* Frames before the target of a jump, for sparklines. */
#define LEAD_FRAMES 60
/* Events before the target of a jump. */
#define NEWS_BEFORE 100
/* A writer's last snapshot is valid for this many of its intervals. */
#define HOLDS_INTERVALS 2.5
#define WRITERS_MAX     16
#define RUNS_KEPT_MAX   512

/* The stored steps of a run. */
struct kept_run {
    const char *run_id;
    int64_t total_sheets;
    struct sheet_list sheets;
};

struct history {
    struct feed *feed;
    struct store_reader *store;
    struct alarm *alarm;
    struct VEC(struct snapshot_mark) marks;
    struct arena arena; /* holds the anomalies */
    struct anomaly_list anomalies;
    struct VEC(struct kept_run) runs;
    struct arena runs_arena;
    size_t position; /* of the last frame */
};

/* ---- stored data ---- */

/* Keeps the old data if it cannot be read again. */
static int read_anomalies(struct history *own)
{
    struct arena arena = {0};
    struct anomaly_list found;

    int r = store_read_anomalies(own->store, NULL, own->feed->options->since, REAL_UNKNOWN, &arena,
                                 &found);
    if (r < 0) {
        arena_done(&arena);
        return r;
    }
    arena_done(&own->arena);
    own->arena = arena;
    own->anomalies = found;
    return 0;
}

/* Appends the marks since the last one. Returns their number. */
static int read_marks(struct history *own, size_t *ret_added)
{
    _cleanup_(arena_done) struct arena arena = {0};
    size_t count = own->marks.count;
    struct snapshot_mark last = {0}; /* a copy, because the array may move when it grows */
    struct snapshot_mark_list found;

    if (count)
        last = own->marks.items[count - 1];
    int r = store_read_marks(own->store, count ? last.timestamp : own->feed->options->since,
                             MARKS_MAX - MIN(count, (size_t)MARKS_MAX) + 1, &arena, &found);
    for (size_t i = 0; r == 0 && i < found.count; i++)
        if (!count || found.items[i].timestamp > last.timestamp || found.items[i].id > last.id)
            r = VEC_PUSH(&own->marks, found.items[i]);
    *ret_added = own->marks.count - count;
    return r;
}

static double time_at(const struct history *own, size_t position)
{
    return own->marks.items[position].timestamp;
}

/* The first mark at or after that time, or the last mark. */
static size_t find_mark(const struct history *own, double time)
{
    size_t low = 0, high = own->marks.count - 1;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (time_at(own, middle) < time)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* ---- progress ---- */

static const struct kept_run *find_run(struct history *own, const char *run_id)
{
    struct kept_run run = {0};
    struct job job;

    for (size_t i = 0; i < own->runs.count; i++)
        if (strcmp(own->runs.items[i].run_id, run_id) == 0)
            return &own->runs.items[i];
    if (own->runs.count >= RUNS_KEPT_MAX) {
        own->runs.count = 0;
        arena_reset(&own->runs_arena);
    }
    run.run_id = arena_strdup(&own->runs_arena, run_id);
    if (!run.run_id || store_find_job(own->store, run_id, &own->runs_arena, &job) < 0 ||
        store_read_sheets(own->store, run_id, &own->runs_arena, &run.sheets) < 0)
        return NULL;
    run.total_sheets = job.total_sheets;
    return VEC_PUSH(&own->runs, run) == 0 ? &own->runs.items[own->runs.count - 1] : NULL;
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

static int add_progress(struct history *own, struct snapshot *snapshot)
{
    size_t count = snapshot->jobs.count;
    struct job_progress *items = arena_alloc(&snapshot->arena, (count + 1) * sizeof(*items));

    if (!items)
        return -ENOMEM;
    snapshot->job_progress = (struct job_progress_list){.items = items};
    for (size_t i = 0; i < count; i++) {
        const struct job_usage *usage = &snapshot->jobs.items[i];
        const struct kept_run *run = usage->run_id ? find_run(own, usage->run_id) : NULL;
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
static int merge(struct snapshot *into, const struct snapshot *other)
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
static size_t find_others(const struct history *own, size_t position, size_t others[WRITERS_MAX])
{
    const struct snapshot_mark *marks = own->marks.items;
    double longest = 60 * HOLDS_INTERVALS;
    size_t count = 0;

    for (size_t i = position; i-- > 0 && count < WRITERS_MAX;) {
        double age = marks[position].timestamp - marks[i].timestamp;
        bool is_new = marks[i].session != marks[position].session;
        if (age > longest)
            break;
        for (size_t k = 0; k < count && is_new; k++)
            is_new = marks[others[k]].session != marks[i].session;
        if (is_new && age <= marks[i].resolution_seconds * HOLDS_INTERVALS)
            others[count++] = i;
    }
    return count;
}

static int add_others(struct history *own, size_t position, struct snapshot *snapshot)
{
    size_t others[WRITERS_MAX], count = find_others(own, position, others);
    int r = 0;

    for (size_t i = 0; i < count && r == 0; i++) {
        _cleanup_(snapshot_freep) struct snapshot *other = NULL;
        r = store_read_snapshot(own->store, own->marks.items[others[i]].id, &other);
        if (r == 0)
            r = merge(snapshot, other);
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

static int list_open(const struct history *own, struct frame *frame)
{
    double time = frame->snapshot->timestamp;
    struct arena *arena = &frame->snapshot->arena;
    size_t count = 0;

    for (size_t i = 0; i < own->anomalies.count; i++)
        count += was_open(&own->anomalies.items[i], time);
    struct anomaly *items = arena_alloc(arena, (count + 1) * sizeof(*items));
    if (!items)
        return -ENOMEM;
    frame->anomalies = (struct anomaly_list){.items = items};
    for (size_t i = 0; i < own->anomalies.count; i++)
        if (was_open(&own->anomalies.items[i], time) &&
            record_copy(&anomaly_record, &own->anomalies.items[i], arena,
                        &items[frame->anomalies.count++]) < 0)
            return -ENOMEM;
    frame->open_anomalies = (int64_t)count;
    return 0;
}

/* Returns 0, -ENOENT (deleted by retention meanwhile) or another negative errno. */
static int read_frame(struct history *own, size_t position, struct frame *ret)
{
    struct frame frame = {.open_anomalies = INT_UNKNOWN};

    int r = store_read_snapshot(own->store, own->marks.items[position].id, &frame.snapshot);
    if (r == 0)
        r = add_others(own, position, frame.snapshot);
    if (r == 0)
        r = add_progress(own, frame.snapshot);
    if (r == 0)
        r = list_open(own, &frame);
    if (r < 0)
        frame_done(&frame);
    else
        *ret = frame;
    return r;
}

/* ---- events ---- */

struct news_list VEC(struct event_line);

static int compare_news(const void *a, const void *b)
{
    double left = event_line_time(a), right = event_line_time(b);

    return (left > right) - (left < right);
}

static bool is_within(double time, double after, double until)
{
    return time > after && time <= until;
}

static int gather_anomalies(const struct history *own, double after, double until,
                            struct news_list *list)
{
    int r = 0;

    for (size_t i = 0; i < own->anomalies.count && r == 0; i++) {
        const struct anomaly *anomaly = &own->anomalies.items[i];
        if (is_within(anomaly->timestamp, after, until))
            r = VEC_PUSH(list, event_line_of_anomaly(anomaly, false));
        if (r == 0 && is_within(anomaly->cleared_at, after, until))
            r = VEC_PUSH(list, event_line_of_anomaly(anomaly, true));
    }
    return r;
}

static int gather_jobs(struct history *own, double after, double until, struct arena *arena,
                       struct news_list *list)
{
    const struct job_filter filter = {
        .since = after, .until = until, .uid = INT_UNKNOWN, .limit = NEWS_BEFORE};
    struct job_list jobs;

    int r = store_read_jobs(own->store, &filter, arena, &jobs);
    for (size_t i = 0; r == 0 && i < jobs.count; i++) {
        if (is_within(jobs.items[i].started_at, after, until))
            r = VEC_PUSH(list, event_line_of_job(&jobs.items[i], false));
        if (r == 0 && is_within(jobs.items[i].ended_at, after, until))
            r = VEC_PUSH(list, event_line_of_job(&jobs.items[i], true));
    }
    return r;
}

static int gather_gaps(struct history *own, double after, double until, struct arena *arena,
                       struct news_list *list)
{
    struct gap_list gaps;

    int r = store_read_gaps(own->store, NULL, after, until, arena, &gaps);
    for (size_t i = 0; r == 0 && i < gaps.count; i++)
        if (is_within(gaps.items[i].timestamp, after, until))
            r = VEC_PUSH(list, event_line_of_gap(&gaps.items[i]));
    return r;
}

static int gather_events(struct history *own, double after, double until, struct arena *arena,
                         struct news_list *list, double *ret_from)
{
    struct event_filter filter = EVENT_FILTER_ALL;
    struct process_event_list events;

    filter.since = after;
    filter.until = until;
    filter.limit = NEWS_BEFORE;
    int r = store_read_events(own->store, &filter, arena, &events);
    if (r < 0)
        return r;
    /* Skips everything older than the oldest event shown. */
    *ret_from = events.count == NEWS_BEFORE ? events.items[0].timestamp : after;
    for (size_t i = 0; r == 0 && i < events.count; i++) {
        struct event_line news;
        r = event_line_of_process(&events.items[i], arena, &news);
        if (r == 0 && is_within(events.items[i].timestamp, after, until))
            r = VEC_PUSH(list, news);
    }
    return r;
}

/* Reports what happened after one time and until another. */
static int tell_news(struct history *own, double after, double until)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct news_list list = {0};
    double from = after;

    int r = gather_events(own, after, until, &arena, &list, &from);
    if (r == 0)
        r = gather_jobs(own, from, until, &arena, &list);
    if (r == 0)
        r = gather_gaps(own, from, until, &arena, &list);
    if (r == 0)
        r = gather_anomalies(own, from, until, &list);
    if (r == 0 && list.count)
        qsort(list.items, list.count, sizeof(*list.items), compare_news);
    for (size_t i = 0; r == 0 && i < list.count; i++)
        feed_tell_news(own->feed, &list.items[i]);
    VEC_DONE(&list);
    return r;
}

/* ---- positions ---- */

static void tell_status(struct history *own)
{
    struct feed_status *status = &own->feed->status;
    double now = time_at(own, own->position);

    status->first = time_at(own, 0);
    status->last = time_at(own, own->marks.count - 1);
    status->position = own->position;
    status->count = own->marks.count;
    status->interval_seconds = own->marks.items[own->position].resolution_seconds;
    status->anomalies = own->anomalies.count;
    status->next_anomalies = 0;
    for (size_t i = 0; i < own->anomalies.count; i++)
        status->next_anomalies += own->anomalies.items[i].timestamp > now;
    feed_tell_status(own->feed);
}

/* Reports a read error, until a read succeeds. */
static void say(struct history *own, int error)
{
    struct feed_status *status = &own->feed->status;
    const char *words = error < 0 ? store_reader_error(own->store) : "";

    snprintf(status->words, sizeof(status->words), "%s",
             error < 0 && !*words ? strerror(-error) : words);
}

static int give(struct history *own, size_t position, bool is_jump, bool is_past)
{
    struct frame frame;

    int r = read_frame(own, position, &frame);
    if (r < 0)
        return r;
    frame.is_jump = is_jump;
    frame.is_past = is_past;
    feed_give_frame(own->feed, &frame);
    return 0;
}

/* Gives the frames before the target. Frames deleted by retention are skipped; a read error does
 * not prevent the jump. */
static int lead(struct history *own, size_t first, size_t position, bool is_jump)
{
    own->position = position;
    for (size_t i = first; i < position; i++) {
        int r = give(own, i, is_jump, true);
        if (r < 0 && r != -ENOENT)
            return r;
        is_jump &= r < 0;
    }
    return give(own, position, is_jump, false);
}

static int jump(struct history *own, size_t position)
{
    int r = lead(own, position > LEAD_FRAMES ? position - LEAD_FRAMES : 0, position, true);
    return r < 0 ? r : tell_news(own, 0, time_at(own, position));
}

static int go_on(struct history *own, size_t first, size_t position)
{
    double before = time_at(own, own->position);

    int r = lead(own, first, position, false);
    return r < 0 ? r : tell_news(own, before, time_at(own, position));
}

static void tell_result(struct history *own, int r)
{
    say(own, r == -ENOENT ? 0 : r);
    tell_status(own);
}

/* Jumps to a position, with the frames and events before it. */
static void show(struct history *own, size_t position)
{
    bool is_next = position > own->position && position - own->position <= LEAD_FRAMES;

    tell_result(own, is_next ? go_on(own, own->position + 1, position) : jump(own, position));
}

/* ---- playing ---- */

static void plan(struct history *own)
{
    const struct feed_status *status = &own->feed->status;
    size_t next = own->position + 1;

    if (!status->is_playing) {
        alarm_stop(own->alarm);
    } else if (next >= own->marks.count) {
        alarm_set(own->alarm, AT_END_MSEC);
    } else {
        double msec = (time_at(own, next) - time_at(own, own->position)) / status->speed * 1e3;
        alarm_set(own->alarm, (uint64_t)fmin(fmax(msec, WAIT_MIN_MSEC), WAIT_MAX_MSEC));
    }
}

/* The next frame, or a later one at high speed. */
static size_t find_next(const struct history *own)
{
    double until = time_at(own, own->position) + own->feed->status.speed * WAIT_MIN_MSEC / 1e3;
    size_t next = own->position + 1;

    while (next + 1 < own->marks.count && time_at(own, next + 1) <= until)
        next++;
    return next;
}

static void on_alarm(void *context)
{
    struct history *own = context;
    size_t added = 0;

    if (own->position + 1 >= own->marks.count && read_marks(own, &added) == 0 && added)
        read_anomalies(own);
    if (own->position + 1 < own->marks.count) {
        size_t next = find_next(own);
        tell_result(own, go_on(own, next, next)); /* frames that are too fast to see are skipped */
    }
    plan(own);
}

static void step(struct history *own, double amount)
{
    double target = (double)own->position + amount, last = (double)own->marks.count - 1;

    show(own, (size_t)fmin(fmax(target, 0), last));
}

/* The first frame in which an episode is open. */
static void find_anomaly(struct history *own, bool is_next)
{
    double now = time_at(own, own->position);
    const struct anomaly *found = NULL;

    for (size_t i = 0; i < own->anomalies.count; i++) {
        const struct anomaly *anomaly = &own->anomalies.items[i];
        if (is_next ? anomaly->timestamp > now && !found
                    : find_mark(own, anomaly->timestamp) < own->position)
            found = anomaly;
    }
    if (found)
        show(own, find_mark(own, found->timestamp));
}

static void command(struct feed *feed, const struct feed_command *command)
{
    struct history *own = feed->own;
    struct feed_status *status = &feed->status;
    double now = time_at(own, own->position);

    if (command->order == FEED_PLAY_OR_PAUSE)
        status->is_playing = !status->is_playing;
    else if (command->order == FEED_SPEED)
        status->speed = fmin(fmax(status->speed * command->amount, FEED_SPEED_MIN), FEED_SPEED_MAX);
    else
        status->is_playing = false; /* a jump pauses the playback */
    switch (command->order) {
    case FEED_STEP: step(own, command->amount); break;
    case FEED_SKIP: show(own, find_mark(own, now + command->amount)); break;
    case FEED_SEEK: show(own, find_mark(own, command->amount)); break;
    case FEED_ANOMALY: find_anomaly(own, command->amount > 0); break;
    default: tell_status(own); break;
    }
    plan(own);
}

/* ---- the source ---- */

static void close_feed(struct feed *feed)
{
    struct history *own = feed->own;

    alarm_close(own->alarm);
    store_reader_close(own->store);
    VEC_DONE(&own->marks);
    VEC_DONE(&own->runs);
    arena_done(&own->arena);
    arena_done(&own->runs_arena);
    free(own);
}

static int open_store(struct history *own, struct feed_error *error)
{
    const char *path = own->feed->options->database_path;
    struct store_error words = {""};

    if (!path)
        return feed_fail(error, -ENOENT, "no state directory; set HOME or use --state-dir DIR");
    int r = store_reader_open(path, &own->store, &words);
    if (r == -ENOENT)
        return feed_fail(error, r, "no data yet in '%s'; run a job with: sonde run -- CMD", path);
    if (r < 0)
        return feed_fail(error, r, "%s", words.text);
    snprintf(own->feed->status.place, sizeof(own->feed->status.place), "%s", path);
    return 0;
}

static int load(struct history *own, struct feed_error *error)
{
    size_t count = 0;

    int r = read_marks(own, &count);
    if (r == 0)
        r = read_anomalies(own);
    if (r < 0)
        return feed_fail(error, r, "%s", store_reader_error(own->store));
    if (!count)
        return feed_fail(error, -ENODATA,
                         "no data is stored for that time in '%s'; use an earlier one",
                         own->feed->options->database_path);
    return 0;
}

/* If a job is wanted: the latest run of it that is stored for that time. */
static int find_start(struct history *own, size_t *ret, struct feed_error *error)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const char *name = own->feed->job[0] ? own->feed->job : NULL;
    struct job job;

    *ret = 0;
    if (!name)
        return 0;
    int r = store_find_job(own->store, name, &arena, &job);
    if (r == -ENOENT)
        return feed_fail(error, r, "no job named '%s'; 'sonde jobs' lists them", name);
    if (r < 0)
        return feed_fail(error, r, "%s", store_reader_error(own->store));
    if (job.ended_at < time_at(own, 0))
        return feed_fail(error, -ENODATA,
                         "the latest run of '%s' ended before that time; use an earlier one", name);
    if (strcmp(name, job.job_id) != 0) /* JOB~1: only that run */
        snprintf(own->feed->job, sizeof(own->feed->job), "%s", job.run_id);
    *ret = find_mark(own, job.started_at);
    return 0;
}

/* Gives all frames without pauses; the sink may be slow. */
static void run_through(struct history *own, size_t position)
{
    for (; position < own->marks.count; position++) {
        own->position = position;
        int r = give(own, position, false, false);
        say(own, r == -ENOENT ? 0 : r);
        if (r < 0 && r != -ENOENT)
            break;
    }
    tell_status(own);
    own->feed->sink.on_end(own->feed->sink.context);
}

static int open_feed(struct feed *feed, struct feed_error *error)
{
    struct history *own = calloc(1, sizeof(*own));
    size_t start = 0;

    if (!own)
        return -ENOMEM;
    own->feed = feed;
    feed->own = own;
    feed->status.kind = FEED_HISTORY;
    feed->status.speed = FEED_SPEED_DEFAULT;
    feed->status.is_playing = true;
    int r = alarm_new(feed->loop, on_alarm, own, &own->alarm);
    if (r == 0)
        r = open_store(own, error);
    if (r == 0)
        r = load(own, error);
    if (r == 0)
        r = find_start(own, &start, error);
    if (r < 0) {
        close_feed(feed);
        return r;
    }
    if (feed->options->is_unpaced) {
        run_through(own, start);
        return 0;
    }
    own->position = SIZE_MAX; /* the first frame is a jump */
    show(own, start);
    plan(own);
    return 0;
}

const struct feed_source feed_history_source = {
    .open = open_feed, .close = close_feed, .command = command};
