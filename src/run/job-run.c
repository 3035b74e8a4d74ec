#include "run/job-run.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd-io.h"
#include "base/macros.h"
#include "config/paths.h"
#include "engine/engine.h"
#include "loop/reaper.h"
#include "loop/signals.h"
#include "loop/spawn.h"
#include "model/redact.h"
#include "probe/connector.h"
#include "probe/host.h"
#include "probe/huge-pages.h"
#include "probe/process-lookup.h"
#include "run/kernel-loader.h"
#include "run/run-record.h"
#include "run/run-storage.h"
#include "run/run-summary.h"
#include "run/signal-action.h"

/* A shorter command is not worth the CPU time: the connector reports its processes, and wait4 its
 * figures. With nine runnable processes per core, a command that needs 10 ms of CPU is still
 * running at this age in 9 % of its runs, and after 20 ms in half of them. */
#define KERNEL_AFTER_MS 40
/* A daemon that has not answered by then may not answer at all. */
#define DAEMON_ANSWERS_NS (100 * NS_PER_MSEC)
/* GPU drivers take longer to load. */
#define GPUS_AFTER_MS 100
/* How long the kernel may take to report an end: an ending process must get a CPU. Later reports
 * are lost. */
#define ENDS_WAIT_MAX_NS (5 * NS_PER_SEC)

/* At this age, a process that was born to execute a program has done so, unless all cores are busy.
 * Of 60 shells that started a program in the background and ended, 6 ended before it executed. */
#define EXEC_AGE_SEC 0.03

struct job_runner {
    const struct job_run_options *options;
    uv_loop_t loop;
    struct signal_state original_signals;
    struct signal_watch *signals;
    struct registry *registry;
    struct run *run;
    struct connector *connector;
    struct kernel_loader *loader;
    struct kernel_probe *kernel; /* NULL: none, or not yet */
    struct engine *engine;
    struct run_storage *storage; /* NULL: the run is not stored */
    struct tick_box *latest;     /* the last tick, for the summary */

    pid_t command_pid;
    struct moment started;
    uint64_t huge_pages_before; /* made by the machine before the command started */
    uint64_t ended_real_ns;
    bool is_summarising;
    bool has_ticked;
    bool has_loop;
    bool command_ended;
    bool is_over;
    bool has_children;         /* check_child() found a child of the run */
    bool stopped_with_command; /* since then, the command's state was not reported */
    struct run_facts facts;
};

/* ---- signals ---- */

/* Stops sonde, like the signal would, until it is continued. Storing is suspended before: a process
 * that is stopped during a transaction would keep the database locked. */
static bool stop_self(struct job_runner *runner, int number, bool (*is_wanted)(void *context))
{
    if (runner->storage)
        run_storage_hold(runner->storage);
    bool was_stopped = signals_stop_self(number, is_wanted, runner);
    if (runner->storage)
        run_storage_release(runner->storage);
    return was_stopped;
}

static void report_signal(struct job_runner *runner, const struct process_event *sent)
{
    if (runner->engine)
        engine_signalled(runner->engine, runner->run, runner->command_pid, sent);
    if (runner->storage)
        run_storage_signalled(runner->storage, runner->command_pid, sent);
}

/* Reports a signal that the terminal also sent to the command. */
static void report_terminal_signal(struct job_runner *runner, int number)
{
    struct process_event event;

    if (number == SIGWINCH) /* frequent while a window is resized, and irrelevant */
        return;
    record_init(&process_event_record, &event);
    event.signal_num = number;
    event.details = "from the terminal";
    report_signal(runner, &event);
}

static void pass_on(struct job_runner *runner, const struct signalfd_siginfo *info)
{
    int number = (int)info->ssi_signo;
    struct sent_signal *sent = &runner->facts.passed_on[number];
    struct process_event event;

    record_init(&process_event_record, &event);
    event.signal_num = number;
    if (info->ssi_code <= 0) {
        *sent = (struct sent_signal){.number = number, .sender_pid = (pid_t)info->ssi_pid};
        process_lookup_command(PROC_ROOT, sent->sender_pid, sent->sender_command,
                               sizeof(sent->sender_command));
        redact_buffer(&runner->options->config->redact, sent->sender_command,
                      sizeof(sent->sender_command));
        event.sender_pid = sent->sender_pid;
        event.sender_command = sent->sender_command[0] ? sent->sender_command : NULL;
    }
    report_signal(runner, &event);
    if (info->ssi_code == SI_QUEUE)
        sigqueue(runner->command_pid, number, (union sigval){.sival_ptr = (void *)info->ssi_ptr});
    else
        kill(runner->command_pid, number);
}

static void on_child(void *context, pid_t pid, int status, const struct rusage *usage);

static void check_child(void *context, pid_t pid)
{
    struct job_runner *runner = context;

    if (!registry_is_excluded(runner->registry, pid))
        runner->has_children = true;
}

/* Whether all children of sonde are ones that it had before the run, for which it does not wait. */
static bool only_strangers_are_left(struct job_runner *runner)
{
    runner->has_children = false;
    return registry_excluded_count(runner->registry) &&
           reaper_list_children(check_child, runner) == 0 && !runner->has_children;
}

static void collect_children(struct job_runner *runner)
{
    struct helpers *helpers = runner->engine ? engine_helpers(runner->engine) : NULL;
    bool none_left = reaper_collect(helpers, on_child, runner) == -ECHILD;

    if (!runner->command_ended)
        return;
    if (none_left || !runner->options->wait_for_all || only_strangers_are_left(runner))
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
    const struct run_signal_state state = {
        .command_ended = runner->command_ended,
        .was_ignored = sigismember(&runner->original_signals.ignored, number) == 1,
        .is_session_leader = getsid(0) == getpid(),
        .was_continued = runner->stopped_with_command && !runner->facts.command_is_stopped,
    };
    enum signal_action action = signal_action_of(number, info->ssi_code, &state);
    if (!runner->command_ended && signal_is_from_terminal(number, info->ssi_code))
        runner->facts.from_terminal = number;
    if (number == SIGCONT && action != SIGNAL_REPORT)
        runner->stopped_with_command = false;
    switch (action) {
    case SIGNAL_IGNORE: break;
    case SIGNAL_REPORT: report_terminal_signal(runner, number); break;
    case SIGNAL_PASS_ON: pass_on(runner, info); break;
    case SIGNAL_STOP_SELF: stop_self(runner, number, NULL); break;
    case SIGNAL_END_WAITING: runner->is_over = true; break;
    }
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

/* The shell waits for sonde, not for the command: if the terminal stops the command, sonde must
 * stop too. SIGSTOP was sent to the command alone. */
static void on_command_stopped(struct job_runner *runner, int number)
{
    runner->facts.command_is_stopped = true;
    if (!signal_is_terminal_stop(number))
        return;
    runner->stopped_with_command = stop_self(runner, number, command_is_still_stopped);
}

static void record_end(struct job_runner *runner)
{
    runner->facts.wall_ns = clock_mono_ns() - runner->started.mono_ns;
    runner->ended_real_ns = clock_real_ns();
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
    if (registry_is_excluded(runner->registry, pid)) {
        registry_remove(runner->registry, pid);
        return;
    }

    run_facts_add_reaped(&runner->facts, usage);
    if (is_command) {
        runner->command_ended = true;
        runner->facts.wait_status = status;
        record_end(runner);
    }
    if (runner->engine)
        engine_reaped(runner->engine, pid, status, usage);
    else
        registry_remove(runner->registry, pid);
}

/* ---- ticks ---- */

static void on_tick(void *context, struct tick_box *box)
{
    struct job_runner *runner = context;
    const struct gap_list *gaps = &box->tick.gaps;

    runner->has_ticked = true;
    for (size_t i = 0; i < gaps->count; i++)
        if (gaps->items[i].kind == GAP_MISSED_TICKS || gaps->items[i].kind == GAP_SUSPEND)
            runner->facts.gap_seconds += gaps->items[i].seconds;
    for (size_t i = 0; i < box->tick.events.count; i++)
        if (box->tick.events.items[i].run_id) /* not an OOM kill elsewhere */
            job_profile_add_event(&runner->facts.counted, &box->tick.events.items[i]);
    for (size_t i = 0; i < box->tick.anomalies.count; i++)
        run_facts_add_anomaly(&runner->facts, &box->tick.anomalies.items[i]);
    if (box->tick.snapshot && box->tick.snapshot->jobs.count)
        runner->facts.max_cpu_pct =
            fmax(runner->facts.max_cpu_pct, box->tick.snapshot->jobs.items[0].cpu_percent);
    if (runner->is_summarising) {
        struct tick_box *earlier = TAKE_PTR(runner->latest);
        runner->latest = box;
        box = earlier;
    }
    if (box && runner->storage)
        run_storage_tick(runner->storage, box);
    else
        tick_box_free(box);
}

/* ---- the end ---- */

/* Makes the tick of a run that was not sampled: the start and end of the command are known. */
static struct tick_box *make_plain_tick(struct job_runner *runner)
{
    struct tick_box *box = tick_box_new();
    if (!box)
        return NULL;

    const struct event_owner owner = run_owner(runner->run, runner->options->sheet_num);
    if (!runner->has_ticked)
        tick_box_add_spawn(box, owner, runner->command_pid, getpid(),
                           ns_to_sec(runner->started.real_ns));
    tick_box_add_end(box, owner, runner->command_pid, runner->facts.wait_status,
                     ns_to_sec(runner->ended_real_ns));
    return box;
}

/* Ends the storage. The store or a daemon may have given the run another name, and a daemon may
 * know more about its end. */
static void finish_storing(struct job_runner *runner, struct job_run_result *ret)
{
    struct run_storage_end end;
    struct tick_box *last = runner->engine ? TAKE_PTR(runner->latest) : make_plain_tick(runner);

    if (!runner->storage) {
        tick_box_free(last);
        return;
    }
    run_storage_finish(TAKE_PTR(runner->storage), last, ret->has_summary ? &ret->summary : NULL,
                       ns_to_sec(runner->ended_real_ns), &ret->arena, &end);
    char *job_id = end.job_id[0] ? arena_strdup(&ret->arena, end.job_id) : NULL;
    if (ret->has_summary && job_id)
        ret->summary.profile.job_id = job_id;
    if (ret->has_summary && end.cause) {
        ret->summary.cause = end.cause;
        ret->summary.chain = end.chain;
    }
}

/* ---- from start to end ---- */

static void add_existing_child(void *context, pid_t pid)
{
    struct job_runner *runner = context;

    /* If memory runs out, the child counts as a process of the run. */
    registry_exclude(runner->registry, pid);
}

static int register_run(struct job_runner *runner)
{
    const struct run_options run = {
        .run_id = runner->options->run_id, .job_id = runner->options->job_id, .uid = getuid()};

    int r = registry_new(&runner->registry);
    if (r == 0)
        r = registry_add_run(runner->registry, &run, &runner->run);
    /* The children of a script that ends in `exec sonde run` become sonde's. */
    if (r == 0)
        reaper_list_children(add_existing_child, runner);
    if (r == 0)
        r = reaper_become_subreaper();
    return r;
}

static bool has_required_parts(const struct job_runner *runner)
{
    const struct kernel_probe *kernel = runner->kernel;
    bool is_exact = kernel_probe_has(kernel, KERNEL_PART_EVENTS) &&
                    kernel_probe_has(kernel, KERNEL_PART_FINAL_CPU);

    return (is_exact || !runner->options->is_exact) &&
           (!runner->options->counts_syscalls || kernel_probe_has(kernel, KERNEL_PART_CALL_COUNTS));
}

/* Loads the kernel collector before the command starts, if it is required. Returns 0, or
 * -EOPNOTSUPP with the reason. */
static int open_kernel(struct job_runner *runner, struct kernel_probe_error *refusal)
{
    const struct kernel_probe_options options = {.proc_root = PROC_ROOT,
                                                 .counts_calls = runner->options->counts_syscalls};

    if (!runner->options->is_exact && !runner->options->counts_syscalls)
        return 0;
    if (kernel_probe_open(&options, &runner->kernel, refusal) < 0)
        return -EOPNOTSUPP;
    if (has_required_parts(runner))
        return 0;
    *refusal = (struct kernel_probe_error){0};
    snprintf(refusal->text, sizeof(refusal->text), "%s",
             kernel_probe_missing_parts(runner->kernel));
    return -EOPNOTSUPP;
}

/* Starts the command. A process that sonde forks while sonde itself has the tag inherits the tag,
 * and the counting of its calls. */
static int spawn_tagged(struct job_runner *runner, int *ret_exec_errno)
{
    const uint32_t tag = runner->run->node.tag;
    bool is_counting = runner->options->counts_syscalls;

    int r = is_counting ? kernel_probe_count_calls(runner->kernel, true) : 0;
    if (r == 0 && is_counting)
        r = kernel_probe_count_calls_of(runner->kernel, getpid(), COUNT_FROM_EXEC);
    if (r < 0)
        return r;
    int tag_error = runner->kernel ? kernel_probe_tag(runner->kernel, getpid(), tag) : 0;
    if (tag_error < 0)
        return tag_error;
    r = spawn_command(runner->options->argv, &runner->original_signals, &runner->command_pid,
                      ret_exec_errno);
    if (runner->kernel)
        kernel_probe_tag(runner->kernel, getpid(), 0);
    if (is_counting)
        kernel_probe_stop_counting_calls_of(runner->kernel, getpid());
    return r;
}

/* The command starts first: it must not wait for sonde, and the kernel charges it with the memory
 * that sonde has at the fork. Only the source of fork events comes before. */
static int start_command(struct job_runner *runner, int *ret_exec_errno)
{
    signals_take_over(&runner->original_signals);
    if (!runner->kernel)
        runner->facts.connector_error = connector_open(&runner->connector);
    runner->huge_pages_before = huge_pages_count(PROC_ROOT);
    runner->started = moment_now();
    runner->facts.started_real_ns = runner->started.real_ns;
    return spawn_tagged(runner, ret_exec_errno);
}

/* ---- the kernel collector, for commands that are not short ---- */

/* A daemon that stores the run reports its events, unless this process does. */
static enum kernel_decision decide_kernel(void *context)
{
    const struct job_runner *runner = context;
    const struct run_storage *storage = runner->storage;

    if (!runner->engine)
        return KERNEL_UNWANTED;
    if (!storage || run_storage_is_local(storage) || run_storage_keeps_events(storage))
        return KERNEL_WANTED;
    if (run_storage_has_daemon(storage))
        return KERNEL_UNWANTED;
    return clock_mono_ns() - runner->started.mono_ns < DAEMON_ANSWERS_NS ? KERNEL_UNDECIDED
                                                                         : KERNEL_WANTED;
}

static void on_kernel_loaded(void *context, struct kernel_probe *kernel,
                             const struct kernel_probe_error *refusal _unused_)
{
    struct job_runner *runner = context;

    runner->kernel = kernel; /* closed at the end */
    if (kernel)
        engine_use_kernel(runner->engine, kernel); /* on failure the previous source stays */
}

static void start_loading(struct job_runner *runner)
{
    const struct kernel_loader_options options = {
        .probe = {.proc_root = PROC_ROOT},
        .delay_ms = KERNEL_AFTER_MS,
        .decide = decide_kernel,
        .on_loaded = on_kernel_loaded,
        .context = runner,
    };
    struct kernel_probe_error refusal;

    if (!runner->engine || runner->kernel ||
        runner->options->config->collector == COLLECTOR_CHOICE_PROCFS ||
        !kernel_probe_is_allowed(PROC_ROOT, &refusal))
        return;
    if (kernel_loader_start(&runner->loop, &options, &runner->loader) < 0)
        runner->loader = NULL; /* continues with /proc */
}

static void on_no_gpus(void *context, const char *reason)
{
    const struct job_run_options *options = ((struct job_runner *)context)->options;
    char notice[GPU_TEXT_SIZE + 32];

    snprintf(notice, sizeof(notice), "no GPU (profiler.gpu_enabled): %s", reason);
    if (options->on_notice)
        options->on_notice(options->context, notice);
}

/* Whether sonde, not a daemon, stores the run. The one that stores it traces its processes and
 * opens the GPUs. */
static bool is_stored_here(void *context)
{
    const struct job_runner *runner = context;

    return !runner->storage || run_storage_is_local(runner->storage);
}

/* There are only the processes of one run: all are kept, and they do not show the pressure of the
 * machine. */
static struct engine_settings make_settings(const struct job_run_options *options)
{
    struct engine_settings settings = engine_settings_of(options->config, NULL);

    settings.interval_ns = options->interval_ns;
    settings.scope = SCOPE_ALL;
    settings.limits = NULL;
    if (!options->store)
        settings.anomaly = NULL;
    return settings;
}

static int start_sampling(struct job_runner *runner)
{
    const struct engine_options options = {
        .settings = make_settings(runner->options),
        .measured = runner->options->measures_memory ? &runner->run->node : NULL,
        .only_jobs = true,
        .registry = runner->registry,
        .connector = TAKE_PTR(runner->connector),
        .kernel = runner->kernel,
        .spawned_pid = runner->command_pid,
        .spawned_at = runner->started,
        .huge_pages_before = runner->huge_pages_before,
        .spawned_path = runner->options->argv[0],
        .spawned_command = run_record_command(runner->options, &runner->facts.arena),
        .counts_spawned = runner->options->counts_syscalls,
        .wants_events = true, /* they show why the command failed, stored or not */
        .on_tick = on_tick,
        .on_no_gpus = on_no_gpus,
        .gpus_after_ms = GPUS_AFTER_MS,
        .may_inspect = is_stored_here,
        .context = runner,
    };
    int r = registry_set_foster(runner->registry, getpid(), runner->run);
    if (r == 0 && int_is_known(runner->options->sheet_num))
        r = registry_begin_sheet(runner->registry, runner->run, runner->options->sheet_num,
                                 runner->command_pid);
    if (r == 0)
        r = registry_add(runner->registry, runner->run, runner->options->sheet_num,
                         runner->command_pid);
    if (r < 0) {
        connector_close(options.connector);
        return r;
    }
    return engine_start(&runner->loop, &options, &runner->engine);
}

/* libuv aborts if it cannot create a pipe after its epoll descriptor: three descriptors must be
 * free. */
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

/* Waits for the command if there is no loop. */
static void wait_without_loop(struct job_runner *runner)
{
    struct rusage usage = {0};
    int status = 0;

    while (wait4(runner->command_pid, &status, 0, &usage) < 0 && errno == EINTR)
        ;
    on_child(runner, runner->command_pid, status, &usage);
}

static void start_storing(struct job_runner *runner, uv_loop_t *loop)
{
    const struct job_run_options *options = runner->options;

    if (!options->store)
        return;
    runner->storage = run_storage_begin(loop, options, &runner->started, runner->command_pid);
    if (!runner->storage && options->on_notice)
        options->on_notice(options->context, "not stored: out of memory");
}

/* Returns the hard limit of CPU seconds; INT_UNKNOWN: there is none. */
static int64_t read_cpu_limit(void)
{
    struct rlimit limit;

    return getrlimit(RLIMIT_CPU, &limit) < 0 || limit.rlim_max == RLIM_INFINITY
               ? INT_UNKNOWN
               : (int64_t)limit.rlim_max;
}

/* Whatever fails from here on, the command runs and sonde waits for it. */
static void wait_for_command(struct job_runner *runner)
{
    runner->facts.cpu_limit_sec = read_cpu_limit();
    int r = open_loop(runner);
    if (r < 0) {
        runner->facts.sampling_error = r;
        start_storing(runner, NULL);
        wait_without_loop(runner);
        return;
    }
    start_storing(runner, &runner->loop);
    runner->facts.oom_kills = host_read_oom_kills(PROC_ROOT);
    runner->facts.io_is_counted = host_counts_io(PROC_ROOT);
    runner->facts.sampling_error = start_sampling(runner);
    start_loading(runner);
    /* SIGCHLD is blocked since before the fork: the end of a command that is over by now is read in
     * order, after the signal that ended it. */
    while (!runner->is_over)
        uv_run(&runner->loop, UV_RUN_ONCE);
}

static void shut_down(struct job_runner *runner)
{
    engine_close(runner->engine);
    signal_watch_close(runner->signals);
    kernel_loader_close(runner->loader);
    connector_close(runner->connector);
    if (runner->has_loop) {
        uv_run(&runner->loop, UV_RUN_DEFAULT); /* the close callbacks */
        uv_loop_close(&runner->loop);
    }
    kernel_probe_close(runner->kernel);
    tick_box_free(runner->latest);
    registry_free(runner->registry);
    run_facts_done(&runner->facts);
}

/* Returns the age of the youngest process that the command left running; infinity if there is none.
 */
static double youngest_age_sec(const struct snapshot *snapshot)
{
    double youngest = INFINITY;

    for (size_t i = 0; i < snapshot->processes.count; i++) {
        const struct process_metric *process = &snapshot->processes.items[i];
        if (process->run_id && process->state != 'Z')
            youngest = fmin(youngest, process->age_seconds);
    }
    return youngest;
}

/* Takes the last snapshot, for processes left running and for late figures. A process that was born
 * just before may still have to execute its program: as long as it has not, it shows the command of
 * its parent. One more snapshot is taken when it has had the time. */
static void take_last_snapshot(struct job_runner *runner)
{
    for (bool is_repeated = false;; is_repeated = true) {
        if (engine_collect(runner->engine) < 0) {
            runner->facts.latest = NULL;
            engine_flush(runner->engine);
            break;
        }
        runner->facts.latest = runner->latest->tick.snapshot;
        double missing_sec = EXEC_AGE_SEC - youngest_age_sec(runner->facts.latest);
        if (is_repeated || missing_sec <= 0)
            break;
        struct timespec left = {.tv_nsec = (long)(missing_sec * 1e9)};
        while (nanosleep(&left, &left) < 0 && errno == EINTR)
            ;
    }
}

static void summarise(struct job_runner *runner, struct job_run_result *ret)
{
    struct run_facts *facts = &runner->facts;
    int status = facts->wait_status;

    if (runner->engine) {
        engine_stop_tracing(runner->engine);
        engine_await_ends(runner->engine, ENDS_WAIT_MAX_NS);
        runner->is_summarising = true;
        take_last_snapshot(runner);
        int64_t before = facts->oom_kills, now = host_read_oom_kills(PROC_ROOT);
        facts->oom_kills = int_is_known(before) && int_is_known(now) ? now - before : INT_UNKNOWN;
        facts->failed_samples = engine_counts(runner->engine)->failed;
        facts->usage = engine_usage(runner->engine, runner->run);
        facts->saw_every_process = engine_saw_every_process(runner->engine);
        facts->collector = engine_collector(runner->engine);
        /* Without a chain, the summary describes the end of the command as its parent knows it. */
        engine_find_failure_chain(runner->engine, runner->run, runner->command_pid,
                                  WIFEXITED(status) ? WEXITSTATUS(status) : INT_UNKNOWN,
                                  WIFSIGNALED(status) ? WTERMSIG(status) : INT_UNKNOWN, &ret->arena,
                                  &facts->chain, &facts->on_the_way);
        /* Without memory the calls are unknown. */
        engine_syscalls(runner->engine, runner->run, &ret->arena, &facts->syscalls);
    }
    /* The command itself counts even if nothing was recorded. */
    facts->processes = MAX(runner->run->node.processes, (uint64_t)1);
    facts->registry = runner->registry;
    facts->command_pid = runner->command_pid;
    if (runner->options->wait_for_all)
        record_end(runner);
    ret->wait_status = facts->wait_status;
    ret->sampling_error = facts->sampling_error;
    ret->connector_error = facts->connector_error;
    ret->failed_samples = facts->failed_samples;
    ret->has_summary = run_summary_make(facts, runner->options, &ret->arena, &ret->summary) == 0;
    finish_storing(runner, ret);
}

int job_run(const struct job_run_options *options, struct job_run_result *ret, int *ret_exec_errno)
{
    struct job_runner runner = {.options = options,
                                .facts = {.max_cpu_pct = REAL_UNKNOWN, .collector = "procfs"}};

    *ret = (struct job_run_result){0};
    record_init(&job_profile_record, &runner.facts.counted);
    int r = register_run(&runner);
    if (r == 0)
        r = open_kernel(&runner, &ret->refusal);
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
