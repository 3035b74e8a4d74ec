#include "engine/tracing.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/map.h"
#include "engine/peek.h"
#include "engine/trace-target.h"
#include "engine/traced-runs.h"
#include "trace/strace-command.h"
#include "trace/strace-messages.h"
#include "trace/strace-table.h"

/* Its table has a line for each of some 400 calls; before it, one for each process that it meets.
 */
#define OUTPUT_MAX_BYTES (4 << 20)

#define WORDS_MAX 256

struct waiter {
    struct waiter *next;
    bool wants_end; /* else that it has attached */
    trace_fn on_answer;
    void *context;
};

struct tracer {
    struct tracing *tracing;
    struct tracer *next;
    struct trace_target target;
    struct traced_run *run; /* NULL: of none */
    char *file;             /* of a full trace; NULL: it counts */
    struct helper *helper;
    bool is_attached;
    bool is_ending;
    bool was_followed; /* nobody has asked for it */
    struct waiter *waiters;
};

/* What is known of a process that lives. */
struct traced_process {
    pid_t pid;
    uint64_t start_ticks;
    uint64_t seen; /* with which snapshot it was last there */
    struct syscall_profile calls;
};

struct tracing {
    struct tracing_options options;
    struct strace_command command; /* its program is "" until it is found */
    struct tracer *tracers;
    struct traced_runs runs;
    struct map processes; /* pid → struct traced_process */
    uint64_t snapshots;   /* that were filled */
    uint64_t failures;
    char failure[WORDS_MAX];
};

/* ---- answers ---- */

static struct trace_answer failure_of(int error, const char *words)
{
    return (struct trace_answer){.error = error, .words = words};
}

static void answer_now(trace_fn on_answer, void *context, const struct trace_answer *answer)
{
    if (on_answer)
        on_answer(context, answer);
}

static struct trace_answer success_of(const struct tracer *tracer)
{
    return (struct trace_answer){.tracer_pid = helper_pid(tracer->helper), .file = tracer->file};
}

/* Whoever cannot wait for lack of memory is told so. */
static void wait_for(struct tracer *tracer, bool wants_end, trace_fn on_answer, void *context)
{
    struct waiter *waiter = on_answer ? malloc(sizeof(*waiter)) : NULL;

    if (!waiter) {
        struct trace_answer answer = failure_of(-ENOMEM, "no memory left");
        answer_now(on_answer, context, &answer);
        return;
    }
    *waiter = (struct waiter){.next = tracer->waiters,
                              .wants_end = wants_end,
                              .on_answer = on_answer,
                              .context = context};
    tracer->waiters = waiter;
}

/* Those who wait for its end, or all. */
static void answer_waiters(struct tracer *tracer, bool has_ended, const struct trace_answer *answer)
{
    struct waiter **link = &tracer->waiters, *waiter;

    while ((waiter = *link)) {
        if (waiter->wants_end && !has_ended) {
            link = &waiter->next;
            continue;
        }
        *link = waiter->next;
        waiter->on_answer(waiter->context, answer);
        free(waiter);
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
    free(tracer->file);
    free(tracer);
}

static void forget_tracer(struct tracer *tracer)
{
    struct tracer **link = &tracer->tracing->tracers;

    while (*link != tracer)
        link = &(*link)->next;
    *link = tracer->next;
}

static void on_output(void *context, const char *output, size_t length)
{
    struct tracer *tracer = context;

    if (tracer->is_attached ||
        strace_messages_parse(output, length, tracer->target.pid, NULL, 0) != STRACE_ATTACHED)
        return;
    tracer->is_attached = true;
    helper_set_deadline(tracer->helper, 0);
    struct trace_answer answer = success_of(tracer);
    answer_waiters(tracer, false, &answer);
}

/* Why it has not attached, in words. */
static int explain(const struct tracer *tracer, const struct helper_end *end, char words[WORDS_MAX])
{
    char line[WORDS_MAX - 64] = "";
    pid_t pid = tracer->target.pid;
    enum strace_news news =
        strace_messages_parse(end->output, end->length, pid, line, sizeof(line));

    switch (news) {
    case STRACE_GONE: snprintf(words, WORDS_MAX, "process %d is gone", (int)pid); return -ESRCH;
    case STRACE_REFUSED:
        snprintf(words, WORDS_MAX, "process %d may not be traced (%s)", (int)pid, line);
        return -EPERM;
    case STRACE_FAILED: snprintf(words, WORDS_MAX, "%s", line); return -EIO;
    default: break;
    }
    if (end->was_late)
        snprintf(words, WORDS_MAX, "strace did not attach to process %d within %d s", (int)pid,
                 TRACE_ATTACH_MSEC / 1000);
    else
        snprintf(words, WORDS_MAX, "strace ended before it had attached to process %d", (int)pid);
    return end->was_late ? -ETIMEDOUT : -EIO;
}

static void keep_of_process(struct tracing *tracing, const struct tracer *tracer,
                            const struct syscall_profile *calls)
{
    const struct trace_target *target = &tracer->target;
    struct traced_process *process = map_get(&tracing->processes, (uint64_t)target->pid);

    if (!process) {
        process = calloc(1, sizeof(*process));
        if (!process || map_put(&tracing->processes, (uint64_t)target->pid, process) < 0) {
            free(process); /* then its rows do not show it; its run does */
            return;
        }
        process->pid = target->pid;
    }
    if (process->start_ticks != target->start_ticks)
        syscall_profile_clear(&process->calls);
    process->start_ticks = target->start_ticks;
    process->seen = tracing->snapshots;
    syscall_profile_add_all(&process->calls, calls);
}

static void on_late(void *context, const struct traced_run *run)
{
    struct tracing *tracing = context;

    if (!syscall_profile_is_empty(&run->calls))
        tracing->options.on_late(tracing->options.context, run->run_id, &run->calls);
}

static void tell(struct tracer *tracer, const struct syscall_profile *calls)
{
    struct tracing *tracing = tracer->tracing;
    const struct traced traced = {.pid = tracer->target.pid,
                                  .start_ticks = tracer->target.start_ticks,
                                  .run_id = tracer->run ? tracer->run->run_id : NULL,
                                  .calls = calls};

    if (syscall_profile_is_empty(calls))
        return;
    keep_of_process(tracing, tracer, calls);
    tracing->options.on_traced(tracing->options.context, &traced);
}

static void note_failure(struct tracing *tracing, const char *words)
{
    tracing->failures++;
    snprintf(tracing->failure, sizeof(tracing->failure), "%s", words);
}

static void on_end(void *context, const struct helper_end *end)
{
    struct tracer *tracer = context;
    struct tracing *tracing = tracer->tracing;
    struct syscall_profile calls = {0};
    struct trace_answer answer = success_of(tracer);
    char words[WORDS_MAX];

    forget_tracer(tracer);
    if (!tracer->file)
        strace_table_parse(end->output, end->length, &calls); /* or it has told nothing */
    tell(tracer, &calls);
    if (!tracer->is_attached && syscall_profile_is_empty(&calls)) {
        answer.error = explain(tracer, end, words);
        answer.words = words;
        if (tracer->was_followed && answer.error != -ESRCH)
            note_failure(tracing, words);
    }
    answer.calls = &calls;
    answer_waiters(tracer, true, &answer);
    if (tracer->run)
        traced_runs_end(&tracing->runs, tracer->run, &calls, on_late, tracing);
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

static int start_strace(struct tracing *tracing, struct tracer *tracer, int *ret_exec_errno)
{
    struct strace_command *command = &tracing->command;
    const struct trace_target *target = &tracer->target;

    if (tracer->file)
        strace_command_full(command, target->pid);
    else
        strace_command_summary(command, target->pid);
    const struct helper_options options = {
        .argv = command->argv,
        .user = target->is_ours ? NULL : &target->user,
        .stop_signal = SIGINT, /* it detaches then, and tells */
        .deadline_ms = TRACE_ATTACH_MSEC,
        .grace_ms = TRACE_DETACH_MSEC,
        .reads = HELPER_READ_STDERR,
        .stdout_path = tracer->file,
        .file_max_bytes = TRACE_FILE_MAX_BYTES,
        .output_max = OUTPUT_MAX_BYTES,
        .on_output = on_output,
        .on_end = on_end,
        .context = tracer,
    };
    return helper_start(tracing->options.helpers, &options, &tracer->helper, ret_exec_errno);
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
    *tracer = (struct tracer){.tracing = tracing, .target = *target};
    if (file && !(tracer->file = strdup(file))) {
        tracer_free(tracer);
        return NULL;
    }
    if (run && !(tracer->run = traced_runs_begin(&tracing->runs, run))) {
        tracer_free(tracer);
        return NULL;
    }
    return tracer;
}

static void discard_tracer(struct tracing *tracing, struct tracer *tracer)
{
    const struct syscall_profile nothing = {0};

    if (tracer->run)
        traced_runs_end(&tracing->runs, tracer->run, &nothing, on_late, tracing);
    tracer_free(tracer);
}

/* What went wrong with the start of strace, in words. */
static void describe_start(const struct tracing *tracing, const struct tracer *tracer, int error,
                           int exec_errno, char words[WORDS_MAX])
{
    if (error == -ECHILD && tracer->file)
        snprintf(words, WORDS_MAX, "the trace cannot be written to a new file %.150s: %s",
                 tracer->file, strerror(exec_errno));
    else if (error == -ECHILD)
        snprintf(words, WORDS_MAX, "%.150s cannot be executed: %s", tracing->command.program,
                 strerror(exec_errno));
    else
        snprintf(words, WORDS_MAX, "strace cannot be started: %s", strerror(-error));
}

static bool has_room(const struct tracing *tracing, uid_t uid)
{
    size_t of_user = 0, count = 0;

    for (const struct tracer *tracer = tracing->tracers; tracer; tracer = tracer->next) {
        of_user += tracer->target.user.uid == uid;
        count++;
    }
    return count < TRACERS_MAX && (uid == 0 || of_user < TRACERS_PER_USER_MAX);
}

/* What stands against it, before anything is started. */
static int check_target(struct tracing *tracing, pid_t pid, struct trace_target *ret,
                        char words[WORDS_MAX])
{
    char command[64];

    int r = trace_target_read(pid, ret, words, WORDS_MAX);
    if (r < 0)
        return r;
    if (ret->tracer_pid && !find_by_helper(tracing, ret->tracer_pid)) {
        peek_command(ret->tracer_pid, command, sizeof(command));
        snprintf(words, WORDS_MAX, "process %d is traced already, by process %d (%.60s)", (int)pid,
                 (int)ret->tracer_pid, command);
        return -EBUSY;
    }
    if (!tracing_program(tracing)) {
        snprintf(words, WORDS_MAX,
                 "strace is not installed, or not in a directory of PATH that only root and this"
                 " user can write");
        return -ENOENT;
    }
    if (!has_room(tracing, ret->user.uid)) {
        snprintf(words, WORDS_MAX, "there are too many tracers already (%d for a user, %d in all)",
                 TRACERS_PER_USER_MAX, TRACERS_MAX);
        return -EAGAIN;
    }
    return 0;
}

/* One that looks at it already: as its own target, or because it forked it. */
static struct tracer *find_looking(const struct tracing *tracing, const struct trace_target *target)
{
    struct tracer *tracer = find_tracer(tracing, target->pid);

    if (tracer && tracer->target.start_ticks == target->start_ticks)
        return tracer;
    return target->tracer_pid ? find_by_helper(tracing, target->tracer_pid) : NULL;
}

static void join_tracer(struct tracer *tracer, const char *file, trace_fn on_answer, void *context)
{
    struct trace_answer answer = success_of(tracer);

    if (tracer->is_ending)
        answer = failure_of(-EBUSY, "its tracer is just being detached: try again");
    else if (file || tracer->file)
        answer = failure_of(-EBUSY, "it is traced already: detach its tracer first");
    else if (!tracer->is_attached) {
        wait_for(tracer, false, on_answer, context);
        return;
    }
    answer_now(on_answer, context, &answer);
}

static struct tracer *attach(struct tracing *tracing, const struct trace_target *target,
                             const char *file, int *ret_error, char words[WORDS_MAX])
{
    struct tracer *tracer = make_tracer(tracing, target, file);
    int exec_errno = 0;

    int r = tracer ? start_strace(tracing, tracer, &exec_errno) : -ENOMEM;
    if (r == 0) {
        tracer->next = tracing->tracers;
        tracing->tracers = tracer;
        return tracer;
    }
    *ret_error = r == -ECHILD ? -exec_errno : r;
    if (tracer) {
        describe_start(tracing, tracer, r, exec_errno, words);
        discard_tracer(tracing, tracer);
    } else {
        snprintf(words, WORDS_MAX, "no memory left");
    }
    return NULL;
}

void tracing_attach(struct tracing *tracing, pid_t pid, const char *file, trace_fn on_answer,
                    void *context)
{
    struct trace_target target;
    char words[WORDS_MAX] = "";
    struct trace_answer answer = {.words = words};

    answer.error = check_target(tracing, pid, &target, words);
    struct tracer *looking = answer.error ? NULL : find_looking(tracing, &target);
    if (looking) {
        join_tracer(looking, file, on_answer, context);
        return;
    }
    struct tracer *tracer =
        answer.error ? NULL : attach(tracing, &target, file, &answer.error, words);
    if (!tracer)
        answer_now(on_answer, context, &answer);
    else if (on_answer)
        wait_for(tracer, false, on_answer, context);
}

/* ---- detaching ---- */

static void stop(struct tracer *tracer, uint64_t grace_ms)
{
    tracer->is_ending = true;
    helper_stop(tracer->helper, grace_ms);
}

void tracing_detach(struct tracing *tracing, pid_t pid, trace_fn on_answer, void *context)
{
    struct tracer *tracer = find_tracer(tracing, pid);

    if (!tracer) {
        struct trace_answer answer = failure_of(-ESRCH, "no tracer is attached to it");
        answer_now(on_answer, context, &answer);
        return;
    }
    wait_for(tracer, true, on_answer, context);
    stop(tracer, TRACE_DETACH_MSEC);
}

void tracing_detach_all(struct tracing *tracing)
{
    for (struct tracer *tracer = tracing->tracers; tracer; tracer = tracer->next)
        stop(tracer, TRACE_LAST_WAIT_MSEC);
}

static bool is_of(const struct tracer *tracer, const struct run *run)
{
    for (const struct traced_run *each = tracer->run; each; each = each->parent)
        if (each->run == run)
            return true;
    return false;
}

/* What it left running is nobody's. Runs that were started in it go on. */
void tracing_end_run(struct tracing *tracing, const struct run *run)
{
    for (struct tracer *tracer = tracing->tracers; tracer; tracer = tracer->next)
        if (tracer->run && tracer->run->run == run)
            stop(tracer, TRACE_DETACH_MSEC);
    traced_runs_over(&tracing->runs, run);
}

/* ---- members ---- */

static void follow(struct tracing *tracing, const struct member *member)
{
    struct trace_target target;
    char words[WORDS_MAX] = "";
    int error = check_target(tracing, member->pid, &target, words);

    if (error == 0 && find_looking(tracing, &target))
        return;
    struct tracer *tracer = error ? NULL : attach(tracing, &target, NULL, &error, words);
    if (tracer)
        tracer->was_followed = true;
    else if (error != -ESRCH)
        note_failure(tracing, words);
}

/* Parents come before their children: whose parent gets a tracer now is found by it, or else next
 * time. */
void tracing_follow(struct tracing *tracing)
{
    struct member *member = NULL;

    while ((member = registry_next(tracing->options.registry, member))) {
        if (member->was_followed || member->has_ended)
            continue;
        member->was_followed = true;
        follow(tracing, member);
    }
}

/* ---- what is known ---- */

size_t tracing_count(const struct tracing *tracing)
{
    size_t count = 0;

    for (const struct tracer *tracer = tracing->tracers; tracer; tracer = tracer->next)
        count++;
    return count;
}

size_t tracing_count_of(const struct tracing *tracing, const struct run *run)
{
    size_t count = 0;

    for (const struct tracer *tracer = tracing->tracers; tracer; tracer = tracer->next)
        count += is_of(tracer, run);
    return count;
}

size_t tracing_pids(const struct tracing *tracing, pid_t into[static TRACERS_MAX])
{
    size_t count = 0;

    for (const struct tracer *tracer = tracing->tracers; tracer; tracer = tracer->next)
        into[count++] = helper_pid(tracer->helper);
    return count;
}

uint64_t tracing_failures(const struct tracing *tracing, const char **ret_words)
{
    *ret_words = tracing->failure;
    return tracing->failures;
}

const struct syscall_profile *tracing_calls(const struct tracing *tracing, pid_t pid,
                                            uint64_t start_ticks)
{
    const struct traced_process *process = map_get(&tracing->processes, (uint64_t)pid);

    return process && process->start_ticks == start_ticks ? &process->calls : NULL;
}

static int fill_row(struct tracing *tracing, struct process_metric *metric, struct arena *arena)
{
    struct traced_process *process = map_get(&tracing->processes, (uint64_t)metric->pid);

    if (!process || process->start_ticks != metric->start_ticks)
        return 0;
    process->seen = tracing->snapshots;
    metric->syscall_source = SYSCALLS_STRACE;
    int r = syscall_profile_shares(&process->calls, SYSCALL_SHARE_EXACT, arena,
                                   &metric->syscall_time_pct);
    return r < 0 ? r
                 : syscall_profile_list(&process->calls, SYSCALL_COUNTS, arena,
                                        &metric->syscall_counts);
}

/* Those that no snapshot has any more are gone. */
static void forget_gone(struct tracing *tracing)
{
    size_t position = 0;

    for (struct traced_process *process; (process = map_next(&tracing->processes, &position));) {
        if (process->seen == tracing->snapshots)
            continue;
        map_remove(&tracing->processes, (uint64_t)process->pid);
        syscall_profile_done(&process->calls);
        free(process);
        position--; /* another may have moved into its place */
    }
}

int tracing_fill(struct tracing *tracing, struct snapshot *snapshot)
{
    int r = 0;

    if (!tracing->processes.count)
        return 0;
    tracing->snapshots++;
    for (size_t i = 0; i < snapshot->processes.count && r == 0; i++)
        r = fill_row(tracing, &snapshot->processes.items[i], &snapshot->arena);
    forget_gone(tracing);
    return r;
}

int tracing_fill_run(const struct tracing *tracing, const struct run *run, struct arena *arena,
                     struct run_syscalls *ret)
{
    const struct traced_run *traced = traced_runs_find(&tracing->runs, run);

    *ret = (struct run_syscalls){0};
    /* Before it was attached, nobody counted. */
    return traced
               ? syscall_profile_fill_run(&traced->calls, SYSCALLS_STRACE, LOWER_BOUND, arena, ret)
               : 0;
}

/* ---- life ---- */

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
    struct trace_answer answer = failure_of(-ECANCELED, "sonde stops");
    size_t position = 0;

    if (!tracing)
        return;
    while (tracing->tracers) {
        struct tracer *tracer = tracing->tracers;
        tracing->tracers = tracer->next;
        answer_waiters(tracer, true, &answer);
        tracer_free(tracer);
    }
    for (struct traced_process *process; (process = map_next(&tracing->processes, &position));) {
        syscall_profile_done(&process->calls);
        free(process);
    }
    map_done(&tracing->processes);
    traced_runs_done(&tracing->runs);
    free(tracing);
}
