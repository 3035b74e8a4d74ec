#include "top/columns.h"

#include <string.h>

#include "base/macros.h"

/* The least share of the screen for the command, the most informative column. */
#define COMMAND_MIN_RATIO 0.4
#define USER_COLUMNS      8

static const char *const column_names[] = {
    "pid",      "uid",         "state",       "cpu_percent",   "rss_mb", "shared_mb", "threads",
    "open_fds", "age_seconds", "cpu_seconds", "gpu_memory_mb", "job_id", "command",
};

/* The columns to drop where there is no room, in this order. */
static const char *const dispensable[] = {
    "shared_mb",   "open_fds",      "threads", "age_seconds", "uid",
    "cpu_seconds", "gpu_memory_mb", "job_id",  "state",       "rss_mb",
};

static bool is_requested(const struct columns_request *request, const char *name)
{
    if (strcmp(name, "job_id") == 0)
        return request->with_jobs;
    return strcmp(name, "gpu_memory_mb") != 0 || request->with_gpu;
}

static struct shown_column make_column(const char *name)
{
    const struct field *field = record_find(&process_metric_record, name);

    if (strcmp(name, "uid") == 0) /* shown as the user's name */
        return (struct shown_column){field, "USER", USER_COLUMNS};
    if (!field->title) /* gpu_memory_mb, which other tables do not show */
        return (struct shown_column){field, "GPU MEM", 8};
    return (struct shown_column){field, field->title, field->width};
}

static unsigned fixed_width(const struct shown_columns *columns)
{
    unsigned width = 0;

    for (size_t i = 0; i + 1 < columns->count; i++)
        width += columns->items[i].width + 1;
    return width;
}

static bool has_column(const struct shown_columns *columns, const char *name)
{
    for (size_t i = 0; i < columns->count; i++)
        if (strcmp(columns->items[i].field->name, name) == 0)
            return true;
    return false;
}

static void drop_column(struct shown_columns *columns, const char *name)
{
    size_t kept = 0;

    for (size_t i = 0; i < columns->count; i++)
        if (strcmp(columns->items[i].field->name, name) != 0)
            columns->items[kept++] = columns->items[i];
    columns->count = kept;
}

/* Adds the sort column before the command, unless it is shown already. */
static void add_sort_column(struct shown_columns *columns, const struct field *sort)
{
    if (!sort->title || has_column(columns, sort->name))
        return;
    columns->items[columns->count] = columns->items[columns->count - 1];
    columns->items[columns->count - 1] = make_column(sort->name);
    columns->count++;
}

void columns_choose(const struct columns_request *request, struct shown_columns *ret)
{
    ret->count = 0;
    for (size_t i = 0; i < ARRAY_SIZE(column_names); i++)
        if (is_requested(request, column_names[i]))
            ret->items[ret->count++] = make_column(column_names[i]);
    add_sort_column(ret, request->sort);
    for (size_t i = 0; i < ARRAY_SIZE(dispensable); i++)
        if (fixed_width(ret) > request->width * (1 - COMMAND_MIN_RATIO) &&
            strcmp(dispensable[i], request->sort->name) != 0)
            drop_column(ret, dispensable[i]);
}

size_t columns_sortable(const struct field *ret[static COLUMNS_SORTABLE_MAX])
{
    size_t count = 0;

    for (size_t i = 0; i < process_metric_record.field_count && count < COLUMNS_SORTABLE_MAX; i++)
        if (process_metric_record.fields[i].title)
            ret[count++] = &process_metric_record.fields[i];
    return count;
}
