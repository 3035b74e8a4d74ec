#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/number.h"
#include "cli/command.h"
#include "cli/follow.h"
#include "cli/open-reader.h"
#include "cli/option-values.h"
#include "cli/output.h"
#include "report/event-table.h"

#define DEFAULT_LIMIT 50
/* The same number as `tail -f`. */
#define FOLLOW_LIMIT 10
/* With --since, all events of a time are wanted; this limit only bounds the memory. */
#define FOLLOW_SINCE_LIMIT 10000

static int read_pid(const struct arguments *arguments, int64_t *ret)
{
    const char *text = arguments_value(arguments, "pid");

    if (text && (number_parse_int(text, ret) < 0 || *ret < 1))
        return command_misused(&command_events, "--pid: '%.60s' is not a process id", text);
    return 0;
}

/* `--follow -n 0` shows no earlier events, as `tail -n 0 -f`. */
static bool follows_from_now(const struct arguments *arguments)
{
    const char *limit = arguments_value(arguments, "limit");

    return arguments_has(arguments, "follow") && limit && strcmp(limit, "0") == 0;
}

static int read_filter(const struct arguments *arguments, double now, struct event_filter *ret)
{
    *ret = EVENT_FILTER_ALL;
    ret->limit = DEFAULT_LIMIT;
    if (arguments->count)
        return command_misused(&command_events, "unexpected argument '%s'; did you mean --job?",
                               SHOWN(arguments->words[0]));

    int status = option_span(&command_events, arguments, now, &ret->since, &ret->until);
    if (status == 0)
        status =
            option_enum_set(&command_events, arguments, "type",
                            record_find(&process_event_record, "event_type"), &ret->event_types);
    if (status == 0)
        status = read_pid(arguments, &ret->pid);
    if (status || follows_from_now(arguments))
        return status;
    return option_limit(&command_events, arguments, &ret->limit);
}

static int print(const struct arguments *arguments, const struct reader *reader,
                 const struct process_event_list *events, double now)
{
    const struct event_table_options options = {.day = now};
    const struct report_style style = output_style(SIZE_MAX);
    _cleanup_text_ struct text out = {0};
    bool as_json = arguments_has(arguments, "json");

    if (events->count || as_json)
        note_source(reader);
    if (as_json)
        return output_json_list(&command_events, &process_event_record, events);
    if (!events->count)
        return report_no_data(&command_events, reader, "no stored events%s match",
                              of_yours(reader));
    event_table_format(events, &options, &style, &out);
    return output_text(&command_events, &out);
}

static int show(const struct command_context *context, const struct arguments *arguments,
                const struct event_filter *filter, double now)
{
    _cleanup_(reader_closep) struct reader *reader = NULL;
    _cleanup_(arena_done) struct arena arena = {0};
    const char *job = arguments_value(arguments, "job");
    bool as_json = arguments_has(arguments, "json");
    struct process_event_list events = {0};

    int status = as_json ? open_reader_if_any(&command_events, context, &reader)
                         : open_reader(&command_events, context, &reader);
    if (status == EXIT_NO_DATA && as_json) /* no data: no events */
        return output_json_list(&command_events, &process_event_record, &events);
    if (status)
        return status;
    int r = reader_events(reader, job, filter, &arena, &events);
    if (r == -ENOENT && job)
        return reader_has_no_job(&command_events, reader, job);
    if (r < 0)
        return reader_failed(&command_events, reader, r);
    return print(arguments, reader, &events, now);
}

/* Checks the options that go with --follow, then follows. */
static int follow(const struct command_context *context, const struct arguments *arguments,
                  const struct event_filter *filter)
{
    const char *limit = arguments_value(arguments, "limit");
    struct follow_options options = {
        .command = &command_events,
        .context = context,
        .job = arguments_value(arguments, "job"),
        .filter = *filter,
        .as_json = arguments_has(arguments, "json"),
    };

    if (arguments_has(arguments, "until"))
        return command_misused(&command_events,
                               "--until cannot be used with --follow; omit one of them");
    if (options.job && strchr(options.job, '~'))
        return command_misused(&command_events, "--follow shows new runs; omit '%s' from --job",
                               SHOWN(strchr(options.job, '~')));
    if (!limit)
        options.filter.limit =
            arguments_has(arguments, "since") ? FOLLOW_SINCE_LIMIT : FOLLOW_LIMIT;
    else if (follows_from_now(arguments))
        options.filter.limit = 0;
    return follow_events(&options);
}

static int run(const struct command_context *context, struct arguments *arguments)
{
    double now = ns_to_sec(clock_real_ns());
    struct event_filter filter;

    int status = read_filter(arguments, now, &filter);
    if (status)
        return status;
    return arguments_has(arguments, "follow") ? follow(context, arguments, &filter)
                                              : show(context, arguments, &filter, now);
}

static const struct command_option options[] = {
    {"job", 'j', "JOB", "Show one run: JOB (the latest), JOB~1 (the one before) or a run_id."},
    {"since", 's', "TIME", "Show events at TIME or later."},
    {"until", 'u', "TIME", "Show events at TIME or before."},
    {"type", 't', "TYPE", "Show one type: spawn, exec, exit, signal, kill or oom.",
     .more = "Steps are not processes: their events are not of these types.",
     .is_repeatable = true},
    {"pid", 'p', "PID", "Show events of one process id."},
    {"limit", 'n', "N", "Show the latest N (default 50; with --follow 10).",
     .more = "With --follow, N stored events are shown first; with --since, the default is all of "
             "them. 0 shows only new events."},
    {"follow", 'f', NULL, "Continue with new events as they happen; needs the daemon.",
     .more = "See sonde-daemon(1). --job is then the id of a job, which need not exist yet, or a "
             "run_id. With --type, only process events are shown."},
    {"json", 0, NULL, "Print a JSON array of ProcessEvent; with --follow, one object per line.",
     .more = "The array is [] if there are no events. Unknown values are null. An object with "
             "`is_step` is the start or the end of a step. An object with a `count` stands for "
             "that many events, from `first_timestamp` to `timestamp`. With --follow, each line "
             "has `event` (such as process.exit or job.finished), `timestamp`, `job_id`, "
             "`sheet_num` and `data` (a ProcessEvent, Anomaly, Gap, Job or "
             "JobProgress)."},
};

const struct command command_events = {
    .name = "events",
    .summary = "Show the events of processes, the latest last.",
    .usage = "events [OPTIONS]",
    .details =
        "A 'kill' is a signal that ended its process, a 'signal' one that did not. TIME is\n"
        "14:00, \"2 hours ago\", yesterday, \"2026-11-16 14:00\" or Unix seconds.\n"
        "--follow also shows anomalies, gaps, jobs and their steps; with --type, only process\n"
        "events are shown. Ctrl-C ends it.\n"
        "Exit status: 0, 1 on failure, 2 for wrong usage, 3 if there are no such events (with\n"
        "--follow: no daemon).\n",
    .options = options,
    .option_count = ARRAY_SIZE(options),
    .run = run,
};
