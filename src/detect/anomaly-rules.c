#include "detect/anomaly-rules.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/macros.h"

void anomaly_rules_configure(struct anomaly_rules *rules, const struct anomaly_config *config)
{
    rules->config = *config;
    rules->window_ns = (uint64_t)(config->memory_spike_window_seconds * 1e9);
    rules->runaway_ns = (uint64_t)(config->runaway_duration_seconds * 1e9);
}

void anomaly_rules_init(struct anomaly_rules *rules, const struct anomaly_config *config,
                        const struct detect_constants *constants)
{
    *rules = (struct anomaly_rules){.constants = *constants};
    anomaly_rules_configure(rules, config);
}

void anomaly_rules_done(struct anomaly_rules *rules)
{
    process_histories_done(&rules->histories);
    leak_scratch_done(&rules->scratch);
    VEC_DONE(&rules->zombies);
    VEC_DONE(&rules->findings);
}

/* Stores the first error; the caller continues with the rest. */
static void keep_first_error(int *error, int r)
{
    if (*error == 0 && r < 0)
        *error = r;
}

/* ---- findings ---- */

static struct finding_subject subject_of(const struct process_metric *process)
{
    return (struct finding_subject){
        .pid = process->pid,
        .start_ticks = process->start_ticks,
        .is_process = true,
        .uid = process->uid,
        .command = process->command,
        .job_id = process->job_id,
        .run_id = process->run_id,
        .sheet_num = process->sheet_num,
    };
}

static int add_finding(struct anomaly_rules *rules, enum anomaly_kind kind,
                       struct finding_subject subject, struct finding_figures figures)
{
    return VEC_PUSH(&rules->findings,
                    (struct finding){.kind = kind, .subject = subject, .figures = figures});
}

/* A rule for one process. Returns whether it fires; if so, sets the figures. */
typedef bool (*process_rule_fn)(const struct anomaly_rules *rules,
                                const struct process_metric *process,
                                struct process_history *history, struct finding_figures *ret);

/* ---- one process ---- */

static bool check_spike(const struct anomaly_rules *rules, const struct process_metric *process,
                        struct process_history *history, struct finding_figures *ret)
{
    struct rss_baseline baseline;

    if (!real_is_known(process->rss_mb) ||
        !rss_window_baseline(&history->window, rules->now_ns, rules->window_ns, &baseline))
        return false;

    double threshold = baseline.mb * rules->config.memory_spike_threshold;
    /* Growth from zero has no ratio. */
    if (baseline.mb <= 0 || process->rss_mb < threshold ||
        process->rss_mb - baseline.mb < rules->config.memory_spike_min_mb)
        return false;
    bool is_critical = process->rss_mb >= rules->constants.spike_critical_factor * threshold;
    *ret = (struct finding_figures){
        .severity = is_critical ? SEVERITY_CRITICAL : SEVERITY_HIGH,
        .value = process->rss_mb,
        .threshold = threshold,
        .of = baseline.mb,
        .seconds = ns_to_sec(rules->now_ns - baseline.until_ns),
    };
    return true;
}

static bool check_runaway(const struct anomaly_rules *rules, const struct process_metric *process,
                          struct process_history *history, struct finding_figures *ret)
{
    if (!streak_has_lasted(&history->busy, rules->now_ns, rules->runaway_ns))
        return false;
    *ret = (struct finding_figures){
        /* High CPU is normal in a job. */
        .severity = process->run_id ? SEVERITY_LOW : SEVERITY_CRITICAL,
        .value = process->cpu_percent,
        .threshold = rules->config.runaway_cpu_threshold,
        .of = REAL_UNKNOWN,
        .seconds = ns_to_sec(rules->now_ns - history->busy.since_ns),
    };
    return true;
}

static bool check_fds(const struct anomaly_rules *rules, const struct process_metric *process,
                      struct process_history *history _unused_, struct finding_figures *ret)
{
    bool has_limit = int_is_known(process->fd_limit);
    double limit = has_limit ? (double)process->fd_limit : REAL_UNKNOWN;
    double threshold = has_limit ? rules->config.fd_exhaustion_ratio * limit : INFINITY;

    if (!has_limit || process->fd_limit <= rules->constants.fd_small_limit)
        threshold = MIN(threshold, (double)rules->config.fd_exhaustion_threshold);
    if (!int_is_known(process->open_fds) || process->open_fds <= 0 ||
        (double)process->open_fds < threshold)
        return false;
    bool is_critical =
        has_limit && (double)process->open_fds >= rules->constants.fd_critical_ratio * limit;
    *ret = (struct finding_figures){
        .severity = is_critical ? SEVERITY_CRITICAL : SEVERITY_HIGH,
        .value = (double)process->open_fds,
        .threshold = threshold,
        .of = limit,
        .seconds = REAL_UNKNOWN,
    };
    return true;
}

static bool check_leak(const struct anomaly_rules *rules _unused_,
                       const struct process_metric *process _unused_,
                       struct process_history *history, struct finding_figures *ret)
{
    const struct rss_leak *leak = &history->rss.leak;

    if (!leak->is_leak)
        return false;
    *ret = (struct finding_figures){
        .severity = SEVERITY_MEDIUM,
        .value = leak->growth_mb,
        .threshold = leak->needed_mb,
        .of = REAL_UNKNOWN,
        .seconds = leak->seconds,
    };
    return true;
}

static bool check_stuck(const struct anomaly_rules *rules,
                        const struct process_metric *process _unused_,
                        struct process_history *history, struct finding_figures *ret)
{
    if (!streak_has_lasted(&history->stuck, rules->now_ns, rules->constants.stuck_ns))
        return false;
    *ret = (struct finding_figures){
        .severity = SEVERITY_MEDIUM,
        .value = ns_to_sec(rules->now_ns - history->stuck.since_ns),
        .threshold = ns_to_sec(rules->constants.stuck_ns),
        .of = REAL_UNKNOWN,
        .seconds = REAL_UNKNOWN,
    };
    return true;
}

static const struct process_rule {
    enum anomaly_kind kind;
    process_rule_fn check;
} process_rules[] = {
    {ANOMALY_MEMORY_SPIKE, check_spike},  {ANOMALY_RUNAWAY_PROCESS, check_runaway},
    {ANOMALY_FD_EXHAUSTION, check_fds},   {ANOMALY_MEMORY_LEAK, check_leak},
    {ANOMALY_STUCK_PROCESS, check_stuck},
};

/* A process that waits for the disk or for a core is not idle. */
static bool is_waiting(const struct anomaly_rules *rules, const struct process_metric *process)
{
    return process->state != 'R' && process->state != 'D' &&
           process->cpu_percent < rules->constants.still_cpu_pct;
}

/* Updates the history before the rules are checked. */
static int update_history(struct anomaly_rules *rules, const struct process_metric *process,
                          struct process_history *history)
{
    const struct detect_constants *constants = &rules->constants;
    int error = 0;

    streak_update(&history->busy, process->cpu_percent >= rules->config.runaway_cpu_threshold,
                  rules->now_ns);
    streak_update(&history->stuck, process->state == 'D', rules->now_ns);
    streak_update(&history->zombie, process->state == 'Z', rules->now_ns);
    if (history->zombie.snapshots >= constants->zombie_snapshots &&
        streak_has_lasted(&history->zombie, rules->now_ns, constants->zombie_ns))
        keep_first_error(&error, VEC_PUSH(&rules->zombies, process));
    keep_first_error(&error, rss_history_add(&history->rss, process->rss_mb, rules->now_ns,
                                             constants, &rules->scratch));
    return error;
}

static int check_process(struct anomaly_rules *rules, const struct process_metric *process)
{
    const struct detect_constants *constants = &rules->constants;
    struct finding_figures figures;
    struct process_history *history =
        process_histories_update(&rules->histories, process, rules->now_ns, constants);

    if (!history)
        return -ENOMEM;
    int error = update_history(rules, process, history);
    for (size_t i = 0; i < ARRAY_SIZE(process_rules); i++)
        if (process_rules[i].check(rules, process, history, &figures))
            keep_first_error(
                &error, add_finding(rules, process_rules[i].kind, subject_of(process), figures));
    /* After the rules: the current snapshot is not its own baseline. */
    const struct rss_sample sample = {.mb = process->rss_mb,
                                      .is_waiting = is_waiting(rules, process),
                                      .ns = rules->now_ns,
                                      .window_ns = rules->window_ns,
                                      .is_baseline = rules->is_baseline};
    keep_first_error(&error, rss_window_add(&history->window, &sample, constants));
    return error;
}

/* ---- zombies ---- */

static bool is_below(const struct anomaly_rules *rules, const struct process_metric *process,
                     int64_t ancestor)
{
    int64_t ppid = process->ppid;

    /* A snapshot taken while processes came and went may have a cycle of parents, which is no
     * longer than the number of processes. */
    for (size_t i = 0; i <= rules->histories.by_pid.count && int_is_known(ppid); i++) {
        if (ppid == ancestor)
            return true;
        const struct process_history *parent = process_histories_find_pid(&rules->histories, ppid);
        if (!parent || !process_history_is_current(&rules->histories, parent))
            return false;
        ppid = parent->ppid;
    }
    return false;
}

/* Adds one finding for each zombie of a job, and for each zombie below sonde without a job. All
 * zombies of a job form one episode, and so do those without a job. */
static int check_zombies(struct anomaly_rules *rules, const struct snapshot *snapshot)
{
    int error = 0;

    for (size_t i = 0; i < rules->zombies.count; i++) {
        const struct process_metric *zombie = rules->zombies.items[i];
        if (!zombie->run_id &&
            (!int_is_known(snapshot->daemon_pid) || !is_below(rules, zombie, snapshot->daemon_pid)))
            continue;
        const struct finding_figures figures = {.severity = SEVERITY_HIGH,
                                                .value = 1,
                                                .threshold = 1,
                                                .of = REAL_UNKNOWN,
                                                .seconds = REAL_UNKNOWN};
        keep_first_error(&error, add_finding(rules, ANOMALY_ZOMBIE, subject_of(zombie), figures));
    }
    return error;
}

/* ---- the machine and events ---- */

static int check_pressure(struct anomaly_rules *rules, const struct snapshot *snapshot)
{
    double total_mb = snapshot->system_memory_total_mb;
    double available_mb = snapshot->system_memory_available_mb;
    double fraction = rules->config.memory_pressure_fraction;

    if (!(total_mb > 0 && available_mb / total_mb < fraction))
        return 0;
    const struct finding_subject machine = {
        .pid = INT_UNKNOWN, .uid = INT_UNKNOWN, .sheet_num = INT_UNKNOWN};
    const struct finding_figures figures = {.severity = SEVERITY_CRITICAL,
                                            .value = available_mb,
                                            .threshold = fraction * total_mb,
                                            .of = total_mb,
                                            .seconds = REAL_UNKNOWN};
    return add_finding(rules, ANOMALY_MEMORY_PRESSURE, machine, figures);
}

/* Returns the owner of a killed process, which is usually gone by now: from the event, from its
 * history, or from other processes of its run. */
static int64_t find_owner(const struct anomaly_rules *rules, const struct snapshot *snapshot,
                          const struct process_event *event)
{
    const struct process_history *history =
        process_histories_find_pid(&rules->histories, event->pid);

    if (int_is_known(event->uid))
        return event->uid;
    if (history)
        return history->uid;
    for (size_t i = 0; i < snapshot->processes.count; i++) {
        const struct process_metric *process = &snapshot->processes.items[i];
        if (process->pid == event->pid ||
            (process->run_id && event->run_id && strcmp(process->run_id, event->run_id) == 0))
            return process->uid;
    }
    return INT_UNKNOWN;
}

static int add_oom(struct anomaly_rules *rules, const struct snapshot *snapshot,
                   const struct process_event *event)
{
    int64_t uid = find_owner(rules, snapshot, event);
    const struct finding_subject subject = {
        .pid = event->pid > 0 ? event->pid : INT_UNKNOWN,
        .uid = uid,
        .command = event->command,
        .job_id = event->job_id,
        .run_id = event->run_id,
        .sheet_num = event->sheet_num,
    };
    const struct finding_figures figures = {.severity = SEVERITY_CRITICAL,
                                            .value = event->peak_rss_mb,
                                            .threshold = REAL_UNKNOWN,
                                            .of = REAL_UNKNOWN,
                                            .seconds = REAL_UNKNOWN};
    return add_finding(rules, ANOMALY_OOM_KILL, subject, figures);
}

/* After an exec, the memory of the former program does not count. */
static void restart_history(struct anomaly_rules *rules, int64_t pid)
{
    struct process_history *history = process_histories_find_pid(&rules->histories, pid);

    if (!history)
        return;
    rss_window_restart(&history->window, rules->now_ns);
    rss_history_restart(&history->rss, &rules->constants);
}

static int apply_events(struct anomaly_rules *rules, const struct detect_input *input)
{
    size_t count = input->events ? input->events->count : 0;
    int error = 0;

    for (size_t i = 0; i < count; i++) {
        const struct process_event *event = &input->events->items[i];
        if (event->event_type == EVENT_OOM)
            keep_first_error(&error, add_oom(rules, input->snapshot, event));
        else if (event->event_type == EVENT_EXEC)
            restart_history(rules, event->pid);
    }
    return error;
}

/* Decides whether the current snapshot is kept for baselines: at most `spike_points` in a window.
 */
static void choose_baseline(struct anomaly_rules *rules)
{
    uint64_t apart_ns = rules->window_ns / rules->constants.spike_points;

    rules->is_baseline = !rules->has_baseline || rules->now_ns - rules->baseline_ns >= apart_ns;
    if (!rules->is_baseline)
        return;
    rules->has_baseline = true;
    rules->baseline_ns = rules->now_ns;
}

int anomaly_rules_apply(struct anomaly_rules *rules, const struct detect_input *input)
{
    const struct process_list *processes = &input->snapshot->processes;

    rules->findings.count = rules->zombies.count = 0;
    rules->now_ns = MAX(rules->now_ns, input->mono_ns);
    choose_baseline(rules);
    int error = apply_events(rules, input);

    process_histories_begin(&rules->histories);
    for (size_t i = 0; i < processes->count; i++)
        keep_first_error(&error, check_process(rules, &processes->items[i]));
    process_histories_end(&rules->histories);
    keep_first_error(&error, check_zombies(rules, input->snapshot));
    keep_first_error(&error, check_pressure(rules, input->snapshot));
    return error;
}
