/* All methods with their parameters. To add a method, add an enumerator in method.h, an entry at
 * the end of this file and, if it has parameters, a list of them before the entries. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/macros.h"
#include "base/uuid.h"
#include "model/event.h"
#include "model/job.h"
#include "model/process.h"
#include "rpc/method.h"

/* ---- values of enumerations ---- */

static const char *const end_words[] = {"success", "failure", "unknown", NULL};
static const char *const outcome_words[] = {"running", "success", "failure", "unknown", NULL};
static const char *const exactness_words[] = {"exact", "sampled", "lower_bound", NULL};
static const char *const syscall_source_words[] = {"sampled", "bpf", "strace", NULL};
static const char *const event_words[] = {"spawn", "exec", "exit", "signal", "kill", "oom", NULL};

/* method.h requires this order. */
static_assert(OUTCOME_SUCCESS == OUTCOME_RUNNING + 1 && OUTCOME_FAILURE == OUTCOME_RUNNING + 2 &&
                  OUTCOME_UNKNOWN == OUTCOME_RUNNING + 3,
              "outcomes are in the order of their words");
static_assert(SAMPLED == EXACT + 1 && LOWER_BOUND == EXACT + 2,
              "exactness is in the order of its words");
static_assert(SYSCALLS_BPF == SYSCALLS_SAMPLED + 1 && SYSCALLS_STRACE == SYSCALLS_SAMPLED + 2,
              "sources of system calls are in the order of their words");
static_assert(EVENT_EXEC == EVENT_SPAWN + 1 && EVENT_EXIT == EVENT_SPAWN + 2 &&
                  EVENT_SIGNAL == EVENT_SPAWN + 3 && EVENT_KILL == EVENT_SPAWN + 4 &&
                  EVENT_OOM == EVENT_SPAWN + 5,
              "event types are in the order of their words");

/* ---- parameters ---- */

/* Only lower case, so that an id has one spelling and comparisons are exact. */
static int check_uuid(const char *text, const char **ret_reason)
{
    if (uuid_looks_like(text) && !strpbrk(text, "ABCDEF"))
        return 0;
    *ret_reason = "is not a UUID in lower case";
    return -EINVAL;
}

#define BOOL(param, ...)                                                                           \
    {                                                                                              \
        .name = (param), .type = RPC_BOOL, __VA_ARGS__                                             \
    }
#define INT(param, from, to, ...)                                                                  \
    {                                                                                              \
        .name = (param), .type = RPC_INT, .min = (from), .max = (to), __VA_ARGS__                  \
    }
#define REAL(param, from, to, ...)                                                                 \
    {                                                                                              \
        .name = (param), .type = RPC_REAL, .min = (from), .max = (to), __VA_ARGS__                 \
    }
#define TEXT(param, bytes, ...)                                                                    \
    {                                                                                              \
        .name = (param), .type = RPC_TEXT, .max = (bytes), __VA_ARGS__                             \
    }
#define WORD(param, list, ...)                                                                     \
    {                                                                                              \
        .name = (param), .type = RPC_WORD, .words = (list), __VA_ARGS__                            \
    }
#define TALLY(param, ...)                                                                          \
    {                                                                                              \
        .name = (param), .type = RPC_TALLY, .max = RPC_TALLY_MAX, __VA_ARGS__                      \
    }
#define RECORDS(param, limit, of, ...)                                                             \
    {                                                                                              \
        .name = (param), .type = RPC_RECORDS, .max = (limit), .record = (of), __VA_ARGS__          \
    }
#define COUNT(param, ...)     INT(param, 0, RPC_NUMBER_MAX, __VA_ARGS__)
#define AMOUNT(param, ...)    REAL(param, 0, RPC_NUMBER_MAX, __VA_ARGS__)
#define MEMORY(param, ...)    REAL(param, 0, RPC_MEMORY_MAX_MB, __VA_ARGS__)
#define TIME(param, ...)      REAL(param, 0, RPC_TIME_MAX, __VA_ARGS__)
#define PID(param, ...)       INT(param, 1, RPC_PID_MAX, __VA_ARGS__)
#define UUID(param, ...)      TEXT(param, UUID_TEXT_SIZE - 1, .check = check_uuid, __VA_ARGS__)
#define JOB_TYPE(param, ...)  TEXT(param, JOB_ID_MAX_BYTES, .check = job_id_check, __VA_ARGS__)
#define WHICH_RUN(param, ...) TEXT(param, RPC_JOB_NAME_MAX_BYTES, __VA_ARGS__)
#define SINCE(...)            TIME("since", __VA_ARGS__)
#define UNTIL(...)            TIME("until", __VA_ARGS__)
#define LIMIT(to, otherwise)                                                                       \
    INT("limit", 1, to, .fallback = (otherwise),                                                   \
        .meaning = "the largest number of results; the latest ones are returned")

static const struct rpc_param top_params[] = {
    BOOL("fresh", .meaning = "take a snapshot now; the schedule does not change"),
};

static const struct rpc_param top_stream_params[] = {
    WHICH_RUN("job", .meaning = "only the processes of this job"),
};

static const struct rpc_param daemon_events_params[] = {
    LIMIT(200, 50),
};

static const struct rpc_param monitor_stream_params[] = {
    {.name = "events",
     .type = RPC_TEXTS,
     .is_required = true,
     .max = RPC_PATTERNS_MAX,
     .meaning = "event names, or prefixes with a star: `sheet.*`, `*`"},
};

static const struct rpc_param job_start_params[] = {
    TEXT("job_id", JOB_ID_MAX_BYTES, .check = job_id_check, .is_required = true,
         .meaning = "name of the job, unique per user: no `~`, no invisible characters, no blank "
                    "at either end, not a UUID"),
    JOB_TYPE("job_type",
             .meaning = "name that runs of the same work share; estimates are per type"),
    TEXT("command", COMMAND_MAX_BYTES, .allows_controls = true, .meaning = "its command line"),
    TEXT("cwd", RPC_TEXT_MAX_BYTES, .allows_controls = true, .meaning = "the working directory"),
    INT("total_sheets", 1, RPC_NUMBER_MAX, .meaning = "the number of steps"),
    PID("pid", .meaning = "its first process, which must belong to the caller's user; its later "
                          "descendants belong to the job"),
    UUID("parent_run_id", .meaning = "the run in which it was started"),
    UUID("run_id", .meaning = "an id (UUID) of the caller's choice, to register a run again"),
    BOOL("unique", .meaning = "use the name `JOB-2` instead of failing if the job is running"),
    BOOL("adopts_orphans", .meaning = "the connected process is the run's parent and subreaper"),
    BOOL("again",
         .meaning = "the run was recorded elsewhere until now; suppresses the start event"),
    TEXT("stores_in", RPC_PATH_MAX_BYTES, .allows_controls = true,
         .meaning = "the caller's database. `offers_events` and `keeps_events` apply only if it is "
                    "also the daemon's database and the caller is the daemon's user"),
    BOOL("offers_events",
         .meaning = "the caller has every event of the run: it stores spawns, execs and exits "
                    "itself if the daemon has missed some (`has_events` of the result)"),
    BOOL("keeps_events", .meaning = "the caller stores spawns, execs and exits of the run itself: "
                                    "the daemon publishes them and does not store them"),
    COUNT("sheet_num", .meaning = "the step that this run is"),
    TIME("started_at", .meaning = "start time; default: now"),
};

static const struct rpc_param job_leave_params[] = {
    WHICH_RUN("job_id", .is_required = true, .meaning = "the job, or a run_id"),
    TEXT("stores_in", RPC_PATH_MAX_BYTES, .allows_controls = true,
         .meaning = "the caller's database. If it is not the daemon's, the run ends here with an "
                    "unknown outcome"),
};

static const struct rpc_param job_progress_params[] = {
    WHICH_RUN("job_id", .is_required = true, .meaning = "the job, or a run_id"),
    COUNT("current_sheet", .meaning = "the current step"),
    COUNT("last_completed_sheet", .meaning = "the last completed step"),
    INT("total_sheets", 1, RPC_NUMBER_MAX, .meaning = "the number of steps"),
    TEXT("status", RPC_STATUS_MAX_BYTES, .meaning = "free text of the scheduler"),
};

static const struct rpc_param job_finish_params[] = {
    WHICH_RUN("job_id", .is_required = true, .meaning = "the job, or a run_id"),
    WORD("outcome", end_words, .is_required = true, .meaning = "how it ended"),
    INT("exit_code", 0, 255, .meaning = "exit status, if no signal ended it"),
    INT("signal_num", 1, 64, .meaning = "the signal that ended it"),
    TEXT("cause", RPC_DETAILS_MAX_BYTES, .allows_controls = true,
         .meaning = "why it ended, as text"),
    BOOL("cause_is_derived",
         .meaning = "`cause` only states how the first process ended; the daemon may replace it "
                    "with what it knows of the other processes"),
    RECORDS("chain", RPC_CHAIN_MAX, &process_event_record,
            .meaning =
                "the failures that led to its end, oldest first, as far as its parent has seen "
                "them; stored if the daemon has seen fewer failures or a different end"),
    AMOUNT("user_seconds", .meaning = "CPU time in user mode"),
    AMOUNT("system_seconds", .meaning = "CPU time in the kernel"),
    MEMORY("peak_rss_mb", .meaning = "peak RSS of its largest process, MiB"),
    COUNT("processes", .meaning = "the number of processes"),
    TIME("ended_at", .meaning = "end time; default: now"),
    AMOUNT("wall_seconds", .meaning = "wall time; at most the time since the run was registered"),
    AMOUNT("cpu_seconds",
           .meaning =
               "CPU time of all its processes; at most what all CPUs could provide in that time"),
    MEMORY("peak_total_mb", .meaning = "largest sum of RSS over all processes, MiB"),
    MEMORY("peak_unique_mb", .meaning = "the same with shared memory counted once"),
    AMOUNT("max_cpu_pct", .meaning = "highest CPU use in one interval, percent of a core"),
    COUNT("left_running", .meaning = "the number of processes that outlived it"),
    COUNT("num_samples", .meaning = "number of samples"),
    AMOUNT("gap_seconds", .meaning = "time that no sample covers"),
    TEXT("collector", RPC_NAME_MAX_BYTES, .meaning = "the collector of the figures"),
    WORD("cpu_exactness", exactness_words, .meaning = "exactness of the CPU times"),
    WORD("rss_exactness", exactness_words, .meaning = "exactness of `peak_rss_mb`"),
    WORD("total_exactness", exactness_words,
         .meaning = "exactness of `peak_total_mb` and `peak_unique_mb`"),
    WORD("processes_exactness", exactness_words, .meaning = "exactness of `processes`"),
    TALLY("syscall_hotspots", .meaning = "shares of the time in system calls, percent, by name"),
    TALLY("syscall_counts", .meaning = "system calls by name"),
    TALLY("syscall_seconds", .meaning = "wall time in system calls, by name"),
    TALLY("syscall_errors", .meaning = "system calls that failed, by name"),
    WORD("syscall_source", syscall_source_words,
         .meaning = "the source of the system call figures"),
    WORD("syscalls_exactness", exactness_words, .meaning = "exactness of the system call figures"),
};

static const struct rpc_param job_signal_params[] = {
    WHICH_RUN("job_id", .is_required = true, .meaning = "the job, or a run_id"),
    PID("pid", .is_required = true, .meaning = "the process that receives it"),
    INT("signal_num", 1, 64, .is_required = true, .meaning = "the signal"),
    INT("sender_pid", 0, RPC_PID_MAX, .meaning = "the sender; 0: the kernel"),
    TEXT("sender_command", COMMAND_MAX_BYTES, .allows_controls = true,
         .meaning = "the sender's command line"),
    TEXT("details", RPC_DETAILS_MAX_BYTES, .allows_controls = true,
         .meaning = "more details, as text"),
};

static const struct rpc_param job_list_params[] = {
    SINCE(.meaning = "runs that had not ended before this time"),
    UNTIL(.meaning = "runs that started at this time or earlier"),
    WORD("outcome", outcome_words, .meaning = "runs with this outcome"),
    WHICH_RUN("job", .meaning = "the runs of one job"),
    JOB_TYPE("type", .meaning = "the runs of one type"),
    LIMIT(10000, 100),
};

/* Shared by the three methods, so that a scheduler can send the same parameters to each. */
#define SHEET_PARAMS                                                                               \
    WHICH_RUN("job_id", .is_required = true, .meaning = "the job, or a run_id"),                   \
        COUNT("sheet_num", .is_required = true, .meaning = "the step"),                            \
        TEXT("name", RPC_NAME_MAX_BYTES, .meaning = "name of the step")

static const struct rpc_param sheet_started_params[] = {
    SHEET_PARAMS,
    PID("pid", .meaning = "its first process, which must belong to the caller's user"),
    INT("exit_code", 0, 255, .meaning = "accepted and ignored"),
};

static const struct rpc_param sheet_ended_params[] = {
    SHEET_PARAMS,
    PID("pid", .meaning = "the process that ended with the step; default: its first process"),
    INT("exit_code", 0, 255, .meaning = "exit status; 128 + N after signal N"),
    WORD("outcome", end_words, .meaning = "the outcome, if it differs from the name of the method"),
};

static const struct rpc_param context_params[] = {
    PID("pid", .meaning = "the process; default: the machine"),
};

static const struct rpc_param pressure_params[] = {
    JOB_TYPE("job_type", .meaning = "the type whose estimate is used"),
};

static const struct rpc_param rate_limit_params[] = {
    TEXT("name", RPC_NAME_MAX_BYTES, .is_required = true, .meaning = "name of the limit"),
    REAL("seconds", 0, 86400, .min_excluded = true, .fallback = 60,
         .meaning = "how long the limit applies, in seconds"),
};

static const struct rpc_param estimate_params[] = {
    JOB_TYPE("job_type", .is_required = true, .meaning = "the job type"),
};

static const struct rpc_param calibration_params[] = {
    JOB_TYPE("job_type", .meaning = "one job type; default: all types"),
};

static const struct rpc_param analyze_params[] = {
    JOB_TYPE("job_type", .meaning = "only runs of this type; the result is not stored as patterns"),
};

static const struct rpc_param report_job_params[] = {
    WHICH_RUN("job", .meaning = "`JOB`, `JOB~1` (the run before the latest) or a run_id; default: "
                                "the latest run of all jobs"),
};

static const struct rpc_param report_machine_params[] = {
    SINCE(.is_required = true, .meaning = "start of the period"),
    UNTIL(.meaning = "end of the period; default: now"),
};

static const struct rpc_param events_list_params[] = {
    SINCE(.meaning = "start of the period"),
    UNTIL(.meaning = "end of the period"),
    WHICH_RUN("job", .meaning = "only events of one run: `JOB`, `JOB~1` or a run_id"),
    WORD("type", event_words, .meaning = "only events of one type"),
    INT("pid", 0, RPC_PID_MAX,
        .meaning = "only events of one process; 0: events of steps without a process"),
    BOOL("notable", .meaning = "only signals, kills, OOM kills and exits with a nonzero status"),
    LIMIT(10000, 50),
};

#define TRACED_PID                                                                                 \
    PID("pid", .is_required = true,                                                                \
        .meaning = "the process, which must belong to the caller's user")

static const struct rpc_param strace_params[] = {TRACED_PID};

static const struct rpc_param strace_trace_params[] = {
    TRACED_PID,
    TEXT("file", RPC_PATH_MAX_BYTES,
         .meaning = "output file, an absolute path. The file is created with the rights of the "
                    "process's user. Default: a file in the daemon's state directory, only for "
                    "processes of the daemon's own user"),
};

/* ---- methods ---- */

#define PARAMS(list) .params = (list), .param_count = ARRAY_SIZE(list)

#define CONTEXT_RESULT                                                                             \
    "{`resource_context`}: the figures of the step's process as in `resource.context`, read "      \
    "before a tracer detaches"
#define ADMISSION_RESULT                                                                           \
    "{`allowed`, `delay_seconds`, `level`, `reason`}: the decision, the time to wait, the "        \
    "pressure level, and the reason for a refusal"

#define TRACER_RESULT                                                                              \
    "{`attached`, `reason`, `tracer_pid`, `file`}. `reason` states why strace is not attached: "   \
    "strace is missing, no permission, the process is gone, or another tracer is attached to it"

const struct rpc_method rpc_methods[RPC_METHOD_COUNT] = {
    [RPC_DAEMON_STATUS] =
        {"daemon.status", "Returns the state of the daemon.",
         .result = "a DaemonStatus: version, pid, uptime, the collector and which figures are "
                   "exact with it, tracers, availability of strace and GPUs, lost data, gaps"},
    [RPC_DAEMON_TOP] = {"daemon.top", "Returns the latest snapshot.", PARAMS(top_params),
                        .result = "a SystemSnapshot; null before the first snapshot"},
    [RPC_DAEMON_TOP_STREAM] = {"daemon.top.stream", "Sends a snapshot at each tick from now on.",
                               PARAMS(top_stream_params),
                               .result = "{`jsonl_path`}, then a notification for each tick"},
    [RPC_DAEMON_EVENTS] =
        {"daemon.events", "Returns the latest events from the daemon's memory.",
         PARAMS(daemon_events_params),
         .result = "a list of ProcessEvent, oldest first; the daemon keeps the last 200"},
    [RPC_DAEMON_MONITOR_STREAM] = {"daemon.monitor.stream",
                                   "Sends events as they happen, from now on.",
                                   PARAMS(monitor_stream_params),
                                   .result = "{`events`}, then a notification for each event"},
    [RPC_DAEMON_RELOAD] = {"daemon.reload", "Reads the configuration again, like SIGHUP.",
                           .result = "{`changed`: [{`key`, `from`, `to`}]}; after an error the old "
                                     "configuration stays in force"},
    [RPC_JOB_START] = {"job.start", "Registers the start of a job.", PARAMS(job_start_params),
                       .result = "{`run_id`, `job_id`}; with `stores_in` also `has_events`: "
                                 "whether the daemon stores spawns, execs and exits of the run"},
    [RPC_JOB_PROGRESS] = {"job.progress", "Reports the progress of a job.",
                          PARAMS(job_progress_params), .result = "{}"},
    [RPC_JOB_FINISH] =
        {"job.finish",
         "Reports the end of a job. Figures that its parent measured replace sampled ones.",
         PARAMS(job_finish_params),
         .result = "{`run_id`, `job_id`}, plus `cause` and `chain` (as in Job) if the daemon knows "
                   "more than the request contains"},
    [RPC_JOB_SIGNAL] = {"job.signal",
                        "Reports a signal that the caller, the parent of the run, is sending to "
                        "one of its processes.",
                        PARAMS(job_signal_params), .result = "{}"},
    [RPC_JOB_LEAVE] = {"job.leave",
                       "Hands the run over to the caller, which stores it from now on. If both use "
                       "the same database, the daemon drops the run without recording an end.",
                       PARAMS(job_leave_params), .result = "{}"},
    [RPC_JOB_LIST] = {"job.list", "Returns the stored runs.", PARAMS(job_list_params),
                      .result = "a list of Job, latest first"},
    [RPC_SHEET_STARTED] = {"sheet.started", "Reports the start of a step.",
                           PARAMS(sheet_started_params), .result = CONTEXT_RESULT},
    [RPC_SHEET_COMPLETED] = {"sheet.completed", "Reports the successful end of a step.",
                             PARAMS(sheet_ended_params), .result = CONTEXT_RESULT},
    [RPC_SHEET_FAILED] = {"sheet.failed", "Reports the failure of a step.",
                          PARAMS(sheet_ended_params), .result = CONTEXT_RESULT},
    [RPC_RESOURCE_CONTEXT] = {"resource.context",
                              "Returns the current resource use of a process in a few figures.",
                              PARAMS(context_params),
                              .result =
                                  "{`rss_mb`, `cpu_pct`, `syscall_hotspot` (\"write 40%\"), "
                                  "`anomalies_active`, `daemon_rss_mb`}, without a pid also "
                                  "`pressure_level`, `running_jobs`, `active_sheets`; nulls for an "
                                  "unknown pid; before the first snapshot only the first four"},
    [RPC_PRESSURE_CURRENT] = {"pressure.current", "Returns how much of the machine the jobs use.",
                              PARAMS(pressure_params),
                              .result = "the level: none, low, medium, high or critical"},
    [RPC_PRESSURE_CAN_START_SHEET] = {"pressure.can_start_sheet",
                                      "Returns whether the next step may start.",
                                      PARAMS(pressure_params), .result = ADMISSION_RESULT},
    [RPC_PRESSURE_SHOULD_ACCEPT_JOB] = {"pressure.should_accept_job",
                                        "Returns whether a new job may start.",
                                        PARAMS(pressure_params), .result = ADMISSION_RESULT},
    [RPC_PRESSURE_REPORT_RATE_LIMIT] =
        {"pressure.report_rate_limit",
         "Reports that a service limits its clients: the pressure is high for that time.",
         PARAMS(rate_limit_params), .result = "{}"},
    [RPC_ESTIMATE_JOB] = {"estimate.job", "Estimates what the next run of a type will need.",
                          PARAMS(estimate_params),
                          .result = "a ResourceEstimate; null without a finished run"},
    [RPC_ESTIMATE_CALIBRATION] =
        {"estimate.calibration",
         "Returns how often such estimates were right for the caller's own runs.",
         PARAMS(calibration_params),
         .result = "a list of Calibration, the types with the most runs first"},
    [RPC_ANALYZE_RUN] =
        {"analyze.run",
         "Finds resource use that correlates with failure in the runs of the last 7 days. For root "
         "and the daemon's owner it covers all runs, for others their own.",
         PARAMS(analyze_params),
         .result = "an Analysis; results over all runs are stored as patterns"},
    [RPC_REPORT_JOB] = {"report.job", "Returns the report of one run.", PARAMS(report_job_params),
                        .result = "a JobReport"},
    [RPC_REPORT_MACHINE] = {"report.machine", "Returns a report of the machine over a period.",
                            PARAMS(report_machine_params), .result = "a MachineReport"},
    [RPC_EVENTS_LIST] = {"events.list", "Returns the stored events.", PARAMS(events_list_params),
                         .result = "a list of ProcessEvent, oldest first"},
    [RPC_STRACE_ATTACH] =
        {"strace.attach",
         "Counts the system calls of a process and its descendants with `strace -c -w -f`. This "
         "slows them down a lot, and setuid programs get no more rights than their user. If the "
         "process or one of its ancestors is already traced, the request succeeds.",
         PARAMS(strace_params), .result = TRACER_RESULT},
    [RPC_STRACE_DETACH] =
        {"strace.detach",
         "Detaches the strace that `strace.attach` or `strace.trace` attached to a process. "
         "Without it, tracing ends with the process, or with its step or run.",
         PARAMS(strace_params),
         .result =
             "{`syscall_counts`, `syscall_time_pct`, `file`, `reason`}: the counts, or the reason "
             "why there are none; null if no tracer was attached to exactly this process"},
    [RPC_STRACE_TRACE] = {"strace.trace",
                          "Writes every system call of a process and its descendants to a file "
                          "with `strace -f -tt`, until `strace.detach`, the end of the process, or "
                          "a file size of 1 GiB (`profiler.strace_full_on_demand`).",
                          PARAMS(strace_trace_params), .result = TRACER_RESULT},
};

static_assert(ARRAY_SIZE(job_finish_params) <= RPC_PARAMS_MAX &&
                  ARRAY_SIZE(job_start_params) <= RPC_PARAMS_MAX,
              "a request has room for all values");
