#include "report/run-diff.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/macros.h"
#include "report/profile-figures.h"

/* ---- the records ---- */

static const struct field figure_pair_fields[] = {
#define FIELD(member, type, ...) FIELD_OF(struct figure_pair, member, type, __VA_ARGS__)
    FIELD(figure, FIELD_TEXT, .required = true,
          .meaning = "the field of the profile; the older name, if it has two: "
                     "total_cpu_seconds, process_spawn_count"),
    FIELD(left, FIELD_REAL, .resolution = 0.000001,
          .meaning = "of the first run, in the unit of the field"),
    FIELD(right, FIELD_REAL, .resolution = 0.000001, .meaning = "of the second run"),
    FIELD(difference, FIELD_REAL, .resolution = 0.000001, .meaning = "right - left"),
    FIELD(ratio, FIELD_REAL, .resolution = 0.0001, .meaning = "right / left; null if left is 0"),
#undef FIELD
};
const struct record figure_pair_record =
    RECORD_OF(struct figure_pair, "FigurePair", figure_pair_fields);

static const struct field sheet_pair_fields[] = {
#define FIELD(member, type, ...) FIELD_OF(struct sheet_pair, member, type, __VA_ARGS__)
#define OUTCOME(member, ...)                                                                       \
    FIELD(member, FIELD_ENUM, .names = outcome_names, .name_count = OUTCOME_COUNT, __VA_ARGS__)
    FIELD(sheet_num, FIELD_INT, .required = true, .meaning = "the step"),
    FIELD(name, FIELD_TEXT, .meaning = "as given by the scheduler"),
    OUTCOME(left_outcome, .meaning = "of the first run; null: it has no such step"),
    OUTCOME(right_outcome, .meaning = "of the second run; null: it has no such step"),
    FIELD(left_wall_seconds, FIELD_REAL, .unit = UNIT_SECONDS, .resolution = 0.000001,
          .meaning = "from start to end"),
    FIELD(right_wall_seconds, FIELD_REAL, .unit = UNIT_SECONDS, .resolution = 0.000001,
          .meaning = "from start to end"),
    FIELD(left_peak_rss_mb, FIELD_REAL, .unit = UNIT_MB, .resolution = 0.001,
          .meaning = "RSS of its largest process"),
    FIELD(right_peak_rss_mb, FIELD_REAL, .unit = UNIT_MB, .resolution = 0.001,
          .meaning = "RSS of its largest process"),
#undef OUTCOME
#undef FIELD
};
static const struct record sheet_pair_record =
    RECORD_OF(struct sheet_pair, "SheetPair", sheet_pair_fields);

static const struct field call_pair_fields[] = {
#define FIELD(member, type, ...) FIELD_OF(struct call_pair, member, type, __VA_ARGS__)
    FIELD(name, FIELD_TEXT, .required = true, .meaning = "the system call"),
    FIELD(left_pct, FIELD_REAL, .unit = UNIT_PERCENT, .resolution = 0.01,
          .meaning = "its share of the time in the first run"),
    FIELD(right_pct, FIELD_REAL, .unit = UNIT_PERCENT, .resolution = 0.01,
          .meaning = "its share of the time in the second run"),
#undef FIELD
};
static const struct record call_pair_record =
    RECORD_OF(struct call_pair, "CallPair", call_pair_fields);

static const struct field fields[] = {
#define FIELD(member, type, ...) FIELD_OF(struct run_diff, member, type, __VA_ARGS__)
    FIELD(as_of, FIELD_REAL, .required = true, .unit = UNIT_EPOCH, .resolution = 0.001,
          .meaning = "when the comparison was made"),
    FIELD(left, FIELD_RECORD, .record = &job_record, .meaning = "the first run"),
    FIELD(right, FIELD_RECORD, .record = &job_record, .meaning = "the second run"),
    FIELD(figures, FIELD_RECORDS, .record = &figure_pair_record,
          .meaning = "figures that are known of at least one of the runs"),
    FIELD(sheets, FIELD_RECORDS, .record = &sheet_pair_record,
          .meaning = "steps of either run, by number"),
    FIELD(syscalls, FIELD_RECORDS, .record = &call_pair_record,
          .meaning = "system calls of both runs, the largest difference first; empty if those of "
                     "one run are unknown"),
    FIELD(left_anomalies, FIELD_TEXTS, .meaning = "types of anomalies of the first run"),
    FIELD(right_anomalies, FIELD_TEXTS, .meaning = "types of anomalies of the second run"),
#undef FIELD
};
const struct record run_diff_record = RECORD_OF(struct run_diff, "RunDiff", fields);

/* ---- figures ---- */

static int pair_figures(const struct job_profile *left, const struct job_profile *right,
                        struct arena *arena, struct figure_pair_list *ret)
{
    struct figure_pair_list list = {
        .items = arena_alloc(arena, job_profile_record.field_count * sizeof(*list.items))};

    if (!list.items)
        return -ENOMEM;
    for (const struct field *figure = NULL; (figure = profile_figure_next(figure));) {
        double a = profile_figure_value(figure, left);
        double b = profile_figure_value(figure, right);
        if (!real_is_known(a) && !real_is_known(b))
            continue;
        list.items[list.count++] = (struct figure_pair){
            .figure = field_first_name(figure),
            .left = a,
            .right = b,
            .difference = b - a,
            .ratio = a != 0 ? b / a : REAL_UNKNOWN,
        };
    }
    *ret = list;
    return 0;
}

/* ---- steps ---- */

/* Returns the pair of a step; inserts it in the order of numbers if it is new. The list has room.
 */
static struct sheet_pair *get_sheet_pair(struct sheet_pair_list *list, int64_t number)
{
    size_t at = 0;

    while (at < list->count && list->items[at].sheet_num < number)
        at++;
    if (at < list->count && list->items[at].sheet_num == number)
        return &list->items[at];
    memmove(&list->items[at + 1], &list->items[at], (list->count - at) * sizeof(*list->items));
    list->count++;
    record_init(&sheet_pair_record, &list->items[at]);
    list->items[at].sheet_num = number;
    return &list->items[at];
}

static int pair_sheets(const struct job_report *left, const struct job_report *right,
                       struct arena *arena, struct sheet_pair_list *ret)
{
    size_t room = left->sheets.count + right->sheets.count + 1;
    struct sheet_pair_list list = {.items = arena_alloc(arena, room * sizeof(*list.items))};

    if (!list.items)
        return -ENOMEM;
    for (size_t i = 0; i < left->sheets.count; i++) {
        const struct sheet *sheet = &left->sheets.items[i];
        struct sheet_pair *pair = get_sheet_pair(&list, sheet->sheet_num);
        pair->name = sheet->name;
        pair->left_outcome = sheet->outcome;
        pair->left_wall_seconds = sheet_wall_seconds(sheet, left->as_of);
        pair->left_peak_rss_mb = sheet->peak_rss_mb;
    }
    for (size_t i = 0; i < right->sheets.count; i++) {
        const struct sheet *sheet = &right->sheets.items[i];
        struct sheet_pair *pair = get_sheet_pair(&list, sheet->sheet_num);
        pair->name = sheet->name ? sheet->name : pair->name;
        pair->right_outcome = sheet->outcome;
        pair->right_wall_seconds = sheet_wall_seconds(sheet, right->as_of);
        pair->right_peak_rss_mb = sheet->peak_rss_mb;
    }
    *ret = list;
    return 0;
}

/* ---- system calls ---- */

/* Returns the pair of a call; adds it if it is new. The list has room. */
static struct call_pair *get_call(struct call_pair_list *list, const char *name)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i].name, name) == 0)
            return &list->items[i];
    list->items[list->count] = (struct call_pair){.name = name};
    return &list->items[list->count++];
}

static int compare_calls(const void *a, const void *b)
{
    const struct call_pair *left = a, *right = b;
    double left_change = fabs(left->right_pct - left->left_pct);
    double right_change = fabs(right->right_pct - right->left_pct);

    if (left_change != right_change)
        return left_change > right_change ? -1 : 1;
    return strcmp(left->name, right->name);
}

/* The list is empty if the system calls of one of the runs are unknown. */
static int pair_calls(const struct tally_list *left, const struct tally_list *right,
                      struct arena *arena, struct call_pair_list *ret)
{
    struct call_pair_list list = {
        .items = arena_alloc(arena, (left->count + right->count + 1) * sizeof(*list.items))};

    if (!list.items)
        return -ENOMEM;
    for (size_t i = 0; i < left->count && right->items; i++)
        get_call(&list, left->items[i].name)->left_pct = left->items[i].value;
    for (size_t i = 0; i < right->count && left->items; i++)
        get_call(&list, right->items[i].name)->right_pct = right->items[i].value;
    qsort(list.items, list.count, sizeof(*list.items), compare_calls);
    *ret = list;
    return 0;
}

/* ---- anomalies ---- */

static bool has_text(const struct text_list *list, const char *text)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i], text) == 0)
            return true;
    return false;
}

static int list_anomaly_types(const struct anomaly_list *anomalies, struct arena *arena,
                              struct text_list *ret)
{
    struct text_list list = {.items =
                                 arena_alloc(arena, (anomalies->count + 1) * sizeof(*list.items))};

    if (!list.items)
        return -ENOMEM;
    for (size_t i = 0; i < anomalies->count; i++)
        if (!has_text(&list, anomalies->items[i].anomaly_type))
            list.items[list.count++] = anomalies->items[i].anomaly_type;
    *ret = list;
    return 0;
}

int run_diff_make(const struct job_report *left, const struct job_report *right,
                  struct arena *arena, struct run_diff *ret)
{
    struct run_diff diff = {
        .as_of = fmax(left->as_of, right->as_of), .left = left->job, .right = right->job};

    int r = pair_figures(&left->job.profile, &right->job.profile, arena, &diff.figures);
    if (r == 0)
        r = pair_sheets(left, right, arena, &diff.sheets);
    if (r == 0)
        r = pair_calls(&left->job.profile.syscall_hotspots, &right->job.profile.syscall_hotspots,
                       arena, &diff.syscalls);
    if (r == 0)
        r = list_anomaly_types(&left->anomalies, arena, &diff.left_anomalies);
    if (r == 0)
        r = list_anomaly_types(&right->anomalies, arena, &diff.right_anomalies);
    if (r == 0)
        *ret = diff;
    return r;
}
