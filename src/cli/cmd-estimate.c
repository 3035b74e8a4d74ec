#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "cli/command-type.h"
#include "cli/command.h"
#include "cli/load-config.h"
#include "cli/open-reader.h"
#include "cli/output.h"
#include "detect/admission.h"
#include "report/estimate-text.h"

struct request {
    char job_type[JOB_ID_MAX_BYTES + 1]; /* empty: not given */
    const char *name;                    /* it can also be a job of this name; NULL: it cannot */
    bool shows_calibration;
    bool as_json;
};

/* One argument is a type or the name of a job; the arguments after `--` are a command. */
static int read_type(const struct command_context *context, const struct arguments *arguments,
                     struct request *request)
{
    const char *reason;

    if (arguments->count > arguments->before_dashes) {
        _cleanup_config_ struct config *config = NULL;
        if (arguments->before_dashes)
            return command_misused(&command_estimate,
                                   "specify either a type or job, or, after --, a command");
        if (load_config(context, &config) < 0)
            return EXIT_USAGE;
        command_type_format(arguments->words, &config->redact, request->job_type);
        return 0;
    }
    if (arguments->count > 1)
        return command_misused(
            &command_estimate,
            "unexpected argument '%s'; quote the type ('%s %s'), or write -- before a "
            "command",
            SHOWN(arguments->words[1]), SHOWN(arguments->words[0]), SHOWN(arguments->words[1]));
    if (!arguments->count)
        return 0;
    if (job_id_check(arguments->words[0], &reason) < 0)
        return command_misused(&command_estimate, "the name '%s' %s", SHOWN(arguments->words[0]),
                               reason);
    request->name = arguments->words[0]; /* names are stored as they are */
    return command_type_redact(context, request->name, request->job_type) < 0 ? EXIT_USAGE : 0;
}

static int read_request(const struct command_context *context, const struct arguments *arguments,
                        struct request *ret)
{
    *ret = (struct request){
        .shows_calibration = arguments_has(arguments, "calibration"),
        .as_json = arguments_has(arguments, "json"),
    };
    int status = read_type(context, arguments, ret);
    if (status == 0 && !ret->job_type[0] && !ret->shows_calibration)
        status = command_misused(&command_estimate, "specify a type or a job, or -- and a command; "
                                                    "'sonde jobs' lists the jobs");
    return status;
}

/* Finds the latest run with this type or, if `job_type` is NULL, with this job name. Returns 1 and
 * the run, 0 (there is none) or a negative errno. */
static int find_run(struct reader *reader, const char *job_type, const char *job_id,
                    struct arena *arena, struct job *ret)
{
    struct job_filter filter = JOB_FILTER_ALL;
    struct job_list jobs = {0};

    filter.job_type = job_type;
    filter.job_id = job_id;
    filter.limit = 1;
    int r = reader_jobs(reader, &filter, ns_to_sec(clock_real_ns()), arena, &jobs);
    if (r < 0 || !jobs.count)
        return r;
    *ret = jobs.items[0];
    return 1;
}

/* If no run has the given name as its type, but a job has that name, replaces it by the type of the
 * job's latest run. Returns 1 if it was replaced, 0, or a negative errno. */
static int resolve_job_name(struct reader *reader, struct request *request)
{
    _cleanup_(arena_done) struct arena arena = {0};
    struct job run;

    if (!request->name)
        return 0;
    int r = find_run(reader, request->job_type, NULL, &arena, &run);
    if (r != 0)
        return MIN(r, 0);
    r = find_run(reader, NULL, request->name, &arena, &run);
    if (r <= 0 || !run.job_type || strlen(run.job_type) >= sizeof(request->job_type))
        return MIN(r, 0);
    strcpy(request->job_type, run.job_type);
    return 1;
}

/* Reports that there are fewer finished runs than needed, of the type or, without one, of any. */
static int report_missing(struct reader *reader, const struct request *request)
{
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_text_ struct text message = {0};
    const char *similar = NULL;

    if (!request->job_type[0])
        return report_no_data(&command_estimate, reader,
                              "no data: no two finished runs%s of one type", of_yours(reader));
    if (reader_similar_type(reader, request->job_type, &arena, &similar) < 0)
        similar = NULL;
    text_printf(&message, "no data: %s finished runs%s of the type '%s'",
                request->shows_calibration ? "fewer than two" : "no", of_yours(reader),
                request->job_type);
    if (similar && strcmp(similar, request->job_type) != 0)
        text_printf(&message, "; did you mean '%s'?", similar);
    return report_no_data(&command_estimate, reader, "%s", text_string(&message));
}

static int read_estimate(struct reader *reader, struct request *request, struct arena *arena,
                         struct resource_estimate *ret)
{
    int r = reader_estimate(reader, request->job_type, arena, ret);

    if (r != -ENODATA)
        return r;
    r = resolve_job_name(reader, request);
    if (r == 0)
        return -ENODATA;
    return r < 0 ? r : reader_estimate(reader, request->job_type, arena, ret);
}

static int print_estimate(struct reader *reader, struct request *request)
{
    const struct report_style style = output_style(SIZE_MAX);
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_text_ struct text out = {0};
    struct resource_estimate estimate;

    int r = read_estimate(reader, request, &arena, &estimate);
    if (r == -ENODATA)
        return report_missing(reader, request);
    if (r < 0)
        return reader_failed(&command_estimate, reader, r);
    note_source(reader);
    if (request->as_json)
        return output_json(&command_estimate, &resource_estimate_record, &estimate);
    estimate_format(request->job_type, &estimate, admission_uses_estimate(&estimate), &style, &out);
    return output_text(&command_estimate, &out);
}

static int read_calibration(struct reader *reader, const struct request *request,
                            struct arena *arena, struct calibration_list *ret)
{
    return reader_calibration(reader, request->job_type[0] ? request->job_type : NULL, arena, ret);
}

static int print_calibration(struct reader *reader, struct request *request)
{
    const struct report_style style = output_style(SIZE_MAX);
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_text_ struct text out = {0};
    struct calibration_list list = {0};

    int r = read_calibration(reader, request, &arena, &list);
    if (r == 0 && !list.count) {
        r = resolve_job_name(reader, request);
        if (r > 0)
            r = read_calibration(reader, request, &arena, &list);
    }
    if (r < 0)
        return reader_failed(&command_estimate, reader, r);
    if (!list.count && !request->as_json)
        return report_missing(reader, request);
    note_source(reader);
    if (request->as_json)
        return output_json_list(&command_estimate, &calibration_record, &list);
    calibration_format(&list, &style, &out);
    return output_text(&command_estimate, &out);
}

static int run(const struct command_context *context, struct arguments *arguments)
{
    _cleanup_(reader_closep) struct reader *reader = NULL;
    struct request request;

    int status = read_request(context, arguments, &request);
    if (status)
        return status;
    bool prints_list = request.shows_calibration && request.as_json;
    status = prints_list ? open_reader_if_any(&command_estimate, context, &reader)
                         : open_reader(&command_estimate, context, &reader);
    if (status == EXIT_NO_DATA && prints_list) /* no data: no calibrations */
        return output_json_list(&command_estimate, &calibration_record,
                                &(struct calibration_list){0});
    if (status)
        return status;
    return request.shows_calibration ? print_calibration(reader, &request)
                                     : print_estimate(reader, &request);
}

static const struct command_option options[] = {
    {"calibration", 'c', NULL, "Show how often estimates held; without NAME, for all types.",
     .more = "For each finished run, sonde computes the estimate at its start and checks whether "
             "the run stayed within the p95. `MEMORY, IF CONFIDENT` is memory, for estimates that "
             "admission uses. The target is 95 %."},
    {"json", 0, NULL, "Print a ResourceEstimate, or an array of Calibration, as JSON.",
     .more = "The array is [] if there are too few runs. Unknown values are null."},
};

const struct command command_estimate = {
    .name = "estimate",
    .summary = "Estimate what the next run of a job type will need.",
    .usage = "estimate NAME [--json]\n"
             "estimate [--json] -- CMD [ARG...]\n"
             "estimate --calibration [NAME] [--json]",
    .details =
        "NAME is a type, or a job, which stands for the type of its latest run.\n"
        "Uses the latest 200 finished runs of the type: the median (p50), and the value that 95\n"
        "of 100 runs do not exceed (p95). With -- CMD, the type is the one that 'sonde run -- "
        "CMD'\n"
        "would have in this directory. A run that was killed for lack of memory counts as a lower\n"
        "bound.\n"
        "Exit status: 0, 1 on failure, 2 for wrong usage, 3 if no run of the type has finished.\n",
    .options = options,
    .option_count = ARRAY_SIZE(options),
    .run = run,
};
