#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/load-config.h"
#include "cli/output.h"
#include "model/record-json.h"
#include "report/process-table.h"
#include "sample/collector.h"
#include "sample/scope.h"

/* Long enough for a meaningful CPU percentage, short enough not to be noticed. */
#define PAUSE_NS (200 * NS_PER_MSEC)

static void pause_between(void)
{
    struct timespec left = {.tv_nsec = PAUSE_NS};

    while (nanosleep(&left, &left) < 0 && errno == EINTR)
        ;
}

static int take_snapshot(bool is_instant, enum scope scope, const struct text_list *words,
                         struct snapshot **ret)
{
    const struct collect_request request = {0};
    _cleanup_(collector_freep) struct collector *collector = NULL;
    _cleanup_(snapshot_freep) struct snapshot *snapshot = NULL;
    struct moment moment;

    int r = collector_new(&(struct collector_options){.redact = words}, &collector);
    if (r == 0 && !is_instant) {
        _cleanup_(snapshot_freep) struct snapshot *first = NULL;
        r = collector_take(collector, &request, &first, &moment);
        pause_between();
    }
    if (r == 0)
        r = collector_take(collector, &request, &snapshot, &moment);
    if (r == 0)
        r = scope_apply(scope, &snapshot->processes, NULL, NULL);
    if (r < 0)
        return r;
    *ret = TAKE_PTR(snapshot);
    return 0;
}

static int format_json(const struct snapshot *snapshot, struct text *out)
{
    struct json_writer json = {.out = out};

    record_encode(&snapshot_record, snapshot, &json);
    text_append_char(out, '\n');
    return text_error(out);
}

static int format_table(const struct snapshot *snapshot, bool as_tree, struct text *out)
{
    const struct report_style style = output_style(SIZE_MAX);
    const struct process_table_options options = {
        .columns = style.columns,
        .as_tree = as_tree,
        .with_bold_heading = style.with_colour,
    };
    return process_table_format(snapshot, &options, out);
}

static void note_omitted(const struct snapshot *snapshot)
{
    if (snapshot->processes.count < (size_t)snapshot->process_total && isatty(STDERR_FILENO))
        log_note("%zu of %lld processes: those of jobs, zombies, and those with the most CPU and "
                 "memory; --all shows every process",
                 snapshot->processes.count, (long long)snapshot->process_total);
}

static int print(const struct arguments *arguments, const struct snapshot *snapshot,
                 int *ret_status)
{
    _cleanup_text_ struct text out = {0};
    bool as_json = arguments_has(arguments, "json");

    int r = as_json ? format_json(snapshot, &out)
                    : format_table(snapshot, arguments_has(arguments, "tree"), &out);
    if (r < 0)
        return r;
    if (!as_json)
        output_adapt(&out);
    fwrite(text_string(&out), 1, out.length, stdout);
    *ret_status = finish_output(&command_ps);
    if (!as_json && *ret_status == 0 && !arguments_has(arguments, "all"))
        note_omitted(snapshot);
    return 0;
}

static int run(const struct command_context *context, struct arguments *arguments)
{
    _cleanup_config_ struct config *config = NULL;
    _cleanup_(snapshot_freep) struct snapshot *snapshot = NULL;

    if (arguments->count)
        return command_misused(&command_ps, "unexpected argument '%s'", SHOWN(arguments->words[0]));
    if (load_config(context, &config) < 0)
        return EXIT_USAGE;

    enum scope scope = arguments_has(arguments, "all") ? SCOPE_ALL : config->scope;
    int status = 0;
    int r = take_snapshot(arguments_has(arguments, "instant"), scope, &config->redact, &snapshot);
    if (r == 0)
        r = print(arguments, snapshot, &status);
    if (r < 0) {
        log_error("ps: cannot read the processes: %s", collector_strerror(r));
        return 1;
    }
    return status;
}

static const struct command_option options[] = {
    {"all", 'a', NULL, "Show every process, not only those of profiler.scope."},
    {"tree", 't', NULL, "Show children below their parents."},
    {"instant", 0, NULL, "Take one reading only: no wait, no CPU percentages."},
    {"json", 0, NULL, "Print a SystemSnapshot as one JSON object.",
     .more = "Unknown values are null."},
};

const struct command command_ps = {
    .name = "ps",
    .summary = "Show processes, with CPU over the last 200 ms.",
    .usage = "ps [--all] [--tree] [--instant] [--json]",
    .details =
        "Shows the processes of jobs, zombies, and the 20 with the most CPU and the most memory.\n",
    .options = options,
    .option_count = ARRAY_SIZE(options),
    .run = run,
};
