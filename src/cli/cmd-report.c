#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "cli/command.h"
#include "cli/open-reader.h"
#include "cli/option-values.h"
#include "cli/output.h"

/* The checked command line: a report on one run, or on the machine within a time. */
struct request {
    const char *job; /* NULL: the latest run */
    bool covers_machine;
    double since;
    double until;
    double now;
    bool as_json;
};

static int report_job(struct reader *reader, const struct request *request)
{
    const struct report_style style = output_style(SIZE_MAX);
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_text_ struct text out = {0};
    struct job_report report;

    int r = reader_job_report(reader, request->job, request->now, &arena, &report);
    if (r == -ENOENT && request->job)
        return reader_has_no_job(&command_report, reader, request->job);
    if (r == -ENOENT)
        return report_no_data(&command_report, reader,
                              "no jobs%s are stored; run one with: sonde run -- CMD",
                              of_yours(reader));
    if (r < 0)
        return reader_failed(&command_report, reader, r);
    note_source(reader);
    if (request->as_json)
        return output_json(&command_report, &job_report_record, &report);
    job_report_format(&report, &style, &out);
    return output_text(&command_report, &out);
}

static int report_machine(struct reader *reader, const struct request *request)
{
    const struct report_style style = output_style(SIZE_MAX);
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_text_ struct text out = {0};
    struct machine_report report;

    int r = reader_machine_report(reader, request->since, request->until, request->now, &arena,
                                  &report);
    if (r < 0)
        return reader_failed(&command_report, reader, r);
    if (machine_report_is_empty(&report))
        return report_no_data(&command_report, reader, "no data is stored for that time");
    note_source(reader);
    if (request->as_json)
        return output_json(&command_report, &machine_report_record, &report);
    machine_report_format(&report, &style, &out);
    return output_text(&command_report, &out);
}

static int read_request(const struct arguments *arguments, struct request *ret)
{
    bool has_since = arguments_has(arguments, "since");

    *ret = (struct request){
        .job = arguments->count ? arguments->words[0] : NULL,
        .covers_machine = has_since,
        .now = ns_to_sec(clock_real_ns()),
        .as_json = arguments_has(arguments, "json"),
    };
    if (arguments->count > 1)
        return command_misused(&command_report, "unexpected argument '%s'; name one job",
                               SHOWN(arguments->words[1]));
    if (arguments_has(arguments, "until") && !has_since)
        return command_misused(&command_report, "--until needs --since");
    if (arguments->count && has_since)
        return command_misused(&command_report,
                               "--since reports on the whole machine; omit '%s' or --since",
                               SHOWN(arguments->words[0]));
    ret->since = ret->until = ret->now;
    return option_span(&command_report, arguments, ret->now, &ret->since, &ret->until);
}

static int run(const struct command_context *context, struct arguments *arguments)
{
    _cleanup_(reader_closep) struct reader *reader = NULL;
    struct request request;

    int status = read_request(arguments, &request);
    if (status == 0)
        status = open_reader(&command_report, context, &reader);
    if (status)
        return status;
    return request.covers_machine ? report_machine(reader, &request) : report_job(reader, &request);
}

static const struct command_option options[] = {
    {"since", 's', "TIME", "Report on the whole machine, from TIME."},
    {"until", 'u', "TIME", "With --since, report until TIME (default: now; no later)."},
    {"json", 0, NULL, "Print a JobReport or a MachineReport as one JSON object.",
     .more = "Unknown values are null. Unlike the text, `syscall_hotspots` also contains system "
             "calls that only wait, such as wait4 and futex."},
};

const struct command command_report = {
    .name = "report",
    .summary = "Report on a job (how it ended, why, what it used) or the machine.",
    .usage = "report [JOB] [--json]\n"
             "report --since TIME [--until TIME] [--json]",
    .details =
        "JOB is a job (its latest run), JOB~1 (the run before) or a run_id. Without JOB, the\n"
        "latest run of all jobs is reported. A running job is reported with its figures so far.\n"
        "≥ marks a lower bound, ~ the largest sampled value. TIME is 14:00, \"2 hours ago\",\n"
        "yesterday, \"2026-11-16 14:00\" or Unix seconds.\n"
        "Exit status: 0, 1 on failure, 2 for wrong usage, 3 if there is no such run or no data.\n",
    .options = options,
    .option_count = ARRAY_SIZE(options),
    .run = run,
};
