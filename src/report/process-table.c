#include "report/process-table.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/macros.h"
#include "base/map.h"
#include "model/field-format.h"

#define BOLD  "\033[1m"
#define PLAIN "\033[0m"

/* The least width of a useful command line. */
#define COMMAND_MIN_COLUMNS 24

static const char *const column_names[] = {
    "pid",     "uid",      "state",       "cpu_percent", "rss_mb", "vms_mb",
    "threads", "open_fds", "age_seconds", "cpu_seconds", "job_id", "command",
};

struct columns {
    const struct field *fields[ARRAY_SIZE(column_names)];
    size_t count;
};

/* A line of the table: a process and its depth in the tree. */
struct line {
    const struct process_metric *process;
    unsigned depth;
};

struct lines {
    struct line *items;
    size_t count;
};

static bool has_jobs(const struct process_list *processes)
{
    for (size_t i = 0; i < processes->count; i++)
        if (processes->items[i].job_id)
            return true;
    return false;
}

/* The width of all columns but the last, with a blank after each. */
static size_t fixed_width(const struct columns *columns)
{
    size_t width = 0;

    for (size_t i = 0; i + 1 < columns->count; i++)
        width += columns->fields[i]->width + 1;
    return width;
}

static void drop_column(struct columns *columns, const char *name)
{
    size_t kept = 0;

    for (size_t i = 0; i < columns->count; i++)
        if (strcmp(columns->fields[i]->name, name) != 0)
            columns->fields[kept++] = columns->fields[i];
    columns->count = kept;
}

/* All columns, except those that do not fit a narrow terminal. */
static void choose_columns(const struct process_list *processes, size_t terminal_width,
                           struct columns *ret)
{
    static const char *const dispensable[] = {"vms_mb",      "open_fds",    "threads",
                                              "age_seconds", "cpu_seconds", "uid"};

    ret->count = 0;
    for (size_t i = 0; i < ARRAY_SIZE(column_names); i++)
        ret->fields[ret->count++] = record_find(&process_metric_record, column_names[i]);
    if (!has_jobs(processes))
        drop_column(ret, "job_id");
    for (size_t i = 0; i < ARRAY_SIZE(dispensable); i++)
        if (fixed_width(ret) + COMMAND_MIN_COLUMNS > terminal_width)
            drop_column(ret, dispensable[i]);
}

/* ---- order ---- */

static int compare_known(double a, double b)
{
    bool a_known = real_is_known(a), b_known = real_is_known(b);

    if (!a_known || !b_known)
        return b_known - a_known;
    return (a < b) - (a > b);
}

static int compare_use(const void *a, const void *b)
{
    const struct process_metric *left = ((const struct line *)a)->process;
    const struct process_metric *right = ((const struct line *)b)->process;
    int order = compare_known(left->cpu_percent, right->cpu_percent);

    if (!order)
        order = compare_known(left->rss_mb, right->rss_mb);
    return order ? order : (left->pid > right->pid) - (left->pid < right->pid);
}

/* The processes of a snapshot by pid, with each one's first child and next sibling, as indices. */
struct forest {
    const struct process_list *processes;
    struct map by_pid; /* pid → its process */
    size_t *first_child;
    size_t *next_sibling;
};

#define NONE SIZE_MAX

static void forest_done(struct forest *forest)
{
    map_done(&forest->by_pid);
    free(forest->first_child);
    free(forest->next_sibling);
}

/* The index of the parent, or NONE for a root: its parent is not in the snapshot, or seems younger
 * than the process, which means that the pid was reused. */
static size_t parent_of(const struct forest *forest, size_t index)
{
    const struct process_metric *process = &forest->processes->items[index];
    const struct process_metric *parent = map_get(&forest->by_pid, (uint64_t)process->ppid);

    if (!parent || parent == process || parent->start_ticks > process->start_ticks)
        return NONE;
    return (size_t)(parent - forest->processes->items);
}

static int forest_init(struct forest *forest, const struct process_list *processes)
{
    size_t room = MAX(processes->count, (size_t)1);

    *forest = (struct forest){.processes = processes,
                              .first_child = malloc(room * sizeof(size_t)),
                              .next_sibling = malloc(room * sizeof(size_t))};
    if (!forest->first_child || !forest->next_sibling)
        return -ENOMEM;
    for (size_t i = 0; i < processes->count; i++) {
        forest->first_child[i] = forest->next_sibling[i] = NONE;
        if (map_put(&forest->by_pid, (uint64_t)processes->items[i].pid, &processes->items[i]) < 0)
            return -ENOMEM;
    }
    /* Backwards, so that siblings keep their order. */
    for (size_t i = processes->count; i > 0; i--) {
        size_t parent = parent_of(forest, i - 1);
        if (parent == NONE)
            continue;
        forest->next_sibling[i - 1] = forest->first_child[parent];
        forest->first_child[parent] = i - 1;
    }
    return 0;
}

/* Appends a root and its descendants, depth first. Processes with equal start times could form a
 * cycle of parents, so the number of lines is bounded. */
static void append_tree(const struct forest *forest, size_t root, struct lines *lines)
{
    size_t index = root;
    unsigned depth = 0;

    while (lines->count < forest->processes->count) {
        lines->items[lines->count++] = (struct line){&forest->processes->items[index], depth};
        if (forest->first_child[index] != NONE) {
            index = forest->first_child[index];
            depth++;
            continue;
        }
        while (index != root && forest->next_sibling[index] == NONE) {
            index = parent_of(forest, index);
            depth--;
        }
        if (index == root)
            return;
        index = forest->next_sibling[index];
    }
}

static int order_as_tree(const struct process_list *processes, struct lines *lines)
{
    _cleanup_(forest_done) struct forest forest = {0};

    int r = forest_init(&forest, processes);
    for (size_t i = 0; r == 0 && i < processes->count; i++)
        if (parent_of(&forest, i) == NONE)
            append_tree(&forest, i, lines);
    return r;
}

static void order_by_use(const struct process_list *processes, struct lines *lines)
{
    for (size_t i = 0; i < processes->count; i++)
        lines->items[lines->count++] = (struct line){.process = &processes->items[i]};
    qsort(lines->items, lines->count, sizeof(*lines->items), compare_use);
}

/* ---- text ---- */

static void append_padding(struct text *out, size_t used, size_t width)
{
    if (used < width)
        text_append_repeated(out, ' ', width - used);
}

/* Appends a cell of its column's width; returns the columns used, more if a figure is too wide. */
static size_t append_cell(const struct field *field, const struct process_metric *process,
                          struct text *out)
{
    _cleanup_text_ struct text cell = {0};
    size_t used = field_format(field, process, field->width, &cell);
    bool is_text = field_is_text(field);

    if (!is_text)
        append_padding(out, used, field->width);
    text_append(out, text_string(&cell), cell.length);
    if (is_text)
        append_padding(out, used, field->width);
    return MAX(used, (size_t)field->width);
}

static void append_heading(const struct columns *columns, bool is_bold, struct text *out)
{
    if (is_bold)
        text_append_string(out, BOLD);
    for (size_t i = 0; i < columns->count; i++) {
        const struct field *field = columns->fields[i];
        size_t width = i + 1 < columns->count ? field->width : 0;
        if (i)
            text_append_char(out, ' ');
        text_printf(out, "%*s", field_is_text(field) ? -(int)width : (int)width, field->title);
    }
    text_append_string(out, is_bold ? PLAIN "\n" : "\n");
}

static void append_line(const struct columns *columns, const struct line *line, size_t width,
                        struct text *out)
{
    size_t used = 0;

    for (size_t i = 0; i + 1 < columns->count; i++) {
        used += append_cell(columns->fields[i], line->process, out) + 1;
        text_append_char(out, ' ');
    }
    /* The indentation of deep trees must leave room for the command. */
    size_t indent = MIN((size_t)line->depth * 2, (used < width ? width - used : 0) / 2);
    indent = MIN(indent, (size_t)40);
    text_append_repeated(out, ' ', indent);
    used += indent;
    field_format(columns->fields[columns->count - 1], line->process,
                 used < width ? width - used : 1, out);
    text_append_char(out, '\n');
}

int process_table_format(const struct snapshot *snapshot,
                         const struct process_table_options *options, struct text *out)
{
    const struct process_list *processes = &snapshot->processes;
    _cleanup_free_ struct line *items = calloc(MAX(processes->count, (size_t)1), sizeof(*items));
    struct lines lines = {.items = items};
    struct columns columns;

    if (!items)
        return -ENOMEM;
    if (!options->as_tree)
        order_by_use(processes, &lines);
    else if (order_as_tree(processes, &lines) < 0)
        return -ENOMEM;

    choose_columns(processes, options->columns, &columns);
    append_heading(&columns, options->with_bold_heading, out);
    for (size_t i = 0; i < lines.count; i++)
        append_line(&columns, &lines.items[i], options->columns, out);
    return text_error(out);
}
