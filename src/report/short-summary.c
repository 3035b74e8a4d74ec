#include "report/short-summary.h"

#include <string.h>

#include "model/process.h"
#include "report/figures.h"
#include "report/run-figures.h"
#include "report/style.h"

/* More of them would not make a short summary. */
#define LEFT_RUNNING_SHOWN   5
#define LEFT_COMMAND_COLUMNS 60
#define SYSCALLS_SHOWN       3

static void format_outcome(const struct run_summary *summary, struct text *out)
{
    text_append_string(out, "sonde: ");
    style_visible(summary->job_id, out);
    text_printf(out, ": %s", outcome_name(summary->outcome));
    if (summary->cause) {
        text_append_string(out, ", ");
        style_visible(summary->cause, out);
    }
    text_append_char(out, '\n');
}

static void format_figures(const struct run_summary *summary, struct text *out)
{
    const struct run_figures figures = run_figures_of_summary(summary);
    struct human wall;

    style_label("wall", out);
    text_printf(out, "%s\n", human_duration(&wall, summary->wall_seconds));
    style_label("CPU", out);
    run_figures_format_cpu(&figures, out);
    text_append_char(out, '\n');
    style_label("memory", out);
    run_figures_format_memory(&figures, out);
    text_append_char(out, '\n');
}

static void format_processes(const struct run_summary *summary, const char *no_events,
                             struct text *out)
{
    struct human count, gap;

    style_label("processes", out);
    text_printf(out, "%s%s", exactness_mark(summary->exactness.processes),
                human_count(&count, (uint64_t)summary->processes));
    if (no_events)
        text_printf(out, " (no events from the kernel: %s; short-lived ones may be missing)",
                    no_events);
    text_append_char(out, '\n');
    if (summary->gap_seconds > 0) {
        style_label("gaps", out);
        text_printf(out, "%s not sampled\n", human_duration(&gap, summary->gap_seconds));
    }
}

/* "read 80.1 % (1,000,003), …": the first few, where they were counted or looked at. */
static void format_syscalls(const struct run_summary *summary, struct text *out)
{
    const struct tally_list *hotspots = &summary->syscall_hotspots;
    struct human share, calls;

    if (!hotspots->count || summary->syscall_source == SYSCALLS_SAMPLED)
        return;
    style_label("syscalls", out);
    for (size_t i = 0; i < hotspots->count && i < SYSCALLS_SHOWN; i++) {
        const struct tally *count = tally_find(&summary->syscall_counts, hotspots->items[i].name);
        text_printf(out, "%s%s %s", i ? ", " : "", hotspots->items[i].name,
                    figure_percent(&share, hotspots->items[i].value));
        if (count)
            text_printf(out, " (%s)", figure_tally(&calls, count->value));
    }
    text_append_string(out, " of the time in them\n");
}

static void format_left_running(const struct run_summary *summary, struct text *out)
{
    const struct left_process_list *left = &summary->left_running;

    for (size_t i = 0; i < left->count && i < LEFT_RUNNING_SHOWN; i++) {
        style_label(i ? "" : "left", out);
        text_printf(out, "pid %lld still running: ", (long long)left->items[i].pid);
        const char *command = left->items[i].command ? left->items[i].command : "-";
        text_append_visible(out, command, strlen(command), LEFT_COMMAND_COLUMNS);
        text_append_char(out, '\n');
    }
    if (left->count > LEFT_RUNNING_SHOWN) {
        style_label("", out);
        text_printf(out, "and %zu more\n", left->count - LEFT_RUNNING_SHOWN);
    }
}

void short_summary_format(const struct run_summary *summary, const char *no_events,
                          struct text *out)
{
    format_outcome(summary, out);
    format_figures(summary, out);
    format_processes(summary, no_events, out);
    format_syscalls(summary, out);
    format_left_running(summary, out);
}
