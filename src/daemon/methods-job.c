/* Handlers of job.progress, job.signal, job.leave and job.finish: the caller that started a run
 * reports on it. */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/utf8.h"
#include "config/paths.h"
#include "daemon/connection.h"
#include "daemon/daemon-state.h"
#include "daemon/job-request.h"
#include "daemon/methods.h"
#include "explain/failure-chain.h"
#include "model/record-json.h"
#include "probe/process-lookup.h"
#include "rpc/first-version.h"

static void handle_job_progress(struct daemon *daemon, struct connection *connection,
                                const struct rpc_request *request, struct answer *answer)
{
    struct run *run = job_request_find_run(daemon, connection, request, answer);
    const char *status = rpc_text(request, "status");

    if (!run)
        return;
    run->current_sheet = rpc_int(request, "current_sheet", run->current_sheet);
    run->last_completed_sheet = rpc_int(request, "last_completed_sheet", run->last_completed_sheet);
    run->total_sheets = rpc_int(request, "total_sheets", run->total_sheets);
    if (status)
        snprintf(run->status, sizeof(run->status), "%s", status);
    run_lifecycle_progressed(daemon, run);
    answer_empty(answer);
}

/* Whether the process exists and is not for the peer to report about. */
static bool is_foreign(const struct peer *peer, pid_t pid)
{
    uint64_t start_ticks;
    int64_t uid;

    return !peer->sees_all && process_lookup_owner(PROC_ROOT, pid, &start_ticks, &uid) == 0 &&
           uid != (int64_t)peer->uid;
}

static void handle_job_signal(struct daemon *daemon, struct connection *connection,
                              const struct rpc_request *request, struct answer *answer)
{
    struct run *run = job_request_find_run(daemon, connection, request, answer);
    pid_t pid = (pid_t)rpc_int(request, "pid", 0);
    struct process_event sent;

    if (!run)
        return;
    engine_drain(daemon->engine);
    const struct member *member = registry_find(daemon->registry, pid);
    if (member && member->run != run) { /* a process that is gone ended before the report */
        answer_fail(answer, RPC_INVALID_PARAMS, "pid: %d is not a process of that run", (int)pid);
        return;
    }
    if (!member && is_foreign(connection_peer(connection), pid)) {
        answer_fail(answer, RPC_NOT_PERMITTED, "process %d belongs to another user", (int)pid);
        return;
    }
    record_init(&process_event_record, &sent);
    sent.signal_num = rpc_int(request, "signal_num", INT_UNKNOWN);
    sent.sender_pid = rpc_int(request, "sender_pid", INT_UNKNOWN);
    sent.sender_command = rpc_text(request, "sender_command");
    sent.details = rpc_text(request, "details");
    engine_signalled(daemon->engine, run, pid, &sent);
    answer_empty(answer);
}

static void handle_job_leave(struct daemon *daemon, struct connection *connection,
                             const struct rpc_request *request, struct answer *answer)
{
    struct run *run = job_request_find_run(daemon, connection, request, answer);

    if (!run)
        return;
    if (job_request_shares_store(daemon, connection, request)) {
        run_lifecycle_leave(daemon, run);
    } else {
        struct job job;
        record_init(&job_record, &job);
        job.outcome = OUTCOME_UNKNOWN;
        job.cause = "its caller stores it elsewhere";
        run_lifecycle_finish(daemon, run, &job);
    }
    answer_empty(answer);
}

/* ---- job.finish ---- */

/* Completes the figures that the caller measured. */
static void complete_figures(struct job_profile *profile)
{
    if (!real_is_known(profile->cpu_seconds))
        profile->cpu_seconds = profile->user_seconds + profile->system_seconds;
    profile->unique_pid_count = profile->processes;
    if (profile->exactness.processes != EXACT) /* the stored events may have more */
        profile->failed_exit_count = profile->kill_count = INT_UNKNOWN;
    /* Both numbers include the processes of nested runs. */
    if (int_is_known(profile->processes) && int_is_known(profile->left_running_count))
        profile->exit_count = profile->processes - profile->left_running_count;
}

static double known_or_0(double value)
{
    return real_is_known(value) ? value : 0;
}

/* Callers may round the total and its parts to ticks of the CPU clock (10 ms), and all figures are
 * rounded to microseconds. */
#define CPU_ROUNDING_SEC 0.010001

/* The largest reported amount of memory that is not counted twice. */
static double reported_memory(const struct job_profile *profile)
{
    return MAX(known_or_0(profile->peak_rss_mb), known_or_0(profile->peak_unique_mb));
}

/* The memory of the whole machine, not of the daemon's cgroup. */
static double machine_memory_mb(void)
{
    return (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGE_SIZE) / BYTES_PER_MB;
}

/* Rejects impossible figures, because estimates use them. */
static bool check_figures(const struct daemon *daemon, const struct run *run,
                          const struct rpc_request *request, struct answer *answer)
{
    const struct job_profile *profile = request->record;
    double wall_seconds = known_or_0(profile->wall_seconds);
    double age_seconds = run_lifecycle_age(daemon, run);
    double cpu_max =
        (age_seconds + JOB_REQUEST_CLOCK_SLACK_SEC) * (double)sysconf(_SC_NPROCESSORS_CONF);
    double cpu_parts = known_or_0(profile->user_seconds) + known_or_0(profile->system_seconds);
    double cpu_seconds = MAX(known_or_0(profile->cpu_seconds), cpu_parts);
    double memory_mb = machine_memory_mb();

    if (rpc_real(request, "ended_at", 0) > ns_to_sec(clock_real_ns()) + JOB_REQUEST_CLOCK_SLACK_SEC)
        answer_fail(answer, RPC_INVALID_PARAMS, "ended_at: %.0f is in the future",
                    rpc_real(request, "ended_at", 0));
    else if (wall_seconds > age_seconds + JOB_REQUEST_CLOCK_SLACK_SEC)
        answer_fail(answer, RPC_INVALID_PARAMS,
                    "wall_seconds: %.0f is more than the %.0f s since the run started",
                    wall_seconds, MAX(age_seconds, 0.0));
    else if (cpu_seconds > cpu_max)
        answer_fail(answer, RPC_INVALID_PARAMS,
                    "cpu_seconds, user_seconds, system_seconds: %.0f is more than all CPUs have had"
                    " in the %.0f s since the run started",
                    cpu_seconds, MAX(age_seconds, 0.0));
    else if (profile->cpu_seconds < cpu_parts - CPU_ROUNDING_SEC) /* false if it is unknown */
        answer_fail(answer, RPC_INVALID_PARAMS,
                    "cpu_seconds: %.3f is less than the %.3f s of user_seconds and system_seconds",
                    profile->cpu_seconds, cpu_parts);
    else if (reported_memory(profile) > memory_mb)
        answer_fail(answer, RPC_INVALID_PARAMS,
                    "peak_rss_mb, peak_unique_mb: %.0f is more than the %.0f MB that the machine"
                    " has",
                    reported_memory(profile), memory_mb);
    else if (int_is_known(profile->processes) && profile->left_running_count > profile->processes)
        answer_fail(answer, RPC_INVALID_PARAMS,
                    "left_running_count: %lld is more than the %lld processes that there were",
                    (long long)profile->left_running_count, (long long)profile->processes);
    else if (int_is_known(profile->peak_processes) && !int_is_known(profile->processes))
        answer_fail(answer, RPC_INVALID_PARAMS,
                    "peak_processes: processes is missing; report both");
    else if (int_is_known(profile->processes) && profile->peak_processes > profile->processes)
        answer_fail(answer, RPC_INVALID_PARAMS,
                    "peak_processes: %lld is more than the %lld processes that there were",
                    (long long)profile->peak_processes, (long long)profile->processes);
    else
        return true;
    return false;
}

static_assert(RPC_CHAIN_MAX == FAILURE_CHAIN_MAX, "a caller can send every chain that is found");

/* Cuts a text to the longest command line that is stored; NULL without memory. */
static const char *cut_text(const char *text, struct arena *arena)
{
    size_t length = text ? strlen(text) : 0;

    if (length <= COMMAND_MAX_BYTES)
        return text;
    char *copy = arena_alloc(arena, COMMAND_MAX_BYTES + 1);
    if (copy)
        utf8_clean(copy, COMMAND_MAX_BYTES + 1, text, length);
    return copy;
}

/* Reads the chain that the caller saw. Its events belong to this run, whatever the caller sent. */
static struct process_event_list read_chain(const struct rpc_request *request,
                                            const struct run *run, struct arena *arena)
{
    const struct any_list records = rpc_records(request, "chain");
    const struct process_event_list chain = {.items = records.items, .count = records.count};

    for (size_t i = 0; i < chain.count; i++) {
        struct process_event *link = &chain.items[i];
        link->run_id = run->run_id;
        link->job_id = run->job_id;
        link->command = cut_text(link->command, arena);
        link->sender_command = cut_text(link->sender_command, arena);
        link->details = cut_text(link->details, arena);
    }
    return chain;
}

static void handle_job_finish(struct daemon *daemon, struct connection *connection,
                              const struct rpc_request *request, struct answer *answer)
{
    struct run *run = job_request_find_run(daemon, connection, request, answer);
    const char *reported_cause = rpc_text(request, "cause");
    _cleanup_(arena_done) struct arena arena = {0};
    struct job job;

    if (!run || !check_figures(daemon, run, request, answer))
        return;
    record_init(&job_record, &job);
    job.outcome = rpc_enum(request, "outcome", OUTCOME_UNKNOWN);
    job.exit_code = rpc_int(request, "exit_code", INT_UNKNOWN);
    job.signal_num = rpc_int(request, "signal_num", INT_UNKNOWN);
    job.cause = reported_cause;
    job.ended_at = rpc_real(request, "ended_at", REAL_UNKNOWN);
    job.chain = read_chain(request, run, &arena);
    job.profile = *(const struct job_profile *)request->record;
    complete_figures(&job.profile);
    run_lifecycle_explain(daemon, run, rpc_bool(request, "cause_is_derived", false), &arena, &job);
    job_request_begin_answer(run, answer);
    if (job.cause != reported_cause) {
        json_write_key(&answer->json, "cause");
        json_write_string(&answer->json, job.cause);
        json_write_key(&answer->json, "chain");
        field_encode(record_find(&job_record, "chain"), &job.chain, &answer->json);
    }
    json_write_end_object(&answer->json);
    run_lifecycle_finish(daemon, run, &job);
    /* The caller stores an acknowledged run nowhere else, so it must be on the disk. */
    if (daemon->writer)
        answer_when_written(answer, daemon->job_queries);
}

/* ---- the table entries ---- */

static const struct rpc_param job_progress_params[] = {
    PARAM_RUN("job_id", .is_required = true, .meaning = "the job, or a run_id"),
    PARAM_COUNT("current_sheet", .meaning = "the current step"),
    PARAM_COUNT("last_completed_sheet", .meaning = "the last completed step"),
    PARAM_INT("total_sheets", 1, RPC_NUMBER_MAX, .meaning = "the number of steps"),
    PARAM_TEXT("status", RPC_STATUS_MAX_BYTES, .holds_command = true,
               .meaning = "free text of the scheduler"),
};

const struct rpc_method method_job_progress = {
    .name = "job.progress",
    .summary = "Reports the progress of a job.",
    RPC_PARAMS(job_progress_params),
    .result = "{}",
    .handler = handle_job_progress,
};

static const struct rpc_param job_finish_params[] = {
    PARAM_RUN("job_id", .is_required = true, .meaning = "the job, or a run_id"),
    PARAM_ENUM("outcome", outcome_names, OUTCOME_SUCCESS, OUTCOME_UNKNOWN, .is_required = true,
               .meaning = "how it ended"),
    PARAM_INT("exit_code", 0, 255, .meaning = "exit status, if no signal ended it"),
    PARAM_INT("signal_num", 1, 64, .meaning = "the signal that ended it"),
    PARAM_TEXT("cause", RPC_DETAILS_MAX_BYTES, .allows_controls = true, .holds_command = true,
               .meaning = "why it ended, as text"),
    PARAM_BOOL("cause_is_derived",
               .meaning =
                   "`cause` only states how the first process ended; the daemon may replace it "
                   "with what it knows of the other processes"),
    PARAM_RECORDS(
        "chain", RPC_CHAIN_MAX, &process_event_record,
        .meaning = "the failures that led to its end, oldest first, as far as its parent has seen "
                   "them; stored if the daemon has seen fewer failures or a different end"),
    PARAM_TIME("ended_at", .meaning = "end time; default: now"),
};

const struct rpc_method method_job_finish = {
    .name = "job.finish",
    .summary = "Reports the end of a job. Figures that its parent measured replace sampled ones. "
               "Impossible figures are rejected: more wall time than has passed since the run was "
               "registered, more CPU time than all CPUs had in that time, less CPU time than its "
               "parts, or more memory than the machine has. `peak_processes` requires `processes`. "
               "Two names of one figure must not have different values, and `exactness` cannot be "
               "combined with its older parameters.",
    RPC_PARAMS(job_finish_params),
    .record = &job_profile_record,
    .aliases = first_version_exactness,
    .result = "{`run_id`, `job_id`}, plus `cause` and `chain` (as in Job) if the daemon knows "
              "more than the request contains",
    .handler = handle_job_finish,
};

static const struct rpc_param job_signal_params[] = {
    PARAM_RUN("job_id", .is_required = true, .meaning = "the job, or a run_id"),
    PARAM_PID("pid", .is_required = true, .meaning = "the process that receives it"),
    PARAM_INT("signal_num", 1, 64, .is_required = true, .meaning = "the signal"),
    PARAM_INT("sender_pid", 0, RPC_PID_MAX, .meaning = "the sender; 0: the kernel"),
    PARAM_TEXT("sender_command", COMMAND_MAX_BYTES, .allows_controls = true, .holds_command = true,
               .meaning = "the sender's command line"),
    PARAM_TEXT("details", RPC_DETAILS_MAX_BYTES, .allows_controls = true, .holds_command = true,
               .meaning = "more details, as text"),
};

const struct rpc_method method_job_signal = {
    .name = "job.signal",
    .summary = "Reports a signal that the caller, the parent of the run, is sending to "
               "one of its processes.",
    RPC_PARAMS(job_signal_params),
    .result = "{}",
    .handler = handle_job_signal,
};

static const struct rpc_param job_leave_params[] = {
    PARAM_RUN("job_id", .is_required = true, .meaning = "the job, or a run_id"),
    PARAM_TEXT("stores_in", RPC_PATH_MAX_BYTES, .allows_controls = true,
               .meaning =
                   "the caller's database. If it is not the daemon's, the run ends here with an "
                   "unknown outcome"),
};

const struct rpc_method method_job_leave = {
    .name = "job.leave",
    .summary = "Hands the run over to the caller, which stores it from now on. If both use "
               "the same database, the daemon drops the run without recording an end.",
    RPC_PARAMS(job_leave_params),
    .result = "{}",
    .handler = handle_job_leave,
};
