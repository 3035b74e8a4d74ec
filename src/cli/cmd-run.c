#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd-io.h"
#include "base/log.h"
#include "base/number.h"
#include "base/uuid.h"
#include "cli/check-admission.h"
#include "cli/command-type.h"
#include "cli/command.h"
#include "cli/load-config.h"
#include "cli/option-values.h"
#include "cli/print-summary.h"
#include "client/run-link.h"
#include "config/paths.h"
#include "model/record-json.h"
#include "model/redact.h"
#include "model/signal-kind.h"
#include "run/job-run.h"
#include "sample/collector.h"

/* The same exit statuses as those of `env`, `nohup` and `timeout`. */
#define EXIT_OURS           125
#define EXIT_NOT_EXECUTABLE 126
#define EXIT_NOT_FOUND      127

/* Short enough to see a build step, long enough not to slow the command down. */
#define DEFAULT_INTERVAL "100ms"
#define MIN_INTERVAL_NS  (10 * NS_PER_MSEC)
#define MAX_INTERVAL_NS  (3600 * NS_PER_SEC)

/* The checked command line. */
struct request {
    char run_id[UUID_TEXT_SIZE];
    char job_id[JOB_ID_MAX_BYTES + 1];
    char job_type[JOB_ID_MAX_BYTES + 1];
    struct job_run_options job;
    const char *summary_path;
    int summary_fd;
    bool is_quiet;
    bool is_stored;
    bool is_admitted; /* --admit: wait until the job may start */
    struct store_options store;
    struct socket_paths sockets;
    struct run_link *link;       /* to a daemon, if there is one */
    const char *no_store_reason; /* why the run cannot be stored; NULL: it can */
};

static int read_interval(const struct arguments *arguments, uint64_t *ret_ns)
{
    const char *text = arguments_value(arguments, "interval");

    if (!text)
        text = DEFAULT_INTERVAL;
    if (number_parse_duration(text, ret_ns) < 0)
        return option_invalid(&command_run, "interval", text,
                              "is not a duration; write 100ms, 2s or 1m");
    if (*ret_ns < MIN_INTERVAL_NS || *ret_ns > MAX_INTERVAL_NS)
        return option_invalid(&command_run, "interval", text,
                              "is out of range (allowed: 10ms to 1h)");
    return 0;
}

static int read_step(const struct arguments *arguments, int64_t *ret)
{
    const char *text = arguments_value(arguments, "step");

    *ret = INT_UNKNOWN;
    if (text && (number_parse_int(text, ret) < 0 || *ret < 0))
        return option_invalid(&command_run, "step", text,
                              "is not a step number (allowed: 0 or more)");
    return 0;
}

/* Sets the job's name and type: as given, else derived from the command. */
static int read_names(const struct arguments *arguments, struct request *request)
{
    const char *given_id = arguments_value(arguments, "job");
    const char *given_type = arguments_value(arguments, "type");
    const char *const *argv = (const char *const *)arguments->words;
    const char *reason;

    if (given_id && job_id_check(given_id, &reason) < 0)
        return option_invalid(&command_run, "job", given_id, reason);
    if (given_type && job_id_check(given_type, &reason) < 0)
        return option_invalid(&command_run, "type", given_type, reason);

    if (given_id) {
        strcpy(request->job_id, given_id);
    } else {
        uint16_t random = 0;
        getrandom(&random, sizeof(random), 0);
        job_id_format(argv, random, request->job_id, sizeof(request->job_id));
    }
    if (given_type)
        strcpy(request->job_type, given_type);
    return 0;
}

/* Completes the type, redacted: summaries end up in build logs, and are redacted like stored data.
 */
static void complete_type(const struct text_list *words, struct request *request)
{
    if (request->job_type[0])
        redact_buffer(words, request->job_type, sizeof(request->job_type));
    else
        command_type_format(request->job.argv, words, request->job_type);
}

/* The descriptor that a path such as - or /dev/stdout refers to; -1: none. */
static int64_t descriptor_of(const char *path)
{
    static const char *const directories[] = {"/dev/fd/", "/proc/self/fd/"};
    int64_t fd;

    if (strcmp(path, "-") == 0 || strcmp(path, "/dev/stdout") == 0)
        return STDOUT_FILENO;
    if (strcmp(path, "/dev/stderr") == 0)
        return STDERR_FILENO;
    for (size_t i = 0; i < ARRAY_SIZE(directories); i++) {
        size_t length = strlen(directories[i]);
        if (strncmp(path, directories[i], length) == 0 &&
            number_parse_int(path + length, &fd) == 0 && fd >= 0 && fd <= INT_MAX)
            return fd;
    }
    return -1;
}

/* Duplicates the descriptor of an open file. Opening the file again would truncate and overwrite
 * what the command writes to it. */
static int duplicate(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0)
        return -errno;
    if ((flags & O_PATH) || (flags & O_ACCMODE) == O_RDONLY)
        return -EBADF;
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    return copy < 0 ? -errno : copy;
}

/* The summary's file for a message: "standard output", or its path in quotes. */
static void format_target(const char *path, struct text *out)
{
    if (descriptor_of(path) == STDOUT_FILENO)
        text_append_string(out, "standard output");
    else
        text_printf(out, "'%s'", path);
}

static void report_summary_error(const char *path, const char *reason)
{
    _cleanup_text_ struct text target = {0};

    format_target(path, &target);
    log_error("run: cannot write the summary to %s: %s", text_string(&target), reason);
}

static const char *describe_open_error(int error)
{
    switch (error) {
    case ELOOP: return "it is a symbolic link in a directory that others can write";
    case ENXIO: return "it is a pipe without a reader";
    default: return strerror(error);
    }
}

/* Opens the file before the command starts, so that a wrong path is reported before a long run. The
 * command's own redirections are not changed. */
static int open_summary(struct request *request)
{
    if (!request->summary_path)
        return 0;
    int64_t named_fd = descriptor_of(request->summary_path);
    request->summary_fd = named_fd >= 0 ? duplicate((int)named_fd)
                                        : fd_open_output(request->summary_path, O_CREAT, 0600);
    if (request->summary_fd >= 0)
        return 0;
    report_summary_error(request->summary_path, describe_open_error(-request->summary_fd));
    return EXIT_OURS;
}

static int read_request(struct arguments *arguments, struct request *ret)
{
    if (!arguments->count)
        return command_misused(&command_run, "no command given; write: sonde run -- CMD");

    int status = read_interval(arguments, &ret->job.interval_ns);
    if (status == 0)
        status = read_step(arguments, &ret->job.sheet_num);
    if (status == 0)
        status = read_names(arguments, ret);
    if (status)
        return status;

    if (uuid_make(clock_real_ns(), ret->run_id) < 0) {
        log_error("run: cannot get random numbers from the kernel");
        return EXIT_OURS;
    }
    ret->job.argv = arguments->words;
    ret->job.run_id = ret->run_id;
    ret->job.job_id = ret->job_id;
    ret->job.job_type = ret->job_type;
    ret->job.wait_for_all = arguments_has(arguments, "wait");
    ret->job.is_exact = arguments_has(arguments, "exact");
    ret->job.measures_memory = arguments_has(arguments, "pss");
    ret->job.counts_syscalls = arguments_has(arguments, "syscalls");
    ret->summary_path = arguments_value(arguments, "summary");
    ret->is_quiet = arguments_has(arguments, "quiet");
    ret->is_stored = !arguments_has(arguments, "no-store");
    ret->is_admitted = arguments_has(arguments, "admit");
    return 0;
}

static void on_notice(void *context _unused_, const char *text)
{
    log_error("run: %s", text);
}

/* Chooses the database. If there is none, the command still runs. */
static void choose_store(const struct command_context *context, struct config *config,
                         struct request *request)
{
    if (!request->is_stored)
        return;
    int r = resolve_paths(context, config);
    if (r < 0) {
        request->no_store_reason = r == -ENOENT ? "no home directory; set HOME, or use "
                                                  "--state-dir or --no-store"
                                                : strerror(-r);
        return;
    }
    /* Only the daemon writes the JSONL log. */
    request->store =
        (struct store_options){.path = config->storage_path, .retention = config->retention};
    request->job.store = &request->store;
    request->job.on_notice = on_notice;
}

/* Prepares the link to a daemon, which stores the run if it is there. Without memory for the link,
 * `sonde run` stores it. */
static void find_backend(const struct command_context *context, struct request *request)
{
    if (!request->job.store || paths_sockets(context->socket_path, context->state_dir, getenv,
                                             geteuid(), &request->sockets) < 0)
        return;
    request->link = run_link_new((const char *const *)request->sockets.items, request->store.path);
    if (request->link)
        request->job.backend = run_link_backend(request->link);
}

/* With --admit, waits until the job may start. Returns 0 or the exit status. */
static int wait_for_admission(const struct command_context *context, const struct request *request)
{
    struct reader_error error = {.text = ""};
    struct admission admission;

    if (!request->is_admitted)
        return 0;
    int r = await_admission(context, request->job_type, REAL_UNKNOWN, &admission, &error);
    if (r == 0)
        return 0;
    if (error.text[0])
        log_error("run: --admit: %s", error.text);
    return r == -EINTR ? SIGNAL_STATUS(SIGINT) : EXIT_OURS;
}

static void request_done(struct request *request)
{
    run_link_free(request->link);
    socket_paths_done(&request->sockets);
    close_fd(request->summary_fd);
}

static int report_not_started(const struct request *request, int error, int exec_errno,
                              const struct kernel_probe_error *refusal)
{
    const char *command = request->job.argv[0];

    if (error == -EOPNOTSUPP) {
        const char *option = request->job.counts_syscalls ? "--syscalls" : "--exact";
        log_error("run: %s needs the kernel collector, which is not available: %s; omit %s to use "
                  "the other collectors",
                  option, refusal->text, option);
        return EXIT_OURS;
    }
    if (error != -ECHILD) {
        log_error("run: cannot start '%s': %s", command, strerror(-error));
        return EXIT_OURS;
    }
    if (exec_errno == ENOENT && !strchr(command, '/')) {
        log_error("run: '%s' is not in PATH", command);
        return EXIT_NOT_FOUND;
    }
    log_error("run: cannot execute '%s': %s", command, strerror(exec_errno));
    return exec_errno == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
}

static void write_summary(const struct request *request, const struct run_summary *summary)
{
    _cleanup_text_ struct text text = {0};
    struct json_writer json = {.out = &text};

    record_encode(&run_summary_record, summary, &json);
    text_append_char(&text, '\n');
    int r = text_error(&text);
    /* Truncated only now, so that a command that could not start leaves the previous summary in
     * place. A file that was already open is not truncated: it may contain other output. */
    bool is_opened_here = descriptor_of(request->summary_path) < 0;
    if (r == 0 && is_opened_here && ftruncate(request->summary_fd, 0) < 0 && errno != EINVAL)
        r = -errno;
    if (r == 0)
        r = fd_write_all(request->summary_fd, text.bytes, text.length);
    if (r < 0)
        report_summary_error(request->summary_path, strerror(-r));
}

static void report(const struct request *request, const struct job_run_result *result)
{
    if (request->no_store_reason)
        log_error("run: not stored: %s", request->no_store_reason);
    if (!result->has_summary) {
        log_error("run: out of memory for the summary");
        return;
    }
    if (result->sampling_error)
        log_error("run: could not sample '%s': %s; its figures come from kernel accounting only",
                  result->summary.profile.job_id, collector_strerror(result->sampling_error));
    if (result->failed_samples)
        log_error("run: %llu samples of '%s' failed", (unsigned long long)result->failed_samples,
                  result->summary.profile.job_id);
    if (request->summary_fd >= 0)
        write_summary(request, &result->summary);
    if (!request->is_quiet)
        print_summary(&result->summary, result->connector_error);
}

static int exit_status(int wait_status)
{
    return WIFSIGNALED(wait_status) ? SIGNAL_STATUS(WTERMSIG(wait_status))
                                    : WEXITSTATUS(wait_status);
}

static int run(const struct command_context *context, struct arguments *arguments)
{
    struct request request = {.summary_fd = -1};
    struct job_run_result result;
    int exec_errno = 0;

    int status = read_request(arguments, &request);
    if (status)
        return status;
    /* A wrong configuration is reported before the job starts. */
    _cleanup_config_ struct config *config = NULL;
    if (load_config(context, &config) < 0)
        return EXIT_OURS;
    request.job.config = config;
    complete_type(&config->redact, &request);
    choose_store(context, config, &request);
    find_backend(context, &request);
    status = open_summary(&request);
    if (status == 0)
        status = wait_for_admission(context, &request);
    if (status) {
        request_done(&request);
        return status;
    }

    int r = job_run(&request.job, &result, &exec_errno);
    if (r < 0) {
        status = report_not_started(&request, r, exec_errno, &result.refusal);
    } else {
        report(&request, &result);
        status = exit_status(result.wait_status);
    }
    job_run_result_done(&result);
    request_done(&request);
    return status;
}

static const struct command_option options[] = {
    {"job", 'j', "ID", "Name the job (default: program and four hex digits: make-7f3a).",
     .more = "A job may run again later under the same name. If a job of that name is still "
             "running, the new one is named ID-2 (ID-3, ...); sonde prints this name and uses it "
             "in the summary."},
    {"type", 't', "TYPE", "Set the type, which groups similar runs (default: from the command).",
     .more = "The default is the program's name, its first argument that is not an option, and the "
             "base name of the working directory: `make test @parser`."},
    {"step", 0, "N", "Record the run as step N of the job.", .old_name = "sheet",
     .more = "N is 0 or more. sonde stores the step with its own start, end, outcome and figures."},
    {"interval", 'i', "TIME", "Sample every TIME, 10ms to 1h (default 100ms).",
     .more = "CPU time and the peak of the largest process do not depend on it."},
    {"admit", 'a', NULL, "Wait until the job may start, like `sonde admit --wait`.",
     .more = "The job may start when there is room for a job of its type. sonde prints the reason "
             "for waiting once. Ctrl-C stops waiting without starting CMD (130). See "
             "sonde-admit(1)."},
    {"exact", 'x', NULL, "Start CMD only once the kernel collector is loaded.",
     .more = "This takes about 30 ms of CPU time. From the first process on, the kernel then "
             "reports each spawn, exec and exit, and each signal with its sender. Exits contain "
             "the CPU time and the peak memory of the process. Without --exact, sonde loads the "
             "collector after CMD has run for 40 ms. Until then, the process connector reports "
             "spawns and exits, and wait4(2) reports CPU time. If the collector cannot be loaded, "
             "sonde prints the reason and does not start CMD (125). See THE KERNEL COLLECTOR."},
    {"pss", 0, NULL, "Measure at new peaks how much memory the processes share.",
     .more = "sonde then reads smaps_rollup of each process, for at most a tenth of the time. This "
             "narrows the interval from `peak_unique_min_mb` to `peak_unique_mb`. Files and shared "
             "memory still count at most as their sum, because programs outside the job may have "
             "mapped them, too. A process with much memory may have to wait meanwhile. A reading "
             "during which the processes change their memory does not count."},
    {"syscalls", 0, NULL, "Count every system call, its time and its errors.",
     .more = "The names and counts are those of `strace -c -w -f`. For a program that only makes "
             "system calls, this takes two and a half times the CPU; strace takes a hundred times. "
             "The summary, the report and the exit event of each process show the counts. Like "
             "--exact, this option waits for the kernel collector and does not start CMD (125) "
             "without it. A call counts when it returns, so `exit_group` and a call in which a "
             "process is killed do not count. During such a run, every call on the machine costs a "
             "quarter of a microsecond more.\n\n"
             "Without this option, sonde samples in which system calls the job's threads are, if "
             "the kernel collector is loaded. It reports shares of time, marked as sampled, at no "
             "cost for the job."},
    {"wait", 'w', NULL, "Also wait for processes that CMD leaves running.",
     .more = "Wall time then includes them. Ctrl-C or SIGTERM after the end of CMD stops waiting."},
    {"summary", 's', "FILE", "Write the summary to FILE as one JSON object (-: stdout).",
     .more = "A new file has mode 0600. Unlike the text, `syscall_hotspots` also contains system "
             "calls that only wait. sonde opens the file before CMD starts and writes it after CMD "
             "has ended. It never follows a symbolic link in a directory that others can write."},
    {"no-store", 0, NULL, "Do not store this run.",
     .more = "sonde opens and creates no file and does not contact a daemon."},
    {"json", 0, NULL, NULL, .instead = "--summary -"},
    {"quiet", 'q', NULL, "Print no summary.", .more = "Errors are still printed."},
};

const struct command command_run = {
    .name = "run",
    .summary = "Run a command as a job and report what it used.",
    .usage = "run [OPTIONS] -- CMD [ARGUMENT...]",
    .details =
        "CMD runs as `env CMD` would run it. sonde ends when CMD ends. The exit status is that of\n"
        "CMD, 128+N if signal N killed it, 126 or 127 if CMD cannot be executed, and 125 if sonde\n"
        "failed before CMD started. The summary goes to stderr; ≥ marks a lower bound, ~ the\n"
        "largest sampled value. The run is stored for `sonde report` unless --no-store is given;\n"
        "storage errors do not affect the command.\n",
    .options = options,
    .option_count = ARRAY_SIZE(options),
    .stops_at_word = true,
    .usage_status = EXIT_OURS,
    .run = run,
};
