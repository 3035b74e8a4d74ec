/* Handler of job.start: registers a run that a scheduler or `sonde run` reports, or resumes it
 * after a lost connection or a restart of the daemon. */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/uuid.h"
#include "config/paths.h"
#include "daemon/connection.h"
#include "daemon/daemon-state.h"
#include "daemon/job-request.h"
#include "daemon/methods.h"
#include "daemon/query-thread.h"
#include "daemon/resource-context.h"
#include "probe/process-lookup.h"

/* Limits the search for the run that a process was started in. */
#define ANCESTORS_MAX 64

/* Checks the process again after a query: it may be gone and its pid reused. Clears its start time
 * if it is gone, and its pid unless the caller forked it. */
static void recheck_process(struct daemon *daemon, const struct peer *peer,
                            struct process_id *process)
{
    struct proc_stat stat;
    int r = process_lookup_stat(PROC_ROOT, process->pid, &stat);

    if (r == 0 && stat.start_ticks == process->start_ticks)
        return;
    process->start_ticks = 0;
    if (r == 0 || !engine_saw_fork(daemon->engine, peer_process(peer), process->pid))
        process->pid = 0;
}

/* The pid of the parent; 0: it has none, or the process is gone. */
static pid_t read_parent(pid_t pid)
{
    struct proc_stat stat;

    return process_lookup_stat(PROC_ROOT, pid, &stat) == 0 ? stat.ppid : 0;
}

static void write_start(const struct rpc_request *request, const struct run *run,
                        struct answer *answer)
{
    job_request_begin_answer(run, answer);
    if (rpc_text(request, "stores_in")) {
        json_write_key(&answer->json, "has_events");
        json_write_bool(&answer->json, !run->caller_stores_events);
    }
    json_write_end_object(&answer->json);
}

/* The run, or its step, of a process or of its nearest ancestor; NULL: none. */
static struct run_node *find_node_around(const struct daemon *daemon, pid_t pid)
{
    for (int i = 0; pid > 1 && i < ANCESTORS_MAX; i++) {
        const struct member *member = registry_find(daemon->registry, pid);
        if (member)
            return member->node;
        pid = read_parent(pid);
    }
    return NULL;
}

/* The run or step in which the caller or the reported process was started, of any user. It comes
 * from the kernel, so the caller cannot choose it. */
static struct run_node *find_outer(const struct daemon *daemon, const struct peer *peer, pid_t pid)
{
    struct run_node *node = find_node_around(daemon, peer_process(peer));

    return node ? node : find_node_around(daemon, pid);
}

/* Finds the parent that the request names, else the run in which the caller was started (NULL:
 * none), and its step. Returns false with an error in the answer. */
static bool find_parent_run(struct daemon *daemon, const struct peer *peer,
                            const struct rpc_request *request, pid_t pid, struct job_start *start,
                            struct answer *answer)
{
    const char *parent_id = rpc_text(request, "parent_run_id");
    struct run_node *outer = find_outer(daemon, peer, pid);
    struct run *around = outer ? outer->run : NULL;

    start->parent = parent_id ? registry_find_run(daemon->registry, parent_id) : around;
    start->outer = start->parent == around ? outer : NULL;
    if (!parent_id || (start->parent && job_request_owns(peer, start->parent)))
        return true;
    answer_fail(answer, RPC_JOB_NOT_FOUND, "parent_run_id: no such run of this user is running");
    return false;
}

/* Chooses the name of the run; "" with an error in the answer. */
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

/* Makes the caller the foster parent of orphans, if it asks for that. It must be alive; otherwise
 * the orphans would go to a process that reused its pid. */
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

/* Decides whether the daemon or the caller stores forks, execs and exits. One of them stores all,
 * because two parts could not be merged once a storm is folded. */
static void choose_event_writer(struct daemon *daemon, const struct connection *connection,
                                const struct rpc_request *request, const struct process_id *process,
                                struct run *run)
{
    bool is_gone = rpc_int(request, "pid", 0) && !process->pid;
    bool is_missing = rpc_bool(request, "offers_events", false) &&
                      !rpc_bool(request, "again", false) && (run->misses_early_events || is_gone);
    bool caller_has_events = is_missing || rpc_bool(request, "keeps_events", false);

    if (job_request_shares_store(daemon, connection, request)) {
        if (caller_has_events)
            run_lifecycle_leave_events_to_caller(daemon, run);
    } else {
        run->has_unstored_events |= caller_has_events;
    }
}

/* Registers the process and the step that the request names, if it does. */
static int register_process(struct daemon *daemon, struct connection *connection,
                            const struct rpc_request *request, struct run *run,
                            struct process_id process)
{
    const struct peer *peer = connection_peer(connection);
    int64_t sheet_num = rpc_int(request, "sheet_num", INT_UNKNOWN);
    enum event_replay replay =
        rpc_bool(request, "again", false) ? REPLAY_NONE : job_request_replay(peer, process.pid);
    _cleanup_text_ struct text context = {0};

    int r = set_foster(daemon, peer, request, run);
    if (r == 0 && !int_is_known(sheet_num))
        return process.pid ? engine_register(daemon->engine, run, INT_UNKNOWN, process, replay) : 0;
    if (r < 0)
        return r;
    run_lifecycle_is_step(daemon, run, sheet_num);
    if (replay == REPLAY_NONE) { /* the step was reported before, too */
        r = registry_begin_sheet(daemon->registry, run, sheet_num, process.pid);
        return r == 0 && process.pid
                   ? engine_register(daemon->engine, run, sheet_num, process, replay)
                   : r;
    }
    resource_context_write(daemon, peer->uid, process.pid, process.pid != 0, &context);
    return run_lifecycle_step(daemon, run,
                              &(struct run_lifecycle_step){.sheet_num = sheet_num,
                                                           .at = rpc_real(request, "started_at", 0),
                                                           .process = process,
                                                           .exit_code = INT_UNKNOWN,
                                                           .outcome = OUTCOME_RUNNING,
                                                           .replay = replay,
                                                           .context_json = &context});
}

/* Ends a run whose process could not be registered. */
static void end_unregistered(struct daemon *daemon, struct run *run)
{
    struct job job;

    record_init(&job_record, &job);
    job.outcome = OUTCOME_UNKNOWN;
    job.cause = "could not be registered";
    run_lifecycle_finish(daemon, run, &job);
}

/* Whether the caller has closed the connection and so stores the run itself; then there is an error
 * in the answer. */
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
    if (start.started_at > ns_to_sec(clock_real_ns()) + JOB_REQUEST_CLOCK_SLACK_SEC) {
        answer_fail(answer, RPC_INVALID_PARAMS, "started_at: %.0f is in the future",
                    start.started_at);
        return;
    }
    choose_name(daemon, peer, request, is_name_taken, name, answer);
    if (!name[0] || !find_parent_run(daemon, peer, request, process.pid, &start, answer) ||
        !job_request_may_join(daemon, peer, start.parent, process.pid, answer) ||
        !has_room(daemon, peer, answer))
        return;
    start.hides_parent = start.parent && !job_request_owns(peer, start.parent);
    int r = run_lifecycle_begin(daemon, &start, &run);
    if (r == 0 && ((r = register_process(daemon, connection, request, run, process)) < 0 ||
                   (r = run_lifecycle_find_inner(daemon, run)) < 0))
        end_unregistered(daemon, run);
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

    if (!job_request_owns(peer, run)) {
        answer_fail(answer, RPC_NOT_PERMITTED, "that run belongs to another user");
        return;
    }
    if (has_given_up(connection, request, answer) ||
        !job_request_may_join(daemon, peer, run, process.pid, answer))
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

/* Rejects a run_id that is stored for another user, or for a run that has ended. Runs in the query
 * thread. */
static void check_stored_run(struct query *query)
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
    if (!peer->sees_all && job.uid != (int64_t)peer->uid)
        answer_fail(query->answer, RPC_NOT_PERMITTED, "that run belongs to another user");
    else if (job.outcome != OUTCOME_RUNNING && !job_is_lost(&job))
        answer_fail(query->answer, RPC_INVALID_PARAMS, "run_id: that run has ended");
}

/* Finds out whether a run of that name, which started without the daemon, is still running. Runs in
 * the query thread. */
static void check_stored_name(struct query *query)
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

static void check_stored(struct query *query)
{
    check_stored_run(query);
    if (!query->answer->error)
        check_stored_name(query);
}

/* Continues after check_stored(). Meanwhile the caller may have gone, or have reported the run on
 * another connection. */
static void start_checked(struct daemon *daemon, struct query *query)
{
    const struct rpc_request *request = query->request;
    struct run *known = registry_find_run(daemon->registry, rpc_text(request, "run_id"));
    struct process_id process = {.pid = (pid_t)rpc_int(request, "pid", 0),
                                 .start_ticks = query->start_ticks};

    engine_drain(daemon->engine);
    recheck_process(daemon, &query->peer, &process);
    if (known)
        resume_run(daemon, query->connection, request, known, process, query->answer);
    else
        start_run(daemon, query->connection, request, process, query->is_name_taken, query->answer);
}

static void handle_job_start(struct daemon *daemon, struct connection *connection,
                             const struct rpc_request *request, struct answer *answer)
{
    const char *run_id = rpc_text(request, "run_id");
    struct run *known = run_id ? registry_find_run(daemon->registry, run_id) : NULL;
    struct process_id process;

    if (!job_request_check_process(daemon, connection, request, &process, answer))
        return;
    if (run_id && !known) {
        answer_after_query(answer, daemon->job_queries, check_stored);
        answer->then = start_checked;
        answer->wait_ns = 0;
        answer->start_ticks = process.start_ticks;
        answer_when_written_under_load(answer, daemon);
        return;
    }
    engine_drain(daemon->engine);
    if (known)
        resume_run(daemon, connection, request, known, process, answer);
    else
        start_run(daemon, connection, request, process, false, answer);
    answer_when_written_under_load(answer, daemon);
}

/* ---- the table entries ---- */

static const struct rpc_param job_start_params[] = {
    PARAM_TEXT("job_id", JOB_ID_MAX_BYTES, .check = job_id_check, .is_required = true,
               .meaning =
                   "name of the job, unique per user: no `~`, no invisible characters, no blank "
                   "at either end, not a UUID"),
    PARAM_JOB_TYPE("job_type",
                   .meaning = "name that runs of the same work share; estimates are per type"),
    PARAM_TEXT("command", COMMAND_MAX_BYTES, .allows_controls = true, .holds_command = true,
               .meaning = "its command line"),
    PARAM_TEXT("cwd", RPC_TEXT_MAX_BYTES, .allows_controls = true, .holds_command = true,
               .meaning = "the working directory"),
    PARAM_INT("total_sheets", 1, RPC_NUMBER_MAX, .meaning = "the number of steps"),
    PARAM_PID("pid", .meaning =
                         "its first process, which must belong to the caller's user; its later "
                         "descendants belong to the job"),
    PARAM_UUID("parent_run_id", .meaning = "the run in which it was started"),
    PARAM_UUID("run_id", .meaning = "an id (UUID) of the caller's choice, to register a run again"),
    PARAM_BOOL("unique",
               .meaning = "use the name `JOB-2` instead of failing if the job is running"),
    PARAM_BOOL("adopts_orphans",
               .meaning = "the connected process is the run's parent and subreaper"),
    PARAM_BOOL("again",
               .meaning = "the run was recorded elsewhere until now; suppresses the start event"),
    PARAM_TEXT("stores_in", RPC_PATH_MAX_BYTES, .allows_controls = true,
               .meaning =
                   "the caller's database. `offers_events` and `keeps_events` apply only if it is "
                   "also the daemon's database and the caller is the daemon's user"),
    PARAM_BOOL("offers_events",
               .meaning =
                   "the caller has every event of the run: it stores spawns, execs and exits "
                   "itself if the daemon has missed some (`has_events` of the result)"),
    PARAM_BOOL("keeps_events", .meaning =
                                   "the caller stores spawns, execs and exits of the run itself: "
                                   "the daemon publishes them and does not store them"),
    PARAM_COUNT("sheet_num", .meaning = "the step that this run is"),
    PARAM_TIME("started_at", .meaning = "start time; default: now"),
};

const struct rpc_method method_job_start = {
    .name = "job.start",
    .summary = "Registers the start of a job.",
    RPC_PARAMS(job_start_params),
    .result = "{`run_id`, `job_id`}; with `stores_in` also `has_events`: "
              "whether the daemon stores spawns, execs and exits of the run",
    .handler = handle_job_start,
};
