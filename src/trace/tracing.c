#include "trace/tracing.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "trace/strace-command.h"
#include "trace/strace-output.h"
#include "trace/trace-target.h"
#include "trace/traced-runs.h"

struct waiter {
    struct waiter *next;
    bool wants_end; /* waits for the end of the tracer, otherwise for its attachment */
    trace_fn on_answer;
    void *context;
};

struct tracer {
    struct tracing *tracing;
    struct tracer *next;
    struct trace_target target;
    struct traced_run *run; /* NULL: none */
    char *file;             /* of a full trace; NULL: counts */
    struct helper *helper;
    struct strace_output output;
    bool is_attached;
    bool is_ending;
    bool was_followed; /* attached by tracing_follow() */
    struct waiter *waiters;
};

struct tracing {
    struct tracing_options options;
    struct strace_command command; /* its program is "" until found */
    struct tracer *tracers;
    struct traced_runs runs;
    struct traced_processes processes;
    bool is_stopping;
    uint64_t failures;
    char failure[TRACE_REASON_SIZE];
};

/* ---- answers ---- */

static void answer_error(trace_fn on_answer, void *context, int error, const char *reason)
{
    on_answer(context, &(struct trace_answer){.error = error, .reason = reason});
}

static struct trace_answer success_of(const struct tracer *tracer)
{
    return (struct trace_answer){.tracer_pid = helper_pid(tracer->helper), .file = tracer->file};
}

static bool has_room_for_waiter(const struct tracer *tracer)
{
    size_t count = 0;

    for (const struct waiter *waiter = tracer->waiters; waiter; waiter = waiter->next)
        count++;
    return count < TRACE_WAITERS_MAX;
}

/* Adds a waiting request, or answers it with an error. */
static void add_waiter(struct tracer *tracer, bool wants_end, trace_fn on_answer, void *context)
{
    if (!has_room_for_waiter(tracer)) {
        answer_error(on_answer, context, -EAGAIN,
                     "too many requests already wait for the tracer of this process");
        return;
    }
    struct waiter *waiter = malloc(sizeof(*waiter));
    if (!waiter) {
        answer_error(on_answer, context, -ENOMEM, "no memory left");
        return;
    }
    *waiter = (struct waiter){.next = tracer->waiters,
                              .wants_end = wants_end,
                              .on_answer = on_answer,
                              .context = context};
    tracer->waiters = waiter;
}

/* Answers the requests that wait for the attachment, or all requests if the tracer has ended. The
 * receiver of an answer may add the next request for the same tracer. */
static void answer_waiters(struct tracer *tracer, bool has_ended, const struct trace_answer *answer)
{
    struct waiter *waiting = tracer->waiters, *waiter;

    tracer->waiters = NULL;
    while ((waiter = waiting)) {
        waiting = waiter->next;
        if (waiter->wants_end && !has_ended) {
            waiter->next = tracer->waiters;
            tracer->waiters = waiter;
            continue;
        }
        waiter->on_answer(waiter->context, answer);
        free(waiter);
    }
}

void tracing_cancel(struct tracing *tracing, const void *context)
{
    for (struct tracer *tracer = tracing->tracers; tracer; tracer = tracer->next) {
        struct waiter **link = &tracer->waiters, *waiter;
        while ((waiter = *link)) {
            if (waiter->context != context) {
                link = &waiter->next;
                continue;
            }
            *link = waiter->next;
            free(waiter);
        }
    }
}

/* ---- tracers ---- */

static struct tracer *find_tracer(const struct tracing *tracing, pid_t pid)
{
    struct tracer *tracer = tracing->tracers;

    while (tracer && tracer->target.pid != pid)
        tracer = tracer->next;
    return tracer;
}

static struct tracer *find_by_helper(const struct tracing *tracing, pid_t helper)
{
    struct tracer *tracer = tracing->tracers;

    while (tracer && helper_pid(tracer->helper) != helper)
        tracer = tracer->next;
    return tracer;
}

static void tracer_free(struct tracer *tracer)
{
    strace_output_done(&tracer->output);
    free(tracer->file);
    free(tracer);
}

static void unlink_tracer(struct tracer *tracer)
{
    struct tracer **link = &tracer->tracing->tracers;

    while (*link != tracer)
        link = &(*link)->next;
    *link = tracer->next;
}

static void stop_tracer(struct tracer *tracer, uint64_t grace_ms)
{
    tracer->is_ending = true;
    helper_stop(tracer->helper, grace_ms);
}

static void on_chunk(void *context, const char *bytes, size_t length)
{
    struct tracer *tracer = context;

    strace_output_add(&tracer->output, bytes, length);
    if (tracer->output.was_cut)
        stop_tracer(tracer, TRACE_DETACH_MSEC); /* this output is not a table */
    if (tracer->is_attached || tracer->output.status != STRACE_ATTACHED)
        return;
    tracer->is_attached = true;
    helper_set_deadline(tracer->helper, 0);
    struct trace_answer answer = success_of(tracer);
    answer_waiters(tracer, false, &answer);
}

/* Writes the reason why strace could not be started. Returns a negative errno. */
static int explain_failed_start(const struct tracer *tracer, const struct spawn_report *report,
                                char reason[TRACE_REASON_SIZE])
{
    const char *why = strerror(report->error);

    switch (report->step) {
    case SPAWN_STEP_FILE:
        snprintf(reason, TRACE_REASON_SIZE, "the trace file %.150s cannot be created: %s",
                 tracer->file, report->error == ELOOP ? "its path contains a link" : why);
        break;
    case SPAWN_STEP_EXEC:
        snprintf(reason, TRACE_REASON_SIZE, "%.150s cannot be executed: %s",
                 tracer->tracing->command.program, why);
        break;
    default:
        snprintf(reason, TRACE_REASON_SIZE, "strace cannot be started for process %d: %s",
                 (int)tracer->target.pid, why);
        break;
    }
    return -EIO;
}

/* Writes the reason why strace did not attach. Returns a negative errno. */
static int explain_failure(const struct tracer *tracer, const struct helper_end *end,
                           char reason[TRACE_REASON_SIZE])
{
    const char *message = tracer->output.message;
    int pid = (int)tracer->target.pid;

    if (end->report.error)
        return explain_failed_start(tracer, &end->report, reason);
    switch (tracer->output.status) {
    case STRACE_GONE: snprintf(reason, TRACE_REASON_SIZE, "process %d is gone", pid); return -ESRCH;
    case STRACE_REFUSED:
        snprintf(reason, TRACE_REASON_SIZE, "process %d may not be traced (%.180s)", pid, message);
        return -EPERM;
    case STRACE_FAILED: snprintf(reason, TRACE_REASON_SIZE, "strace: %s", message); return -EIO;
    default: break;
    }
    if (end->was_late)
        snprintf(reason, TRACE_REASON_SIZE, "strace did not attach to process %d within %d s", pid,
                 TRACE_ATTACH_MSEC / 1000);
    else
        snprintf(reason, TRACE_REASON_SIZE, "strace ended before it had attached to process %d",
                 pid);
    return end->was_late ? -ETIMEDOUT : -EIO;
}

/* Returns the reason why an attached tracer has no table; NULL if none is expected. */
static const char *explain_missing_table(const struct tracer *tracer, const struct helper_end *end)
{
    if (tracer->file)
        return NULL;
    if (tracer->output.was_cut)
        return "strace printed more than a table of counts can have";
    return end->was_late ? "strace did not detach in time and was killed"
                         : "strace ended without a table of counts";
}

static void on_late(void *context, const struct traced_run *run)
{
    struct tracing *tracing = context;

    if (!syscall_profile_is_empty(&run->calls))
        tracing->options.on_late(tracing->options.context, run->run_id, &run->calls);
}

static void report_calls(struct tracer *tracer, const struct syscall_profile *calls)
{
    const struct trace_target *target = &tracer->target;
    struct tracing *tracing = tracer->tracing;
    const struct traced traced = {.pid = target->pid,
                                  .start_ticks = target->start_ticks,
                                  .run_id = tracer->run ? tracer->run->run_id : NULL,
                                  .calls = calls};

    if (syscall_profile_is_empty(calls))
        return;
    traced_processes_add(&tracing->processes, target->pid, target->start_ticks, calls,
                         clock_mono_ns());
    tracing->options.on_traced(tracing->options.context, &traced);
}

static void count_failure(struct tracing *tracing, const char *reason)
{
    tracing->failures++;
    snprintf(tracing->failure, sizeof(tracing->failure), "%s", reason);
}

static void on_end(void *context, const struct helper_end *end)
{
    struct tracer *tracer = context;
    struct tracing *tracing = tracer->tracing;
    struct syscall_profile calls = {0};
    struct trace_answer answer = success_of(tracer);
    char reason[TRACE_REASON_SIZE];

    unlink_tracer(tracer);
    bool has_table = !tracer->file && strace_output_parse(&tracer->output, &calls) == 0;
    report_calls(tracer, &calls);
    if (!tracer->is_attached && !has_table) {
        answer.error = explain_failure(tracer, end, reason);
        answer.reason = reason;
    } else if (!has_table) {
        answer.reason = explain_missing_table(tracer, end);
    }
    if (tracer->was_followed && answer.reason && answer.error != -ESRCH)
        count_failure(tracing, answer.reason);
    answer.calls = has_table ? &calls : NULL;
    answer_waiters(tracer, true, &answer);
    if (tracer->run)
        traced_runs_remove_tracer(&tracing->runs, tracer->run, &calls, on_late, tracing);
    syscall_profile_done(&calls);
    tracer_free(tracer);
}

/* ---- attaching ---- */

const char *tracing_program(struct tracing *tracing)
{
    char *program = tracing->command.program;

    if (!program[0] && helper_find("strace", program, sizeof(tracing->command.program)) < 0)
        program[0] = '\0';
    return program[0] ? program : NULL;
}

static int start_strace(struct tracing *tracing, struct tracer *tracer)
{
    struct strace_command *command = &tracing->command;
    const struct trace_target *target = &tracer->target;

    if (tracer->file)
        strace_command_full(command, target->pid);
    else
        strace_command_summary(command, target->pid);
    const struct helper_options options = {
        .argv = command->argv,
        .user = target->needs_user ? &target->user : NULL,
        .stop_signal = SIGINT, /* then it detaches and prints its table */
        .deadline_ms = TRACE_ATTACH_MSEC,
        .grace_ms = TRACE_DETACH_MSEC,
        .reads = HELPER_READ_STDERR,
        .stdout_path = tracer->file,
        .file_max_bytes = TRACE_FILE_MAX_BYTES,
        .on_chunk = on_chunk,
        .on_end = on_end,
        .context = tracer,
    };
    return helper_start(tracing->options.helpers, &options, &tracer->helper);
}

static const struct run *run_of(const struct tracing *tracing, const struct trace_target *target)
{
    const struct member *member = registry_find(tracing->options.registry, target->pid);

    if (!member || (member->start_ticks && member->start_ticks != target->start_ticks))
        return NULL;
    return member->run;
}

static struct tracer *make_tracer(struct tracing *tracing, const struct trace_target *target,
                                  const char *file)
{
    const struct run *run = run_of(tracing, target);
    struct tracer *tracer = calloc(1, sizeof(*tracer));

    if (!tracer)
        return NULL;
    *tracer =
        (struct tracer){.tracing = tracing, .target = *target, .output = {.pid = target->pid}};
    if (file && !(tracer->file = strdup(file))) {
        tracer_free(tracer);
        return NULL;
    }
    if (run && !(tracer->run = traced_runs_add_tracer(&tracing->runs, run))) {
        tracer_free(tracer);
        return NULL;
    }
    return tracer;
}

static void discard_tracer(struct tracing *tracing, struct tracer *tracer)
{
    const struct syscall_profile nothing = {0};

    if (tracer->run)
        traced_runs_remove_tracer(&tracing->runs, tracer->run, &nothing, on_late, tracing);
    tracer_free(tracer);
}

static bool has_room(const struct tracing *tracing, uid_t uid)
{
    size_t of_user = 0, count = 0;

    for (const struct tracer *tracer = tracing->tracers; tracer; tracer = tracer->next) {
        of_user += tracer->target.user.uid == uid;
        count++;
    }
    if (uid == 0)
        return count < TRACERS_MAX;
    return count < TRACERS_MAX - TRACERS_FOR_ROOT && of_user < TRACERS_PER_USER_MAX;
}

/* Checks the target before anything is started. */
static int check_target(struct tracing *tracing, pid_t pid, int64_t uid, struct trace_target *ret,
                        char reason[TRACE_REASON_SIZE])
{
    if (tracing->is_stopping) {
        snprintf(reason, TRACE_REASON_SIZE, "sonde is stopping");
        return -ECANCELED;
    }
    int r = trace_target_read(pid, uid, ret, reason);
    if (r < 0)
        return r;
    if (ret->tracer_pid && !find_by_helper(tracing, ret->tracer_pid))
        return trace_target_fail_busy(ret, reason);
    if (!tracing_program(tracing))
        return trace_target_fail_no_strace(reason);
    if (!has_room(tracing, ret->user.uid)) {
        snprintf(reason, TRACE_REASON_SIZE,
                 "the limit of tracers is reached (%d per user, %d in all)", TRACERS_PER_USER_MAX,
                 TRACERS_MAX);
        return -EAGAIN;
    }
    return 0;
}

/* Returns the tracer that already covers the process, as its target or as a fork of its target;
 * NULL if there is none. */
static struct tracer *find_covering(const struct tracing *tracing,
                                    const struct trace_target *target)
{
    struct tracer *tracer = find_tracer(tracing, target->pid);

    if (tracer && tracer->target.start_ticks == target->start_ticks)
        return tracer;
    return target->tracer_pid ? find_by_helper(tracing, target->tracer_pid) : NULL;
}

/* Answers a request for a process that a tracer already covers. */
static void join_tracer(struct tracer *tracer, const char *file, trace_fn on_answer, void *context)
{
    struct trace_answer answer = success_of(tracer);

    if (tracer->is_ending)
        answer_error(on_answer, context, -EBUSY, "its tracer is being detached; try again");
    else if (file || tracer->file)
        answer_error(on_answer, context, -EBUSY, "it is already traced; detach its tracer first");
    else if (tracer->is_attached)
        on_answer(context, &answer);
    else
        add_waiter(tracer, false, on_answer, context);
}

static int start_tracer(struct tracing *tracing, const struct trace_target *target,
                        const char *file, struct tracer **ret, char reason[TRACE_REASON_SIZE])
{
    struct tracer *tracer = make_tracer(tracing, target, file);
    int r = tracer ? start_strace(tracing, tracer) : -ENOMEM;

    if (r < 0) {
        snprintf(reason, TRACE_REASON_SIZE, "strace cannot be started: %s", strerror(-r));
        if (tracer)
            discard_tracer(tracing, tracer);
        return r;
    }
    tracer->next = tracing->tracers;
    tracing->tracers = tracer;
    *ret = tracer;
    return 0;
}

void tracing_attach(struct tracing *tracing, const struct trace_request *request,
                    trace_fn on_answer, void *context)
{
    struct trace_target target;
    struct tracer *tracer = NULL;
    char reason[TRACE_REASON_SIZE] = "";

    int r = check_target(tracing, request->pid, request->uid, &target, reason);
    struct tracer *covering = r < 0 ? NULL : find_covering(tracing, &target);
    if (covering) {
        join_tracer(covering, request->file, on_answer, context);
        return;
    }
    if (r == 0)
        r = start_tracer(tracing, &target, request->file, &tracer, reason);
    if (r < 0)
        answer_error(on_answer, context, r, reason);
    else
        add_waiter(tracer, false, on_answer, context);
}

/* ---- detaching ---- */

void tracing_detach(struct tracing *tracing, const struct trace_request *request,
                    trace_fn on_answer, void *context)
{
    struct tracer *tracer = find_tracer(tracing, request->pid);
    bool is_theirs =
        tracer && (!int_is_known(request->uid) || (int64_t)tracer->target.user.uid == request->uid);

    if (!is_theirs) {
        answer_error(on_answer, context, -ESRCH, "no tracer is attached to it");
        return;
    }
    add_waiter(tracer, true, on_answer, context);
    stop_tracer(tracer, TRACE_DETACH_MSEC);
}

void tracing_release(struct tracing *tracing, const struct run *run, pid_t pid)
{
    struct tracer *tracer = find_tracer(tracing, pid);

    if (tracer && tracer->run && tracer->run->run == run)
        stop_tracer(tracer, TRACE_DETACH_MSEC);
}

void tracing_detach_all(struct tracing *tracing)
{
    tracing->is_stopping = true;
    for (struct tracer *tracer = tracing->tracers; tracer; tracer = tracer->next)
        stop_tracer(tracer, TRACE_LAST_WAIT_MSEC);
}

/* The tracers of runs that were started in this run continue. */
void tracing_end_run(struct tracing *tracing, const struct run *run, bool is_counted)
{
    for (struct tracer *tracer = tracing->tracers; tracer; tracer = tracer->next)
        if (tracer->run && tracer->run->run == run)
            stop_tracer(tracer, TRACE_DETACH_MSEC);
    traced_runs_end_run(&tracing->runs, run, is_counted);
}

/* ---- members ---- */

/* Attaches a tracer to a new member. Returns whether the result is final: the member is traced, or
 * cannot be. If the limit of tracers is reached, or its tracer is ending, the next call tries
 * again.
 */
static bool follow_member(struct tracing *tracing, const struct member *member)
{
    struct trace_target target;
    struct tracer *tracer = NULL;
    char reason[TRACE_REASON_SIZE] = "";

    int r = check_target(tracing, member->pid, INT_UNKNOWN, &target, reason);
    const struct tracer *covering = r < 0 ? NULL : find_covering(tracing, &target);
    if (covering)
        return !covering->is_ending;
    if (r == 0)
        r = start_tracer(tracing, &target, NULL, &tracer, reason);
    if (tracer)
        tracer->was_followed = true;
    else if (r != -ESRCH && r != -EAGAIN)
        count_failure(tracing, reason);
    return r != -EAGAIN;
}

/* Parents come before their children: the child of a newly traced parent is covered by its tracer.
 */
void tracing_follow(struct tracing *tracing)
{
    struct member *member = NULL;

    if (tracing->is_stopping)
        return;
    while ((member = registry_next(tracing->options.registry, member)))
        if (!member->was_followed && !member->has_ended)
            member->was_followed = follow_member(tracing, member);
}

/* ---- state ---- */

size_t tracing_count(const struct tracing *tracing)
{
    size_t count = 0;

    for (const struct tracer *tracer = tracing->tracers; tracer; tracer = tracer->next)
        count++;
    return count;
}

size_t tracing_pids(const struct tracing *tracing, pid_t into[static TRACERS_MAX])
{
    size_t count = 0;

    for (const struct tracer *tracer = tracing->tracers; tracer; tracer = tracer->next)
        into[count++] = helper_pid(tracer->helper);
    return count;
}

uint64_t tracing_failures(const struct tracing *tracing, const char **ret_reason)
{
    *ret_reason = tracing->failure;
    return tracing->failures;
}

static const struct traced_process *find_process(const struct tracing *tracing, pid_t pid,
                                                 uint64_t start_ticks)
{
    const struct traced_process *process = traced_processes_find(&tracing->processes, pid);

    return process && process->start_ticks == start_ticks ? process : NULL;
}

const struct syscall_profile *tracing_calls(const struct tracing *tracing, pid_t pid,
                                            uint64_t start_ticks)
{
    const struct traced_process *process = find_process(tracing, pid, start_ticks);
    uint64_t fresh_ns = TRACED_FRESH_SEC * NS_PER_SEC;

    return process && clock_mono_ns() - process->reported_ns < fresh_ns ? &process->calls : NULL;
}

/* The start time of a member that was in no snapshot is unknown. Then its pid identifies it: only
 * processes of the last snapshot, or traced since, are remembered. */
void tracing_ended(struct tracing *tracing, const struct member *member)
{
    const struct traced_process *process =
        member->start_ticks ? find_process(tracing, member->pid, member->start_ticks)
                            : traced_processes_find(&tracing->processes, member->pid);
    if (!process)
        return;
    const struct traced traced = {.pid = member->pid,
                                  .start_ticks = process->start_ticks,
                                  .run_id = member->run->run_id,
                                  .calls = &process->calls};
    tracing->options.on_traced(tracing->options.context, &traced);
}

int tracing_fill(struct tracing *tracing, struct snapshot *snapshot)
{
    return traced_processes_fill(&tracing->processes, snapshot);
}

int tracing_fill_run(const struct tracing *tracing, const struct run *run, struct arena *arena,
                     struct run_syscalls *ret)
{
    const struct traced_run *traced = traced_runs_find(&tracing->runs, run);

    *ret = (struct run_syscalls){0};
    /* Calls before the tracer attached are missing. */
    return traced
               ? syscall_profile_fill_run(&traced->calls, SYSCALLS_STRACE, LOWER_BOUND, arena, ret)
               : 0;
}

/* ---- life cycle ---- */

int tracing_new(const struct tracing_options *options, struct tracing **ret)
{
    struct tracing *tracing = calloc(1, sizeof(*tracing));
    if (!tracing)
        return -ENOMEM;

    tracing->options = *options;
    *ret = tracing;
    return 0;
}

void tracing_free(struct tracing *tracing)
{
    const struct trace_answer answer = {.error = -ECANCELED, .reason = "sonde is stopping"};

    if (!tracing)
        return;
    tracing->is_stopping = true;
    while (tracing->tracers) {
        struct tracer *tracer = tracing->tracers;
        tracing->tracers = tracer->next;
        answer_waiters(tracer, true, &answer);
        tracer_free(tracer);
    }
    traced_processes_done(&tracing->processes);
    traced_runs_done(&tracing->runs);
    free(tracing);
}
