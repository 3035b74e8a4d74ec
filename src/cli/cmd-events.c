#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/number.h"
#include "cli/command.h"
#include "cli/open-store.h"
#include "cli/option-values.h"
#include "cli/output.h"
#include "query/query.h"
#include "report/event-table.h"

#define DEFAULT_LIMIT 50

static int read_pid(const struct arguments *arguments, int64_t *ret)
{
    const char *text = arguments_value(arguments, "pid");

    if (text && (number_parse_int(text, ret) < 0 || *ret < 1))
        return command_misused(&command_events, "--pid: '%.60s' is not a process id", text);
    return 0;
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
    return status ? status : option_limit(&command_events, arguments, &ret->limit);
}

static int print(const struct arguments *arguments, const struct process_event_list *events,
                 double now)
{
    const struct event_table_options options = {.day = now};
    const struct report_style style = output_style(SIZE_MAX);
    _cleanup_text_ struct text out = {0};

    if (arguments_has(arguments, "json"))
        return output_json_list(&command_events, &process_event_record, events);
    if (!events->count) {
        log_note("no such events are stored");
        return 1;
    }
    event_table_format(events, &options, &style, &out);
    return output_text(&command_events, &out);
}

static int run(const struct command_context *context, struct arguments *arguments)
{
    _cleanup_(store_reader_closep) struct store_reader *reader = NULL;
    _cleanup_(arena_done) struct arena arena = {0};
    const char *job = arguments_value(arguments, "job");
    double now = ns_to_sec(clock_real_ns());
    struct event_filter filter;
    struct process_event_list events = {0};

    int status = read_filter(arguments, now, &filter);
    if (status == 0)
        status = open_store(&command_events, context, &reader);
    if (status)
        return status;
    int r = query_events(reader, job, &filter, &arena, &events);
    if (r == -ENOENT && job)
        return store_has_no_job(&command_events, reader, job);
    return r < 0 ? store_failed(&command_events, reader, r) : print(arguments, &events, now);
}

static const struct command_option options[] = {
    {"job", 'j', "JOB", "of one run: JOB is its latest, JOB~1 the one before, or a run_id"},
    {"since", 's', "TIME", "at TIME or after it"},
    {"until", 'u', "TIME", "at TIME or before it"},
    {"type", 't', "WORD", "spawn, exec, exit, signal, kill or oom"},
    {"pid", 'p', "PID", "of one process id"},
    {"limit", 'n', "N", "the latest N (default 50)"},
    {"json", 0, NULL, "a JSON array of ProcessEvent objects"},
};

const struct command command_events = {
    .name = "events",
    .summary = "Show what happened to processes, the latest last.",
    .usage = "events [OPTIONS]",
    .details = "A 'kill' is a signal that ended its process, a 'signal' one that did not. TIME is\n"
               "14:00, \"3m ago\", yesterday, \"2026-11-16 14:00\" or Unix seconds.\n",
    .options = options,
    .option_count = ARRAY_SIZE(options),
    .run = run,
};
