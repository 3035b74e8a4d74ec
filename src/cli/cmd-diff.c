#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/uuid.h"
#include "cli/command.h"
#include "cli/open-reader.h"
#include "cli/output.h"
#include "report/run-diff.h"

struct request {
    struct text before; /* "JOB~1", if only JOB is given */
    const char *left;
    const char *right;
};

/* For JOB alone, compares its latest run with the run before. */
static int read_request(const struct arguments *arguments, struct request *ret)
{
    const char *first = arguments->count ? arguments->words[0] : NULL;

    if (!first || arguments->count > 2)
        return command_misused(
            &command_diff,
            "expected one job or two runs, found %d arguments; write: sonde diff JOB~1 JOB",
            arguments->count);
    ret->left = first;
    ret->right = arguments->words[1];
    if (arguments->count == 2)
        return 0;
    if (strchr(first, '~') || uuid_looks_like(first))
        return command_misused(&command_diff, "specify a run to compare '%s' with", SHOWN(first));
    text_printf(&ret->before, "%s~1", first);
    ret->left = text_string(&ret->before);
    ret->right = first;
    return 0;
}

static int read_report(struct reader *reader, const char *name, double now, struct arena *arena,
                       struct job_report *ret)
{
    int r = reader_job_report(reader, name, now, arena, ret);

    if (r == -ENOENT)
        return reader_has_no_job(&command_diff, reader, name);
    return r < 0 ? reader_failed(&command_diff, reader, r) : 0;
}

static int print(const struct arguments *arguments, const struct run_diff *diff)
{
    const struct report_style style = output_style(SIZE_MAX);
    _cleanup_text_ struct text out = {0};

    if (arguments_has(arguments, "json"))
        return output_json(&command_diff, &run_diff_record, diff);
    run_diff_format(diff, &style, &out);
    return output_text(&command_diff, &out);
}

static int compare(struct reader *reader, const struct arguments *arguments,
                   const struct request *request)
{
    _cleanup_(arena_done) struct arena arena = {0};
    double now = ns_to_sec(clock_real_ns());
    struct job_report left, right;
    struct run_diff diff;

    int status = read_report(reader, request->left, now, &arena, &left);
    if (status == 0)
        status = read_report(reader, request->right, now, &arena, &right);
    if (status)
        return status;
    note_source(reader);
    int r = run_diff_make(&left, &right, &arena, &diff);
    return r < 0 ? reader_failed(&command_diff, reader, r) : print(arguments, &diff);
}

static int run(const struct command_context *context, struct arguments *arguments)
{
    _cleanup_(reader_closep) struct reader *reader = NULL;
    struct request request = {.left = NULL};

    int status = read_request(arguments, &request);
    if (status == 0)
        status = open_reader(&command_diff, context, &reader);
    if (status == 0)
        status = compare(reader, arguments, &request);
    text_done(&request.before);
    return status;
}

static const struct command_option options[] = {
    {"json", 0, NULL, "Print a RunDiff as one JSON object.", .more = "Unknown values are null."},
};

const struct command command_diff = {
    .name = "diff",
    .summary = "Compare two runs.",
    .usage = "diff RUN RUN [--json]\n"
             "diff JOB [--json]",
    .details =
        "RUN is JOB (its latest run), JOB~1 (the one before) or a run_id. JOB alone compares its\n"
        "latest run with the one before. ≥ marks a lower bound, ~ the largest sampled value.\n"
        "Exit status: 0, 1 on failure, 2 for wrong usage, 3 if there is no such run.\n",
    .options = options,
    .option_count = ARRAY_SIZE(options),
    .run = run,
};
