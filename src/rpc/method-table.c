/* All methods with their parameters. Adding one is an enumerator in method.h, an entry at the end
 * of this file and, if it takes any, a list of parameters before. */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "base/macros.h"
#include "base/uuid.h"
#include "model/event.h"
#include "model/job.h"
#include "model/process.h"
#include "rpc/method.h"

/* ---- words ---- */

static const char *const end_words[] = {"success", "failure", "unknown", NULL};
static const char *const outcome_words[] = {"running", "success", "failure", "unknown", NULL};
static const char *const exactness_words[] = {"exact", "sampled", "lower_bound", NULL};
static const char *const syscall_source_words[] = {"sampled", "bpf", "strace", NULL};
static const char *const event_words[] = {"spawn", "exec", "exit", "signal", "kill", "oom", NULL};

/* The order that method.h promises. */
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

/* One spelling each, so that the same run is found under the same id. */
static int check_uuid(const char *text, const char **ret_reason)
{
    if (uuid_looks_like(text) && !strpbrk(text, "ABCDEF"))
        return 0;
    *ret_reason = "is no UUID in lower case";
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
    INT("limit", 1, to, .fallback = (otherwise), .meaning = "the latest of them, so many")

static const struct rpc_param top_params[] = {
    BOOL("fresh", .meaning = "take one now; the schedule stays as it is"),
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
     .meaning = "names of events, or their beginnings with a star: `sheet.*`, `*`"},
};

static const struct rpc_param job_start_params[] = {
    TEXT("job_id", JOB_ID_MAX_BYTES, .check = job_id_check, .is_required = true,
         .meaning = "name of the job, for its user: without `~` and characters that "
                    "cannot be seen, no blank at its ends, no UUID"),
    JOB_TYPE("job_type", .meaning = "what runs of the same work share; estimates are per type"),
    TEXT("command", COMMAND_MAX_BYTES, .takes_controls = true, .meaning = "its command line"),
    TEXT("cwd", RPC_TEXT_MAX_BYTES, .takes_controls = true, .meaning = "where it was started"),
    INT("total_sheets", 1, RPC_NUMBER_MAX, .meaning = "how many steps it will have"),
    PID("pid", .meaning = "its first process, one of the caller's user; what that starts from then "
                          "on belongs to the job"),
    UUID("parent_run_id", .meaning = "the run that it was started in"),
    UUID("run_id", .meaning = "the caller's own id (UUID), for a run that is told of again"),
    BOOL("unique", .meaning = "take `JOB-2` instead of refusing when the job is running"),
    BOOL("adopts_orphans",
         .meaning = "the process that has connected is the run's parent and subreaper"),
    BOOL("again",
         .meaning = "the run was kept by others until now: its beginning is not told again"),
    TEXT("stores_in", RPC_PATH_MAX_BYTES, .takes_controls = true,
         .meaning = "the database that the caller stores in. `offers_events` and `keeps_events` "
                    "count only if it is the daemon's, and the caller is the daemon's user"),
    BOOL("offers_events",
         .meaning = "the caller has every event of the run: it stores births, programs and ends "
                    "itself if the daemon has missed some (`has_events` of the answer)"),
    BOOL("keeps_events",
         .meaning = "the caller stores births, programs and ends of the run itself: the daemon "
                    "publishes them, and does not store them"),
    COUNT("sheet_num", .meaning = "the run is this step"),
    TIME("started_at", .meaning = "when; now if not given"),
};

static const struct rpc_param job_leave_params[] = {
    WHICH_RUN("job_id", .is_required = true, .meaning = "the job, or a run_id"),
    TEXT("stores_in", RPC_PATH_MAX_BYTES, .takes_controls = true,
         .meaning = "the database that the caller stores in. If it is not the daemon's, the run "
                    "ends here with an unknown outcome"),
};

static const struct rpc_param job_progress_params[] = {
    WHICH_RUN("job_id", .is_required = true, .meaning = "the job, or a run_id"),
    COUNT("current_sheet", .meaning = "the step that it is at"),
    COUNT("last_completed_sheet", .meaning = "the last one that is done"),
    INT("total_sheets", 1, RPC_NUMBER_MAX, .meaning = "how many there will be"),
    TEXT("status", RPC_STATUS_MAX_BYTES, .meaning = "in the conductor's own words"),
};

static const struct rpc_param job_finish_params[] = {
    WHICH_RUN("job_id", .is_required = true, .meaning = "the job, or a run_id"),
    WORD("outcome", end_words, .is_required = true, .meaning = "how it ended"),
    INT("exit_code", 0, 255, .meaning = "exit status, if it ended by itself"),
    INT("signal_num", 1, 64, .meaning = "the signal that ended it"),
    TEXT("cause", RPC_WORDS_MAX_BYTES, .takes_controls = true, .meaning = "why, in words"),
    BOOL("cause_is_derived",
         .meaning = "the words are only made of how its first process ended: what the daemon has "
                    "seen of the others may say more"),
    RECORDS("chain", RPC_CHAIN_MAX, &process_event_record,
            .meaning = "the failures that led to its end, the first one first, as far as its "
                       "parent has seen them: stored if the daemon has seen fewer, or another end"),
    AMOUNT("user_seconds", .meaning = "CPU time in programs"),
    AMOUNT("system_seconds", .meaning = "CPU time in the kernel"),
    MEMORY("peak_rss_mb", .meaning = "its largest process, MiB"),
    COUNT("processes", .meaning = "how many there were"),
    TIME("ended_at", .meaning = "when; now if not given"),
    AMOUNT("wall_seconds", .meaning = "from start to end, no longer than the run was there"),
    AMOUNT("cpu_seconds",
           .meaning = "CPU time of all its processes, no more than all CPUs have had since then"),
    MEMORY("peak_total_mb", .meaning = "largest sum of RSS, MiB"),
    MEMORY("peak_unique_mb", .meaning = "the same, shared memory once"),
    AMOUNT("max_cpu_pct", .meaning = "largest CPU of one interval, percent of a core"),
    COUNT("left_running", .meaning = "of these, those that outlived it"),
    COUNT("num_samples", .meaning = "samples taken"),
    AMOUNT("gap_seconds", .meaning = "time that no sample covers"),
    TEXT("collector", RPC_NAME_MAX_BYTES, .meaning = "where the facts come from"),
    WORD("cpu_exactness", exactness_words, .meaning = "of the CPU times"),
    WORD("rss_exactness", exactness_words, .meaning = "of `peak_rss_mb`"),
    WORD("total_exactness", exactness_words, .meaning = "of `peak_total_mb` and `peak_unique_mb`"),
    WORD("processes_exactness", exactness_words, .meaning = "of `processes`"),
    TALLY("syscall_hotspots", .meaning = "shares of the time in system calls, percent, by name"),
    TALLY("syscall_counts", .meaning = "system calls by name"),
    TALLY("syscall_seconds", .meaning = "wall time in system calls, by name"),
    TALLY("syscall_errors", .meaning = "system calls that failed, by name"),
    WORD("syscall_source", syscall_source_words, .meaning = "where these come from"),
    WORD("syscalls_exactness", exactness_words, .meaning = "of these"),
};

static const struct rpc_param job_signal_params[] = {
    WHICH_RUN("job_id", .is_required = true, .meaning = "the job, or a run_id"),
    PID("pid", .is_required = true, .meaning = "the process that it goes to"),
    INT("signal_num", 1, 64, .is_required = true, .meaning = "the signal"),
    INT("sender_pid", 0, RPC_PID_MAX, .meaning = "who sent it; 0: the kernel"),
    TEXT("sender_command", COMMAND_MAX_BYTES, .takes_controls = true,
         .meaning = "the sender's command line"),
    TEXT("details", RPC_WORDS_MAX_BYTES, .takes_controls = true, .meaning = "more, in words"),
};

static const struct rpc_param job_list_params[] = {
    SINCE(.meaning = "those that were going on then or after it"),
    UNTIL(.meaning = "those that had started by then"),
    WORD("outcome", outcome_words, .meaning = "those that ended so"),
    WHICH_RUN("job", .meaning = "the runs of one job"),
    JOB_TYPE("type", .meaning = "the runs of one type"),
    LIMIT(10000, 100),
};

/* One list for the three: a conductor may fill it in the same way each time. */
#define SHEET_PARAMS                                                                               \
    WHICH_RUN("job_id", .is_required = true, .meaning = "the job, or a run_id"),                   \
        COUNT("sheet_num", .is_required = true, .meaning = "the step"),                            \
        TEXT("name", RPC_NAME_MAX_BYTES, .meaning = "what it is called")

static const struct rpc_param sheet_started_params[] = {
    SHEET_PARAMS,
    PID("pid", .meaning = "its first process, one of the caller's user"),
    INT("exit_code", 0, 255, .meaning = "has no meaning yet"),
};

static const struct rpc_param sheet_ended_params[] = {
    SHEET_PARAMS,
    PID("pid", .meaning = "the process that has ended with it; not given: its first one"),
    INT("exit_code", 0, 255, .meaning = "exit status; 128 + N after signal N"),
    WORD("outcome", end_words, .meaning = "if it is not what the method's name says"),
};

static const struct rpc_param context_params[] = {
    PID("pid", .meaning = "of this process; not given: of the machine"),
};

static const struct rpc_param pressure_params[] = {
    JOB_TYPE("job_type", .meaning = "whose estimate counts, where one is asked for"),
};

static const struct rpc_param rate_limit_params[] = {
    TEXT("name", RPC_NAME_MAX_BYTES, .is_required = true, .meaning = "whose limit it is"),
    REAL("seconds", 0, 86400, .min_excluded = true, .fallback = 60, .meaning = "how long it holds"),
};

static const struct rpc_param estimate_params[] = {
    JOB_TYPE("job_type", .is_required = true, .meaning = "the type"),
};

static const struct rpc_param calibration_params[] = {
    JOB_TYPE("job_type", .meaning = "one type; not given: all of them"),
};

static const struct rpc_param analyze_params[] = {
    JOB_TYPE("job_type", .meaning = "runs of one type; what they show is not kept"),
};

static const struct rpc_param report_job_params[] = {
    WHICH_RUN("job", .meaning = "`JOB`, `JOB~1` (the run before the latest) or a run_id; not "
                                "given: the latest run of all"),
};

static const struct rpc_param report_machine_params[] = {
    SINCE(.is_required = true, .meaning = "from then on"),
    UNTIL(.meaning = "up to then; not given: until now"),
};

static const struct rpc_param events_list_params[] = {
    SINCE(.meaning = "from then on"),
    UNTIL(.meaning = "up to then"),
    WHICH_RUN("job", .meaning = "of one run: `JOB`, `JOB~1` or a run_id"),
    WORD("type", event_words, .meaning = "of one type"),
    INT("pid", 0, RPC_PID_MAX, .meaning = "of one process; 0: of steps without one"),
    BOOL("notable", .meaning = "only signals, kills, OOM kills and exits with a status not 0"),
    LIMIT(10000, 50),
};

#define TRACED_PID                                                                                 \
    PID("pid", .is_required = true, .meaning = "the process, one of the caller's user")

static const struct rpc_param strace_params[] = {TRACED_PID};

static const struct rpc_param strace_trace_params[] = {
    TRACED_PID,
    TEXT("file", RPC_PATH_MAX_BYTES,
         .meaning = "where to, an absolute path; made anew, by the rights of the process's user; "
                    "not given: in the daemon's state directory, for its own user's processes"),
};

/* ---- methods ---- */

#define TAKES(list) .params = (list), .param_count = ARRAY_SIZE(list)

#define CONTEXT_ANSWER                                                                             \
    "{`resource_context`}: that of the step's process, as `resource.context` gives it, taken "     \
    "before a tracer lets go of it"
#define ADMISSION_ANSWER                                                                           \
    "{`allowed`, `delay_seconds`, `level`, `reason`}: whether, after how long a wait, the "        \
    "pressure, and why not"

#define TRACER_ANSWER                                                                              \
    "{`attached`, `reason`, `tracer_pid`, `file`}: whether, and why not: no strace, no "           \
    "permission, a process that is gone or that another tracer has"

const struct rpc_method rpc_methods[RPC_METHOD_COUNT] = {
    [RPC_DAEMON_STATUS] = {"daemon.status", "How the daemon is.",
                           .answer = "a DaemonStatus: version, pid, uptime, the collector and what "
                                     "is exact with it, tracers, what is there of strace and "
                                     "GPUs, drops, gaps"},
    [RPC_DAEMON_TOP] = {"daemon.top", "The latest snapshot.", TAKES(top_params),
                        .answer = "a SystemSnapshot; null before the first"},
    [RPC_DAEMON_TOP_STREAM] = {"daemon.top.stream", "A snapshot per tick, from now on.",
                               TAKES(top_stream_params),
                               .answer = "{`jsonl_path`}, then a notification for each tick"},
    [RPC_DAEMON_EVENTS] = {"daemon.events", "What happened last, out of the daemon's memory.",
                           TAKES(daemon_events_params),
                           .answer = "a list of ProcessEvent, oldest first; the last 200 are kept"},
    [RPC_DAEMON_MONITOR_STREAM] = {"daemon.monitor.stream", "Events as they happen, from now on.",
                                   TAKES(monitor_stream_params),
                                   .answer = "{`events`}, then a notification for each event"},
    [RPC_DAEMON_RELOAD] =
        {"daemon.reload", "Reads the configuration again, as SIGHUP does.",
         .answer =
             "{`changed`: [{`key`, `from`, `to`}]}; after an error the old configuration stays"},
    [RPC_JOB_START] = {"job.start", "A job begins.", TAKES(job_start_params),
                       .answer = "{`run_id`, `job_id`}; with `stores_in` also "
                                 "`has_events`: whether the daemon stores births, programs and "
                                 "ends of the run"},
    [RPC_JOB_PROGRESS] = {"job.progress", "How far a job has come.", TAKES(job_progress_params),
                          .answer = "{}"},
    [RPC_JOB_FINISH] = {"job.finish",
                        "A job has ended. What its parent has measured wins over samples.",
                        TAKES(job_finish_params),
                        .answer = "{`run_id`, `job_id`}, and `cause` and `chain` (of a Job) if "
                                  "what the daemon has seen says more than what it was told"},
    [RPC_JOB_SIGNAL] = {"job.signal",
                        "A signal is on its way to a process of the run, told by its parent.",
                        TAKES(job_signal_params), .answer = "{}"},
    [RPC_JOB_LEAVE] = {"job.leave",
                       "The caller stores the run itself from now on. The daemon drops it without "
                       "an end if both use the same database.",
                       TAKES(job_leave_params), .answer = "{}"},
    [RPC_JOB_LIST] = {"job.list", "The runs that are stored.", TAKES(job_list_params),
                      .answer = "a list of Job, latest first"},
    [RPC_SHEET_STARTED] = {"sheet.started", "A step begins.", TAKES(sheet_started_params),
                           .answer = CONTEXT_ANSWER},
    [RPC_SHEET_COMPLETED] = {"sheet.completed", "A step has ended well.", TAKES(sheet_ended_params),
                             .answer = CONTEXT_ANSWER},
    [RPC_SHEET_FAILED] = {"sheet.failed", "A step has failed.", TAKES(sheet_ended_params),
                          .answer = CONTEXT_ANSWER},
    [RPC_RESOURCE_CONTEXT] = {"resource.context", "What a process uses now, in a few figures.",
                              TAKES(context_params),
                              .answer = "{`rss_mb`, `cpu_pct`, `syscall_hotspot` (\"write 40%\"), "
                                        "`anomalies_active`, `daemon_rss_mb`}, without a pid also "
                                        "`pressure_level`, `running_jobs`, `active_sheets`; nulls "
                                        "for a pid that is not known; before the first snapshot "
                                        "the first four only"},
    [RPC_PRESSURE_CURRENT] = {"pressure.current", "How full the machine is.",
                              TAKES(pressure_params),
                              .answer = "the level: none, low, medium, high or critical"},
    [RPC_PRESSURE_CAN_START_SHEET] = {"pressure.can_start_sheet",
                                      "Whether the next step may start.", TAKES(pressure_params),
                                      .answer = ADMISSION_ANSWER},
    [RPC_PRESSURE_SHOULD_ACCEPT_JOB] = {"pressure.should_accept_job", "Whether a new job fits.",
                                        TAKES(pressure_params), .answer = ADMISSION_ANSWER},
    [RPC_PRESSURE_REPORT_RATE_LIMIT] = {"pressure.report_rate_limit",
                                        "A service has asked for less: the pressure is high for a "
                                        "while.",
                                        TAKES(rate_limit_params), .answer = "{}"},
    [RPC_ESTIMATE_JOB] = {"estimate.job", "What the next run of a type will need.",
                          TAKES(estimate_params),
                          .answer = "a ResourceEstimate; null without any finished run"},
    [RPC_ESTIMATE_CALIBRATION] = {"estimate.calibration",
                                  "How often such estimates would have held, by the caller's own "
                                  "runs.",
                                  TAKES(calibration_params),
                                  .answer = "a list of Calibration, the most runs first"},
    [RPC_ANALYZE_RUN] = {"analyze.run",
                         "Which resource use goes with failure, by the runs of the last 7 days: "
                         "root and the daemon's owner learn of all, others of their own.",
                         TAKES(analyze_params),
                         .answer = "an Analysis; what all runs show is kept as patterns"},
    [RPC_REPORT_JOB] = {"report.job", "Everything worth knowing about one run.",
                        TAKES(report_job_params), .answer = "a JobReport"},
    [RPC_REPORT_MACHINE] = {"report.machine", "What happened on the machine within a time.",
                            TAKES(report_machine_params), .answer = "a MachineReport"},
    [RPC_EVENTS_LIST] = {"events.list", "The events that are stored.", TAKES(events_list_params),
                         .answer = "a list of ProcessEvent, oldest first"},
    [RPC_STRACE_ATTACH] = {"strace.attach",
                           "Counts the system calls of a process, and of all that it forks, with "
                           "`strace -c -w -f`, which slows them down a lot, and under which setuid "
                           "programs have no more rights than their user. One that is traced "
                           "already, or whose forebear is, is fine.",
                           TAKES(strace_params), .answer = TRACER_ANSWER},
    [RPC_STRACE_DETACH] =
        {"strace.detach",
         "Lets a process go that `strace.attach` or `strace.trace` has taken, "
         "which is otherwise traced until it ends, or the step or run that it is "
         "of.",
         TAKES(strace_params),
         .answer =
             "{`syscall_counts`, `syscall_time_pct`, `file`, `reason`}: what "
             "was counted since, or why nothing was; null if no tracer was attached to that very "
             "process"},
    [RPC_STRACE_TRACE] = {"strace.trace",
                          "Writes every system call of a process, and of all that it forks, to a "
                          "file, with `strace -f -tt`, until it is let go, it ends, or the file "
                          "has 1 GiB (`profiler.strace_full_on_demand`).",
                          TAKES(strace_trace_params), .answer = TRACER_ANSWER},
};

static_assert(ARRAY_SIZE(job_finish_params) <= RPC_PARAMS_MAX &&
                  ARRAY_SIZE(job_start_params) <= RPC_PARAMS_MAX,
              "a request has room for all values");
