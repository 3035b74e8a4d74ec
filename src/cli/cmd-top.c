#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/number.h"
#include "cli/command.h"
#include "cli/load-config.h"
#include "cli/option-values.h"
#include "config/paths.h"
#include "top/stream.h"
#include "top/top.h"
#include "trace/live-trace.h"

#define INTERVAL_NS     (2 * NS_PER_SEC)
#define INTERVAL_MIN_NS (10 * NS_PER_MSEC)
#define INTERVAL_MAX_NS (3600 * NS_PER_SEC)

static int read_interval(const struct arguments *arguments, uint64_t *ret)
{
    const char *text = arguments_value(arguments, "interval");

    *ret = INTERVAL_NS;
    if (!text)
        return 0;
    if (number_parse_duration(text, ret) < 0)
        return command_misused(
            &command_top, "--interval: '%.60s' is not a duration; write 500ms, 2s or 1m", text);
    if (*ret < INTERVAL_MIN_NS || *ret > INTERVAL_MAX_NS)
        return command_misused(&command_top,
                               "--interval: '%.60s' is out of range (allowed: 10ms to 1h)", text);
    return 0;
}

static int read_options(const struct arguments *arguments, struct feed_options *ret, size_t *limit)
{
    double now = ns_to_sec(clock_real_ns());

    if (arguments->count)
        return command_misused(&command_top, "unexpected argument '%s'; did you mean --job?",
                               SHOWN(arguments->words[0]));
    *ret = (struct feed_options){.job = arguments_value(arguments, "job"), .since = REAL_UNKNOWN};
    int status = read_interval(arguments, &ret->interval_ns);
    if (status == 0)
        status = option_time(&command_top, arguments, "history", now, &ret->since);
    if (status == 0)
        status = option_limit(&command_top, arguments, limit);
    if (status)
        return status;
    if (*limit && !arguments_has(arguments, "json"))
        return command_misused(&command_top, "--limit needs --json");
    if (ret->job && (!*ret->job || strlen(ret->job) > JOB_ID_NUMBERED_MAX_BYTES))
        return command_misused(&command_top, "--job: '%.60s' cannot be the name of a job",
                               ret->job);
    if (ret->job && strchr(ret->job, '~') && !real_is_known(ret->since))
        return command_misused(
            &command_top, "--job: '%.60s' is an earlier run, which needs --history TIME", ret->job);
    return 0;
}

/* Prints the error. Returns the exit status: a history without data is not a failure. */
static int report_failure(int r, const struct feed_error *error)
{
    log_error("top: %s", error->text[0] ? error->text : strerror(-r));
    return r == -ENOENT || r == -ENODATA ? EXIT_NO_DATA : 1;
}

/* ---- JSON ---- */

static int print_line(void *context, const struct text *line)
{
    int *status = context;

    fwrite(line->bytes, 1, line->length, stdout);
    *status = finish_output(&command_top);
    /* If the reader of stdout has ended, the status stays 0. */
    return *status || ferror(stdout) ? 1 : 0;
}

static void note_status(void *context _unused_, const struct feed_status *status)
{
    if (status->is_down)
        log_note("%s; waiting for it to return", status->reason);
    else if (status->reason[0])
        log_note("%s; sampling without it", status->reason);
    else
        log_note("connected again");
}

static int print_frames(const struct feed_options *feed, size_t limit)
{
    int status = 0;
    const struct stream_options options = {.feed = *feed,
                                           .limit = limit,
                                           .on_line = print_line,
                                           .on_status = note_status,
                                           .context = &status};
    struct feed_error error = {""};

    int r = stream_frames(&options, &error);
    return r < 0 ? report_failure(r, &error) : status;
}

/* ---- the screen ---- */

static int show(const struct feed_options *feed, const struct arguments *arguments)
{
    const char *no_color = getenv("NO_COLOR");
    const struct top_options options = {
        .feed = *feed,
        .is_readonly = arguments_has(arguments, "readonly"),
        .without_unicode = arguments_has(arguments, "no-unicode"),
        .without_colour = no_color && *no_color,
    };
    struct feed_error error = {""};

    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
        log_error("top: standard input and output must be a terminal; use --json for a program");
        return 1;
    }
    int r = top_run(&options, &error);
    return r < 0 ? report_failure(r, &error) : 0;
}

/* ---- a full trace ---- */

static int read_trace_options(const struct arguments *arguments, pid_t *ret)
{
    static const char *const others[] = {"history", "job",        "interval", "readonly",
                                         "json",    "no-unicode", "limit"};
    const char *text = arguments_value(arguments, "trace");
    int64_t pid;

    for (size_t i = 0; i < ARRAY_SIZE(others); i++)
        if (arguments_has(arguments, others[i]))
            return command_misused(&command_top,
                                   "--%s cannot be used with --trace; omit one of them", others[i]);
    if (arguments->count)
        return command_misused(&command_top, "unexpected argument '%s'",
                               SHOWN(arguments->words[0]));
    if (number_parse_int(text, &pid) < 0 || pid < 1 || pid > INT_MAX)
        return command_misused(&command_top, "--trace: '%.60s' is not a process id", text);
    *ret = (pid_t)pid;
    return 0;
}

static int trace(const struct arguments *arguments, const struct config *config)
{
    char reason[TRACE_REASON_SIZE];
    pid_t pid = 0;

    int status = read_trace_options(arguments, &pid);
    if (status)
        return status;
    if (!config->strace_full_on_demand) {
        log_error("top: full traces are disabled; set profiler.strace_full_on_demand to true");
        return 1;
    }
    if (live_trace(pid, arguments_value(arguments, "output"), reason) == 0)
        return 0;
    log_error("top: %s", reason);
    return 1;
}

static int run(const struct command_context *context, struct arguments *arguments)
{
    _cleanup_socket_paths_ struct socket_paths sockets = {0};
    _cleanup_config_ struct config *config = NULL;
    struct feed_options feed;
    size_t limit = 0;

    if (arguments_has(arguments, "trace"))
        return load_config(context, &config) < 0 ? EXIT_USAGE : trace(arguments, config);
    if (arguments_has(arguments, "output"))
        return command_misused(&command_top, "--output needs --trace");
    int status = read_options(arguments, &feed, &limit);
    if (status)
        return status;
    if (load_config(context, &config) < 0)
        return EXIT_USAGE;
    int r = paths_sockets(context->socket_path, context->state_dir, getenv, geteuid(), &sockets);
    if (r == 0)
        r = resolve_paths(context, config);
    if (r < 0 && r != -ENOENT) {
        log_error("top: %s", strerror(-r));
        return 1;
    }
    feed.socket_paths = (const char *const *)sockets.items;
    feed.database_path = r == 0 ? config->storage_path : NULL;
    feed.config = config;
    return arguments_has(arguments, "json") ? print_frames(&feed, limit) : show(&feed, arguments);
}

static const struct command_option options[] = {
    {"history", 'H', "TIME", "Replay stored data from TIME (1h, 14:00, \"2 hours ago\").",
     .more = "1h means an hour ago, and 14:00 the latest such time; yesterday, \"2026-11-16 "
             "14:00\" and Unix seconds are accepted, too. At its end, the replay continues with "
             "newly stored data."},
    {"job", 'j', "JOB", "Show one job: JOB, a run_id, with --history also JOB~1.",
     .more = "JOB~1 is the run before the latest; the replay begins where the run began."},
    {"interval", 'i', "TIME", "Refresh every TIME, such as 500ms (default 2s).",
     .more = "If the daemon takes snapshots less often, sonde requests more; the daemon stores "
             "them like its others."},
    {"readonly", 'r', NULL, "Do not send signals."},
    {"no-unicode", 0, NULL, "Draw in ASCII; the default if the locale is not UTF-8."},
    {"json", 0, NULL, "Print a SystemSnapshot per line instead of the screen.",
     .more = "With --history, all of them are printed without a pause. Unknown values are null."},
    {"limit", 'n', "N", "With --json, end after N lines."},
    {"trace", 't', "PID", "Print the system calls of a process tree instead.",
     .more = "strace(1) traces the process and its descendants until Ctrl-C or until the process "
             "ends. This slows the process down; it continues afterwards. It works only for your "
             "own processes, or as root; `profiler.strace_full_on_demand: false` forbids it."},
    {"output", 'o', "FILE", "With --trace, write to FILE."},
};

const struct command command_top = {
    .name = "top",
    .summary = "Show jobs and processes on a screen, live or replayed.",
    .usage = "top [OPTIONS]\n"
             "top --trace PID [-o FILE]",
    .details =
        "Shows jobs with their steps and processes, events and anomalies, from the daemon or,\n"
        "without one, from its own samples. F1 or ? lists the keys. With --history, Z pauses,\n"
        "[ and ] step, j jumps to a time, a jumps to the next anomaly. --trace attaches strace\n"
        "until Ctrl-C or the end of the process, and slows the process down.\n",
    .options = options,
    .option_count = ARRAY_SIZE(options),
    .run = run,
};
