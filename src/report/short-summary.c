#include "report/short-summary.h"

#include <errno.h>
#include <string.h>

#include "model/cause.h"
#include "model/process.h"
#include "report/figures.h"
#include "report/hotspots.h"
#include "report/run-figures.h"
#include "report/style.h"

/* Longest lists of a short summary. */
#define LEFT_RUNNING_SHOWN   5
#define LEFT_COMMAND_COLUMNS 60
#define SYSCALLS_SHOWN       3

static void format_outcome(const struct run_summary *summary, struct text *out)
{
    text_append_string(out, "sonde: ");
    style_visible(summary->profile.job_id, out);
    text_printf(out, ": %s", outcome_name(summary->outcome));
    if (summary->cause) {
        text_append_string(out, ", ");
        style_visible(summary->cause, out);
        cause_append_hint(summary->cause, &summary->chain, summary->profile.collector, out);
    }
    text_append_char(out, '\n');
}

static void format_figures(const struct job_profile *profile, struct text *out)
{
    struct human wall;

    style_label("wall", out);
    text_printf(out, "%s\n", human_duration(&wall, profile->wall_seconds));
    style_label("CPU", out);
    run_figures_format_cpu(profile, out);
    text_append_char(out, '\n');
    style_label("memory", out);
    run_figures_format_memory(profile, out);
    text_append_char(out, '\n');
}

/* Appends why short-lived processes may be missing in the count. */
static void format_events_error(int error, struct text *out)
{
    switch (-error) {
    case ECONNREFUSED: /* in a network namespace */
    case EOPNOTSUPP:   /* in a pid or user namespace */
        text_append_string(out, " (in a container the kernel does not report forks)");
        break;
    case EPERM:
    case EACCES: text_append_string(out, " (the kernel reports forks only to root)"); break;
    default: text_printf(out, " (the kernel does not report forks: %s)", strerror(-error)); break;
    }
}

static void format_processes(const struct job_profile *profile, int events_error, struct text *out)
{
    struct human count, gap;

    style_label("processes", out);
    text_printf(out, "%s%s", exactness_mark(profile->exactness.processes),
                human_count(&count, (uint64_t)profile->processes));
    if (events_error)
        format_events_error(events_error, out);
    text_append_char(out, '\n');
    if (profile->gap_seconds > 0) {
        style_label("gaps", out);
        text_printf(out, "%s not sampled\n", human_duration(&gap, profile->gap_seconds));
    }
}

/* "read 80.1 % (1,000,003), …": the first few calls that do not wait, if calls were counted. */
static void format_syscalls(const struct job_profile *profile, struct text *out)
{
    const struct tally_list *hotspots = &profile->syscall_hotspots;
    double busy = hotspots_busy_percent(hotspots);
    struct human percent, calls;
    size_t shown = 0;

    if (profile->syscall_source == SYSCALLS_SAMPLED)
        return;
    for (size_t i = 0; i < hotspots->count && shown < SYSCALLS_SHOWN; i++) {
        double share = hotspots_share(hotspots->items[i].name, hotspots->items[i].value, busy);
        if (!real_is_known(share))
            continue;
        if (!shown)
            style_label("syscalls", out);
        const struct tally *count = tally_find(&profile->syscall_counts, hotspots->items[i].name);
        text_printf(out, "%s%s %s", shown++ ? ", " : "", hotspots->items[i].name,
                    figure_percent(&percent, share));
        if (count)
            text_printf(out, " (%s)", figure_tally(&calls, count->value));
    }
    if (shown)
        text_append_string(out, " of the time in calls that do not wait\n");
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

void short_summary_format(const struct run_summary *summary, int events_error,
                          const struct report_style *style, struct text *out)
{
    size_t start = out->length;

    format_outcome(summary, out);
    format_figures(&summary->profile, out);
    format_processes(&summary->profile, events_error, out);
    format_syscalls(&summary->profile, out);
    format_left_running(summary, out);
    style_finish(style, start, out);
}
