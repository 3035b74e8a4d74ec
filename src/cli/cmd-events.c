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
/* As many as `tail -f` shows. */
#define FOLLOW_LIMIT 10
/* What was asked for by its time is shown as far as it goes. */
#define FOLLOW_SINCE_LIMIT 10000

static int read_pid(const struct arguments *arguments, int64_t *ret)
{
    const char *text = arguments_value(arguments, "pid");

    if (text && (number_parse_int(text, ret) < 0 || *ret < 1))
        return command_misused(&command_events, "--pid: '%.60s' is not a process id", text);
    return 0;
}

/* As `tail -n 0 -f`. */
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
        return command_misused(&command_events, "takes no words, found '%s'; did you mean --job?",
                               arguments->words[0]);

    int status = option_span(&command_events, arguments, now, &ret->since, &ret->until);
    if (status == 0)
        status = option_word(&command_events, arguments, "type",
                             record_find(&process_event_record, "event_type"), &ret->event_type);
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
        tell_source(reader);
    if (as_json)
        return output_json_list(&command_events, &process_event_record, events);
    if (!events->count)
        return tell_nothing(reader, "no such events are stored");
    event_table_format(events, &options, &style, &out);
    return output_text(&command_events, &out);
}

static int show(const struct command_context *context, const struct arguments *arguments,
                const struct event_filter *filter, double now)
{
    _cleanup_(reader_closep) struct reader *reader = NULL;
    _cleanup_(arena_done) struct arena arena = {0};
    const char *job = arguments_value(arguments, "job");
    struct process_event_list events = {0};

    int status = open_reader(&command_events, context, &reader);
    if (status)
        return status;
    int r = reader_events(reader, job, filter, &arena, &events);
    if (r == -ENOENT && job)
        return reader_has_no_job(&command_events, reader, job);
    if (r < 0)
        return reader_failed(&command_events, reader, r);
    return print(arguments, reader, &events, now);
}

/* The rules for --follow; `filter` is as without it. */
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
        return command_misused(&command_events, "--follow has no end; leave --until out");
    if (options.job && strchr(options.job, '~'))
        return command_misused(&command_events,
                               "--follow is about runs to come; leave '%s' out of --job",
                               strchr(options.job, '~'));
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
    {"job", 'j', "JOB", "of one run: JOB is its latest, JOB~1 the one before, or a run_id"},
    {"since", 's', "TIME", "at TIME or after it"},
    {"until", 'u', "TIME", "at TIME or before it"},
    {"type", 't', "WORD", "spawn, exec, exit, signal, kill or oom"},
    {"pid", 'p', "PID", "of one process id"},
    {"limit", 'n', "N", "the latest N (default 50; with --follow 10)"},
    {"follow", 'f', NULL, "go on with what happens from now on; needs the daemon"},
    {"json", 0, NULL, "a JSON array of ProcessEvent objects; with --follow a line each"},
};

const struct command command_events = {
    .name = "events",
    .summary = "Show what happened to processes, the latest last.",
    .usage = "events [OPTIONS]",
    .details = "A 'kill' is a signal that ended its process, a 'signal' one that did not. TIME is\n"
               "14:00, \"3m ago\", yesterday, \"2026-11-16 14:00\" or Unix seconds.\n"
               "With --follow also anomalies, gaps, jobs and their steps; Ctrl-C ends it.\n",
    .options = options,
    .option_count = ARRAY_SIZE(options),
    .run = run,
};
