/* Plays stored frames and events: at a speed, step by step, or all at once. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/vec.h"
#include "client/feed-source.h"
#include "client/history-frames.h"
#include "loop/alarm.h"

/* Time without stored data is skipped. */
#define WAIT_MAX_MSEC 1500
/* The shortest time between frames; higher speeds skip frames. */
#define WAIT_MIN_MSEC 40
/* How often the end of the data is checked for more. */
#define AT_END_MSEC 1000
/* Frames before the target of a jump, for sparklines. */
#define LEAD_FRAMES 60
/* Events before the target of a jump. */
#define EVENTS_BEFORE 100

struct history_feed {
    struct feed *feed;
    struct alarm *alarm; /* sends the next frame */
    struct history_frames frames;
    size_t position; /* of the last frame */
};

/* ---- events ---- */

struct event_line_list VEC(struct event_line);

static int compare_events(const void *a, const void *b)
{
    double left = event_line_time(a), right = event_line_time(b);

    return (left > right) - (left < right);
}

static bool is_within(double time, double after, double until)
{
    return time > after && time <= until;
}

static int gather_anomalies(const struct history_feed *history, double after, double until,
                            struct event_line_list *list)
{
    int r = 0;

    for (size_t i = 0; i < history->frames.anomalies.count && r == 0; i++) {
        const struct anomaly *anomaly = &history->frames.anomalies.items[i];
        if (is_within(anomaly->timestamp, after, until))
            r = VEC_PUSH(list, event_line_of_anomaly(anomaly, false));
        if (r == 0 && is_within(anomaly->cleared_at, after, until))
            r = VEC_PUSH(list, event_line_of_anomaly(anomaly, true));
    }
    return r;
}

static int gather_jobs(struct history_feed *history, double after, double until,
                       struct arena *arena, struct event_line_list *list)
{
    const struct job_filter filter = {
        .since = after, .until = until, .uid = INT_UNKNOWN, .limit = EVENTS_BEFORE};
    struct job_list jobs;

    int r = store_read_jobs(history->frames.store, &filter, arena, &jobs);
    for (size_t i = 0; r == 0 && i < jobs.count; i++) {
        if (is_within(jobs.items[i].started_at, after, until))
            r = VEC_PUSH(list, event_line_of_job(&jobs.items[i], false));
        if (r == 0 && is_within(jobs.items[i].ended_at, after, until))
            r = VEC_PUSH(list, event_line_of_job(&jobs.items[i], true));
    }
    return r;
}

static int gather_gaps(struct history_feed *history, double after, double until,
                       struct arena *arena, struct event_line_list *list)
{
    struct gap_list gaps;

    int r = store_read_gaps(history->frames.store, NULL, after, until, arena, &gaps);
    for (size_t i = 0; r == 0 && i < gaps.count; i++)
        if (is_within(gaps.items[i].timestamp, after, until))
            r = VEC_PUSH(list, event_line_of_gap(&gaps.items[i]));
    return r;
}

static int gather_events(struct history_feed *history, double after, double until,
                         struct arena *arena, struct event_line_list *list, double *ret_from)
{
    struct event_filter filter = EVENT_FILTER_ALL;
    struct process_event_list events;

    filter.since = after;
    filter.until = until;
    filter.limit = EVENTS_BEFORE;
    int r = store_read_events(history->frames.store, &filter, arena, &events);
    if (r < 0)
        return r;
    /* Skips everything older than the oldest event shown. */
    *ret_from = events.count == EVENTS_BEFORE ? events.items[0].timestamp : after;
    for (size_t i = 0; r == 0 && i < events.count; i++) {
        if (is_within(events.items[i].timestamp, after, until))
            r = VEC_PUSH(list, event_line_of_process(&events.items[i]));
    }
    return r;
}

/* Sends the events after one time and until another, oldest first. */
static int send_events(struct history_feed *history, double after, double until)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct event_line_list list = {0};
    double from = after;

    int r = gather_events(history, after, until, &arena, &list, &from);
    if (r == 0)
        r = gather_jobs(history, from, until, &arena, &list);
    if (r == 0)
        r = gather_gaps(history, from, until, &arena, &list);
    if (r == 0)
        r = gather_anomalies(history, from, until, &list);
    if (r == 0 && list.count)
        qsort(list.items, list.count, sizeof(*list.items), compare_events);
    for (size_t i = 0; r == 0 && i < list.count; i++)
        feed_send_event(history->feed, &list.items[i]);
    VEC_DONE(&list);
    return r;
}

/* ---- positions ---- */

static void send_status(struct history_feed *history)
{
    struct feed_status *status = &history->feed->status;
    double now = history_frames_time_at(&history->frames, history->position);

    status->first = history_frames_time_at(&history->frames, 0);
    status->last = history_frames_time_at(&history->frames, history->frames.marks.count - 1);
    status->position = history->position;
    status->count = history->frames.marks.count;
    status->interval_seconds = history->frames.marks.items[history->position].resolution_seconds;
    status->anomalies = history->frames.anomalies.count;
    status->next_anomalies = 0;
    for (size_t i = 0; i < history->frames.anomalies.count; i++)
        status->next_anomalies += history->frames.anomalies.items[i].timestamp > now;
    feed_send_status(history->feed);
}

/* Puts a read error into the status until a read succeeds (`error` 0). */
static void set_read_error(struct history_feed *history, int error)
{
    struct feed_status *status = &history->feed->status;
    const char *reason = error < 0 ? store_reader_error(history->frames.store) : "";

    snprintf(status->reason, sizeof(status->reason), "%s",
             error < 0 && !*reason ? strerror(-error) : reason);
}

static int send_frame(struct history_feed *history, size_t position, bool is_jump, bool is_past)
{
    const char *job = history->feed->job;
    struct frame frame;

    int r = history_frames_read(&history->frames, position, job[0] ? job : NULL, &frame);
    if (r < 0)
        return r;
    frame.is_jump = is_jump;
    frame.is_past = is_past;
    feed_send_frame(history->feed, &frame);
    return 0;
}

/* Sends the frames from `first` to `position`; all but the last are past frames. Frames deleted by
 * retention are skipped. */
static int send_frames(struct history_feed *history, size_t first, size_t position, bool is_jump)
{
    history->position = position;
    for (size_t i = first; i < position; i++) {
        int r = send_frame(history, i, is_jump, true);
        if (r < 0 && r != -ENOENT)
            return r;
        is_jump &= r < 0;
    }
    return send_frame(history, position, is_jump, false);
}

/* Sends the frame at the position with the frames and events before it. */
static int jump(struct history_feed *history, size_t position)
{
    int r =
        send_frames(history, position > LEAD_FRAMES ? position - LEAD_FRAMES : 0, position, true);
    return r < 0 ? r : send_events(history, 0, history_frames_time_at(&history->frames, position));
}

/* Continues to a later position, with the events in between. */
static int advance(struct history_feed *history, size_t first, size_t position)
{
    double before = history_frames_time_at(&history->frames, history->position);

    int r = send_frames(history, first, position, false);
    return r < 0 ? r
                 : send_events(history, before, history_frames_time_at(&history->frames, position));
}

static void send_result(struct history_feed *history, int r)
{
    set_read_error(history, r == -ENOENT ? 0 : r);
    send_status(history);
}

/* Goes to a position: continues if it is close, else jumps. */
static void show_position(struct history_feed *history, size_t position)
{
    bool is_next = position > history->position && position - history->position <= LEAD_FRAMES;

    send_result(history, is_next ? advance(history, history->position + 1, position)
                                 : jump(history, position));
}

/* ---- playing ---- */

static void schedule_next(struct history_feed *history)
{
    const struct feed_status *status = &history->feed->status;
    size_t next = history->position + 1;

    if (!status->is_playing) {
        alarm_stop(history->alarm);
    } else if (next >= history->frames.marks.count) {
        alarm_set(history->alarm, AT_END_MSEC);
    } else {
        double msec = (history_frames_time_at(&history->frames, next) -
                       history_frames_time_at(&history->frames, history->position)) /
                      status->speed * 1e3;
        alarm_set(history->alarm, (uint64_t)fmin(fmax(msec, WAIT_MIN_MSEC), WAIT_MAX_MSEC));
    }
}

/* The next frame, or a later one at high speed. */
static size_t find_next(const struct history_feed *history)
{
    double until = history_frames_time_at(&history->frames, history->position) +
                   history->feed->status.speed * WAIT_MIN_MSEC / 1e3;
    size_t next = history->position + 1;

    while (next + 1 < history->frames.marks.count &&
           history_frames_time_at(&history->frames, next + 1) <= until)
        next++;
    return next;
}

static void on_alarm(void *context)
{
    struct history_feed *history = context;
    size_t added = 0;

    if (history->position + 1 >= history->frames.marks.count &&
        history_frames_read_marks(&history->frames, &added) == 0 && added)
        history_frames_read_anomalies(&history->frames);
    if (history->position + 1 < history->frames.marks.count) {
        size_t next = find_next(history);
        send_result(history,
                    advance(history, next, next)); /* frames that are too fast to see are skipped */
    }
    schedule_next(history);
}

static void step_by(struct history_feed *history, double amount)
{
    double target = (double)history->position + amount,
           last = (double)history->frames.marks.count - 1;

    show_position(history, (size_t)fmin(fmax(target, 0), last));
}

/* Goes to the first frame in which the next or previous anomaly is open. */
static void show_anomaly(struct history_feed *history, bool is_next)
{
    double now = history_frames_time_at(&history->frames, history->position);
    const struct anomaly *found = NULL;

    for (size_t i = 0; i < history->frames.anomalies.count; i++) {
        const struct anomaly *anomaly = &history->frames.anomalies.items[i];
        if (is_next ? anomaly->timestamp > now && !found
                    : history_frames_find(&history->frames, anomaly->timestamp) < history->position)
            found = anomaly;
    }
    if (found)
        show_position(history, history_frames_find(&history->frames, found->timestamp));
}

static void command(struct feed *feed, const struct feed_command *command)
{
    struct history_feed *history = feed->source_data;
    struct feed_status *status = &feed->status;
    double now = history_frames_time_at(&history->frames, history->position);

    if (command->order == FEED_PLAY_OR_PAUSE)
        status->is_playing = !status->is_playing;
    else if (command->order == FEED_SPEED)
        status->speed = fmin(fmax(status->speed * command->amount, FEED_SPEED_MIN), FEED_SPEED_MAX);
    else
        status->is_playing = false; /* a jump pauses the playback */
    switch (command->order) {
    case FEED_STEP: step_by(history, command->amount); break;
    case FEED_SKIP:
        show_position(history, history_frames_find(&history->frames, now + command->amount));
        break;
    case FEED_SEEK:
        show_position(history, history_frames_find(&history->frames, command->amount));
        break;
    case FEED_ANOMALY: show_anomaly(history, command->amount > 0); break;
    default: send_status(history); break;
    }
    schedule_next(history);
}

/* ---- the source ---- */

static void close_feed(struct feed *feed)
{
    struct history_feed *history = feed->source_data;

    alarm_close(history->alarm);
    history_frames_done(&history->frames);
    free(history);
}

static int open_store(struct history_feed *history, struct feed_error *error)
{
    const char *path = history->feed->options->database_path;
    struct store_error store_error = {""};

    if (!path)
        return feed_fail(error, -ENOENT, "no state directory; set HOME or use --state-dir DIR");
    int r = store_reader_open(path, &history->frames.store, &store_error);
    if (r == -ENOENT)
        return feed_fail(error, r, "no data yet in '%s'; run a job with: sonde run -- CMD", path);
    if (r < 0)
        return feed_fail(error, r, "%s", store_error.text);
    return 0;
}

static int read_all(struct history_feed *history, struct feed_error *error)
{
    size_t count = 0;

    int r = history_frames_read_marks(&history->frames, &count);
    if (r == 0)
        r = history_frames_read_anomalies(&history->frames);
    if (r < 0)
        return feed_fail(error, r, "%s", store_reader_error(history->frames.store));
    if (!count)
        return feed_fail(error, -ENODATA,
                         "no data is stored for that time in '%s'; use an earlier one",
                         history->feed->options->database_path);
    return 0;
}

/* The position of the first frame; if a job is wanted, the start of its latest run. */
static int find_start(struct history_feed *history, size_t *ret, struct feed_error *error)
{
    _cleanup_(arena_done) struct arena arena = {0};
    const char *name = history->feed->job[0] ? history->feed->job : NULL;
    struct job job;

    *ret = 0;
    if (!name)
        return 0;
    int r = store_find_job(history->frames.store, name, &arena, &job);
    if (r == -ENOENT)
        return feed_fail(error, r, "no job named '%s'; 'sonde jobs' lists them", name);
    if (r < 0)
        return feed_fail(error, r, "%s", store_reader_error(history->frames.store));
    if (job.ended_at < history_frames_time_at(&history->frames, 0))
        return feed_fail(error, -ENODATA,
                         "the latest run of '%s' ended before that time; use an earlier one", name);
    if (strcmp(name, job.job_id) != 0) /* JOB~1: only that run */
        snprintf(history->feed->job, sizeof(history->feed->job), "%s", job.run_id);
    *ret = history_frames_find(&history->frames, job.started_at);
    return 0;
}

/* Sends all frames without pauses; the sink may be slow. */
static void send_all_frames(struct history_feed *history, size_t position)
{
    for (; position < history->frames.marks.count; position++) {
        history->position = position;
        int r = send_frame(history, position, false, false);
        set_read_error(history, r == -ENOENT ? 0 : r);
        if (r < 0 && r != -ENOENT)
            break;
    }
    send_status(history);
    history->feed->sink.on_end(history->feed->sink.context);
}

static int open_feed(struct feed *feed, struct feed_error *error)
{
    struct history_feed *history = calloc(1, sizeof(*history));
    size_t start = 0;

    if (!history)
        return -ENOMEM;
    history->feed = feed;
    history->frames.since = feed->options->since;
    feed->source_data = history;
    feed->status.kind = FEED_HISTORY;
    feed->status.speed = FEED_SPEED_DEFAULT;
    feed->status.is_playing = true;
    int r = alarm_new(feed->loop, on_alarm, history, &history->alarm);
    if (r == 0)
        r = open_store(history, error);
    if (r == 0)
        r = read_all(history, error);
    if (r == 0)
        r = find_start(history, &start, error);
    if (r < 0) {
        close_feed(feed);
        return r;
    }
    if (feed->options->is_unpaced) {
        send_all_frames(history, start);
        return 0;
    }
    history->position = SIZE_MAX; /* the first frame is a jump */
    show_position(history, start);
    schedule_next(history);
    return 0;
}

const struct feed_source feed_history_source = {
    .open = open_feed, .close = close_feed, .command = command};
