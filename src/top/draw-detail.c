#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "model/field-format.h"
#include "report/figures.h"
#include "top/draw.h"

/* Rows of the area, with its title. */
#define DETAIL_ROWS_OF_PROCESS 8 /* with two rows for the command; without job, anomaly */
#define DETAIL_ROWS_OF_GROUP   6 /* with all rows */
#define LABEL_COLUMNS          9
#define FIGURES_COLUMNS        32 /* of CPU and memory, so that their sparklines begin together */
#define NAME_COLUMNS_MAX       24 /* of a user or a system call */
#define SYSCALLS_SHOWN         5
#define SYSCALLS_COMPARED_MAX  40 /* a process rarely has more; the rest cannot be shown */
#define SPARK_MAX              60

static void put_label(struct canvas *canvas, unsigned row, const char *label)
{
    row_put(canvas, row, LOOK_PLAIN, " ");
    row_put(canvas, row, LOOK_ACCENT, label);
    row_pad(canvas, row, LOOK_PLAIN, 1 + LABEL_COLUMNS);
}

/* A label and a figure as the field table formats it: "rss 812.4M". */
static void put_field(struct canvas *canvas, unsigned row, const char *word,
                      const struct process_metric *figures, const char *name)
{
    _cleanup_text_ struct text value = {0};

    field_format(record_find(&process_metric_record, name), figures, SIZE_MAX, &value);
    row_printf(canvas, row, LOOK_DIM, "%s ", word);
    row_visible(canvas, row, LOOK_BOLD, text_string(&value), SIZE_MAX);
    row_put(canvas, row, LOOK_PLAIN, "  ");
}

static const char *state_word(char state)
{
    switch (state) {
    case 'R': return "running";
    case 'S': return "sleeping";
    case 'D': return "uninterruptible wait";
    case 'Z': return "zombie: ended, not reaped";
    case 'T': return "stopped";
    case 't': return "stopped by a tracer";
    case 'I': return "idle kernel thread";
    default: return "";
    }
}

/* The number of bytes of visible text that fit the columns. */
static size_t count_fitting(const char *text, size_t columns)
{
    size_t length = strlen(text), used = 0, i = 0;

    while (i < length) {
        uint32_t character;
        size_t size = utf8_decode(text + i, length - i, &character);
        used += utf8_columns(character);
        if (!size || used > columns)
            break;
        i += size;
    }
    return i;
}

/* Wraps the command line over at most `most` rows; returns the number used. */
static unsigned put_command(struct canvas *canvas, unsigned row, const char *command, unsigned most)
{
    _cleanup_text_ struct text visible = {0};
    unsigned used = 0;

    text_append_visible(&visible, command, strlen(command), SIZE_MAX);
    const char *rest = text_string(&visible);
    do {
        put_label(canvas, row + used, used ? "" : "command");
        size_t length = count_fitting(rest, row_left(canvas, row + used));
        if (used + 1 < most && length)
            row_printf(canvas, row + used, LOOK_PLAIN, "%.*s", (int)length, rest);
        else
            row_visible(canvas, row + used, LOOK_PLAIN, rest, SIZE_MAX);
        rest += length;
        used++;
    } while (*rest && used < most);
    return used;
}

static double find_max(const struct trail *trail, double (*point)(const struct trail *, unsigned))
{
    double max = REAL_UNKNOWN;

    for (unsigned i = 0; i < TRAIL_POINTS; i++)
        max = fmax(max, point(trail, i)); /* fmax() skips unknown values */
    return max;
}

static void put_cpu(const struct screen *screen, const struct row *selected, struct canvas *canvas,
                    unsigned row)
{
    const struct trail *trail = trails_find(screen->trails, selected->key);
    double max = find_max(trail, trail_cpu);

    put_label(canvas, row, "CPU");
    put_field(canvas, row, "now", selected->figures, "cpu_percent");
    put_field(canvas, row, "time", selected->figures, "cpu_seconds");
    row_pad(canvas, row, LOOK_PLAIN, 1 + LABEL_COLUMNS + FIGURES_COLUMNS);
    if (real_is_known(max))
        row_printf(canvas, row, LOOK_DIM, "max %5.1f ", max);
    unsigned left = row_left(canvas, row);
    draw_spark(canvas, row, MIN(left > 1 ? left - 1 : 0, (unsigned)SPARK_MAX), LOOK_GOOD, trail,
               trail_cpu, fmax(max, 1));
}

static void put_memory(const struct screen *screen, const struct row *selected,
                       struct canvas *canvas, unsigned row)
{
    const struct trail *trail = trails_find(screen->trails, selected->key);
    double max = find_max(trail, trail_mb);
    struct process_metric largest = {.rss_mb = max};

    put_label(canvas, row, "memory");
    if (selected->kind == ROW_PROCESS) {
        put_field(canvas, row, "rss", selected->figures, "rss_mb");
        put_field(canvas, row, "peak", selected->figures, "peak_rss_mb");
    } else {
        const struct process_metric unique = {.rss_mb = selected->job ? selected->job->unique_mb
                                                                      : REAL_UNKNOWN};
        put_field(canvas, row, "all processes", selected->figures, "rss_mb");
        if (selected->kind == ROW_JOB)
            put_field(canvas, row, "together, at most", &unique, "rss_mb");
    }
    row_pad(canvas, row, LOOK_PLAIN, 1 + LABEL_COLUMNS + FIGURES_COLUMNS);
    if (real_is_known(max)) {
        _cleanup_text_ struct text value = {0};
        field_format(record_find(&process_metric_record, "rss_mb"), &largest, SIZE_MAX, &value);
        row_printf(canvas, row, LOOK_DIM, "max %5s ", text_string(&value));
    }
    unsigned left = row_left(canvas, row);
    draw_spark(canvas, row, MIN(left > 1 ? left - 1 : 0, (unsigned)SPARK_MAX), LOOK_ACCENT, trail,
               trail_mb, max);
}

/* ---- a process ---- */

static void put_state(const struct screen *screen, const struct row *selected,
                      struct canvas *canvas, unsigned row)
{
    const struct process_metric *figures = selected->figures;
    const char *name = screen->user_name && int_is_known(figures->uid)
                           ? screen->user_name(screen->context, figures->uid)
                           : NULL;
    struct human time;

    put_label(canvas, row, "state");
    row_printf(canvas, row, LOOK_BOLD, "%c ", figures->state ? figures->state : '-');
    row_printf(canvas, row, LOOK_DIM, "%s  ", state_word(figures->state));
    put_field(canvas, row, "parent", figures, "ppid");
    if (name) {
        row_put(canvas, row, LOOK_DIM, "user ");
        row_visible(canvas, row, LOOK_BOLD, name, NAME_COLUMNS_MAX);
        row_put(canvas, row, LOOK_PLAIN, "  ");
    } else {
        put_field(canvas, row, "uid", figures, "uid");
    }
    if (real_is_known(figures->start_time))
        row_printf(canvas, row, LOOK_DIM, "since %s",
                   figure_clock(&time, figures->start_time, screen->now));
}

static void put_more(const struct row *selected, struct canvas *canvas, unsigned row)
{
    const struct process_metric *figures = selected->figures;

    put_label(canvas, row, "uses");
    put_field(canvas, row, "threads", figures, "threads");
    put_field(canvas, row, "fds", figures, "open_fds");
    put_field(canvas, row, "of", figures, "fd_limit");
    put_field(canvas, row, "virt", figures, "vms_mb");
    put_field(canvas, row, "shared", figures, "shared_mb");
    put_field(canvas, row, "read", figures, "read_bytes");
    put_field(canvas, row, "written", figures, "write_bytes");
    if (real_is_known(figures->gpu_memory_mb))
        put_field(canvas, row, "GPU", figures, "gpu_memory_mb");
}

static void put_syscalls(const struct row *selected, struct canvas *canvas, unsigned row)
{
    const struct process_metric *figures = selected->figures;
    const struct field *source = record_find(&process_metric_record, "syscall_source");
    const struct tally_list *shares = &figures->syscall_time_pct;
    bool is_shown[SYSCALLS_COMPARED_MAX] = {false};

    put_label(canvas, row, "syscalls");
    if (!shares->count) {
        row_put(canvas, row, LOOK_DIM, "not traced");
        return;
    }
    for (size_t n = 0; n < SYSCALLS_SHOWN; n++) {
        size_t best = SIZE_MAX;
        for (size_t i = 0; i < MIN(shares->count, ARRAY_SIZE(is_shown)); i++)
            if (!is_shown[i] &&
                (best == SIZE_MAX || shares->items[i].value > shares->items[best].value))
                best = i;
        if (best == SIZE_MAX)
            break;
        is_shown[best] = true;
        row_visible(canvas, row, LOOK_BOLD, shares->items[best].name, NAME_COLUMNS_MAX);
        row_printf(canvas, row, LOOK_DIM, " %.0f%%  ", shares->items[best].value);
    }
    if (figures->syscall_source)
        row_printf(canvas, row, LOOK_DIM, "(%s)", field_enum_name(source, figures->syscall_source));
}

static void put_job(const struct row *selected, struct canvas *canvas, unsigned row)
{
    const struct process_metric *figures = selected->figures;

    put_label(canvas, row, "job");
    row_visible(canvas, row, LOOK_JOB, figures->job_id, SIZE_MAX);
    if (int_is_known(figures->sheet_num))
        row_printf(canvas, row, LOOK_PLAIN, "  step %lld", (long long)figures->sheet_num);
    if (figures->run_id) {
        row_put(canvas, row, LOOK_DIM, "  run ");
        row_visible(canvas, row, LOOK_DIM, figures->run_id, SIZE_MAX);
    }
}

static void put_alarm(const struct row *selected, struct canvas *canvas, unsigned row)
{
    const struct anomaly *alarm = selected->alarm;

    put_label(canvas, row, "anomaly");
    row_visible(canvas, row, look_of_severity(alarm->severity), alarm->anomaly_type, SIZE_MAX);
    if (alarm->description) {
        row_put(canvas, row, LOOK_PLAIN, ": ");
        row_visible(canvas, row, LOOK_PLAIN, alarm->description, SIZE_MAX);
    }
}

static void draw_process(const struct screen *screen, const struct row *selected,
                         struct canvas *canvas, unsigned row, unsigned end)
{
    const char *command = selected->figures->command ? selected->figures->command : "-";

    put_cpu(screen, selected, canvas, row++);
    if (row < end)
        put_memory(screen, selected, canvas, row++);
    if (row < end && selected->alarm)
        put_alarm(selected, canvas, row++);
    if (row < end)
        put_state(screen, selected, canvas, row++);
    if (row < end)
        put_more(selected, canvas, row++);
    if (row < end && selected->figures->job_id)
        put_job(selected, canvas, row++);
    if (row < end)
        row += put_command(canvas, row, command, end - row > 3 ? 2 : 1);
    if (row < end)
        put_syscalls(selected, canvas, row++);
}

/* ---- a job, a step or the other processes ---- */

static void draw_group(const struct screen *screen, const struct row *selected,
                       struct canvas *canvas, unsigned row, unsigned end)
{
    put_cpu(screen, selected, canvas, row++);
    if (row < end)
        put_memory(screen, selected, canvas, row++);
    if (row < end && selected->alarm)
        put_alarm(selected, canvas, row++);
    if (row < end) {
        put_label(canvas, row, "uses");
        row_printf(canvas, row, LOOK_BOLD, "%zu ", selected->processes);
        row_put(canvas, row, LOOK_DIM, "processes  ");
        put_field(canvas, row, "threads", selected->figures, "threads");
        put_field(canvas, row, "fds", selected->figures, "open_fds");
        put_field(canvas, row++, "oldest", selected->figures, "age_seconds");
    }
    if (row < end && selected->job && selected->job->run_id) {
        put_label(canvas, row, "run");
        row_visible(canvas, row, LOOK_PLAIN, selected->job->run_id, SIZE_MAX);
    }
}

static void format_name(const struct row *row, char *into, size_t size)
{
    switch (row->kind) {
    case ROW_PROCESS: snprintf(into, size, "process %lld", (long long)row->figures->pid); break;
    case ROW_SHEET: snprintf(into, size, "step %lld", (long long)row->sheet_num); break;
    case ROW_JOB: snprintf(into, size, "job"); break;
    default: snprintf(into, size, "other processes"); break;
    }
}

unsigned detail_rows(const struct screen *screen)
{
    const struct row *selected = view_selected(screen->view, screen->listing);

    if (!selected || selected->kind != ROW_PROCESS)
        return DETAIL_ROWS_OF_GROUP;
    return DETAIL_ROWS_OF_PROCESS + (selected->alarm != NULL) + (selected->figures->job_id != NULL);
}

void draw_detail(const struct screen *screen, struct canvas *canvas, struct part part)
{
    const struct row *selected = view_selected(screen->view, screen->listing);
    char name[48] = "nothing selected";

    if (!part.count)
        return;
    if (selected)
        format_name(selected, name, sizeof(name));
    draw_rule(canvas, part.at, name, "Enter closes");
    if (!selected || part.count < 2)
        return;
    if (selected->kind == ROW_PROCESS)
        draw_process(screen, selected, canvas, part.at + 1, part.at + part.count);
    else
        draw_group(screen, selected, canvas, part.at + 1, part.at + part.count);
}
