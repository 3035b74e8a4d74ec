#include "report/earlier-runs.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "report/figures.h"
#include "report/profile-figures.h"
#include "report/table.h"
#include "stats/robust.h"

/* A value with this z is an outlier (Iglewicz and Hoaglin, see stats/robust.h), if … */
#define UNUSUAL_Z 3.5
/* … it also differs from the median by this share of it: among runs that are almost the same, small
 * differences have a large z. */
#define UNUSUAL_RATIO 0.1

static const struct field difference_fields[] = {
#define FIELD(member, type, ...) FIELD_OF(struct run_difference, member, type, __VA_ARGS__)
    FIELD(figure, FIELD_TEXT, .required = true,
          .meaning = "the field of the profile; the older name, if it has two: "
                     "total_cpu_seconds, process_spawn_count"),
    FIELD(value, FIELD_REAL, .resolution = 0.000001,
          .meaning = "the figure of this run, in the unit of the field"),
    FIELD(median, FIELD_REAL, .resolution = 0.000001,
          .meaning = "the median of the earlier runs that succeeded"),
    FIELD(robust_z, FIELD_REAL, .resolution = 0.001,
          .meaning = "distance from the median in units of the median absolute deviation; null: "
                     "all earlier values are equal"),
    FIELD(sample_size, FIELD_INT, .unit = UNIT_COUNT,
          .meaning = "the number of earlier runs that have the figure"),
    FIELD(unusual, FIELD_BOOL,
          .meaning = "robust_z is at least 3.5 in size, and the difference at least a tenth of "
                     "the median"),
#undef FIELD
};
const struct record run_difference_record =
    RECORD_OF(struct run_difference, "RunDifference", difference_fields);

static const struct field fields[] = {
#define FIELD(member, type, ...) FIELD_OF(struct earlier_runs, member, type, __VA_ARGS__)
    FIELD(runs, FIELD_INT, .unit = UNIT_COUNT,
          .meaning = "earlier runs that ended with a known outcome"),
    FIELD(failures, FIELD_INT, .unit = UNIT_COUNT, .meaning = "earlier runs that failed"),
    FIELD(figures, FIELD_RECORDS, .record = &run_difference_record,
          .meaning = "how this run differs from earlier successful runs; empty: there are fewer "
                     "than 5, or the run has not ended"),
#undef FIELD
};
const struct record earlier_runs_record = RECORD_OF(struct earlier_runs, "EarlierRuns", fields);

/* ---- comparison ---- */

/* Whether `job` is another run than `run`, with this outcome. */
static bool is_other_run(const struct job *job, const struct job *run, int outcome)
{
    return job->outcome == outcome && strcmp(job->run_id, run->run_id) != 0;
}

static bool is_unusual(const struct run_difference *difference, double min_difference)
{
    double distance = fabs(difference->value - difference->median);

    return (fabs(difference->robust_z) >= UNUSUAL_Z || !real_is_known(difference->robust_z)) &&
           distance >= UNUSUAL_RATIO * fabs(difference->median) && distance >= min_difference;
}

/* Compares one figure of `run` with that of the earlier successful runs. Returns false if too few
 * of them have the figure. `values` is scratch space with room for all jobs. */
static bool compare_figure(const struct field *figure, const struct job_list *jobs,
                           const struct job *run, double *values, struct run_difference *ret)
{
    double value = profile_figure_value(figure, &run->profile);
    size_t count = 0;

    for (size_t i = 0; i < jobs->count; i++) {
        double other = profile_figure_value(figure, &jobs->items[i].profile);
        if (is_other_run(&jobs->items[i], run, OUTCOME_SUCCESS) && real_is_known(other))
            values[count++] = other;
    }
    if (count < EARLIER_RUNS_MIN || !real_is_known(value))
        return false;
    struct robust_spread spread = robust_spread(values, count);
    double z = robust_z(&spread, value);
    *ret = (struct run_difference){
        .figure = field_first_name(figure),
        .value = value,
        .median = spread.median,
        .robust_z = isinf(z) ? REAL_UNKNOWN : z,
        .sample_size = (int64_t)count,
    };
    ret->unusual = truth_of(is_unusual(ret, figure->min_difference));
    return true;
}

static int compare_figures(const struct job_list *jobs, const struct job *run, struct arena *arena,
                           struct run_difference_list *ret)
{
    _cleanup_free_ double *values = malloc(MAX(jobs->count, (size_t)1) * sizeof(*values));
    struct run_difference_list list = {
        .items = arena_alloc(arena, job_profile_record.field_count * sizeof(*list.items))};

    if (!values || !list.items)
        return -ENOMEM;
    for (const struct field *figure = NULL; (figure = profile_figure_next(figure));)
        if (figure->min_difference > 0)
            list.count += compare_figure(figure, jobs, run, values, &list.items[list.count]);
    *ret = list;
    return 0;
}

int earlier_runs_make(const struct job_list *jobs, const struct job *run, struct arena *arena,
                      struct earlier_runs *ret)
{
    struct earlier_runs earlier = {0};

    for (size_t i = 0; i < jobs->count; i++) {
        bool has_failed = is_other_run(&jobs->items[i], run, OUTCOME_FAILURE);
        earlier.runs += has_failed || is_other_run(&jobs->items[i], run, OUTCOME_SUCCESS);
        earlier.failures += has_failed;
    }
    int r =
        run->outcome == OUTCOME_RUNNING ? 0 : compare_figures(jobs, run, arena, &earlier.figures);
    if (r == 0)
        *ret = earlier;
    return r;
}

/* ---- as text ---- */

static void add_row(struct table *table, const struct field *figure,
                    const struct run_difference *difference, const struct job *run)
{
    bool is_unusual = difference->unusual == TRUTH_YES;
    enum tint tint = is_unusual ? TINT_BAD : TINT_NONE;
    _cleanup_text_ struct text own = {0}, percent = {0};
    struct human usual;

    profile_figure_append(figure, &run->profile, &own);
    difference_append(difference->value, difference->median, &percent);
    table_add(table, figure->label);
    table_add_text(table, tint, &own);
    table_add(table, profile_figure_format(figure, &usual, difference->median));
    table_add_text(table, tint, &percent);
    if (real_is_known(difference->robust_z))
        table_printf(table, "%+.1f", difference->robust_z);
    else
        table_add(table, NULL);
    table_printf(table, "%lld", (long long)difference->sample_size);
    table_add_tinted(table, tint, is_unusual ? "unusual" : "usual");
}

/* The counts may come from a daemon of another version: they can be unknown or contradictory. */
static int64_t count_successes(const struct earlier_runs *earlier)
{
    bool is_consistent = earlier->failures >= 0 && earlier->runs >= earlier->failures;

    return is_consistent ? earlier->runs - earlier->failures : INT_UNKNOWN;
}

void earlier_runs_format(const struct earlier_runs *earlier, const struct job *run,
                         const struct report_style *style, struct text *out)
{
    static const struct table_column columns[] = {
        {.title = ""},
        {.title = "THIS RUN", .is_figure = true},
        {.title = "MEDIAN", .is_figure = true},
        {.title = "DIFFERENCE", .is_figure = true},
        {.title = "Z", .is_figure = true, .drop_rank = 2},
        {.title = "RUNS", .is_figure = true, .drop_rank = 1},
        {.title = "VERDICT"},
    };
    _cleanup_table_ struct table table = TABLE(columns, .indent = 2);
    struct human runs, failures;
    int64_t successes = count_successes(earlier);

    if (!earlier->figures.count)
        return;
    for (size_t i = 0; i < earlier->figures.count; i++) {
        const struct run_difference *difference = &earlier->figures.items[i];
        const struct field *figure = record_find(&job_profile_record, difference->figure);
        bool is_zero = !(difference->value > 0) && !(difference->median > 0);
        /* A newer daemon may send a figure that this version does not know. */
        if (figure && figure->label && !is_zero)
            add_row(&table, figure, difference, run);
    }
    style_heading(style, "compared with", out);
    if (int_is_known(successes))
        text_printf(out, " %s", figure_count(&runs, successes));
    text_printf(out, " earlier successful run%s of this type", successes == 1 ? "" : "s");
    if (earlier->failures > 0)
        text_printf(out, "; %s more failed", figure_count(&failures, earlier->failures));
    text_append_char(out, '\n');
    table_format(&table, style, out);
}
