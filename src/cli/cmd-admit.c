#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json-writer.h"
#include "base/log.h"
#include "base/number.h"
#include "cli/check-admission.h"
#include "cli/load-config.h"
#include "cli/option-values.h"
#include "cli/output.h"

struct request {
    char type[JOB_ID_MAX_BYTES + 1];
    const char *job_type; /* NULL: not given */
    bool waits;
    double timeout_sec; /* REAL_UNKNOWN: no limit */
};

static int read_request(const struct command_context *context, const struct arguments *arguments,
                        struct request *ret)
{
    const char *timeout = arguments_value(arguments, "timeout");
    uint64_t timeout_ns;

    *ret = (struct request){
        .waits = arguments_has(arguments, "wait"),
        .timeout_sec = REAL_UNKNOWN,
    };
    if (arguments->count)
        return command_misused(&command_admit, "unexpected argument '%s'; did you mean --type?",
                               SHOWN(arguments->words[0]));
    int status = option_type(&command_admit, context, arguments, ret->type, &ret->job_type);
    if (status)
        return status;
    if (timeout && !ret->waits)
        return command_misused(&command_admit, "--timeout needs --wait");
    if (timeout && number_parse_duration(timeout, &timeout_ns) < 0)
        return command_misused(&command_admit,
                               "--timeout: '%.60s' is not a duration; write 30s, 5m or 2h30m",
                               timeout);
    if (timeout)
        ret->timeout_sec = ns_to_sec(timeout_ns);
    return 0;
}

static void format_json(const struct admission *admission, struct text *out)
{
    struct json_writer json = {.out = out};

    json_write_begin_object(&json);
    json_write_key(&json, "allowed");
    json_write_bool(&json, admission->allowed);
    json_write_key(&json, "delay_seconds");
    json_write_decimal(&json, admission->delay_seconds, 3);
    json_write_key(&json, "level");
    json_write_string(&json, pressure_name(admission->level));
    json_write_key(&json, "reason");
    json_write_string(&json, admission->reason[0] ? admission->reason : NULL);
    json_write_end_object(&json);
}

/* "yes", or "no: jobs use 7.5 GB of 8.0 GB of memory". */
static void format_text(const struct admission *admission, struct text *out)
{
    const struct report_style style = output_style(SIZE_MAX);
    enum tint tint = admission->allowed ? TINT_GOOD : TINT_BAD;

    style_begin(&style, tint, out);
    text_append_string(out, admission->allowed ? "yes" : "no");
    style_end(&style, tint, out);
    if (admission->reason[0]) {
        text_append_string(out, ": ");
        style_visible(admission->reason, out);
    }
}

static int print(const struct arguments *arguments, const struct admission *admission)
{
    _cleanup_text_ struct text out = {0};

    if (arguments_has(arguments, "json"))
        format_json(admission, &out);
    else
        format_text(admission, &out);
    text_append_char(&out, '\n');
    int status = output_text(&command_admit, &out);
    return status ? status : admission->allowed ? 0 : EXIT_NOT_NOW;
}

static int run(const struct command_context *context, struct arguments *arguments)
{
    _cleanup_config_ struct config *config = NULL;
    struct reader_error error = {""};
    struct admission admission;
    struct request request;

    int status = read_request(context, arguments, &request);
    if (status)
        return status;
    if (load_config(context, &config) < 0)
        return EXIT_USAGE;
    int r = request.waits ? await_admission(context, request.job_type, request.timeout_sec,
                                            &admission, &error)
                          : check_admission(context, request.job_type, &admission, &error);
    if (r == 0 || r == -ETIMEDOUT)
        return print(arguments, &admission);
    log_error("admit: %s", error.text[0] ? error.text : strerror(-r));
    return 1;
}

static const struct command_option options[] = {
    {"type", 't', "TYPE", "Also consider what earlier runs of this type needed.",
     .more = "They count only if the estimate from them has enough confidence."},
    {"wait", 'w', NULL, "Wait until a job may start.",
     .more =
         "sonde asks again until the answer is yes. Each answer states the delay until the next "
         "request; it is at least 1 s and at most 60 s. The reason for waiting is printed once, "
         "on standard error. Ctrl-C stops waiting."},
    {"timeout", 0, "TIME", "With --wait, wait at most TIME, such as 30s, 5m or 2h30m."},
    {"json", 0, NULL, "Print the answer as one JSON object.",
     .more = "It has `allowed` (true or false), `delay_seconds` (when to ask again), `level` (the "
             "pressure, or null) and `reason` (text, or null)."},
};

const struct command command_admit = {
    .name = "admit",
    .summary = "Check whether another job may start now.",
    .usage = "admit [--type TYPE] [--wait [--timeout TIME]] [--json]",
    .details =
        "The daemon decides; without a daemon, only free memory counts.\n"
        "Exit status: 0 if a job may start, 75 if not now, 1 on failure, 2 for wrong usage.\n",
    .options = options,
    .option_count = ARRAY_SIZE(options),
    .run = run,
};
