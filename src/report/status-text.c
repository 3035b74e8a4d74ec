#include "report/status-text.h"

#include "model/snapshot.h"
#include "report/event-table.h"
#include "report/figures.h"

#define INDENT 2
/* The latest gaps show whether the daemon works now. */
#define GAPS_SHOWN 5
/* The daemon is late if the last snapshot is this many intervals old. */
#define INTERVALS_LATE 3

/* "1 job", "3 jobs". */
static void append_count(int64_t count, const char *noun, const char *plural, struct text *out)
{
    struct human figure;

    text_printf(out, "%s %s", figure_count(&figure, count), count == 1 ? noun : plural);
}

/* ---- identity ---- */

static void append_head(const struct daemon_status *status, const struct report_style *style,
                        struct text *out)
{
    struct human pid, uptime;

    style_tinted(style, TINT_BOLD, "daemon", out);
    text_append_string(out, ": ");
    style_tinted(style, TINT_GOOD, "running", out);
    text_printf(out, " for %s, pid %s, version ", figure_duration(&uptime, status->uptime_seconds),
                figure_pid(&pid, status->pid));
    style_visible(status->version, out);
    if (status->host) {
        text_append_string(out, ", on ");
        style_visible(status->host, out);
    }
    text_append_char(out, '\n');
    style_line("socket", status->socket, out);
    style_line("config", status->config_file ? status->config_file : "built-in defaults", out);
}

/* ---- collector and state ---- */

/* One line each, because the items are long. */
static void append_list(const char *label, const struct text_list *list, struct text *out)
{
    for (size_t i = 0; i < list->count; i++)
        style_line(i ? "" : label, list->items[i], out);
}

static void append_collector(const struct daemon_status *status, struct text *out)
{
    struct human interval;

    style_label("collector", out);
    style_visible(status->collector, out);
    text_printf(out, ", every %s", figure_duration(&interval, status->interval_seconds));
    if (status->scope) {
        text_append_string(out, ", scope ");
        style_visible(status->scope, out);
    }
    text_append_char(out, '\n');
    style_line("because", status->collector_reason, out);
    append_list("exact", &status->exact, out);
    append_list("not exact", &status->not_exact, out);
    style_line("strace", status->strace, out);
    style_line("GPU", status->gpu, out);
    if (status->tracer_pids.count) {
        style_label("tracers", out);
        for (size_t i = 0; i < status->tracer_pids.count; i++)
            text_printf(out, "%spid %lld", i ? ", " : "", (long long)status->tracer_pids.items[i]);
        text_append_char(out, '\n');
    }
}

static enum tint pressure_tint(int level)
{
    if (level >= PRESSURE_HIGH)
        return TINT_BAD;
    return level == PRESSURE_NONE ? TINT_GOOD : TINT_DOUBTFUL;
}

static void append_state(const struct daemon_status *status, const struct report_style *style,
                         struct text *out)
{
    const struct field *field = record_find(&daemon_status_record, "pressure_level");
    const char *level = field_enum_name(field, status->pressure_level);

    style_label("jobs", out);
    append_count(status->running_jobs, "running", "running", out);
    if (status->active_sheets > 0) {
        text_append_string(out, ", ");
        append_count(status->active_sheets, "step active", "steps active", out);
    }
    text_append_char(out, '\n');
    style_label("anomalies", out);
    style_begin(style, status->open_anomalies > 0 ? TINT_DOUBTFUL : TINT_NONE, out);
    append_count(status->open_anomalies, "open", "open", out);
    style_end(style, status->open_anomalies > 0 ? TINT_DOUBTFUL : TINT_NONE, out);
    text_append_char(out, '\n');
    style_label("pressure", out);
    style_tinted(style, pressure_tint(status->pressure_level), level, out);
    text_append_char(out, '\n');
}

/* ---- cost and storage ---- */

static void append_cost(const struct daemon_status *status, struct text *out)
{
    struct human cpu, memory, collect;

    style_label("cost", out);
    text_printf(out, "CPU %s, %s memory, %s per snapshot\n",
                figure_percent(&cpu, status->cpu_percent), human_mb(&memory, status->rss_mb),
                figure_duration(&collect, status->collect_ms / 1000));
}

static void append_snapshots(const struct daemon_status *status, double now,
                             const struct report_style *style, struct text *out)
{
    struct human count, last;
    bool is_late = status->interval_seconds > 0 &&
                   now - status->last_snapshot_at > INTERVALS_LATE * status->interval_seconds + 1;

    style_label("snapshots", out);
    text_append_string(out, figure_count(&count, status->snapshots));
    if (real_is_known(status->last_snapshot_at)) {
        text_append_string(out, ", the last at ");
        style_tinted(style, is_late ? TINT_BAD : TINT_NONE,
                     figure_clock(&last, status->last_snapshot_at, now), out);
    }
    text_append_char(out, '\n');
}

static void append_analysis(const struct daemon_status *status, double now,
                            const struct report_style *style, struct text *out)
{
    struct human last;

    if (status->analysis_error) {
        style_label("NO ANALYSIS", out);
        style_tinted(style, TINT_BAD, status->analysis_error, out);
        text_append_char(out, '\n');
    } else if (real_is_known(status->last_analysis_at)) {
        style_line("analysis", figure_clock(&last, status->last_analysis_at, now), out);
    }
}

static void append_store(const struct daemon_status *status, const struct report_style *style,
                         struct text *out)
{
    style_line("database", status->database ? status->database : "none: nothing is stored", out);
    if (status->database_error) {
        style_label("NOT STORED", out);
        style_tinted(style, TINT_BAD, status->database_error, out);
        text_append_char(out, '\n');
    }
    if (status->jsonl && *status->jsonl)
        style_line("log", status->jsonl, out);
    style_label("clients", out);
    append_count(status->connections, "connection", "connections", out);
    if (status->subscribers > 0) {
        text_append_string(out, ", ");
        append_count(status->subscribers, "stream", "streams", out);
    }
    text_append_char(out, '\n');
}

/* ---- losses ---- */

/* Lists only counts above 0. */
static void append_losses(const struct daemon_losses *losses, const struct report_style *style,
                          struct text *out)
{
    const struct {
        int64_t count;
        const char *noun, *plural;
    } parts[] = {
        {losses->failed_collections, "collection failed", "collections failed"},
        {losses->missed_ticks, "tick missed", "ticks missed"},
        {losses->lost_event_batches, "overflow of the kernel's event queue",
         "overflows of the kernel's event queue"},
        {losses->skipped_readings, "last reading of a run skipped",
         "last readings of runs skipped"},
        {losses->snapshots_not_stored, "snapshot not stored", "snapshots not stored"},
        {losses->events_not_stored, "event not stored", "events not stored"},
        {losses->stream_events_dropped, "event dropped for a slow subscriber",
         "events dropped for slow subscribers"},
        {losses->subscribers_disabled, "stream disabled", "streams disabled"},
        {losses->connections_refused, "connection refused", "connections refused"},
    };
    bool is_first = true;

    for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
        if (parts[i].count <= 0)
            continue;
        style_label(is_first ? "LOST" : "", out);
        style_begin(style, TINT_BAD, out);
        append_count(parts[i].count, parts[i].noun, parts[i].plural, out);
        style_end(style, TINT_BAD, out);
        text_append_char(out, '\n');
        is_first = false;
    }
}

static void append_gaps(const struct gap_list *gaps, double now, const struct report_style *style,
                        struct text *out)
{
    const struct event_table_options options = {.day = now, .indent = INDENT};
    const struct gap_list latest = gap_list_latest(gaps, GAPS_SHOWN);

    if (!gaps->count)
        return;
    style_heading(style, "gaps", out);
    text_append_string(out, gaps->count > GAPS_SHOWN ? " (the latest)\n" : "\n");
    gap_table_format(&latest, &options, style, out);
}

int daemon_status_format(const struct daemon_status *status, double now,
                         const struct report_style *style, struct text *out)
{
    size_t start = out->length;

    append_head(status, style, out);
    append_collector(status, out);
    append_state(status, style, out);
    append_cost(status, out);
    append_snapshots(status, now, style, out);
    append_analysis(status, now, style, out);
    append_store(status, style, out);
    append_losses(&status->losses, style, out);
    append_gaps(&status->gaps, now, style, out);
    style_finish(style, start, out);
    return text_error(out);
}
