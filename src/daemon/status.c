#include "daemon/status.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/macros.h"
#include "daemon/manager.h"
#include "daemon/server.h"

/* ---- what is exact ---- */

static const char *const exact_with_events[] = {
    "births and ends of job processes, however short-lived",
    "CPU time and peak memory of runs under `sonde run`",
};
static const char *const exact_without_events[] = {
    "CPU time and peak memory of runs under `sonde run`",
};
static const char *const not_exact_always[] = {
    "sums of memory: sampled once an interval",
    "senders of signals: only those that pass through `sonde run`",
    "system calls: not watched",
};

static int fill_exactness(const struct daemon *daemon, struct arena *arena,
                          struct daemon_status *status)
{
    bool has_events = engine_has_events(daemon->engine);
    const char *const *exact = has_events ? exact_with_events : exact_without_events;
    size_t count = has_events ? ARRAY_SIZE(exact_with_events) : ARRAY_SIZE(exact_without_events);
    size_t always = ARRAY_SIZE(not_exact_always);
    struct text_list *not_exact = &status->not_exact;
    char text[256];

    status->exact.items = arena_alloc(arena, count * sizeof(*status->exact.items));
    not_exact->items = arena_alloc(arena, (always + 1) * sizeof(*not_exact->items));
    if (!status->exact.items || !not_exact->items)
        return -ENOMEM;
    memcpy(status->exact.items, exact, count * sizeof(*exact));
    status->exact.count = count;
    memcpy(not_exact->items, not_exact_always, always * sizeof(*not_exact->items));
    not_exact->count = always;
    if (has_events)
        return 0;
    snprintf(text, sizeof(text),
             "births and ends: looked for once an interval, because the kernel does not tell (%s)",
             strerror(-daemon->connector_error));
    not_exact->items[not_exact->count] = arena_strdup(arena, text);
    return not_exact->items[not_exact->count++] ? 0 : -ENOMEM;
}

/* ---- the rest ---- */

static int fill_gaps(const struct daemon *daemon, struct arena *arena, struct gap_list *ret)
{
    const struct gap *gap;

    ret->items = arena_alloc(arena, LIVE_GAPS_MAX * sizeof(*ret->items));
    if (!ret->items)
        return -ENOMEM;
    while ((gap = live_gap_at(&daemon->live, ret->count)))
        ret->items[ret->count++] = *gap;
    return 0;
}

static void fill_snapshot(const struct daemon *daemon, struct daemon_status *status)
{
    const struct snapshot *latest = daemon->live.latest;

    if (!latest)
        return;
    status->last_snapshot_at = latest->timestamp;
    status->pressure_level = latest->pressure_level;
    status->rss_mb = latest->daemon_rss_mb;
    status->cpu_percent = latest->daemon_cpu_percent;
    status->collect_ms = latest->collect_ms;
}

static void fill_losses(const struct daemon *daemon, const struct store_report *store,
                        struct daemon_losses *losses)
{
    const struct engine_counts *counts = engine_counts(daemon->engine);
    struct bus_drops drops = bus_drops(daemon->bus);

    *losses = (struct daemon_losses){
        .failed_collections = (int64_t)counts->failed,
        .failed_detections = (int64_t)counts->failed_detections,
        .missed_ticks = (int64_t)counts->missed_ticks,
        .lost_event_batches = (int64_t)counts->event_losses,
        .snapshots_not_stored = (int64_t)store->dropped,
        .events_not_stored = (int64_t)store->events_lost,
        .stream_events_dropped = (int64_t)drops.events,
        .stream_bytes_dropped = (int64_t)drops.bytes,
        .subscribers_disabled = drops.is_disabled,
        .connections_refused = (int64_t)server_refused_count(daemon->server),
    };
}

static int64_t count_active_sheets(const struct daemon *daemon)
{
    const struct run *run = NULL;
    int64_t count = 0;

    while ((run = registry_next_run(daemon->registry, run)))
        count += (int64_t)run->sheets.count;
    return count;
}

static int fill_store(struct daemon *daemon, struct arena *arena, struct daemon_status *status)
{
    struct store_report store = {.error = ""};

    if (daemon->writer)
        store_writer_ask(daemon->writer, &store);
    fill_losses(daemon, &store, &status->losses);
    status->database = daemon->config->storage_path;
    status->jsonl = *daemon->config->jsonl_path ? daemon->config->jsonl_path : NULL;
    if (!store.error[0])
        return 0;
    status->database_error = arena_strdup(arena, store.error);
    return status->database_error ? 0 : -ENOMEM;
}

int status_fill(struct daemon *daemon, struct arena *arena, struct daemon_status *ret)
{
    const struct config *config = daemon->config;
    bool has_events = engine_has_events(daemon->engine);

    record_init(&daemon_status_record, ret);
    ret->version = SONDE_VERSION;
    ret->pid = getpid();
    ret->started_at = ns_to_sec(daemon->started.real_ns);
    ret->uptime_seconds = ns_to_sec(clock_mono_ns() - daemon->started.mono_ns);
    ret->host = daemon->host;
    ret->socket = daemon->options->socket_path;
    ret->config_file = config->file;
    ret->interval_seconds = config->interval_seconds;
    ret->scope = config->scope == SCOPE_ALL ? "all" : "jobs";
    ret->collector = "procfs";
    ret->collector_reason = has_events ? "with the process connector for births and ends"
                                       : "alone: births and ends are looked for";
    ret->strace = "not used by this version";
    ret->gpu = "not used by this version";
    ret->connections = (int64_t)server_connection_count(daemon->server);
    ret->subscribers = (int64_t)bus_subscriber_count(daemon->bus);
    ret->running_jobs = (int64_t)registry_run_count(daemon->registry);
    ret->active_sheets = count_active_sheets(daemon);
    ret->open_anomalies = (int64_t)detector_open_count(engine_detector(daemon->engine));
    ret->snapshots = (int64_t)engine_counts(daemon->engine)->collected;
    fill_snapshot(daemon, ret);
    int r = fill_exactness(daemon, arena, ret);
    if (r == 0)
        r = fill_store(daemon, arena, ret);
    return r < 0 ? r : fill_gaps(daemon, arena, &ret->gaps);
}
