#include "engine/job-run.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd-io.h"
#include "base/macros.h"
#include "engine/engine.h"
#include "engine/run-summary.h"
#include "loop/reaper.h"
#include "loop/signals.h"
#include "loop/spawn.h"
#include "probe/connector.h"
#include "probe/proc-cmdline.h"

struct job_runner {
    const struct job_run_options *options;
    uv_loop_t loop;
    struct signal_state original_signals;
    struct signal_watch *signals;
    struct registry *registry;
    struct run *run;
    struct connector *connector;
    struct engine *engine;
    struct snapshot *latest;

    pid_t command_pid;
    uint64_t started_mono_ns;
    bool has_loop;
    bool command_ended;
    bool is_over;
    bool has_family;           /* found children of the run, when they were last listed */
    bool stopped_with_command; /* and not yet told of what became of the command since */
    struct run_facts facts;
};

/* ---- signals ---- */

/* Who sent a signal, as far as it can still be told. */
static void note_sender(struct job_runner *runner, int number, pid_t sender)
{
    struct sent_signal *sent = &runner->facts.passed_on;
    char path[32], raw[256];

    *sent = (struct sent_signal){.number = number, .sender_pid = sender};
    snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)sender);
    ssize_t length = fd_read_file(AT_FDCWD, path, raw, sizeof(raw));
    if (length > 0)
        proc_cmdline_parse(raw, (size_t)length, sent->sender_command, sizeof(sent->sender_command));
}

static void pass_on(struct job_runner *runner, const struct signalfd_siginfo *info)
{
    int number = (int)info->ssi_signo;

    if (info->ssi_code <= 0)
        note_sender(runner, number, (pid_t)info->ssi_pid);
    if (info->ssi_code == SI_QUEUE)
        sigqueue(runner->command_pid, number, (union sigval){.sival_ptr = (void *)info->ssi_ptr});
    else
        kill(runner->command_pid, number);
}

static void on_child(void *context, pid_t pid, int status, const struct rusage *usage);

static void note_family(void *context, pid_t pid)
{
    struct job_runner *runner = context;

    if (!registry_is_stranger(runner->registry, pid))
        runner->has_family = true;
}

/* Children that sonde had before are not waited for. */
static bool only_strangers_are_left(struct job_runner *runner)
{
    runner->has_family = false;
    return registry_stranger_count(runner->registry) &&
           reaper_list_children(note_family, runner) == 0 && !runner->has_family;
}

static void collect_children(struct job_runner *runner)
{
    bool none_left = reaper_collect(on_child, runner) == -ECHILD;

    if (!runner->command_ended)
        return;
    if (none_left || !runner->options->wait_for_all || only_strangers_are_left(runner))
        runner->is_over = true;
}

/* The shell continues the whole group after a stop: the command has its SIGCONT already, unless
 * only sonde was continued. */
static bool command_was_continued_too(struct job_runner *runner)
{
    return TAKE(runner->stopped_with_command, false) && !runner->facts.command_is_stopped;
}

/* Whether a terminal sends it. Other signals of the kernel, such as an alarm that was set before
 * sonde was executed, are meant for the command. */
static bool is_of_terminals(int number)
{
    switch (number) {
    case SIGINT:
    case SIGQUIT:
    case SIGTSTP:
    case SIGTTIN:
    case SIGTTOU:
    case SIGWINCH:
    case SIGHUP:
    case SIGCONT: return true;
    default: return false;
    }
}

/* A terminal sends to the whole group, the command included; only that it hangs up is told to the
 * leader of the session alone. */
static bool is_for_leader_alone(int number)
{
    return (number == SIGHUP || number == SIGCONT) && getsid(0) == getpid();
}

static bool is_terminal_stop(int number)
{
    return number == SIGTSTP || number == SIGTTIN || number == SIGTTOU;
}

/* The command has ended, what it left is waited for: that is not sonde's to kill, but sonde itself
 * need not wait any longer, and can be stopped like any program. */
static void on_signal_while_waiting(struct job_runner *runner, int number)
{
    if (sigismember(&runner->original_signals.ignored, number) == 1)
        return;
    if (is_terminal_stop(number))
        signals_stop_self(number, NULL, NULL);
    else if (number == SIGINT || number == SIGTERM || number == SIGHUP || number == SIGQUIT)
        runner->is_over = true;
}

static void on_signal(void *context, const struct signalfd_siginfo *info)
{
    struct job_runner *runner = context;
    int number = (int)info->ssi_signo;

    if (number == SIGCHLD || number == SIGCONT)
        collect_children(runner);
    if (number == SIGCHLD)
        return;
    if (runner->command_ended) {
        on_signal_while_waiting(runner, number);
        return;
    }
    if (info->ssi_code > 0 && is_of_terminals(number)) {
        runner->facts.from_terminal = number;
        if (!is_for_leader_alone(number))
            return;
    }
    if (number == SIGCONT && command_was_continued_too(runner))
        return;
    pass_on(runner, info);
}

/* ---- children ---- */

static bool command_is_still_stopped(void *context)
{
    struct job_runner *runner = context;
    siginfo_t info = {0};

    return waitid(P_PID, (id_t)runner->command_pid, &info,
                  WEXITED | WCONTINUED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == 0;
}

/* The shell waits for sonde, not for the command: if the terminal has stopped the command, sonde
 * must stop too. A SIGSTOP was sent to the command alone and concerns nobody else. */
static void on_command_stopped(struct job_runner *runner, int number)
{
    runner->facts.command_is_stopped = true;
    if (!is_terminal_stop(number))
        return;
    runner->stopped_with_command = signals_stop_self(number, command_is_still_stopped, runner);
}

static void on_command_ended(struct job_runner *runner, int status)
{
    runner->command_ended = true;
    runner->facts.wait_status = status;
    runner->facts.wall_ns = clock_mono_ns() - runner->started_mono_ns;
}

static void on_child(void *context, pid_t pid, int status, const struct rusage *usage)
{
    struct job_runner *runner = context;
    bool is_command = pid == runner->command_pid;

    if (is_command && WIFSTOPPED(status))
        on_command_stopped(runner, WSTOPSIG(status));
    if (is_command && WIFCONTINUED(status))
        runner->facts.command_is_stopped = false;
    if (WIFSTOPPED(status) || WIFCONTINUED(status))
        return;
    if (registry_is_stranger(runner->registry, pid)) {
        registry_remove(runner->registry, pid);
        return;
    }

    run_facts_add_reaped(&runner->facts, usage);
    if (is_command)
        on_command_ended(runner, status);
    if (runner->engine)
        engine_reaped(runner->engine, pid, usage);
    else
        registry_remove(runner->registry, pid);
}

/* ---- the engine's reports ---- */

static void on_snapshot(void *context, struct snapshot *snapshot)
{
    struct job_runner *runner = context;

    snapshot_free(runner->latest);
    runner->latest = snapshot;
}

static void on_gap(void *context, const struct gap *gap)
{
    struct job_runner *runner = context;

    if (gap->kind == GAP_MISSED_TICKS || gap->kind == GAP_SUSPEND)
        runner->facts.gap_seconds += gap->seconds;
}

/* ---- from start to end ---- */

static void note_stranger(void *context, pid_t pid)
{
    struct job_runner *runner = context;

    registry_add_stranger(runner->registry, pid); /* without memory, it counts as one of the run */
}

static int prepare(struct job_runner *runner)
{
    const struct job_run_options *options = runner->options;

    int r = registry_new(&runner->registry);
    if (r == 0)
        r = registry_add_run(runner->registry, options->run_id, options->job_id, options->sheet_num,
                             &runner->run);
    /* A script that ends in `exec sonde run` leaves its own children to sonde. */
    if (r == 0)
        reaper_list_children(note_stranger, runner);
    if (r == 0)
        r = reaper_become_subreaper();
    return r;
}

/* The command first, everything else after: it must not wait for us, and it is charged with the
 * memory that sonde has when it forks. Only the connector comes before, or it would miss forks. */
static int start_command(struct job_runner *runner, int *ret_exec_errno)
{
    signals_take_over(&runner->original_signals);
    runner->facts.connector_error = connector_open(&runner->connector);
    runner->started_mono_ns = clock_mono_ns();
    runner->facts.started_real_ns = clock_real_ns();
    return spawn_command(runner->options->argv, &runner->original_signals, &runner->command_pid,
                         ret_exec_errno);
}

static int start_sampling(struct job_runner *runner)
{
    const struct engine_options options = {
        .interval_ns = runner->options->interval_ns,
        .scope = SCOPE_ALL,
        .only_jobs = true,
        .registry = runner->registry,
        .connector = TAKE_PTR(runner->connector),
        .on_snapshot = on_snapshot,
        .on_gap = on_gap,
        .context = runner,
    };
    registry_set_foster(runner->registry, getpid(), runner->run);
    int r = registry_add(runner->registry, runner->run, runner->command_pid);
    if (r < 0) {
        connector_close(options.connector);
        return r;
    }
    return engine_start(&runner->loop, &options, &runner->engine);
}

/* libuv aborts where it should fail if, after its epoll descriptor, it cannot make a pipe: there
 * must be three descriptors left. */
static int check_descriptors(void)
{
    int fds[2];

    if (pipe2(fds, O_CLOEXEC) < 0)
        return -errno;
    int third = fcntl(fds[0], F_DUPFD_CLOEXEC, 0);
    int r = third < 0 ? -errno : 0;
    close_fd(third);
    close_fd(fds[0]);
    close_fd(fds[1]);
    return r;
}

static int open_loop(struct job_runner *runner)
{
    int r = check_descriptors();
    if (r == 0)
        r = uv_loop_init(&runner->loop);
    if (r < 0)
        return r;
    runner->has_loop = true;
    return signal_watch_start(&runner->loop, on_signal, runner, &runner->signals);
}

/* Not even a loop to wait in: then wait as simply as can be. */
static void wait_plainly(struct job_runner *runner)
{
    struct rusage usage = {0};
    int status = 0;

    while (wait4(runner->command_pid, &status, 0, &usage) < 0 && errno == EINTR)
        ;
    on_child(runner, runner->command_pid, status, &usage);
}

/* Time that passed before the first sample, if it was more than between any two. */
static void note_late_start(struct job_runner *runner)
{
    uint64_t late_ns = clock_mono_ns() - runner->started_mono_ns;
    uint64_t interval_ns = runner->options->interval_ns;

    if (late_ns > interval_ns * 3 / 2)
        runner->facts.gap_seconds += ns_to_sec(late_ns - interval_ns);
}

/* Whatever fails from here on, the command runs, and is waited for. */
static void wait_for_command(struct job_runner *runner)
{
    int r = open_loop(runner);
    if (r < 0) {
        runner->facts.sampling_error = r;
        wait_plainly(runner);
        return;
    }
    runner->facts.sampling_error = start_sampling(runner);
    note_late_start(runner);
    collect_children(runner);
    while (!runner->is_over)
        uv_run(&runner->loop, UV_RUN_ONCE);
}

static void shut_down(struct job_runner *runner)
{
    engine_close(runner->engine);
    signal_watch_close(runner->signals);
    connector_close(runner->connector);
    if (runner->has_loop) {
        uv_run(&runner->loop, UV_RUN_DEFAULT); /* the close callbacks */
        uv_loop_close(&runner->loop);
    }
    snapshot_free(runner->latest);
    registry_free(runner->registry);
}

static void summarise(struct job_runner *runner, struct job_run_result *ret)
{
    struct run_facts *facts = &runner->facts;

    /* Once more, for what is left running and for figures that were on their way. */
    if (runner->engine) {
        if (engine_collect(runner->engine) == 0)
            facts->latest = runner->latest;
        facts->failed_samples = engine_counts(runner->engine)->failed;
        facts->usage = engine_usage(runner->engine, runner->run);
        facts->saw_every_process = engine_saw_every_process(runner->engine);
    }
    /* The command itself was there even if nothing could be noted. */
    facts->processes = MAX(runner->run->processes, (uint64_t)1);
    facts->registry = runner->registry;
    if (runner->options->wait_for_all)
        facts->wall_ns = clock_mono_ns() - runner->started_mono_ns;
    ret->wait_status = facts->wait_status;
    ret->sampling_error = facts->sampling_error;
    ret->connector_error = facts->connector_error;
    ret->failed_samples = facts->failed_samples;
    ret->has_summary = run_summary_make(facts, runner->options, &ret->arena, &ret->summary) == 0;
}

int job_run(const struct job_run_options *options, struct job_run_result *ret, int *ret_exec_errno)
{
    struct job_runner runner = {.options = options};

    *ret = (struct job_run_result){0};
    int r = prepare(&runner);
    if (r == 0)
        r = start_command(&runner, ret_exec_errno);
    if (r == 0) {
        wait_for_command(&runner);
        summarise(&runner, ret);
    }
    shut_down(&runner);
    return r;
}

void job_run_result_done(struct job_run_result *result)
{
    arena_done(&result->arena);
}
