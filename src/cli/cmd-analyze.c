#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/load-config.h"
#include "cli/open-reader.h"
#include "cli/option-values.h"
#include "cli/output.h"
#include "report/analysis-text.h"

/* `type` is the place for the job type of the request. */
static int read_request(const struct command_context *context, const struct arguments *arguments,
                        char type[static JOB_ID_MAX_BYTES + 1], struct analysis_request *ret)
{
    if (arguments->count)
        return command_misused(&command_analyze, "unexpected argument '%s'; did you mean --type?",
                               SHOWN(arguments->words[0]));
    *ret = (struct analysis_request){.now = ns_to_sec(clock_real_ns()), .uid = INT_UNKNOWN};
    ret->all_types = arguments_has(arguments, "all-types");
    if (ret->all_types && arguments_has(arguments, "type"))
        return command_misused(&command_analyze,
                               "--all-types cannot be used with --type; omit one of them");
    return option_type(&command_analyze, context, arguments, type, &ret->job_type);
}

/* A failure only prints a note: the analysis is printed anyway. */
static void store_patterns(const struct reader *reader, const struct pattern_renewal *renewal)
{
    struct store_error error = {""};

    if (renewal->is_due && store_renew_patterns_at(reader_place(reader), CORRELATION_PATTERN,
                                                   &renewal->patterns, &error) < 0)
        log_note("the patterns were not stored: %s", error.text);
}

static bool has_content(const struct analysis *analysis)
{
    return analysis->runs > 0 || analysis->runs_without_outcome > 0 || analysis->patterns.count > 0;
}

static int print(const struct arguments *arguments, const struct reader *reader,
                 const struct analysis *analysis)
{
    const struct report_style style = output_style(SIZE_MAX);
    _cleanup_text_ struct text out = {0};

    if (arguments_has(arguments, "json")) {
        note_source(reader);
        return output_json(&command_analyze, &analysis_record, analysis);
    }
    if (!has_content(analysis))
        return report_no_data(&command_analyze, reader, "%s%s", analysis->message,
                              reader_sees_only_own(reader) ? "; only your own runs count" : "");
    note_source(reader);
    analysis_format(analysis, &style, &out);
    return output_text(&command_analyze, &out);
}

static int run(const struct command_context *context, struct arguments *arguments)
{
    _cleanup_(reader_closep) struct reader *reader = NULL;
    _cleanup_(arena_done) struct arena arena = {0};
    _cleanup_config_ struct config *config = NULL;
    char type[JOB_ID_MAX_BYTES + 1];
    struct analysis_request request;
    struct pattern_renewal renewal;
    struct analysis analysis;

    int status = read_request(context, arguments, type, &request);
    if (status)
        return status;
    if (load_config(context, &config) < 0)
        return EXIT_USAGE;
    request.min_sample_size = config->correlation.min_sample_size;
    status = open_reader(&command_analyze, context, &reader);
    if (status)
        return status;
    int r = reader_analysis(reader, &request, &arena, &analysis, &renewal);
    if (r < 0)
        return reader_failed(&command_analyze, reader, r);
    store_patterns(reader, &renewal);
    return print(arguments, reader, &analysis);
}

static const struct command_option options[] = {
    {"type", 't', "TYPE", "Analyze the runs of one type only, and store no patterns."},
    {"all-types", 'a', NULL, "Compare runs of all types together, and store no patterns.",
     .more = "By default, each run is compared with runs of its type only."},
    {"json", 0, NULL, "Print an Analysis as one JSON object.", .more = "Unknown values are null."},
};

const struct command command_analyze = {
    .name = "analyze",
    .summary = "Find resource use that goes with failure, and show learned patterns.",
    .usage = "analyze [--type TYPE | --all-types] [--json]",
    .details =
        "Analyzes the runs that ended in the last seven days, each job type by itself: their peak\n"
        "memory, CPU time, system calls, anomalies and duration. FAIL is the failure rate of a\n"
        "group, ALL RUNS that of all runs of the type, Q the false discovery rate over all groups\n"
        "tested. Findings are stored as patterns until they no longer hold. A daemon repeats the\n"
        "analysis at an interval.\n"
        "Exit status: 0, 1 on failure, 2 for wrong usage, 3 if there are no runs.\n",
    .options = options,
    .option_count = ARRAY_SIZE(options),
    .run = run,
};
