/* A collector for use without a daemon: all processes, jobs found by the configured rules, and the
 * runs of `sonde run` that write to the same database. Stores nothing. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/vec.h"
#include "client/feed-source.h"
#include "client/foreign-runs.h"
#include "engine/engine.h"
#include "loop/alarm.h"

/* Delay of the second reading, so that CPU rates are known soon. */
#define SECOND_READING_MSEC 250
/* Events are shown after at most this time, whatever the interval is. */
#define FLUSH_AFTER_MS 500

struct local_feed {
    struct feed *feed;
    struct registry *registry;
    struct rules *rules;
    struct engine *engine;
    struct foreign_runs foreign;
    struct alarm *alarm; /* for the second reading, and to search for runs of other writers */
    bool has_rates;      /* the second reading was taken */
};

static void send_events(struct local_feed *local, const struct tick *tick)
{
    for (size_t i = 0; i < tick->events.count; i++) {
        const struct event_line line = event_line_of_process(&tick->events.items[i]);
        feed_send_event(local->feed, &line);
    }
    for (size_t i = 0; i < tick->gaps.count; i++) {
        struct event_line line = event_line_of_gap(&tick->gaps.items[i]);
        feed_send_event(local->feed, &line);
    }
    for (size_t i = 0; i < tick->anomalies.count; i++) {
        const struct anomaly *anomaly = &tick->anomalies.items[i];
        bool is_cleared = real_is_known(anomaly->cleared_at);
        struct event_line line = event_line_of_anomaly(anomaly, is_cleared);
        if (is_cleared || anomaly->is_opening)
            feed_send_event(local->feed, &line);
    }
}

static void send_frame(struct local_feed *local, const struct snapshot *snapshot)
{
    struct frame frame = {.snapshot = snapshot, .open_anomalies = 0};
    const struct detector *detector = local->engine ? engine_detector(local->engine) : NULL;

    if (detector) {
        frame.open_anomalies = (int64_t)detector_open_count(detector);
        if (detector_list_open(detector, &frame.arena, &frame.anomalies) < 0)
            frame.anomalies = (struct anomaly_list){0};
    }
    feed_send_frame(local->feed, &frame);
}

static void on_tick(void *context, struct tick_box *box)
{
    _cleanup_(tick_box_freep) struct tick_box *whole = box;
    struct local_feed *local = context;

    send_events(local, &whole->tick);
    if (!whole->tick.snapshot)
        return;
    send_frame(local, TAKE_PTR(whole->tick.snapshot));
}

static void on_collection(void *context, int error)
{
    struct local_feed *local = context;
    struct feed_status *status = &local->feed->status;

    status->is_down = error < 0;
    status->down_since = ns_to_sec(clock_real_ns());
    snprintf(status->reason, sizeof(status->reason), "%s", error ? collector_strerror(error) : "");
    feed_send_status(local->feed);
}

static void on_run_over(void *context, struct run *run)
{
    struct local_feed *local = context;
    engine_end_run(local->engine, run);
}

static void on_job(void *context, const struct job *job, bool is_end)
{
    struct local_feed *local = context;
    struct event_line line = event_line_of_job(job, is_end);

    feed_send_event(local->feed, &line);
}

/* on_collection() reports a failed collection. */
static void on_alarm(void *context)
{
    struct local_feed *local = context;
    bool has_changed = foreign_runs_update(&local->foreign, local->engine, local->registry);

    if (has_changed || !local->has_rates)
        engine_collect(local->engine);
    local->has_rates = true;
    alarm_set(local->alarm, FOREIGN_RUNS_EVERY_MSEC);
}

/* A viewer shows all processes and does not slow them down: it samples system calls, and neither
 * counts nor traces them. */
static struct engine_settings make_settings(const struct local_feed *local)
{
    const struct feed_options *wanted = local->feed->options;
    struct engine_settings settings = engine_settings_of(wanted->config, local->rules);

    settings.interval_ns = wanted->interval_ns;
    settings.scope = SCOPE_ALL;
    settings.only_job = local->feed->job[0] ? local->feed->job : NULL;
    settings.syscalls = SYSCALLS_CHOICE_AUTO;
    settings.traces_members = false;
    return settings;
}

static int start_engine(struct local_feed *local)
{
    struct engine_options options = {
        .settings = make_settings(local),
        .registry = local->registry,
        .wants_events = true,
        .flush_after_ms = FLUSH_AFTER_MS,
        .on_tick = on_tick,
        .on_collection = on_collection,
        .on_run_over = on_run_over,
        .context = local,
    };

    /* Without the connector, forks and exits are found by scanning. */
    if (connector_open(&options.connector) < 0)
        options.connector = NULL;
    return engine_start(local->feed->loop, &options, &local->engine);
}

static void close_feed(struct feed *feed)
{
    struct local_feed *local = feed->source_data;

    alarm_close(local->alarm);
    engine_close(local->engine);
    foreign_runs_done(&local->foreign);
    rules_free(local->rules);
    registry_free(local->registry);
    free(local);
}

static int open_feed(struct feed *feed, struct feed_error *error)
{
    struct local_feed *local = calloc(1, sizeof(*local));

    if (!local)
        return -ENOMEM;
    local->feed = feed;
    feed->source_data = local;
    feed->status.kind = FEED_LOCAL;
    feed->status.interval_seconds = ns_to_sec(feed->options->interval_ns);
    foreign_runs_init(&local->foreign, feed->options->database_path);
    local->foreign.on_job = on_job;
    local->foreign.context = local;
    int r = alarm_new(feed->loop, on_alarm, local, &local->alarm);
    if (r == 0)
        r = registry_new(&local->registry);
    if (r == 0)
        r = rules_new(&feed->options->config->jobs.rules, &local->rules);
    feed_send_status(feed);
    if (r == 0 && (r = start_engine(local)) < 0)
        feed_fail(error, r, "cannot read the processes: %s", collector_strerror(r));
    if (r < 0) {
        close_feed(feed);
        return r;
    }
    alarm_set(local->alarm, SECOND_READING_MSEC);
    return 0;
}

const struct feed_source feed_local_source = {.open = open_feed, .close = close_feed};
