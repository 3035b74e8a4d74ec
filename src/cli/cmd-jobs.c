#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "cli/command.h"
#include "cli/open-reader.h"
#include "cli/option-values.h"
#include "cli/output.h"
#include "report/job-table.h"

#define DEFAULT_LIMIT 20

/* `type` is the place for the job type of the filter. */
static int read_filter(const struct command_context *context, const struct arguments *arguments,
                       double now, char type[static JOB_ID_MAX_BYTES + 1], struct job_filter *ret)
{
    const char *reason;

    *ret = JOB_FILTER_ALL;
    ret->limit = DEFAULT_LIMIT;
    ret->job_id = arguments_value(arguments, "job");
    if (arguments->count)
        return command_misused(&command_jobs, "unexpected argument '%s'; did you mean --job?",
                               SHOWN(arguments->words[0]));
    if (ret->job_id && job_id_check(ret->job_id, &reason) < 0)
        return option_invalid(&command_jobs, "job", ret->job_id, reason);

    int status = option_type(&command_jobs, context, arguments, type, &ret->job_type);
    if (status == 0)
        status = option_span(&command_jobs, arguments, now, &ret->since, &ret->until);
    if (status == 0)
        status = option_enum(&command_jobs, arguments, "outcome",
                             record_find(&job_record, "outcome"), &ret->outcome);
    return status ? status : option_limit(&command_jobs, arguments, &ret->limit);
}

static bool has_conditions(const struct job_filter *filter)
{
    return real_is_known(filter->since) || real_is_known(filter->until) || filter->outcome ||
           filter->job_id || filter->job_type;
}

static int print(const struct arguments *arguments, const struct reader *reader,
                 const struct job_filter *filter, const struct job_list *jobs, double now)
{
    const struct report_style style = output_style(SIZE_MAX);
    _cleanup_text_ struct text out = {0};
    bool as_json = arguments_has(arguments, "json");

    if (jobs->count || as_json)
        note_source(reader);
    if (as_json)
        return output_json_list(&command_jobs, &job_record, jobs);
    if (!jobs->count && has_conditions(filter))
        return report_no_data(&command_jobs, reader, "no stored jobs%s match", of_yours(reader));
    if (!jobs->count)
        return report_no_data(&command_jobs, reader,
                              "no jobs%s are stored; run one with: sonde run -- CMD",
                              of_yours(reader));
    job_table_format(jobs, now, 0, &style, &out);
    return output_text(&command_jobs, &out);
}

static int run(const struct command_context *context, struct arguments *arguments)
{
    _cleanup_(reader_closep) struct reader *reader = NULL;
    _cleanup_(arena_done) struct arena arena = {0};
    double now = ns_to_sec(clock_real_ns());
    bool as_json = arguments_has(arguments, "json");
    char type[JOB_ID_MAX_BYTES + 1];
    struct job_filter filter;
    struct job_list jobs = {0};

    int status = read_filter(context, arguments, now, type, &filter);
    if (status == 0)
        status = as_json ? open_reader_if_any(&command_jobs, context, &reader)
                         : open_reader(&command_jobs, context, &reader);
    if (status == EXIT_NO_DATA && as_json) /* no data: no jobs */
        return output_json_list(&command_jobs, &job_record, &jobs);
    if (status)
        return status;
    int r = reader_jobs(reader, &filter, now, &arena, &jobs);
    if (r < 0)
        return reader_failed(&command_jobs, reader, r);
    return print(arguments, reader, &filter, &jobs, now);
}

static const struct command_option options[] = {
    {"since", 's', "TIME", "List jobs that were running at TIME or later."},
    {"until", 'u', "TIME", "List jobs that started at TIME or before."},
    {"outcome", 'o', "OUTCOME",
     "List jobs by outcome: running, success, failure (or failed), unknown.",
     .more = "For `success`, `succeeded` is accepted, too."},
    {"job", 'j', "ID", "List the runs of one job."},
    {"type", 't', "TYPE", "List the runs of one type."},
    {"limit", 'n', "N", "List the latest N (default 20)."},
    {"json", 0, NULL, "Print a JSON array of Job objects, [] if there are none.",
     .more = "Unknown values are null."},
};

const struct command command_jobs = {
    .name = "jobs",
    .summary = "List jobs with their outcomes, the latest first.",
    .usage = "jobs [OPTIONS]",
    .details = "LARGEST is the peak memory of the largest process. ≥ marks a lower bound, ~ the\n"
               "largest sampled value. TIME is 14:00, \"2 hours ago\", yesterday, \"2026-11-16 "
               "14:00\" or\n"
               "Unix seconds.\n"
               "Exit status: 0, 1 on failure, 2 for wrong usage, 3 if there are no such jobs.\n",
    .options = options,
    .option_count = ARRAY_SIZE(options),
    .run = run,
};
