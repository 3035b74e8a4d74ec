/* Handlers of job.* and sheet.*: the reports of schedulers. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/utf8.h"
#include "config/paths.h"
#include "daemon/connection.h"
#include "daemon/context.h"
#include "daemon/dispatch.h"
#include "daemon/manager.h"
#include "daemon/query-thread.h"
#include "explain/failure-chain.h"
#include "model/record-json.h"
#include "probe/process-lookup.h"
#include "store/store.h"

/* Limits the search for the run that a process was started in. */
#define ANCESTORS_MAX 64
/* Tolerance for clock differences and late reports. */
#define CLOCK_SLACK_SEC 10

/* ---- permissions ---- */

static bool owns_run(const struct peer *peer, const struct run *run)
{
    return peer->sees_all || run->uid == (int64_t)peer->uid;
}

/* Finds a run by name, the peer's own first. Only peers with full view find runs of others by name.
 */
static struct run *find_by_name(const struct daemon *daemon, const struct peer *peer,
                                const char *name)
{
    struct run *run = registry_find_job(daemon->registry, name, peer->uid);

    return run || !peer->sees_all ? run : registry_find_job(daemon->registry, name, INT_UNKNOWN);
}

/* The run of a request, if the peer may change it; else NULL, with an error in the answer. */
static struct run *find_run(struct daemon *daemon, struct connection *connection,
                            const struct rpc_request *request, struct answer *answer)
{
    const struct peer *peer = connection_peer(connection);
    const char *name = rpc_text(request, "job_id");
    struct run *run = registry_find_run(daemon->registry, name);

    if (!run)
        run = find_by_name(daemon, peer, name);
    if (!run) {
        answer_fail(answer, RPC_JOB_NOT_FOUND, "no job '%s' is running", name);
        return NULL;
    }
    if (!owns_run(peer, run)) {
        answer_fail(answer, RPC_NOT_PERMITTED, "run '%s' belongs to another user", name);
        return NULL;
    }
    run_lifecycle_set_owner(daemon, run, peer_process(peer));
    return run;
}

/* Whether the peer may report this process. The pid is 0 if the request has none. */
static bool take_process(struct daemon *daemon, const struct connection *connection,
                         const struct rpc_request *request, struct process_id *ret,
                         struct answer *answer)
{
    const struct peer *peer = connection_peer(connection);
    pid_t pid = (pid_t)rpc_int(request, "pid", 0);
    int64_t uid;

    *ret = (struct process_id){.pid = pid};
    if (!pid)
        return true;
    if (!peer->pid) {
        answer_fail(answer, RPC_INVALID_PARAMS,
                    "pid: the caller is in another pid namespace, its pids mean nothing here");
        return false;
    }
    if (process_lookup_owner(PROC_ROOT, pid, &ret->start_ticks, &uid) < 0) {
        if (engine_saw_fork(daemon->engine, peer_process(peer), pid))
            return true; /* it ended before its parent reported it */
        answer_fail(answer, RPC_INVALID_PARAMS, "pid: there is no process %d", (int)pid);
        return false;
    }
    if (!peer->sees_all && uid != (int64_t)peer->uid) {
        answer_fail(answer, RPC_NOT_PERMITTED, "process %d belongs to another user", (int)pid);
        return false;
    }
    if (pid == getpid()) {
        answer_fail(answer, RPC_INVALID_PARAMS, "pid: %d is the daemon itself", (int)pid);
        return false;
    }
    return true;
}

/* Checks the identity again: the process may be gone and its pid reused. */
static void look_again(struct daemon *daemon, const struct peer *peer, struct process_id *process)
{
    struct proc_stat stat;
    int r = process_lookup_stat(PROC_ROOT, process->pid, &stat);

    if (r == 0 && stat.start_ticks == process->start_ticks)
        return;
    process->start_ticks = 0;
    if (r == 0 || !engine_saw_fork(daemon->engine, peer_process(peer), process->pid))
        process->pid = 0;
}

/* 0 if it has none or is gone. */
static pid_t read_parent(pid_t pid)
{
    struct proc_stat stat;

    return process_lookup_stat(PROC_ROOT, pid, &stat) == 0 ? stat.ppid : 0;
}

/* ---- job.start ---- */

static void begin_names(const struct run *run, struct answer *answer)
{
    json_write_begin_object(&answer->json);
    json_write_key(&answer->json, "run_id");
    json_write_string(&answer->json, run->run_id);
    json_write_key(&answer->json, "job_id");
    json_write_string(&answer->json, run->job_id);
}

static void write_start(const struct rpc_request *request, const struct run *run,
                        struct answer *answer)
{
    begin_names(run, answer);
    if (rpc_text(request, "stores_in")) {
        json_write_key(&answer->json, "has_events");
        json_write_bool(&answer->json, !run->caller_stores_events);
    }
    json_write_end_object(&answer->json);
}

/* The run of a process or of its nearest ancestor; NULL: none. */
static struct run *find_run_around(const struct daemon *daemon, pid_t pid)
{
    for (int i = 0; pid > 1 && i < ANCESTORS_MAX; i++) {
        const struct member *member = registry_find(daemon->registry, pid);
        if (member)
            return member->run;
        pid = read_parent(pid);
    }
    return NULL;
}

/* The run of the reported process or of the caller, of any user: the kernel knows it, the caller
 * cannot choose it. */
static struct run *find_parent(const struct daemon *daemon, const struct peer *peer, pid_t pid)
{
    struct run *run = find_run_around(daemon, peer_process(peer));

    return run ? run : find_run_around(daemon, pid);
}

/* Whether a process may join `run` or a run started in it (NULL: none): it cannot be taken out of
 * another user's run. */
static bool may_join(const struct daemon *daemon, const struct peer *peer, const struct run *run,
                     pid_t pid, struct answer *answer)
{
    const struct member *member = registry_find(daemon->registry, pid);

    if (!member || owns_run(peer, member->run) || (run && run_is_within(run, member->run)))
        return true;
    answer_fail(answer, RPC_NOT_PERMITTED, "process %d is part of another user's job", (int)pid);
    return false;
}

static bool take_parent(struct daemon *daemon, const struct peer *peer,
                        const struct rpc_request *request, pid_t pid, struct run **ret,
                        struct answer *answer)
{
    const char *parent_id = rpc_text(request, "parent_run_id");

    *ret =
        parent_id ? registry_find_run(daemon->registry, parent_id) : find_parent(daemon, peer, pid);
    if (!parent_id || (*ret && owns_run(peer, *ret)))
        return true;
    answer_fail(answer, RPC_JOB_NOT_FOUND, "parent_run_id: no such run of this user is running");
    return false;
}

/* The name that the run will have; "" with an error in the answer. */
static void choose_name(struct daemon *daemon, const struct peer *peer,
                        const struct rpc_request *request, bool is_taken,
                        char into[static JOB_ID_NUMBERED_MAX_BYTES], struct answer *answer)
{
    const char *job_id = rpc_text(request, "job_id");

    registry_find_free_name(daemon->registry, job_id, peer->uid, is_taken, into);
    if (strcmp(into, job_id) == 0 || rpc_bool(request, "unique", false))
        return;
    into[0] = '\0';
    answer_fail(answer, RPC_JOB_ALREADY_RUNNING, "job '%s' is running already", job_id);
}

static bool has_room(const struct daemon *daemon, const struct peer *peer, struct answer *answer)
{
    if (registry_has_room(daemon->registry, peer->uid))
        return true;
    answer_fail(answer, RPC_RESOURCES_EXHAUSTED,
                "too many jobs are running (%d, or %d of one user)", REGISTRY_RUNS_MAX,
                REGISTRY_RUNS_PER_USER_MAX);
    return false;
}

/* A process that reports itself begins now; one that the caller started, when it was forked. */
static enum event_replay telling_of(const struct peer *peer, pid_t pid)
{
    return pid == peer->pid ? REPLAY_FROM_NOW : REPLAY_FROM_BIRTH;
}

/* A foster parent must be alive; otherwise the orphans would go to a process that reused its pid.
 */
static int set_foster(struct daemon *daemon, const struct peer *peer,
                      const struct rpc_request *request, struct run *run)
{
    pid_t pid = peer_process(peer);

    if (!rpc_bool(request, "adopts_orphans", false) || !pid)
        return 0;
    int r = registry_set_foster(daemon->registry, pid, run);
    if (r == 0)
        registry_expect(daemon->registry, pid, peer->start_ticks);
    return r;
}

/* Whether the caller stores in the daemon's database: readers find nothing that is stored in
 * another. */
static bool shares_store(const struct daemon *daemon, const struct connection *connection,
                         const struct rpc_request *request)
{
    const char *path = rpc_text(request, "stores_in");

    return path && connection_peer(connection)->uid == geteuid() &&
           strcmp(path, daemon->config->storage_path) == 0;
}

/* Decides who stores forks, execs and exits: one of the two stores all of them. Two parts could not
 * be merged once a storm is folded. */
static void choose_event_writer(struct daemon *daemon, const struct connection *connection,
                                const struct rpc_request *request, const struct process_id *process,
                                struct run *run)
{
    bool is_gone = rpc_int(request, "pid", 0) && !process->pid;
    bool is_missing = rpc_bool(request, "offers_events", false) &&
                      !rpc_bool(request, "again", false) && (run->misses_events || is_gone);

    if (!shares_store(daemon, connection, request)) {
        run->lacks_events |= is_missing;
    } else if (is_missing || rpc_bool(request, "keeps_events", false)) {
        run_lifecycle_leave_events_to_caller(daemon, run);
    }
}

/* Registers its process and its step, if the request has them. */
static int join(struct daemon *daemon, struct connection *connection,
                const struct rpc_request *request, struct run *run, struct process_id process)
{
    const struct peer *peer = connection_peer(connection);
    int64_t sheet_num = rpc_int(request, "sheet_num", INT_UNKNOWN);
    enum event_replay replay =
        rpc_bool(request, "again", false) ? REPLAY_NONE : telling_of(peer, process.pid);
    _cleanup_text_ struct text context = {0};

    int r = set_foster(daemon, peer, request, run);
    if (r == 0 && !int_is_known(sheet_num))
        return process.pid ? engine_register(daemon->engine, run, INT_UNKNOWN, process, replay) : 0;
    if (r < 0)
        return r;
    run_lifecycle_is_step(daemon, run, sheet_num);
    if (replay == REPLAY_NONE) { /* nor is its step reported again */
        r = run_begin_sheet(run, sheet_num, process.pid);
        return r == 0 && process.pid
                   ? engine_register(daemon->engine, run, sheet_num, process, replay)
                   : r;
    }
    context_write(daemon, peer->uid, process.pid, process.pid != 0, &context);
    return run_lifecycle_step(daemon, run,
                              &(struct run_lifecycle_step){.sheet_num = sheet_num,
                                                           .process = process,
                                                           .exit_code = INT_UNKNOWN,
                                                           .outcome = OUTCOME_RUNNING,
                                                           .replay = replay,
                                                           .context_json = &context});
}

static void abandon(struct daemon *daemon, struct run *run)
{
    struct job job;

    record_init(&job_record, &job);
    job.outcome = OUTCOME_UNKNOWN;
    job.cause = "could not be registered";
    run_lifecycle_finish(daemon, run, &job);
}

/* Whether the caller gave up waiting: then it stores the run itself. */
static bool has_given_up(const struct connection *connection, const struct rpc_request *request,
                         struct answer *answer)
{
    bool can_store = rpc_text(request, "stores_in") || rpc_bool(request, "offers_events", false);

    if (!can_store || !connection_has_left(connection))
        return false;
    answer_fail(answer, RPC_JOB_NOT_FOUND, "the caller has closed the connection");
    return true;
}

static void start_run(struct daemon *daemon, struct connection *connection,
                      const struct rpc_request *request, struct process_id process,
                      bool is_name_taken, struct answer *answer)
{
    const struct peer *peer = connection_peer(connection);
    char name[JOB_ID_NUMBERED_MAX_BYTES];
    struct job_start start = {
        .run_id = rpc_text(request, "run_id"),
        .job_id = name,
        .job_type = rpc_text(request, "job_type"),
        .command = rpc_text(request, "command"),
        .cwd = rpc_text(request, "cwd"),
        .uid = peer->uid,
        .started_at = rpc_real(request, "started_at", ns_to_sec(clock_real_ns())),
        .total_sheets = rpc_int(request, "total_sheets", INT_UNKNOWN),
        .origin = RUN_REGISTERED,
        .owner_pid = peer_process(peer),
        .is_continued = rpc_bool(request, "again", false),
    };
    struct run *run;

    if (has_given_up(connection, request, answer))
        return;
    if (start.started_at > ns_to_sec(clock_real_ns()) + CLOCK_SLACK_SEC) {
        answer_fail(answer, RPC_INVALID_PARAMS, "started_at: %.0f is in the future",
                    start.started_at);
        return;
    }
    choose_name(daemon, peer, request, is_name_taken, name, answer);
    if (!name[0] || !take_parent(daemon, peer, request, process.pid, &start.parent, answer) ||
        !may_join(daemon, peer, start.parent, process.pid, answer) ||
        !has_room(daemon, peer, answer))
        return;
    start.hides_parent = start.parent && !owns_run(peer, start.parent);
    int r = run_lifecycle_begin(daemon, &start, &run);
    if (r == 0 && ((r = join(daemon, connection, request, run, process)) < 0 ||
                   (r = run_lifecycle_find_inner(daemon, run)) < 0))
        abandon(daemon, run);
    if (r < 0) {
        answer_fail_errno(answer, r);
        return;
    }
    choose_event_writer(daemon, connection, request, &process, run);
    connection_keep_open(connection);
    write_start(request, run, answer);
}

/* The run was reported again: after a lost connection, or after a restart of the daemon. */
static void resume_run(struct daemon *daemon, struct connection *connection,
                       const struct rpc_request *request, struct run *run,
                       struct process_id process, struct answer *answer)
{
    const struct peer *peer = connection_peer(connection);

    if (!owns_run(peer, run)) {
        answer_fail(answer, RPC_NOT_PERMITTED, "that run belongs to another user");
        return;
    }
    if (has_given_up(connection, request, answer) ||
        !may_join(daemon, peer, run, process.pid, answer))
        return;
    int r = set_foster(daemon, peer, request, run);
    const struct member *member = registry_find(daemon->registry, process.pid);
    if (r == 0 && process.pid && (!member || member->run != run))
        r = engine_register(daemon->engine, run, rpc_int(request, "sheet_num", INT_UNKNOWN),
                            process, REPLAY_NONE);
    if (r == 0)
        r = run_lifecycle_find_inner(daemon, run);
    if (r < 0) {
        answer_fail_errno(answer, r);
        return;
    }
    run_lifecycle_set_owner(daemon, run, peer_process(peer));
    if (rpc_bool(request, "again", false))
        run_lifecycle_store_again(daemon, run);
    choose_event_writer(daemon, connection, request, &process, run);
    connection_keep_open(connection);
    write_start(request, run, answer);
}

/* Whether the run is stored already: a run_id belongs to its owner, and only while its run may
 * continue. Runs in the query thread. */
static void ask_for_run(struct query *query)
{
    const char *run_id = rpc_text(query->request, "run_id");
    const struct peer *peer = &query->peer;
    struct job job;

    int r = store_find_job(query->reader, run_id, &query->arena, &job);
    if (r == -ENOENT || (r == 0 && strcmp(job.run_id, run_id) != 0))
        return;
    if (r < 0) {
        answer_fail(query->answer, RPC_INTERNAL_ERROR, "cannot find the owner of that run: %s",
                    store_reader_error(query->reader));
        return;
    }
    bool is_lost = job.outcome == OUTCOME_UNKNOWN && job.cause && strcmp(job.cause, "lost") == 0;
    if (!peer->sees_all && job.uid != (int64_t)peer->uid)
        answer_fail(query->answer, RPC_NOT_PERMITTED, "that run belongs to another user");
    else if (job.outcome != OUTCOME_RUNNING && !is_lost)
        answer_fail(query->answer, RPC_INVALID_PARAMS, "run_id: that run has ended");
}

/* Whether a run of that name that started without the daemon is still running. Runs in the query
 * thread. */
static void ask_for_name(struct query *query)
{
    struct job_filter filter = JOB_FILTER_ALL;
    struct job_list jobs = {0};

    filter.job_id = rpc_text(query->request, "job_id");
    filter.uid = query->peer.uid;
    filter.outcome = OUTCOME_RUNNING;
    filter.limit = 2;
    if (store_read_jobs(query->reader, &filter, &query->arena, &jobs) < 0)
        return;
    for (size_t i = 0; i < jobs.count; i++)
        query->is_name_taken |=
            strcmp(jobs.items[i].run_id, rpc_text(query->request, "run_id")) != 0;
}

static void ask_before_start(struct query *query)
{
    ask_for_run(query);
    if (!query->answer->error)
        ask_for_name(query);
}

/* The caller may be gone, or have reported the run on another connection. */
static void start_asked(struct daemon *daemon, struct query *query)
{
    const struct rpc_request *request = query->request;
    struct run *known = registry_find_run(daemon->registry, rpc_text(request, "run_id"));
    struct process_id process = {.pid = (pid_t)rpc_int(request, "pid", 0),
                                 .start_ticks = query->start_ticks};

    engine_drain(daemon->engine);
    look_again(daemon, &query->peer, &process);
    if (known)
        resume_run(daemon, query->connection, request, known, process, query->answer);
    else
        start_run(daemon, query->connection, request, process, query->is_name_taken, query->answer);
}

void method_job_start(struct daemon *daemon, struct connection *connection,
                      const struct rpc_request *request, struct answer *answer)
{
    const char *run_id = rpc_text(request, "run_id");
    struct run *known = run_id ? registry_find_run(daemon->registry, run_id) : NULL;
    struct process_id process;

    if (!take_process(daemon, connection, request, &process, answer))
        return;
    if (run_id && !known) {
        answer_after_query(answer, daemon->job_queries, ask_before_start);
        answer->then = start_asked;
        answer->wait_ns = 0;
        answer->start_ticks = process.start_ticks;
        answer_at_pace(answer, daemon);
        return;
    }
    engine_drain(daemon->engine);
    if (known)
        resume_run(daemon, connection, request, known, process, answer);
    else
        start_run(daemon, connection, request, process, false, answer);
    answer_at_pace(answer, daemon);
}

/* ---- job.progress, job.signal, job.finish ---- */

static void write_nothing(struct answer *answer)
{
    json_write_begin_object(&answer->json);
    json_write_end_object(&answer->json);
}

void method_job_progress(struct daemon *daemon, struct connection *connection,
                         const struct rpc_request *request, struct answer *answer)
{
    struct run *run = find_run(daemon, connection, request, answer);
    const char *status = rpc_text(request, "status");

    if (!run)
        return;
    run->current_sheet = rpc_int(request, "current_sheet", run->current_sheet);
    run->last_completed_sheet = rpc_int(request, "last_completed_sheet", run->last_completed_sheet);
    run->total_sheets = rpc_int(request, "total_sheets", run->total_sheets);
    if (status)
        snprintf(run->status, sizeof(run->status), "%s", status);
    run_lifecycle_progressed(daemon, run);
    write_nothing(answer);
}

void method_job_signal(struct daemon *daemon, struct connection *connection,
                       const struct rpc_request *request, struct answer *answer)
{
    struct run *run = find_run(daemon, connection, request, answer);
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
    write_nothing(answer);
}

void method_job_leave(struct daemon *daemon, struct connection *connection,
                      const struct rpc_request *request, struct answer *answer)
{
    struct run *run = find_run(daemon, connection, request, answer);

    if (!run)
        return;
    if (shares_store(daemon, connection, request)) {
        run_lifecycle_leave(daemon, run);
    } else {
        struct job job;
        record_init(&job_record, &job);
        job.outcome = OUTCOME_UNKNOWN;
        job.cause = "its caller stores it elsewhere";
        run_lifecycle_finish(daemon, run, &job);
    }
    write_nothing(answer);
}

static int exactness_of(const struct rpc_request *request, const char *name)
{
    int word = rpc_word(request, name, -1);

    return word < 0 ? EXACTNESS_UNKNOWN : EXACT + word;
}

/* The figures that its parent measured. If only one part is given, it is the sum. */
static void read_figures(const struct rpc_request *request, struct job_profile *profile)
{
    struct run_exactness *exactness = &profile->exactness;

    profile->user_seconds = rpc_real(request, "user_seconds", REAL_UNKNOWN);
    profile->system_seconds = rpc_real(request, "system_seconds", REAL_UNKNOWN);
    profile->total_cpu_seconds =
        rpc_real(request, "cpu_seconds", profile->user_seconds + profile->system_seconds);
    profile->peak_rss_mb = rpc_real(request, "peak_rss_mb", REAL_UNKNOWN);
    profile->peak_total_mb = rpc_real(request, "peak_total_mb", REAL_UNKNOWN);
    profile->peak_unique_mb = rpc_real(request, "peak_unique_mb", REAL_UNKNOWN);
    profile->wall_seconds = rpc_real(request, "wall_seconds", REAL_UNKNOWN);
    profile->gap_seconds = rpc_real(request, "gap_seconds", REAL_UNKNOWN);
    profile->process_spawn_count = rpc_int(request, "processes", INT_UNKNOWN);
    profile->unique_pid_count = profile->process_spawn_count;
    profile->left_running = rpc_int(request, "left_running", INT_UNKNOWN);
    /* Both include those of nested runs. */
    if (int_is_known(profile->process_spawn_count) && int_is_known(profile->left_running))
        profile->exit_count = profile->process_spawn_count - profile->left_running;
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

/* The longest text that is accepted. */
static double reported_cpu(const struct rpc_request *request)
{
    double parts = rpc_real(request, "user_seconds", 0) + rpc_real(request, "system_seconds", 0);

    return MAX(parts, rpc_real(request, "cpu_seconds", 0));
}

/* Of memory that cannot exist twice. */
static double reported_memory(const struct rpc_request *request)
{
    return MAX(rpc_real(request, "peak_rss_mb", 0), rpc_real(request, "peak_unique_mb", 0));
}

/* Of the whole machine, whatever limits apply to the daemon. */
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
    double cpu_max = (age_seconds + CLOCK_SLACK_SEC) * (double)sysconf(_SC_NPROCESSORS_CONF);
    double cpu_seconds = reported_cpu(request);
    double memory_mb = machine_memory_mb();
    int64_t processes = rpc_int(request, "processes", INT_UNKNOWN);
    int64_t left_running = rpc_int(request, "left_running", 0);

    if (rpc_real(request, "ended_at", 0) > ns_to_sec(clock_real_ns()) + CLOCK_SLACK_SEC)
        answer_fail(answer, RPC_INVALID_PARAMS, "ended_at: is in the future");
    else if (wall_seconds > age_seconds + CLOCK_SLACK_SEC)
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

static_assert(RPC_CHAIN_MAX == FAILURE_CHAIN_MAX, "a parent can send every chain that is found");

/* Cut to the length of a command line; NULL without memory. */
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

/* The chain as its parent saw it. The caller cannot choose the run of its events. */
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
    struct run *run = find_run(daemon, connection, request, answer);
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
    begin_names(run, answer);
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

/* ---- steps ---- */

/* The process that a step begins with, if the request has one. */
static bool take_first(struct daemon *daemon, const struct connection *connection,
                       const struct rpc_request *request, const struct run *run,
                       struct run_lifecycle_step *step, struct answer *answer)
{
    const struct peer *peer = connection_peer(connection);

    if (!take_process(daemon, connection, request, &step->process, answer))
        return false;
    engine_drain(daemon->engine);
    step->replay = telling_of(peer, step->process.pid);
    return may_join(daemon, peer, run, step->process.pid, answer);
}

/* The process that ended with a step: the one that it began with, unless the request has another,
 * which may be gone. */
static bool take_last(const struct connection *connection, const struct rpc_request *request,
                      const struct run *run, struct run_lifecycle_step *step, struct answer *answer)
{
    const struct peer *peer = connection_peer(connection);
    const struct run_sheet *active = run_find_sheet(run, step->sheet_num);
    uint64_t start_ticks;
    int64_t uid;

    if (!active) {
        answer_fail(answer, RPC_INVALID_PARAMS, "sheet_num: step %lld is not running",
                    (long long)step->sheet_num);
        return false;
    }
    step->process.pid = (pid_t)rpc_int(request, "pid", active->pid);
    if (step->process.pid == active->pid || peer->sees_all ||
        process_lookup_owner(PROC_ROOT, step->process.pid, &start_ticks, &uid) < 0 ||
        uid == (int64_t)peer->uid)
        return true;
    answer_fail(answer, RPC_NOT_PERMITTED, "process %d belongs to another user",
                (int)step->process.pid);
    return false;
}

static void tell_step(struct daemon *daemon, struct connection *connection,
                      const struct rpc_request *request, int outcome, struct answer *answer)
{
    struct run *run = find_run(daemon, connection, request, answer);
    _cleanup_text_ struct text context = {0};
    struct run_lifecycle_step step = {
        .sheet_num = rpc_int(request, "sheet_num", 0),
        .name = rpc_text(request, "name"),
        .exit_code = rpc_int(request, "exit_code", INT_UNKNOWN),
        .outcome = outcome,
        .context_json = &context,
    };
    bool is_begin = outcome == OUTCOME_RUNNING;

    if (!run || !(is_begin ? take_first(daemon, connection, request, run, &step, answer)
                           : take_last(connection, request, run, &step, answer)))
        return;
    pid_t pid = step.process.pid;
    context_write(daemon, connection_peer(connection)->uid, pid, pid != 0, &context);
    int r = run_lifecycle_step(daemon, run, &step);
    if (!is_begin && pid && r == 0)
        tracing_release(engine_tracing(daemon->engine), run, pid);
    if (r == -E2BIG)
        answer_fail(answer, RPC_RESOURCES_EXHAUSTED, "a job may have %d active steps at once",
                    RUN_SHEETS_MAX);
    else if (r < 0)
        answer_fail_errno(answer, r);
    text_printf(&answer->result, "{\"resource_context\":%s}", text_string(&context));
    answer_at_pace(answer, daemon);
}

void method_sheet_started(struct daemon *daemon, struct connection *connection,
                          const struct rpc_request *request, struct answer *answer)
{
    tell_step(daemon, connection, request, OUTCOME_RUNNING, answer);
}

void method_sheet_completed(struct daemon *daemon, struct connection *connection,
                            const struct rpc_request *request, struct answer *answer)
{
    tell_step(daemon, connection, request, OUTCOME_SUCCESS + rpc_word(request, "outcome", 0),
              answer);
}

void method_sheet_failed(struct daemon *daemon, struct connection *connection,
                         const struct rpc_request *request, struct answer *answer)
{
    tell_step(daemon, connection, request, OUTCOME_SUCCESS + rpc_word(request, "outcome", 1),
              answer);
}
