/* Handlers of job.progress, job.signal, job.leave and job.finish: the caller that started a run
 * reports on it. */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/utf8.h"
#include "daemon/connection.h"
#include "daemon/daemon-state.h"
#include "daemon/job-request.h"
#include "explain/failure-chain.h"
#include "model/record-json.h"

void method_job_progress(struct daemon *daemon, struct connection *connection,
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

void method_job_signal(struct daemon *daemon, struct connection *connection,
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
    record_init(&process_event_record, &sent);
    sent.signal_num = rpc_int(request, "signal_num", INT_UNKNOWN);
    sent.sender_pid = rpc_int(request, "sender_pid", INT_UNKNOWN);
    sent.sender_command = rpc_text(request, "sender_command");
    sent.details = rpc_text(request, "details");
    engine_signalled(daemon->engine, run, pid, &sent);
    answer_empty(answer);
}

void method_job_leave(struct daemon *daemon, struct connection *connection,
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

static int exactness_of(const struct rpc_request *request, const char *name)
{
    int word = rpc_word(request, name, -1);

    return word < 0 ? EXACTNESS_UNKNOWN : EXACT + word;
}

/* Reads the figures that the caller measured. */
static void read_figures(const struct rpc_request *request, struct job_profile *profile)
{
    struct run_exactness *exactness = &profile->exactness;

    profile->user_seconds = rpc_real(request, "user_seconds", REAL_UNKNOWN);
    profile->system_seconds = rpc_real(request, "system_seconds", REAL_UNKNOWN);
    profile->cpu_seconds =
        rpc_real(request, "cpu_seconds", profile->user_seconds + profile->system_seconds);
    profile->peak_rss_mb = rpc_real(request, "peak_rss_mb", REAL_UNKNOWN);
    profile->peak_total_mb = rpc_real(request, "peak_total_mb", REAL_UNKNOWN);
    profile->peak_unique_mb = rpc_real(request, "peak_unique_mb", REAL_UNKNOWN);
    profile->wall_seconds = rpc_real(request, "wall_seconds", REAL_UNKNOWN);
    profile->gap_seconds = rpc_real(request, "gap_seconds", REAL_UNKNOWN);
    profile->processes = rpc_int(request, "processes", INT_UNKNOWN);
    profile->unique_pid_count = profile->processes;
    profile->left_running_count = rpc_int(request, "left_running", INT_UNKNOWN);
    /* Both numbers include the processes of nested runs. */
    if (int_is_known(profile->processes) && int_is_known(profile->left_running_count))
        profile->exit_count = profile->processes - profile->left_running_count;
    profile->max_cpu_pct = rpc_real(request, "max_cpu_pct", REAL_UNKNOWN);
    profile->num_samples = rpc_int(request, "num_samples", INT_UNKNOWN);
    profile->collector = rpc_text(request, "collector");
    exactness->cpu_seconds = exactness->user_seconds = exactness->system_seconds =
        exactness_of(request, "cpu_exactness");
    exactness->peak_rss_mb = exactness_of(request, "rss_exactness");
    exactness->peak_total_mb = exactness->peak_unique_mb = exactness_of(request, "total_exactness");
    exactness->processes = exactness_of(request, "processes_exactness");
    job_profile_set_syscalls(
        profile, &(struct run_syscalls){.hotspots = rpc_tally(request, "syscall_hotspots"),
                                        .counts = rpc_tally(request, "syscall_counts"),
                                        .seconds = rpc_tally(request, "syscall_seconds"),
                                        .errors = rpc_tally(request, "syscall_errors"),
                                        .source = rpc_word(request, "syscall_source", -1) + 1,
                                        .exactness = exactness_of(request, "syscalls_exactness")});
}

/* The larger of the total and the sum of its parts. */
static double reported_cpu(const struct rpc_request *request)
{
    double parts = rpc_real(request, "user_seconds", 0) + rpc_real(request, "system_seconds", 0);

    return MAX(parts, rpc_real(request, "cpu_seconds", 0));
}

/* The largest reported amount of memory that is not counted twice. */
static double reported_memory(const struct rpc_request *request)
{
    return MAX(rpc_real(request, "peak_rss_mb", 0), rpc_real(request, "peak_unique_mb", 0));
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
    double wall_seconds = rpc_real(request, "wall_seconds", 0);
    double age_seconds = run_lifecycle_age(daemon, run);
    double cpu_max =
        (age_seconds + JOB_REQUEST_CLOCK_SLACK_SEC) * (double)sysconf(_SC_NPROCESSORS_CONF);
    double cpu_seconds = reported_cpu(request);
    double memory_mb = machine_memory_mb();
    int64_t processes = rpc_int(request, "processes", INT_UNKNOWN);
    int64_t left_running = rpc_int(request, "left_running", 0);

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
    else if (reported_memory(request) > memory_mb)
        answer_fail(answer, RPC_INVALID_PARAMS,
                    "peak_rss_mb, peak_unique_mb: %.0f is more than the %.0f MB that the machine"
                    " has",
                    reported_memory(request), memory_mb);
    else if (int_is_known(processes) && left_running > processes)
        answer_fail(answer, RPC_INVALID_PARAMS,
                    "left_running: %lld is more than the %lld processes that there were",
                    (long long)left_running, (long long)processes);
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

void method_job_finish(struct daemon *daemon, struct connection *connection,
                       const struct rpc_request *request, struct answer *answer)
{
    struct run *run = job_request_find_run(daemon, connection, request, answer);
    const char *reported_cause = rpc_text(request, "cause");
    _cleanup_(arena_done) struct arena arena = {0};
    struct job job;

    if (!run || !check_figures(daemon, run, request, answer))
        return;
    record_init(&job_record, &job);
    job.outcome = OUTCOME_SUCCESS + rpc_word(request, "outcome", 0);
    job.exit_code = rpc_int(request, "exit_code", INT_UNKNOWN);
    job.signal_num = rpc_int(request, "signal_num", INT_UNKNOWN);
    job.cause = reported_cause;
    job.ended_at = rpc_real(request, "ended_at", REAL_UNKNOWN);
    job.chain = read_chain(request, run, &arena);
    read_figures(request, &job.profile);
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
