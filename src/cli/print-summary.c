#include "cli/print-summary.h"

#include <string.h>
#include <unistd.h>

#include "base/fd-io.h"
#include "base/human.h"

/* More of them would not make a short summary. */
#define LEFT_RUNNING_SHOWN   5
#define LEFT_COMMAND_COLUMNS 60

/* What stands before a figure that is not exact. */
static const char *mark(int exactness)
{
    switch (exactness) {
    case LOWER_BOUND: return "≥ ";
    case SAMPLED: return "~ ";
    default: return "";
    }
}

static void append_label(struct text *out, const char *label)
{
    text_printf(out, "  %-11s", label);
}

static void format_outcome(const struct run_summary *summary, struct text *out)
{
    text_append_string(out, "sonde: ");
    text_append_visible(out, summary->job_id, strlen(summary->job_id), SIZE_MAX);
    text_printf(out, ": %s", outcome_name(summary->outcome));
    if (summary->cause) {
        text_append_string(out, ", ");
        text_append_visible(out, summary->cause, strlen(summary->cause), SIZE_MAX);
    }
    text_append_char(out, '\n');
}

static void format_time(const struct run_summary *summary, struct text *out)
{
    struct human wall, cpu, user, system;

    append_label(out, "wall");
    text_printf(out, "%s\n", human_duration(&wall, summary->wall_seconds));
    append_label(out, "CPU");
    text_printf(out, "%s%s (user %s, system %s)", mark(summary->exactness.cpu_seconds),
                human_duration(&cpu, summary->cpu_seconds),
                human_duration(&user, summary->user_seconds),
                human_duration(&system, summary->system_seconds));
    /* Below this the ratio of two tiny times says nothing. */
    if (summary->wall_seconds >= 0.01)
        text_printf(out, ", %.2f cores", summary->cpu_seconds / summary->wall_seconds);
    text_append_char(out, '\n');
}

static void format_memory(const struct run_summary *summary, struct text *out)
{
    struct human peak, total, unique;

    append_label(out, "memory");
    text_printf(out, "%s%s peak", mark(summary->exactness.peak_rss_mb),
                human_mb(&peak, summary->peak_rss_mb));
    if (summary->processes != 1)
        text_printf(out, " of one process, %s%s together (%s not shared)",
                    mark(summary->exactness.peak_total_mb),
                    human_mb(&total, summary->peak_total_mb),
                    human_mb(&unique, summary->peak_unique_mb));
    text_append_char(out, '\n');
}

static void format_processes(const struct run_summary *summary, const char *no_events,
                             struct text *out)
{
    struct human count, gap;

    append_label(out, "processes");
    text_printf(out, "%s%s", mark(summary->exactness.processes),
                human_count(&count, (uint64_t)summary->processes));
    if (no_events)
        text_printf(out, " (no events from the kernel: %s; short-lived ones may be missing)",
                    no_events);
    text_append_char(out, '\n');
    if (summary->gap_seconds > 0) {
        append_label(out, "gaps");
        text_printf(out, "%s not sampled\n", human_duration(&gap, summary->gap_seconds));
    }
}

static void format_left_running(const struct run_summary *summary, struct text *out)
{
    const struct left_process_list *left = &summary->left_running;

    for (size_t i = 0; i < left->count && i < LEFT_RUNNING_SHOWN; i++) {
        append_label(out, i ? "" : "left");
        text_printf(out, "pid %lld still running: ", (long long)left->items[i].pid);
        const char *command = left->items[i].command ? left->items[i].command : "-";
        text_append_visible(out, command, strlen(command), LEFT_COMMAND_COLUMNS);
        text_append_char(out, '\n');
    }
    if (left->count > LEFT_RUNNING_SHOWN) {
        append_label(out, "");
        text_printf(out, "and %zu more\n", left->count - LEFT_RUNNING_SHOWN);
    }
}

void format_summary(const struct run_summary *summary, const char *no_events, struct text *out)
{
    format_outcome(summary, out);
    format_time(summary, out);
    format_memory(summary, out);
    format_processes(summary, no_events, out);
    format_left_running(summary, out);
}

void print_summary(const struct run_summary *summary, const char *no_events)
{
    _cleanup_text_ struct text out = {0};

    format_summary(summary, no_events, &out);
    /* In one piece; if nobody reads it any more, there is nobody to tell. */
    if (text_error(&out) == 0)
        fd_write_all(STDERR_FILENO, out.bytes, out.length);
}
