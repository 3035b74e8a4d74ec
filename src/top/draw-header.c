#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/human.h"
#include "model/field-format.h"
#include "report/figures.h"
#include "top/draw.h"

/* From this width on, text fits beside the bars. */
#define BESIDE_COLUMNS 70

/* ---- the title ---- */

static void append_figure(struct text *out, const struct record *record, const char *name,
                          const void *object)
{
    field_format(record_find(record, name), object, SIZE_MAX, out);
}

/* "12 s", "2:14:09", without fractions. */
static void append_duration(struct text *out, double seconds)
{
    const struct snapshot snapshot = {.conductor_uptime_seconds = seconds};

    if (seconds < 60)
        text_printf(out, "%.0f s", floor(fmax(seconds, 0)));
    else
        append_figure(out, &snapshot_record, "conductor_uptime_seconds", &snapshot);
}

static void put_uptime(const struct screen *screen, struct canvas *canvas, unsigned row)
{
    _cleanup_text_ struct text uptime = {0};
    double seconds =
        screen->frame ? screen->frame->snapshot->conductor_uptime_seconds : REAL_UNKNOWN;

    if (!real_is_known(seconds))
        return;
    append_duration(&uptime, seconds);
    row_printf(canvas, row, LOOK_PLAIN, ", up %s", text_string(&uptime));
}

static void put_host(const struct screen *screen, struct canvas *canvas, unsigned row)
{
    const char *host = screen->frame ? screen->frame->snapshot->host : NULL;

    if (!host)
        return;
    row_put(canvas, row, LOOK_PLAIN, row_width(canvas, row) > strlen("sonde ") ? " on " : "on ");
    row_visible(canvas, row, LOOK_BOLD, host, 24);
}

static void put_live(const struct screen *screen, struct canvas *canvas, unsigned row)
{
    const struct feed_status *status = screen->status;
    bool is_daemon = status->kind == FEED_DAEMON;

    row_put(canvas, row, LOOK_PLAIN, is_daemon ? "daemon" : "");
    put_host(screen, canvas, row);
    if (is_daemon)
        put_uptime(screen, canvas, row);
    else
        row_put(canvas, row, LOOK_PLAIN, " (no daemon)");
    if (status->reason[0]) {
        row_put(canvas, row, LOOK_DIM, canvas->glyphs->dot);
        row_visible(canvas, row, LOOK_DOUBTFUL, status->reason, SIZE_MAX);
    }
}

static void put_down(const struct screen *screen, struct canvas *canvas, unsigned row)
{
    const struct feed_status *status = screen->status;
    _cleanup_text_ struct text since = {0};

    append_duration(&since, screen->now - status->down_since);
    row_printf(canvas, row, LOOK_ALARM, " %s down for %s ",
               status->kind == FEED_DAEMON ? "daemon" : "collector", text_string(&since));
    row_put(canvas, row, LOOK_PLAIN, " ");
    row_visible(canvas, row, LOOK_DOUBTFUL, status->reason, SIZE_MAX);
}

/* The position in the stored time. */
static void put_replay(const struct screen *screen, struct canvas *canvas, unsigned row)
{
    const struct feed_status *status = screen->status;
    struct human time;
    char label[48];

    row_printf(canvas, row, status->is_playing ? LOOK_GOOD : LOOK_DOUBTFUL, "%s replay x%g",
               status->is_playing ? canvas->glyphs->playing : canvas->glyphs->paused,
               status->speed);
    put_host(screen, canvas, row);
    if (screen->frame)
        row_printf(canvas, row, LOOK_BOLD, "  %s ",
                   figure_clock(&time, screen->frame->snapshot->timestamp, status->last));
    if (status->reason[0]) {
        row_visible(canvas, row, LOOK_BAD, status->reason, SIZE_MAX);
        return;
    }
    snprintf(label, sizeof(label), "%zu/%zu", status->position + 1, status->count);
    unsigned left = row_left(canvas, row);
    if (left > 24)
        draw_meter(canvas, row, MIN(left - 11, 60U),
                   status->count > 1 ? (double)status->position / (double)(status->count - 1) : 1,
                   LOOK_ACCENT, label);
}

static void put_at_end(struct canvas *canvas, unsigned row, enum look look, const char *label)
{
    unsigned width = (unsigned)strlen(label);

    if (row_left(canvas, row) < width + 2)
        return;
    row_pad(canvas, row, LOOK_PLAIN, canvas->columns - width);
    row_put(canvas, row, look, label);
}

void draw_title(const struct screen *screen, struct canvas *canvas, struct part part)
{
    const struct feed_status *status = screen->status;
    struct human clock;

    if (!part.count)
        return;
    row_put(canvas, part.at, LOOK_ACCENT, "sonde ");
    if (status->is_down)
        put_down(screen, canvas, part.at);
    else if (status->kind == FEED_HISTORY)
        put_replay(screen, canvas, part.at);
    else
        put_live(screen, canvas, part.at);
    if (screen->view->is_paused)
        put_at_end(canvas, part.at, LOOK_ALARM, " PAUSED ");
    else if (screen->frame && status->kind != FEED_HISTORY)
        put_at_end(canvas, part.at, LOOK_PLAIN,
                   figure_clock(&clock, screen->frame->snapshot->timestamp, screen->now));
}

/* ---- meters ---- */

static void put_cpu(const struct snapshot *snapshot, struct canvas *canvas, unsigned row,
                    unsigned width)
{
    double ratio = snapshot->system_cpu_percent / (100 * snapshot->cpu_count);
    char label[48] = "-";

    if (real_is_known(snapshot->system_cpu_percent))
        snprintf(label, sizeof(label), "%.1f%% of %g", snapshot->system_cpu_percent,
                 snapshot->cpu_count);
    row_put(canvas, row, LOOK_ACCENT, "CPU ");
    draw_meter(canvas, row, width - 4, ratio, look_of_ratio(ratio), label);
}

static void put_memory(const struct snapshot *snapshot, struct canvas *canvas, unsigned row,
                       unsigned width)
{
    _cleanup_text_ struct text label = {0};
    double ratio = snapshot->system_memory_used_mb / snapshot->system_memory_total_mb;

    append_figure(&label, &snapshot_record, "system_memory_used_mb", snapshot);
    text_append_char(&label, '/');
    append_figure(&label, &snapshot_record, "system_memory_total_mb", snapshot);
    row_put(canvas, row, LOOK_ACCENT, "Mem ");
    draw_meter(canvas, row, width - 4, ratio, look_of_ratio(ratio), text_string(&label));
}

/* Figures that the driver does not report are omitted, except the utilization. */
static void append_gpu(struct text *label, const struct gpu_metric *gpu)
{
    append_figure(label, &gpu_metric_record, "utilization_pct", gpu);
    if (real_is_known(gpu->utilization_pct))
        text_append_char(label, '%');
    if (real_is_known(gpu->memory_used_mb)) {
        text_append_char(label, ' ');
        append_figure(label, &gpu_metric_record, "memory_used_mb", gpu);
    }
    if (real_is_known(gpu->memory_used_mb) && real_is_known(gpu->memory_total_mb)) {
        text_append_char(label, '/');
        append_figure(label, &gpu_metric_record, "memory_total_mb", gpu);
    }
    if (real_is_known(gpu->temperature_c))
        text_printf(label, " %.0fC", gpu->temperature_c);
    if (real_is_known(gpu->power_w))
        text_printf(label, " %.0fW", gpu->power_w);
}

static void put_gpu(const struct gpu_metric *gpu, struct canvas *canvas, unsigned row,
                    unsigned width)
{
    _cleanup_text_ struct text label = {0};

    append_gpu(&label, gpu);
    row_printf(canvas, row, LOOK_ACCENT, "GPU%-3lld ", (long long)gpu->index);
    draw_meter(canvas, row, width > 7 ? width - 7 : 0, gpu->utilization_pct / 100, LOOK_GOOD,
               text_string(&label));
}

/* "own CPU 0.1%, 19.0M, 0.4 ms per snapshot", shortened to `width`. */
static void put_own_cost(const struct snapshot *snapshot, struct canvas *canvas, unsigned row,
                         unsigned width)
{
    static const char unit[] = " per snapshot";
    _cleanup_text_ struct text label = {0};

    text_append_string(&label, "CPU ");
    append_figure(&label, &snapshot_record, "daemon_cpu_percent", snapshot);
    text_append_string(&label, "%, ");
    append_figure(&label, &snapshot_record, "daemon_rss_mb", snapshot);
    if (real_is_known(snapshot->collect_ms))
        text_printf(&label, ", %.1f ms", snapshot->collect_ms);
    row_put(canvas, row, LOOK_ACCENT, "own ");
    width -= MIN(width, (unsigned)strlen("own "));
    if (real_is_known(snapshot->collect_ms) && label.length + strlen(unit) <= width)
        text_append_string(&label, unit);
    row_visible(canvas, row, LOOK_DIM, text_string(&label), width);
}

static void put_count(struct canvas *canvas, unsigned row, const char *label, int64_t count,
                      enum look look)
{
    struct human figure;

    row_printf(canvas, row, LOOK_ACCENT, "%s ", label);
    row_printf(canvas, row, look, "%s", figure_count(&figure, count));
    row_put(canvas, row, LOOK_PLAIN, "  ");
}

/* The steps that the jobs report, or those of the processes: without a daemon, only the processes
 * have steps. */
static int64_t count_steps(const struct screen *screen)
{
    int64_t reported = screen->frame->snapshot->active_sheets;
    int64_t listed = (int64_t)screen->listing->steps;

    return listed > reported && listed ? listed : reported;
}

static void put_counts(const struct screen *screen, struct canvas *canvas, unsigned row)
{
    const struct snapshot *snapshot = screen->frame->snapshot;
    size_t shown = screen->listing->shown_processes;
    struct human figure, of_shown;

    put_count(canvas, row, "Jobs", snapshot->running_jobs, LOOK_BOLD);
    put_count(canvas, row, "Steps", count_steps(screen), LOOK_BOLD);
    row_put(canvas, row, LOOK_ACCENT, "Processes ");
    if (int_is_known(snapshot->process_total) && (size_t)snapshot->process_total != shown)
        row_printf(canvas, row, LOOK_BOLD, "%s of ", figure_count(&of_shown, (int64_t)shown));
    row_printf(canvas, row, LOOK_BOLD, "%s  ",
               figure_count(&figure, int_is_known(snapshot->process_total)
                                         ? snapshot->process_total
                                         : (int64_t)snapshot->processes.count));
    if (snapshot->zombie_count > 0)
        put_count(canvas, row, "Zombies", snapshot->zombie_count, LOOK_DOUBTFUL);
}

static void put_share(struct canvas *canvas, unsigned row, const char *label, double percent)
{
    row_printf(canvas, row, LOOK_DIM, " %s ", label);
    if (real_is_known(percent))
        row_printf(canvas, row,
                   percent >= 25   ? LOOK_BAD
                   : percent >= 10 ? LOOK_DOUBTFUL
                                   : LOOK_PLAIN,
                   "%.0f%%", percent);
    else
        row_put(canvas, row, LOOK_PLAIN, "-");
}

static void put_load(const struct snapshot *snapshot, struct canvas *canvas, unsigned row)
{
    const double loads[] = {snapshot->load_avg_1, snapshot->load_avg_5, snapshot->load_avg_15};

    size_t shown = row_left(canvas, row) >= 50 ? ARRAY_SIZE(loads) : 1;

    row_put(canvas, row, LOOK_ACCENT, "Load");
    for (size_t i = 0; i < shown; i++)
        if (real_is_known(loads[i]))
            row_printf(canvas, row, i ? LOOK_PLAIN : LOOK_BOLD, " %.2f", loads[i]);
        else
            row_put(canvas, row, LOOK_PLAIN, " -");
    row_put(canvas, row, LOOK_ACCENT, "  Stalled");
    put_share(canvas, row, "cpu", snapshot->psi.cpu.some_avg10);
    put_share(canvas, row, "mem", snapshot->psi.memory.some_avg10);
    put_share(canvas, row, "io", snapshot->psi.io.some_avg10);
}

static const struct anomaly *find_worst(const struct anomaly_list *anomalies)
{
    const struct anomaly *worst = NULL;

    for (size_t i = 0; i < anomalies->count; i++)
        if (!worst || anomalies->items[i].severity > worst->severity)
            worst = &anomalies->items[i];
    return worst;
}

static void put_pressure(const struct screen *screen, struct canvas *canvas, unsigned row)
{
    const struct frame *frame = screen->frame;
    const struct field *field = record_find(&snapshot_record, "pressure_level");
    const char *level = field_enum_name(field, frame->snapshot->pressure_level);
    const struct anomaly *worst = find_worst(&frame->anomalies);
    enum look look = frame->snapshot->pressure_level >= PRESSURE_HIGH     ? LOOK_BAD
                     : frame->snapshot->pressure_level >= PRESSURE_MEDIUM ? LOOK_DOUBTFUL
                                                                          : LOOK_GOOD;

    row_put(canvas, row, LOOK_ACCENT, "Pressure ");
    row_printf(canvas, row, level ? look : LOOK_PLAIN, "%s  ", level ? level : "-");
    put_count(canvas, row, "Anomalies", frame->open_anomalies,
              frame->open_anomalies > 0 ? LOOK_BAD : LOOK_GOOD);
    if (worst) {
        row_visible(canvas, row, look_of_severity(worst->severity), worst->anomaly_type, SIZE_MAX);
        if (worst->job_id) {
            row_put(canvas, row, LOOK_PLAIN, " in ");
            row_visible(canvas, row, LOOK_JOB, worst->job_id, SIZE_MAX);
        }
    }
}

static void put_left(const struct screen *screen, struct canvas *canvas, unsigned row, unsigned n,
                     unsigned width)
{
    const struct snapshot *snapshot = screen->frame->snapshot;
    const struct gpu_list *gpus = &snapshot->gpus;

    if (n == 0)
        put_cpu(snapshot, canvas, row, width);
    else if (n == 1)
        put_memory(snapshot, canvas, row, width);
    else if (n - 2 < gpus->count)
        put_gpu(&gpus->items[n - 2], canvas, row, width);
    else if (n == 2 && canvas->columns < BESIDE_COLUMNS) /* no room beside the bars */
        put_pressure(screen, canvas, row);
    else if (n == 2)
        put_own_cost(snapshot, canvas, row, width);
}

void draw_meters(const struct screen *screen, struct canvas *canvas, struct part part)
{
    static void (*const texts[])(const struct screen *, struct canvas *,
                                 unsigned) = {put_counts, NULL, put_pressure};
    /* On a wide screen, bars stay short enough to read at a glance. */
    unsigned width =
        canvas->columns >= BESIDE_COLUMNS ? MIN(canvas->columns / 2 - 2, 60U) : canvas->columns;

    if (!screen->frame) {
        if (part.count)
            row_put(canvas, part.at, LOOK_DIM, "waiting for the first snapshot");
        return;
    }
    for (unsigned i = 0; i < part.count; i++) {
        unsigned row = part.at + i;
        put_left(screen, canvas, row, i, width);
        if (canvas->columns < BESIDE_COLUMNS)
            continue;
        row_pad(canvas, row, LOOK_PLAIN, width + 2);
        if (i == 1)
            put_load(screen->frame->snapshot, canvas, row);
        else if (i < ARRAY_SIZE(texts))
            texts[i](screen, canvas, row);
    }
}
