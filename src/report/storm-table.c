#include "report/storm-table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "report/figures.h"
#include "report/table.h"

#define STORMS_SHOWN 20
/* Ways to fail that are listed per program. */
#define STATUSES_SHOWN 4

struct status {
    int64_t number; /* the signal of a kill, else the exit status */
    bool is_signal;
    int64_t count;
};

struct storm {
    const char *run_id;
    const char *job_id;
    const char *command;
    int64_t spawns;
    int64_t exits; /* including kills */
    int64_t failures;
    int64_t signals;
    struct status statuses[STATUSES_SHOWN]; /* of failures */
    size_t status_count;
    double cpu_seconds;
    bool cpu_is_partial; /* unknown for some processes */
    double peak_rss_mb;
    double first;
    double last;
};

/* Returns the storm of the event's run and program; adds it if it is new. */
static struct storm *get_storm(struct storm *storms, size_t *count,
                               const struct process_event *event)
{
    for (size_t i = 0; i < *count; i++)
        if (text_is_same(storms[i].run_id, event->run_id) &&
            text_is_same(storms[i].command, event->command))
            return &storms[i];
    struct storm *storm = &storms[(*count)++];
    *storm = (struct storm){.run_id = event->run_id,
                            .job_id = event->job_id,
                            .command = event->command,
                            .cpu_seconds = REAL_UNKNOWN,
                            .peak_rss_mb = REAL_UNKNOWN,
                            .first = event->first_timestamp,
                            .last = event->timestamp};
    return storm;
}

/* Saturates: a damaged database may hold any count. */
static void add_count(int64_t *sum, int64_t more)
{
    if (__builtin_add_overflow(*sum, MAX(more, 0), sum))
        *sum = INT64_MAX;
}

static void add_end(struct storm *storm, const struct process_event *event)
{
    bool is_kill = event->event_type == EVENT_KILL;

    add_count(&storm->exits, event->count);
    if (real_is_known(event->cpu_seconds))
        storm->cpu_seconds =
            (real_is_known(storm->cpu_seconds) ? storm->cpu_seconds : 0) + event->cpu_seconds;
    storm->cpu_is_partial |= !real_is_known(event->cpu_seconds) || event->details;
    storm->peak_rss_mb = fmax(storm->peak_rss_mb, event->peak_rss_mb);
    if (!event_is_failure(event))
        return;
    add_count(&storm->failures, event->count);
    if (storm->status_count < STATUSES_SHOWN)
        storm->statuses[storm->status_count++] =
            (struct status){.number = is_kill ? event->signal_num : event->exit_code,
                            .is_signal = is_kill,
                            .count = event->count};
}

static void add_event(struct storm *storm, const struct process_event *event)
{
    storm->first = fmin(storm->first, event->first_timestamp);
    storm->last = fmax(storm->last, event->timestamp);
    switch (event->event_type) {
    case EVENT_SPAWN: add_count(&storm->spawns, event->count); break;
    case EVENT_SIGNAL: add_count(&storm->signals, event->count); break;
    case EVENT_EXIT:
    case EVENT_KILL: add_end(storm, event); break;
    default: break;
    }
}

static int compare_busiest(const void *a, const void *b)
{
    const struct storm *left = a, *right = b;
    int64_t l = MAX(left->exits, left->spawns), r = MAX(right->exits, right->spawns);
    return (l < r) - (l > r);
}

/* "300: 290 × status 1, 10 × SIGKILL". */
static void add_failures(struct table *table, const struct storm *storm)
{
    _cleanup_text_ struct text cell = {0};
    struct human count, name;
    int64_t named = 0;

    text_append_string(&cell, figure_count(&count, storm->failures));
    for (size_t i = 0; i < storm->status_count; i++) {
        const struct status *status = &storm->statuses[i];
        text_printf(&cell, "%s%s × ", i ? ", " : ": ", figure_count(&count, status->count));
        if (status->is_signal)
            text_append_string(&cell, figure_signal(&name, status->number));
        else
            text_printf(&cell, "status %lld", (long long)status->number);
        add_count(&named, status->count);
    }
    if (named < storm->failures)
        text_append_string(&cell, ", …");
    table_add_text(table, storm->failures ? TINT_BAD : TINT_NONE, &cell);
}

static void add_row(struct table *table, const struct storm *storm, bool without_job)
{
    struct human figure;

    table_add(table, storm->command);
    table_add(table, without_job ? NULL : storm->job_id);
    table_add(table, figure_count(&figure, storm->spawns));
    table_add(table, figure_count(&figure, storm->exits));
    add_failures(table, storm);
    table_add(table, storm->signals ? figure_count(&figure, storm->signals) : NULL);
    table_printf(table, "%s%s",
                 storm->cpu_is_partial && real_is_known(storm->cpu_seconds) ? "≥ " : "",
                 figure_duration(&figure, storm->cpu_seconds));
    table_add(table, human_mb(&figure, storm->peak_rss_mb));
    table_add(table, figure_duration(&figure, storm->last - storm->first));
}

static const struct table_column columns[] = {
    {.title = "PROGRAM", .cut_to = 12},
    {.title = "JOB", .is_optional = true, .cut_to = 12, .drop_rank = 1},
    {.title = "STARTED", .is_figure = true},
    {.title = "ENDED", .is_figure = true},
    {.title = "FAILED", .is_figure = true},
    {.title = "SIGNALS", .is_figure = true, .is_optional = true},
    {.title = "CPU", .is_figure = true},
    {.title = "PEAK", .is_figure = true},
    {.title = "WITHIN", .is_figure = true, .drop_rank = 2},
};

void storm_table_format(const struct process_event_list *folded,
                        const struct event_table_options *options, const struct report_style *style,
                        struct text *out)
{
    _cleanup_table_ struct table table = TABLE(columns, .indent = options->indent);
    _cleanup_free_ struct storm *storms = calloc(folded->count + 1, sizeof(*storms));
    size_t count = 0;

    if (!storms) {
        out->error = -ENOMEM;
        return;
    }
    for (size_t i = 0; i < folded->count; i++)
        if (int_is_known(folded->items[i].count))
            add_event(get_storm(storms, &count, &folded->items[i]), &folded->items[i]);
    qsort(storms, count, sizeof(*storms), compare_busiest);
    for (size_t i = 0; i < count && i < STORMS_SHOWN; i++)
        add_row(&table, &storms[i], options->without_job);
    table_format(&table, style, out);
    if (count > STORMS_SHOWN)
        text_printf(out, "%*sand %zu more programs\n", (int)options->indent, "",
                    count - STORMS_SHOWN);
}
