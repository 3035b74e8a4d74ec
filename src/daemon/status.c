#include "daemon/status.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/macros.h"
#include "daemon/daemon-state.h"
#include "daemon/periodic-analysis.h"
#include "daemon/server.h"

/* ---- exactness ---- */

/* A list with a fixed capacity; `error` is set without memory for a text. */
struct text_listing {
    struct text_list *list;
    struct arena *arena;
    int error;
};

#define LISTED_MAX 12

static int text_listing_begin(struct text_listing *listing, struct arena *arena,
                              struct text_list *list)
{
    *listing = (struct text_listing){.list = list, .arena = arena};
    list->items = arena_alloc(arena, LISTED_MAX * sizeof(*list->items));
    return list->items ? 0 : -ENOMEM;
}

static void list_text(struct text_listing *listing, const char *text)
{
    if (listing->list->count < LISTED_MAX)
        listing->list->items[listing->list->count++] = text;
}

static void list_reason(struct text_listing *listing, const char *text, const char *reason)
{
    char description[384];

    snprintf(description, sizeof(description), "%s (%s)", text, reason);
    const char *copy = arena_strdup(listing->arena, description);
    if (copy)
        list_text(listing, copy);
    else
        listing->error = -ENOMEM;
}

static bool has_part(const struct daemon *daemon, enum kernel_part part)
{
    return daemon->kernel && kernel_probe_has(daemon->kernel, part);
}

/* Why the kernel collector is not used, or which parts of it are missing; "": none is. */
static const char *why_not(const struct daemon *daemon)
{
    return daemon->kernel ? kernel_probe_missing_parts(daemon->kernel) : daemon->refusal.text;
}

static void list_lifecycle(const struct daemon *daemon, struct text_listing *exact,
                           struct text_listing *not_exact)
{
    if (engine_has_events(daemon->engine))
        list_text(exact, "forks and exits of job processes, however short-lived");
    else
        list_reason(not_exact,
                    "forks and exits: found by scanning once per interval, because the kernel does "
                    "not report them",
                    strerror(-daemon->connector_error));
    if (has_part(daemon, KERNEL_PART_FINAL_CPU)) {
        list_text(exact, "CPU time and peak memory of every job process that has ended");
        list_text(exact, "CPU time of runs, as of the snapshot after their last process");
    } else {
        list_text(exact, "CPU time and peak memory of runs under `sonde run`");
        list_text(not_exact, "CPU time of other runs, and of each process: sampled");
    }
}

static void list_signals(const struct daemon *daemon, struct text_listing *exact,
                         struct text_listing *not_exact)
{
    if (has_part(daemon, KERNEL_PART_SIGNALS))
        list_text(exact, "signals to job processes, with their senders");
    else
        list_text(not_exact, "senders of signals: only those that pass through `sonde run`");
    if (has_part(daemon, KERNEL_PART_OOM))
        list_text(exact, "OOM kills");
    else
        list_text(not_exact, "OOM kills: seen as SIGKILL");
}

static void list_syscalls(const struct daemon *daemon, struct text_listing *exact,
                          struct text_listing *not_exact)
{
    enum syscalls_choice choice = daemon->config->syscalls;
    bool is_counted = choice == SYSCALLS_CHOICE_BPF && has_part(daemon, KERNEL_PART_CALL_COUNTS);

    if (is_counted)
        list_text(exact, "system calls of runs: each one counted from their registration on");
    else if (choice == SYSCALLS_CHOICE_OFF)
        list_text(not_exact, "system calls: not sampled (profiler.syscalls is off)");
    else if (choice == SYSCALLS_CHOICE_STRACE && !tracing_program(engine_tracing(daemon->engine)))
        list_text(not_exact, "system calls: not sampled (strace is not installed)");
    else if (choice == SYSCALLS_CHOICE_STRACE)
        list_text(not_exact, "system calls of runs: counted by strace, once it has attached");
    else if (has_part(daemon, KERNEL_PART_CALL_SAMPLES))
        list_text(not_exact, "system calls of runs: sampled once per interval");
    else
        list_text(not_exact, "system calls of runs: sampled once per interval from /proc, which "
                             "shows only waiting threads");
}

static int fill_exactness(const struct daemon *daemon, struct arena *arena,
                          struct daemon_status *status)
{
    struct text_listing exact, not_exact;

    int r = text_listing_begin(&exact, arena, &status->exact);
    if (r == 0)
        r = text_listing_begin(&not_exact, arena, &status->not_exact);
    if (r < 0)
        return r;
    list_lifecycle(daemon, &exact, &not_exact);
    list_signals(daemon, &exact, &not_exact);
    list_text(&not_exact, "sums of memory: sampled once per interval");
    list_syscalls(daemon, &exact, &not_exact);
    return not_exact.error;
}

static int fill_collector(const struct daemon *daemon, struct arena *arena,
                          struct daemon_status *status)
{
    const char *events =
        has_part(daemon, KERNEL_PART_EVENTS) ? "BPF programs in the kernel report forks and exits"
        : engine_has_events(daemon->engine)  ? "the process connector reports forks and exits"
                                             : "forks and exits are found by scanning";
    char description[384];

    status->collector = engine_collector(daemon->engine);
    if (!has_part(daemon, KERNEL_PART_PROCESSES))
        snprintf(description, sizeof(description), "no kernel collector: %s; %s", why_not(daemon),
                 events);
    else if (why_not(daemon)[0])
        snprintf(description, sizeof(description),
                 "BPF programs in the kernel report every process; %s; %s", why_not(daemon),
                 events);
    else
        snprintf(description, sizeof(description),
                 "BPF programs in the kernel report every process");
    status->collector_reason = arena_strdup(arena, description);
    return status->collector_reason ? 0 : -ENOMEM;
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
        .skipped_readings = (int64_t)counts->skipped_run_readings,
        .snapshots_not_stored = (int64_t)store->dropped,
        .events_not_stored = (int64_t)store->events_lost,
        .stream_events_dropped = (int64_t)drops.events,
        .stream_bytes_dropped = (int64_t)drops.bytes,
        .subscribers_disabled = drops.is_disabled,
        .connections_refused = (int64_t)server_refused_count(daemon->server),
    };
}

static int fill_analysis(const struct daemon *daemon, struct arena *arena,
                         struct daemon_status *status)
{
    struct periodic_analysis_counts counts;

    periodic_analysis_counts(daemon->analysis, &counts);
    status->last_analysis_at = counts.last_at;
    if (counts.last_error)
        status->analysis_error = arena_strdup(arena, counts.last_error);
    return !counts.last_error || status->analysis_error ? 0 : -ENOMEM;
}

static int fill_gpus(const struct daemon *daemon, struct arena *arena, struct daemon_status *status)
{
    char description[GPU_TEXT_SIZE];

    engine_describe_gpus(daemon->engine, description);
    status->gpu = arena_strdup(arena, description);
    return status->gpu ? 0 : -ENOMEM;
}

static int64_t count_active_sheets(const struct daemon *daemon)
{
    const struct run *run = NULL;
    int64_t count = 0;

    while ((run = registry_next_run(daemon->registry, run)))
        count += (int64_t)run->active_sheets;
    return count;
}

static int fill_store(struct daemon *daemon, struct arena *arena, struct daemon_status *status)
{
    struct store_report store = {.error = ""};

    if (daemon->writer)
        store_writer_report(daemon->writer, &store);
    fill_losses(daemon, &store, &status->losses);
    status->database = daemon->config->storage_path;
    status->jsonl = *daemon->config->jsonl_path ? daemon->config->jsonl_path : NULL;
    if (!store.error[0])
        return 0;
    status->database_error = arena_strdup(arena, store.error);
    return status->database_error ? 0 : -ENOMEM;
}

/* The path of strace, its use and its last error. */
static void describe_strace(struct daemon *daemon, struct text *out)
{
    struct tracing *tracing = engine_tracing(daemon->engine);
    const char *program = tracing_program(tracing), *description;
    uint64_t failures = tracing_failures(tracing, &description);

    text_append_string(out, program ? program : "not installed, or not where only root can write");
    if (program && config_traces_members(daemon->config))
        text_append_string(out, ", attached to every new process of a job");
    else if (program)
        text_append_string(out, ", on demand");
    if (failures)
        text_printf(out, "; %llu processes could not be traced: %s", (unsigned long long)failures,
                    description);
}

static int fill_tracers(struct daemon *daemon, struct arena *arena, struct daemon_status *status)
{
    _cleanup_text_ struct text description = {0};
    pid_t pids[TRACERS_MAX];
    size_t count = tracing_pids(engine_tracing(daemon->engine), pids);
    int64_t *items = arena_alloc(arena, (count + 1) * sizeof(*items));

    describe_strace(daemon, &description);
    status->strace =
        text_error(&description) == 0 ? arena_strdup(arena, text_string(&description)) : NULL;
    if (!items || !status->strace)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++)
        items[i] = pids[i];
    status->tracer_pids = (struct int_list){.items = items, .count = count};
    return 0;
}

int status_fill(struct daemon *daemon, struct arena *arena, struct daemon_status *ret)
{
    const struct config *config = daemon->config;

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
    ret->connections = (int64_t)server_connection_count(daemon->server);
    ret->subscribers = (int64_t)bus_subscriber_count(daemon->bus);
    ret->running_jobs = (int64_t)registry_run_count(daemon->registry);
    ret->active_sheets = count_active_sheets(daemon);
    ret->open_anomalies = (int64_t)detector_open_count(engine_detector(daemon->engine));
    ret->snapshots = (int64_t)engine_counts(daemon->engine)->collected;
    fill_snapshot(daemon, ret);
    int r = fill_collector(daemon, arena, ret);
    if (r == 0)
        r = fill_gpus(daemon, arena, ret);
    if (r == 0)
        r = fill_tracers(daemon, arena, ret);
    if (r == 0)
        r = fill_exactness(daemon, arena, ret);
    if (r == 0)
        r = fill_store(daemon, arena, ret);
    if (r == 0)
        r = fill_analysis(daemon, arena, ret);
    return r < 0 ? r : fill_gaps(daemon, arena, &ret->gaps);
}
